"""Match paths against the patterns of rules, fast enough for every file of a search.

All patterns become globs from the root of the file system and are matched name by name. The result for a directory is
cached, so that a path costs one lookup of its directory and one expression for its name.

Deny rules are wide and allow rules are narrow. In a set of denies (``deep``) a pattern without a slash matches anywhere
on the machine, and a match of a directory covers all below it. In a set of allows it matches in the workspace only, and
only the named path; `docs/` and `docs/**` name everything below.

A path may also be another name of a secret: a hard link, or a path through `/proc`. A hard link is found by its inode:
only a file with more than one name is compared, with the secrets that have more than one name themselves.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from handrail.files.versions import READ, read_all
from handrail.frozen import frozen
from handrail.secrets.masking import has_only_certificates, has_secret
from handrail.text.globs import Glob, Places, expand_braces
from handrail.text.names import NameMatcher

_MAGIC = re.compile(r"[*?\[{\\]")
_ESCAPED = re.compile(r"([\\*?\[\]{}])")
_WRITTEN = re.compile(r"\\([\\*?\[\]{}])")
_JOINED = re.compile(r"[\w.*?~!\[\]-]+")
_EXTENSION = re.compile(r"\*\.\w+")
_THROUGH_PROCESS = re.compile(r"/(?:cwd|root)(?:/|$)|/fd/[^/]+/")
_MOST_KEPT = 50_000
_MOST_HITS = 256
_MOST_IN_DIRECTORY = 1000
_NONE: frozenset[int] = frozenset()
_MOST_SECRET_BYTES = 64 << 10
"""Larger files are not searched for secrets."""
_MOST_CERTIFICATE_BYTES = 1 << 20
_FEWEST_SECRET_BYTES = 20
_TICK = 100_000_000
"""Nanoseconds: a file may change twice within this time and keep its stamp."""
Identity = tuple[int, int]
NameTest = Callable[[str], object]
FOREIGN = frozenset({".git", ".hg", ".svn", "node_modules", "site-packages", "__pycache__"})
"""Directories of version control and of packages, whose keys are everybody's."""
PACKAGES = frozenset(
    {
        *FOREIGN,
        *("dist-packages", ".venv", "venv", ".tox", ".nox", ".eggs", "vendor", "bower_components", "Pods", ".yarn"),
        *("target", "build", "_build", "dist", "out", "obj", ".next", ".nuxt", ".svelte-kit", ".angular", ".turbo"),
        *(".cache", ".gradle", ".terraform", ".pnpm-store", ".parcel-cache", ".dart_tool", "elm-stuff", "DerivedData"),
        *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "coverage", "htmlcov"),
    }
)
"""Directories of installed packages, caches and build output, whose files nobody wrote here."""


def is_in_packages(path: str, roots: Sequence[str]) -> bool:
    """Whether a path below a root is in a tree of packages or build output."""
    root = next((root for root in roots if is_within(root, path)), None)
    if root is None:
        return False
    here = root.rstrip("/")
    for name in path[len(here) + 1 :].split("/"):
        here = f"{here}/{name}"
        if name in PACKAGES or os.path.lexists(f"{here}/pyvenv.cfg"):
            return True
    return False


def pass_every_name(_: str) -> bool:
    """The test of a directory in which every name must be judged."""
    return True


def escape_glob(path: str) -> str:
    """A pattern that matches this text alone."""
    return _ESCAPED.sub(r"\\\1", path)


@frozen
class PathPattern:
    """One pattern: `.env` anywhere, `src/**` below each root, `~/x` and `/x` absolute; `!` excludes."""

    text: str
    except_: bool = False

    @property
    def spelled_out(self) -> bool:
        """Whether it names a file in full, so that nobody is let in by a star."""
        return not self.text.endswith("/") and not _MAGIC.search(self.text.rpartition("/")[2])

    def globs(self, roots: Sequence[str], home: str, deep: bool) -> list[str]:
        """The same from the top of the file system."""
        text = self.text
        if text.startswith("~/"):
            starts, text = [escape_glob(home)], text[2:]
        elif text.startswith("/"):
            starts, text = [""], text[1:]
        elif deep and (self.anywhere or text.startswith("**/")):
            starts, text = ["/**"], text.removeprefix("**/")
        else:
            text = f"**/{text}" if self.anywhere else text.removeprefix("./")
            starts = [escape_glob(root.rstrip("/")) for root in roots]
        bodies = [text.rstrip("/")]
        if text.endswith("/"):
            bodies.append(text + "**")
        return [f"{start}/{body}" for start in starts for body in bodies]

    def place(self, home: str) -> str | None:
        """The one path that it names, if it does so from the top or from the home directory, and in full."""
        text = self.text.rstrip("/")
        text = escape_glob(home) + text[1:] if text.startswith("~/") else text
        plain = _WRITTEN.sub(r"\1", text)
        return plain if text.startswith("/") and escape_glob(plain) == text else None

    @property
    def anywhere(self) -> bool:
        """Whether it speaks of a name and not of a place."""
        return "/" not in self.text.rstrip("/")


def is_within(directory: str, path: str) -> bool:
    """Whether the path is that directory or lies below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


@lru_cache(4096)
def _compile(text: str) -> Glob:
    """Most patterns are the same in all sessions."""
    return Glob(text, hidden=True)


@lru_cache(4096)
def _is_same_everywhere(glob: Glob) -> bool:
    """Whether it matches a name in any directory."""
    return glob.pattern.startswith("/**/") and glob.pattern.count("/") == 2 and bool(glob.last_expression(glob.begin))


class _Entry(NamedTuple):
    number: int
    """Which of the patterns' owners this belongs to."""
    order: int
    except_: bool
    glob: Glob


class _PatternsBelow:
    """The rest of the patterns below a directory."""

    __slots__ = ("covered", "entered", "hits", "lasts", "open", "quick", "spelled", "unspelled")

    def __init__(
        self,
        covered: frozenset[int],
        open_: tuple[tuple[_Entry, Places], ...],
        quick: NameMatcher | None,
        spelled: NameMatcher | None,
    ) -> None:
        self.covered = covered
        """The owners that match the directory itself, and so all below it."""
        self.open = open_
        """Those that depend on the directory."""
        self.quick = quick
        """Matches every name that anything here matches."""
        self.spelled = spelled
        """Matches every name of a directory that an open pattern spells."""
        self.lasts: list[tuple[_Entry, re.Pattern[str]]] = []
        """What a name here must match for each pattern; empty until the first name passes `quick`."""
        self.hits: dict[str, frozenset[int]] = {}
        """The owners that match a name here, for the last names."""
        self.unspelled: _PatternsBelow | None = None
        """The rest in every directory here that no pattern matches or spells: most of them."""
        self.entered: dict[str, _PatternsBelow] = {}
        """The rest in the other directories here, by name. Most trees of a kind repeat a few names."""


class PathSet:
    """Lists of patterns, each with its owner's number: which owners match a path?"""

    def __init__(
        self,
        lists: Sequence[Sequence[PathPattern]],
        roots: Sequence[str],
        home: str,
        *,
        deep: bool,
        fold: bool = False,
        anew: bool = False,
    ) -> None:
        self._deep = deep
        self._anew = frozenset(root.lower() if fold else root for root in roots) if anew else frozenset()
        """Roots whose own name and the names above it do not count: somebody has chosen to work there."""
        self._fold = fold
        """Whether letters match in either case, as a file system may take them."""
        entries: list[_Entry] = []
        always: list[_Entry] = []
        for number, patterns in enumerate(lists):
            for order, pattern in enumerate(patterns):
                for text in pattern.globs(roots, home, deep):
                    glob = _compile(text.lower() if fold else text)
                    entry = _Entry(number, order, pattern.except_, glob)
                    (always if _is_same_everywhere(glob) else entries).append(entry)
        self._always = tuple((entry, entry.glob.begin) for entry in always)
        self._top = self._make_below(frozenset(), tuple((entry, entry.glob.begin) for entry in entries))
        self._kept: dict[str, _PatternsBelow] = {"": self._top}
        self._any = bool(entries or always)

    def __bool__(self) -> bool:
        return self._any

    def find(self, path: str) -> list[int]:
        """The owners that match, the first one first. Most of the time: none."""
        if self._fold:
            path = path.lower()
        directory, _, name = path.rpartition("/")
        below = self._kept.get(directory) or self._below(directory)
        hits = below.covered | self._hits(below, name) if name else below.covered
        return sorted(hits) if hits and path not in self._anew else []

    def _below(self, directory: str) -> _PatternsBelow:
        """Return the rest of the patterns in a directory, starting at the nearest cached parent."""
        names: list[str] = []
        parent, cache = directory, self._kept
        while parent not in cache:
            parent, _, name = parent.rpartition("/")
            names.append(name)
        below, way = cache[parent], parent
        if len(cache) + len(names) > _MOST_KEPT:  # begun anew, and not emptied: another thread may be reading it
            cache = self._kept = {"": self._top}
        for name in reversed(names):
            way = f"{way}/{name}" if way or directory.startswith("/") else name
            below = cache[way] = self._enter(below, name, way)
        return below

    def _enter(self, above: _PatternsBelow, name: str, way: str) -> _PatternsBelow:
        """The rest of the patterns in the directory ``name``, whose path is ``way``."""
        anew = way in self._anew
        if not anew and (known := above.entered.get(name)):
            return known
        plain = not anew and not (above.spelled and above.spelled.match(name))
        hits = self._hits(above, name) if self._deep and name else _NONE
        plain = plain and not hits
        if plain and above.unspelled:
            return above.unspelled
        left = ((entry, entry.glob.enter(places, name)) for entry, places in above.open)
        below = self._make_below(_NONE if anew else above.covered | hits, tuple((e, p) for e, p in left if p))
        if plain:
            above.unspelled = below
        elif not anew and len(above.entered) < _MOST_HITS:
            above.entered[name] = below
        return below

    def _make_below(self, covered: frozenset[int], open_: tuple[tuple[_Entry, Places], ...]) -> _PatternsBelow:
        matching = tuple((entry.glob, places) for entry, places in (*self._always, *open_) if not entry.except_)
        spelled = tuple((entry.glob, places) for entry, places in open_)
        return _PatternsBelow(
            covered, open_, _match_last_names(matching, self._fold), _match_directory_names(spelled, self._fold)
        )

    def suspects(self, directory: str) -> NameTest | None:
        """A test that every name in a directory passes which an owner may match: `find` tells. None: no name there."""
        if self._fold:
            directory = directory.lower()
        below = self._kept.get(directory) or self._below(directory)
        if below.covered:
            return pass_every_name
        return below.quick.match if below.quick else None

    def _hits(self, below: _PatternsBelow, name: str) -> frozenset[int]:
        """The owners whose last pattern that matches the name is not an exception."""
        hits = below.hits.get(name)
        if hits is None:
            is_suspect = below.quick is not None and below.quick.match(name)
            if len(below.hits) >= _MOST_HITS:  # begun anew, and not emptied: another thread may be reading it
                below.hits = {}
            hits = below.hits[name] = self._find_hits(below, name) if is_suspect else _NONE
        return hits

    def _find_hits(self, below: _PatternsBelow, name: str) -> frozenset[int]:
        latest: dict[int, tuple[int, bool]] = {}
        if not below.lasts:
            every = ((entry, entry.glob.last(places)) for entry, places in (*self._always, *below.open))
            below.lasts.extend([(entry, last) for entry, last in every if last])
        for entry, last in below.lasts:
            if last.match(name):
                latest[entry.number] = max(latest.get(entry.number, (-1, False)), (entry.order, entry.except_))
        return frozenset(number for number, (_, out) in latest.items() if not out)


@lru_cache(1024)
def _match_last_names(patterns: tuple[tuple[Glob, Places], ...], fold: bool) -> NameMatcher | None:
    """A test for the names that complete a match. Most sessions have the same built-in patterns."""
    return _join((one for glob, places in patterns for one in glob.last_expressions(places)), fold)


@lru_cache(1024)
def _match_directory_names(patterns: tuple[tuple[Glob, Places], ...], fold: bool) -> NameMatcher | None:
    """A test for the names of directories that a pattern spells."""
    return _join((one for glob, places in patterns for one in glob.directory_expressions(places)), fold)


def _join(expressions: Iterable[str], fold: bool) -> NameMatcher | None:
    """A test for names that match one of these expressions, each as `Glob` makes it."""
    bodies = tuple([expression.removeprefix("(?s:").removesuffix(r")\Z") for expression in expressions])
    return NameMatcher(bodies, fold) if bodies else None


def list_globs_to_hide(patterns: Sequence[PathPattern], root: str | None) -> list[str]:
    """Return globs for a search below ``root`` that match nothing but what the patterns match there.

    Others are left out: a search judges its matches anyway.
    """
    spared = [pattern.text for pattern in patterns if pattern.except_]
    if any("/" in text or _MAGIC.search(text) for text in spared):
        return []
    wanted = (pattern.text.rstrip("/") for pattern in patterns if not pattern.except_)
    every = (_make_globs_to_hide(text, root) for text in wanted if not spared or "/" not in text)
    return [glob for globs in every if not _match_any(globs, spared) for glob in globs]


def join_globs(globs: Iterable[str]) -> tuple[str, ...]:
    """The same globs as few: ripgrep compiles an expression for each that is neither a name nor an extension."""
    alone, joined = dict[str, None](), dict[str, None]()
    for glob in globs:
        (joined if _MAGIC.search(glob) and _JOINED.fullmatch(glob) and not _EXTENSION.fullmatch(glob) else alone)[
            glob
        ] = None
    return (*alone, f"{{{','.join(joined)}}}") if len(joined) > 1 else (*alone, *joined)


def _match_any(globs: Sequence[str], names: Sequence[str]) -> bool:
    return bool(names) and any(_compile(glob).match(name) for glob in globs for name in names)


def _make_globs_to_hide(text: str, root: str | None) -> list[str]:
    if "/" not in text:
        return expand_braces(text)
    if root is None or text.startswith(("~", "**/")):
        return []
    start = escape_glob(root.rstrip("/"))
    if text.startswith("/") and not text.startswith(f"{start}/"):
        return []
    return [f"/{one}" for one in expand_braces(text.removeprefix(f"{start}/").removeprefix("./"))]


def goes_through_process(path: str, *, glob: bool) -> bool:
    """Whether a path leads through the directory of a process, which is not that of this one: `/proc/self/cwd`."""
    first, _, below = posixpath.normpath(path).strip("/").partition("/")
    if not path.startswith("/"):
        return False
    if glob:
        return bool(below) and fnmatch.fnmatchcase("proc", first)
    return first == "proc" and bool(_THROUGH_PROCESS.search(below))


class HardLinks:
    """Compares files with secrets that have more than one name."""

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        """``secrets``: the paths of files and directories that may not be read, as they are now."""
        self._secrets = secrets

    def find(self, path: str) -> str:
        """The secret that this path is another name of; empty if it is none."""
        try:
            status = os.lstat(path)
        except (OSError, ValueError):
            return ""
        if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
            return ""
        return self._find_linked_secrets().get((status.st_dev, status.st_ino), "")

    def other_names(self, directories: Callable[[], Sequence[str]], known_secrets: Iterable[str]) -> list[str]:
        """The files in these directories that are other names of ``known_secrets``, which were just listed."""
        secrets = self._find_linked_secrets(known_secrets)
        if not secrets:  # nearly always
            return []
        numbers = {number for _, number in secrets}
        names: list[str] = []
        for directory in directories():
            try:
                with os.scandir(directory) as entries:
                    names += [entry.path for entry in entries if entry.inode() in numbers and self.find(entry.path)]
            except OSError:
                continue
        known = set(secrets.values())
        return [name for name in names if name not in known]

    def _find_linked_secrets(self, known: Iterable[str] | None = None) -> dict[Identity, str]:
        out: dict[Identity, str] = {}
        for path in self._secrets() if known is None else known:
            for one in _list_files(path):
                try:
                    status = os.lstat(one)
                except OSError:
                    continue
                if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
                    out.setdefault((status.st_dev, status.st_ino), one)
        return out


def _list_files(path: str) -> list[str]:
    """The path itself, and the files in it if it is a directory."""
    if os.path.islink(path) or not os.path.isdir(path):
        return [path]
    try:
        return [os.path.join(path, name) for name in os.listdir(path)[:_MOST_IN_DIRECTORY]]
    except OSError:
        return []


class SecretContents:
    """Tells what is in small files, and reads each again only if it has changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], tuple[tuple[int, ...], bool]] = {}

    def has_secret(self, path: str) -> bool:
        """Whether there is a secret in the file at a path; links are not followed."""
        return self._test(path, has_secret, _MOST_SECRET_BYTES)

    def is_secret_text(self, raw: bytes) -> bool:
        """The same for contents that are not in a file yet."""
        return len(raw) <= _MOST_SECRET_BYTES and has_secret(raw)

    def is_certificate(self, path: str) -> bool:
        """Whether a file called `*.pem` holds certificates or public keys, and no private key."""
        return path.endswith(".pem") and self._test(path, has_only_certificates, _MOST_CERTIFICATE_BYTES)

    def _test(self, path: str, test: Callable[[bytes], bool], most: int) -> bool:
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or not _FEWEST_SECRET_BYTES <= status.st_size <= most:
                return False
            stamp = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            key = path, test is has_secret
            known = self._known.get(key)
            if known and known[0] == stamp:
                return known[1]
            fd = os.open(path, READ)
            try:
                is_so = test(read_all(fd, most, status.st_size) or b"")
            finally:
                os.close(fd)
        except (OSError, ValueError):
            return False
        if time.time_ns() - max(stamp[2:]) > _TICK:
            if len(self._known) >= _MOST_KEPT:  # begun anew, and not emptied: another thread may be reading it
                self._known = {}
            self._known[key] = stamp, is_so
        return is_so
