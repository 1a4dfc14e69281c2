"""Guards: rules that hold in every mode, besides the rules of the user's files.

Built-in rules protect secrets and configuration. `.handrailignore` and `.aiignore` list files, in git's syntax, that
must not be read. They apply in every directory below a root, and are looked up once per session. A listed directory is
hidden with its contents. A `!` line overrides only lines of the same file. An unreadable ignore file hides its whole
directory.

Handrail's own files are off limits to the model. The journal has old file contents, secrets included. The
configuration, saved rules, project trust and the sockets of `handrail approve` decide what is allowed. If a sandbox
hides these files from commands, the kernel enforces it. The text of a command is judged as well: without a sandbox,
there is no other check.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING, Any, NamedTuple

from handrail.files.per_workspace import locate
from handrail.frozen import frozen
from handrail.model import Access, Action, CommandAccess, FileAccess, NetworkAccess, Verdict
from handrail.policy.files import PolicyFile, find_user_file, replace_text
from handrail.policy.hosts import find_mentioned_hosts, list_reached_hosts
from handrail.policy.modes import Defaults, Mode, get_defaults, load_defaults
from handrail.policy.paths import (
    FOREIGN,
    PACKAGES,
    HardLinks,
    NameTest,
    PathPattern,
    PathSet,
    SecretContents,
    escape_glob,
    is_in_packages,
    is_within,
    join_globs,
    list_globs_to_hide,
    pass_every_name,
)
from handrail.policy.protected import FirstIgnores, ProtectedPaths, list_protected_names
from handrail.policy.rules import FILE_ACTIONS, STRICT, CommandPattern, Rule, from_table, parse_access
from handrail.policy.shell_patterns import expand
from handrail.search.ignores import POLICY_NAMES, IgnoreFile, read_lines
from handrail.secrets.paths import secret_path_rules
from handrail.shell.git.named_paths import list_named_by_git
from handrail.text.display import escape
from handrail.text.globs import Glob
from handrail.version import __version__

if TYPE_CHECKING:
    from handrail.files.directory_index import Entry
    from handrail.shell.git.tracked_files import TrackedFiles
    from handrail.shell.parser.script import Script
    from handrail.shell.sandbox.installation import Installation


@lru_cache(1)
def load_built_in_rules() -> tuple[Rule, ...]:
    """The built-in rules, each with its name as its text."""
    rules = load_defaults()["rules"]
    protected = {**rules["protected"], "path": list_protected_names()}
    tables = {**secret_path_rules(), **rules, "protected": protected}
    return tuple(replace(from_table(table), text=name) for name, table in tables.items())


class BuiltInPaths:
    """The built-in rules about paths, compiled on first use."""

    def __init__(
        self,
        roots: Sequence[str],
        home: str,
        tracked: TrackedFiles,
        ignores: FirstIgnores | None = None,
    ) -> None:
        """``tracked``: files tracked by git, whose names do not make them secret.

        ``ignores``: the paths git ignored when the session began.
        """
        self._roots = roots
        self._home = home
        self.tracked = tracked
        self._contents = SecretContents()
        self._named: set[str] = set()
        """A cache of paths with a secret's name: each of them is checked before every command."""
        self._compiled: dict[Action, tuple[list[Rule], PathSet]] = {}
        self.protected = ProtectedPaths(roots, home, ignores)

    @cached_property
    def _named_by_git(self) -> list[str]:
        return list_named_by_git(self._roots, self._home)

    @cached_property
    def _protected(self) -> Rule:
        """The rule about protected paths, plus Handrail's own installation if that is in the workspace."""
        rule = next(rule for rule in load_built_in_rules() if rule.text == "protected")
        own = self._installation
        texts = [*map(escape_glob, own.paths), *(f"{escape_glob(place)}/{name}" for place, name in own.patterns)]
        return replace(rule, paths=(*rule.paths, *map(PathPattern, texts)))

    @cached_property
    def _installation(self) -> Installation:
        from handrail.shell.sandbox.installation import find_installation  # slow to import

        return find_installation(tuple(self._roots))

    def _is_own(self, path: str) -> bool:
        return bool(self._installation) and self._installation.contains(path)

    def _get_rules(self, action: Action) -> tuple[list[Rule], PathSet]:
        compiled = self._compiled.get(action)
        if compiled is None:
            every = (self._protected if rule.text == "protected" else rule for rule in load_built_in_rules())
            rules = [rule for rule in every if action in rule.actions and rule.paths]
            rules.sort(key=lambda rule: rule.tier != "deny")
            lists = [rule.paths for rule in rules]
            paths = PathSet(lists, self._roots, self._home, deep=True, fold=True, anew=True)
            compiled = self._compiled[action] = rules, paths
        return compiled

    def find(self, action: Action, path: str) -> Rule | None:
        """The strictest built-in rule about a path."""
        return next(iter(self.all(action, path)), None)

    def all(self, action: Action, path: str) -> list[Rule]:
        """Every built-in rule about a path, the strictest first."""
        rules, paths = self._get_rules(action)
        matching = [rules[number] for number in paths.find(path)]
        if any(rule.text in secret_path_rules() for rule in matching) and self.is_public(path):
            matching = [rule for rule in matching if rule.text not in secret_path_rules()]
        return matching if action == "read" else self._refine_protected(matching, path)

    def _refine_protected(self, matching: list[Rule], path: str) -> list[Rule]:
        """Add the rule about protected paths where more than the name decides; drop it inside dependencies."""
        named = [rule for rule in matching if rule.text == self._protected.text]
        if named and self.protected.is_dependency(path) and not self._is_own(path):
            return [rule for rule in matching if rule not in named]
        if not _MAY_STEER.search(path) and not self._named_by_git:  # nearly every path
            return matching
        more = self.protected
        by_git = any(is_within(top, path) for top in self._named_by_git)
        if not named and (by_git or (not matching and more.is_new_entry(path)) or more.steers_git(path)):
            return [*matching, self._protected]
        return matching

    @cached_property
    def secret_places(self) -> list[tuple[str, str]]:
        """The fixed paths of secrets, in the home directory and in the system.

        Each pair starts with the path's top-level name in the home directory; empty if the path lies elsewhere.
        """
        texts = [path.text for rule in self._get_rules("read")[0] for path in rule.paths if not path.except_]
        plain = [text.removeprefix("**/").rstrip("/") for text in texts if "/" in text.rstrip("/")]
        fixed = [text for text in plain if not set(text) & set("*?[{")]
        return [("" if text[0] == "/" else text.split("/")[0], os.path.join(self._home, text)) for text in fixed]

    def protects(self, path: str) -> bool:
        """Whether changing this path needs a person's approval."""
        return any(rule.text == self._protected.text for rule in self.all("write", path))

    def is_secret(self, path: str) -> bool:
        """Whether this path is secret by name, and not public."""
        return self.has_secret_name(path) and not self.is_public(path)

    def has_secret_name(self, path: str) -> bool:
        """Whether the name makes a file a secret, unless git tracks it."""
        if path in self._named:
            return True
        is_named = bool(self._get_rules("read")[1].find(path))
        if is_named:
            if len(self._named) >= _MOST_KEPT:  # replaced, not cleared: another thread may be reading it
                self._named = set()
            self._named.add(path)
        return is_named

    def holds_secret(self, path: str) -> bool:
        """Whether a workspace file holds a private key or an access token unknown to the model."""
        if not self._contents.has_secret(path) or not any(is_within(root, path) for root in self._roots):
            return False
        return not self.tracked.is_tracked(path) and not is_in_packages(path, self._roots)

    def looks_secret(self, path: str, source: str | bytes) -> bool:
        """Whether a file's name or contents look secret, even if the model knows them already.

        ``source``: the contents, or the path of a file to read them from.
        """
        if self.has_secret_name(path):
            return True
        contents = self._contents
        return contents.has_secret(source) if isinstance(source, str) else contents.is_secret_text(source)

    def list_tracked_names(self) -> list[str]:
        """The names of tracked files and directories that look like secrets."""
        suspicious = self.suspect_secrets("")
        if suspicious is None:
            return []
        commits = {commit: root for root in self._roots for commit in self.tracked.list_commits(root)}
        patterns = [path.text for rule in load_built_in_rules() for path in rule.paths]
        store = StoredSecrets(self.tracked.state, "names", self._roots, "\n".join([*sorted(commits), *patterns]))
        if (stored := store.load()) is None:
            every = {name for commit, root in commits.items() for name in self.tracked.list_names(root, commit)}
            stored = {"names": [name for name in every if suspicious(name) and self.has_secret_name(f"/{name}")]}
            if every:  # empty if git has failed
                store.save(stored)
        return list(stored["names"])

    def is_public(self, path: str) -> bool:
        """Whether a path with a secret's name is public.

        It is if it is tracked, has tracked files below it, or holds only certificates. It also is if only the name of a
        published directory, such as `kubeconfig/`, makes it secret.
        """
        if self._contents.is_certificate(path):
            return True
        root = next((root for root in self._roots if is_within(root, path) and path != root), None)
        if root is None:
            return False
        if self.tracked.is_tracked(path) or self.tracked.has_tracked(path):
            return True
        parts = path[len(root.rstrip("/")) + 1 :].split("/")
        if self.has_secret_name(f"{root}/{parts[-1]}"):
            return False
        here = plain = root
        for name in parts[:-1]:
            here = f"{here}/{name}"
            is_plain = self._file_names.find(f"{plain}/{name}") and self.tracked.is_published(here)
            plain = f"{plain}/{_PLAIN_NAME if is_plain else name}"
        return plain != os.path.dirname(path) and not self.has_secret_name(f"{plain}/{parts[-1]}")

    @cached_property
    def _file_names(self) -> PathSet:
        """The names of secret files, without those of directories meant for secrets."""
        rules = (rule for rule in load_built_in_rules() if rule.text in secret_path_rules() and "read" in rule.actions)
        paths = [path for rule in rules for path in rule.paths if "/" not in path.text]
        return PathSet([paths], self._roots, self._home, deep=True, fold=True, anew=True)

    def suspect_secrets(self, directory: str) -> NameTest | None:
        """A test for names in a directory. Every possible secret passes it."""
        return self._get_rules("read")[1].suspects(directory)


class _SecretNames(NamedTuple):
    refused: Sequence[str]
    """Names that may not be read, unless git tracks them."""
    files: Sequence[str]
    """Names of files to search for secrets."""


class SecretFiles:
    """Finds the workspace files that commands may not read: by their names, and by secrets in them.

    Names are checked everywhere, including installed packages. Contents are read only if a file is small, untracked,
    and outside packages and build output.
    """

    def __init__(
        self,
        roots: Sequence[str],
        built_in: BuiltInPaths,
        suspect: Callable[[str, bool], NameTest | None],
        readable: Callable[[str], bool],
        is_ruled: Callable[[str], bool],
        key: str,
    ) -> None:
        """``suspect``: returns a test for the names in a directory that need a ``readable`` check.

        ``is_ruled``: whether a rule or an ignore file covers a path. ``key``: identifies the rules.
        """
        self._roots = roots
        self._built_in = built_in
        self._suspect = suspect
        self._readable = readable
        self._is_ruled = is_ruled
        from handrail.files.directory_index import DirectoryIndex  # slow to import, and only needed for commands

        self._index = DirectoryIndex(roots, self._read)
        self._names: tuple[object, dict[str, list[str]]] = None, {}
        self._candidates: tuple[object, list[str]] = None, []
        self._trusted: dict[str, str] = {}
        self._untracked: dict[str, tuple[_SecretNames, Sequence[str]]] = {}
        """By directory: its result, and its files that are in no trusted commit."""
        self._packages: set[str] = set()
        """Directories inside packages or build output. A parent is read before its children."""
        self._linked: set[str] = set()
        """Directories with links, whose targets may change elsewhere."""
        self._has_ignore_files = False
        self._store = StoredSecrets(built_in.tracked.state, "listings", roots, key)
        self._is_restored = False

    @property
    def directories(self) -> list[str]:
        """The directories that were searched."""
        return self._index.directories

    @property
    def complete(self) -> bool:
        """Whether all directories were searched."""
        return self._index.complete

    def find_names(self) -> dict[str, list[str]]:
        """The names to check by directory, nearest to a root first.

        They may not be read unless git tracks them. Names in the trusted commit are left out.
        """
        if not self._index.changes:
            self._restore()
        updated = self._index.update()
        if self._is_restored and self._has_ignore_files:  # they may cover anything that was restored
            self._is_restored = False
            self._index.forget()
            updated = self._index.update()
        key = self._index.changes, self._list_trusted()
        if self._names[0] != key:
            left = {here: self._leave_out_published(here, one.refused) for here, one in updated.items() if one.refused}
            self._names = key, {here: names for here, names in left.items() if names}
        return self._names[1]

    def _leave_out_published(self, directory: str, names: Sequence[str]) -> list[str]:
        """Keep links, names missing from the trusted commit, and names covered by a rule or an ignore file."""
        untracked = frozenset(self._built_in.tracked.list_untracked(directory, names))
        paths = {name: os.path.join(directory, name) for name in names}
        return [
            name for name, path in paths.items() if name in untracked or os.path.islink(path) or self._is_ruled(path)
        ]

    def _list_trusted(self) -> dict[str, str]:
        return self._built_in.tracked.list_trusted([*self._roots, *self._trusted])

    def find_contents(self) -> list[str]:
        """The files that hold secrets, as of the last `find_names`."""
        trusted = self._list_trusted()
        key = self._index.changes, trusted
        if self._candidates[0] != key:
            self._candidates = key, self._list_candidates(trusted)
        return [path for path in self._candidates[1] if self._built_in.holds_secret(path)]

    def _list_candidates(self, trusted: dict[str, str]) -> list[str]:
        known = self._untracked if trusted == self._trusted else {}
        listed = self._index.get_results()
        same = {here: known[here] for here, listing in listed.items() if here in known and known[here][0] is listing}
        is_large = len(listed) - len(same) > _MANY
        for root in self._roots if is_large else ():
            self._built_in.tracked.load(root)
        ask = self._built_in.tracked.list_untracked
        self._trusted, self._untracked = (
            trusted,
            {
                here: same.get(here) or (listing, ask(here, listing.files) if listing.files else ())
                for here, listing in listed.items()
            },
        )
        if is_large and not self._has_ignore_files:
            self._save()
        every = (os.path.join(here, name) for here, (_, names) in self._untracked.items() for name in names)
        return list(islice(every, _MOST_READ))

    def _restore(self) -> None:
        """Start from the results of an earlier session with the same rules."""
        stored = self._store.load()
        if stored is None:
            return
        self._is_restored = True
        self._trusted = stored["trusted"]
        rows = stored["directories"]
        results = {row[0]: _SecretNames(row[3], row[4]) for row in rows if row[3] or row[4]}
        self._untracked = {row[0]: (results[row[0]], row[5]) for row in rows if row[0] in results}
        self._packages = set(stored["packages"])
        self._index.restore((row[0], tuple(row[1]), row[2], results.get(row[0])) for row in rows)

    def _save(self) -> None:
        nothing = _SecretNames((), ()), ()
        rows = [
            (path, identity, names, *(result or nothing[0]), list(self._untracked.get(path, nothing)[1]))
            for path, identity, names, result in self._index.list_stored(self._linked.__contains__)
        ]
        self._store.save({"trusted": self._trusted, "packages": sorted(self._packages), "directories": rows})

    def _read(self, directory: str, entries: list[Entry]) -> tuple[_SecretNames | None, list[str]]:
        has_ignore_file = any(name in POLICY_NAMES for name, _, _ in entries)
        self._has_ignore_files |= has_ignore_file
        test = self._suspect(directory, has_ignore_file)
        is_linked = any(is_link for _, _, is_link in entries)
        (self._linked.add if is_linked else self._linked.discard)(directory)
        refused = [name for name, _, is_link in entries if self._is_refused(directory, name, is_link, test)]
        # Refused directories are searched too, because git may track files in them.
        folders = [name for name, is_folder, _ in entries if is_folder and name not in _PASSED_OVER]
        files: tuple[str, ...] = ()
        above, own = os.path.split(directory)
        is_root = directory in self._roots
        holds_packages = not is_root and (own in PACKAGES or above in self._packages)
        if holds_packages or any(name == "pyvenv.cfg" for name, _, _ in entries):
            self._packages.add(directory)
        else:
            self._packages.discard(directory)
            files = tuple(name for name, is_folder, is_link in entries if not (is_folder or is_link))
        return (_SecretNames(tuple(sorted(refused)), files) if refused or files else None), folders

    def _is_refused(self, directory: str, name: str, is_link: bool, test: NameTest | None) -> bool:
        path = os.path.join(directory, name)
        if test and test(name) and not self._readable(path):
            return True
        return is_link and not self._readable(os.path.realpath(path))


class StoredSecrets:
    """A session's findings about secrets, stored for the next session with the same rules."""

    def __init__(self, state: str, kind: str, roots: Sequence[str], key: str) -> None:
        """``key``: identifies everything the results depend on, except the tree."""
        self._path = locate(state, kind, "\n".join(roots)) if state else ""
        self._key = hashlib.sha256(f"{__version__}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()

    def load(self) -> dict[str, Any] | None:
        """The stored results; None if there are none, or if the rules were different."""
        try:
            with open(self._path, encoding="ascii") as file:
                stored = json.load(file)
        except (OSError, ValueError):
            return None
        return stored if isinstance(stored, dict) and stored.get("key") == self._key else None

    def save(self, results: dict[str, Any]) -> None:
        """Store the results; if that fails, keep the old file."""
        with contextlib.suppress(OSError):
            if self._path:
                replace_text(self._path, json.dumps({"key": self._key, **results}, separators=(",", ":")))


_MANY = 400
"""If more directories have changed, git reads all trees at once, and the results are stored."""
_MOST_READ = 10_000
"""The most files to search for secrets. In a repository, only untracked files count."""
_PASSED_OVER = frozenset({".git", ".hg", ".svn", "__pycache__"})
_MAY_STEER = re.compile(r"/\.|/(?:HEAD|objects|refs|commondir|config|config\.worktree|hooks|info)(?:/|$)")
"""A dot name, or a name inside a repository."""
_PLAIN_NAME = "directory"
"""A name that no rule matches."""
_MOST_KEPT = 50_000
_SIMPLE = re.compile(r"/?[\w.*?-]+(?:/[\w.*?-]+)*/?")
_MOST_BYTES = 1 << 20
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_Chain = tuple[tuple[str, str, IgnoreFile], ...]
"""Nearest first: the directory with a trailing slash, the name of its ignore file, the rules."""

_NO_CHAIN: tuple[_Chain, str] = ((), "")


class IgnoreFiles:
    """Finds the ignore file that hides a path."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._chains: dict[str, tuple[_Chain, str]] = {}

    def find(self, path: str) -> str:
        """The ignore file that names the path, or a directory above it; empty if none does."""
        directory, _, name = path.rpartition("/")
        chain, why = self._chains.get(directory) or self._find_chain(directory)
        return why or (self._find_in_chain(chain, path) if chain and name else "")

    def apply_in(self, directory: str, has_own: bool) -> bool:
        """Whether any ignore file applies in a directory. ``has_own``: False if the directory itself has none."""
        known = self._chains.get(directory)
        parent = directory.rpartition("/")[0]
        if not (known or has_own) and self._chains.get(parent) == _NO_CHAIN and len(self._chains) < _MOST_KEPT:
            known = self._chains[directory] = _NO_CHAIN  # nothing above and nothing here: most directories
        chain, why = known or self._find_chain(directory, has_own)
        return bool(chain or why)

    def _find_chain(self, directory: str, has_own: bool = True) -> tuple[_Chain, str]:
        """The ignore files that apply in a directory, and the file that hides the directory itself."""
        root = next((root for root in self._roots if is_within(root, directory)), None)
        if root is None:
            return _NO_CHAIN
        if len(self._chains) >= _MOST_KEPT:  # replaced, not cleared: another thread may be reading it
            self._chains = {}
        chains, here, above = self._chains, root, _NO_CHAIN
        for name in ("", *filter(None, directory[len(root) :].split("/"))):
            here = f"{here.rstrip('/')}/{name}" if name else here
            if here not in chains:
                chain, why = above
                why = why or (self._find_in_chain(chain, here) if name else "")
                if not why and (has_own or here != directory):
                    chain = self._add_own(here, chain)
                chains[here] = chain, why
            above = chains[here]
        return above

    def _add_own(self, directory: str, chain: _Chain) -> _Chain:
        own = ((f"{directory.rstrip('/')}/", name, IgnoreFile(lines)) for name, lines in _list_files(directory))
        return (*(entry for entry in own if entry[2]), *chain)

    def _find_in_chain(self, chain: _Chain, path: str) -> str:
        for start, name, rules in chain:
            inner = path[len(start) :]
            as_file, as_directory = rules.is_ignored(inner), rules.is_ignored(inner + "/")
            if as_file if as_file == as_directory or not os.path.isdir(path) else as_directory:
                return start + name
        return ""

    def hides(self) -> list[str]:
        """Globs equivalent to the ignore files of a single root, where possible."""
        if len(self._roots) != 1:
            return []
        globs: list[str] = []
        for _, lines in _list_files(self._roots[0]):
            rows = [line.rstrip() for line in lines if line.strip() and not line.startswith("#")]
            if any(row.startswith("!") for row in rows):
                return []
            globs += [row for row in rows if _SIMPLE.fullmatch(row)]
        return globs


def _list_files(directory: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, lines) for name in POLICY_NAMES if (lines := _read_lines(os.path.join(directory, name)))]


def _read_lines(path: str) -> tuple[str, ...]:
    try:
        status = os.stat(path)
    except OSError as error:
        return () if error.errno in _ABSENT else ("*",)
    fits = stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_BYTES and os.access(path, os.R_OK)
    return read_lines(path) if fits else ("*",)


_MOST_MATCHED = 100
"""The most files that a rule's pattern makes visible to a command."""


def _list_parents(path: str) -> Iterator[str]:
    """A path and the directories above it."""
    while path:
        yield path
        path = path.rpartition("/")[0]


class RuleSet:
    """The rules of one tier, sorted by action."""

    def __init__(self, rules: Sequence[Rule], roots: Sequence[str], home: str, *, deep: bool, fold: bool) -> None:
        self.all = rules
        self._wide = deep
        self.home = roots[0] if roots else "/"
        self._files: dict[str, tuple[list[Rule], Rule | None, PathSet | None]] = {}
        for action in FILE_ACTIONS:
            mine = [rule for rule in rules if action in rule.actions]
            with_paths = [rule for rule in mine if rule.paths]
            every = next((rule for rule in mine if not rule.paths), None)
            paths = PathSet([rule.paths for rule in with_paths], roots, home, deep=deep, fold=fold)
            self._files[action] = with_paths, every, paths or None
        self._run = [rule for rule in rules if "run" in rule.actions]
        self._network = [rule for rule in rules if "network" in rule.actions]
        self._call = [rule for rule in rules if "call" in rule.actions]

    def find(self, access: Access, filtered: Callable[[], bool] = lambda: False) -> Rule | None:
        """The first rule that matches the access. ``filtered``: whether a proxy limits its clients to allowed hosts."""
        if isinstance(access, CommandAccess):
            place = access.place or self.home
            return next((rule for rule in self._run if rule.speaks_of_command(parse_access(access), place)), None)
        if isinstance(access, NetworkAccess):
            return self._of_hosts(access, filtered)
        if isinstance(access, FileAccess):
            return self.file(access.action, access.path or access.target)
        return next((rule for rule in self._call if rule.speaks_of_tool(access.target)), None)

    @property
    def names_hosts(self) -> bool:
        """Whether there are rules for single hosts, and none for the whole network."""
        return all(rule.host for rule in self._network) and any(" " not in rule.host for rule in self._network)

    def spells_out(self, access: Access) -> Rule | None:
        """The rule for exactly this command, as a permanent answer saves it."""
        return next((rule for rule in self._network if rule.host == escape_glob(access.target)), None)

    def _of_hosts(self, access: NetworkAccess, filtered: Callable[[], bool]) -> Rule | None:
        """A refusal matches any mentioned host; an allow rule must cover every reached host."""
        if self._wide:
            if not self._network:
                return None
            hosts = list(find_mentioned_hosts(access, parse_access(access) if access.by_command else None))
            return next((rule for rule in self._network if any(map(rule.speaks_of_host, hosts))), None)
        if every := next((rule for rule in self._network if not rule.host), None):
            return every
        reached = access.hosts.split() if access.proxied and filtered() else list_reached_hosts(access)
        matching = [next((rule for rule in self._network if rule.speaks_of_host(one)), None) for one in reached]
        return matching[0] if matching and all(matching) else self.spells_out(access)

    def suspects(self, action: Action, directory: str) -> NameTest | None:
        """A test for names in a directory. Every name that a rule may match passes it."""
        _, every, paths = self._files[action]
        return pass_every_name if every else paths.suspects(directory) if paths else None

    def file(self, action: Action, path: str) -> Rule | None:
        rules, every, paths = self._files[action]
        if paths and (numbers := paths.find(path)):
            return rules[numbers[0]]
        return every


def may_loosen(rule: Rule, locked: bool) -> bool:
    """Whether a rule may loosen the policy. ``locked``: only rules of the system file may."""
    return rule.loosens and (rule.locked or not locked)


@frozen
class SortedRules:
    """The rules of all files by their effect, and the mode that decides where no rule matches."""

    mode: Mode
    defaults: Defaults
    locked: bool
    """Whether only the system file may loosen the policy."""
    deny: RuleSet
    ask: RuleSet
    allow: RuleSet
    opening: RuleSet
    """Rules with the full name of a file or command, which open a secret or a destructive command."""
    idle: RuleSet
    """Allow rules that are not in effect."""
    lending: tuple[Rule, ...]
    """Rules that show a hidden file to one command."""

    @classmethod
    def sort(cls, mode: Mode, files: Sequence[PolicyFile], roots: Sequence[str], home: str) -> SortedRules:
        """The rules of these files, for a session with these roots."""
        defaults, locked = get_defaults(mode), any(file.locked for file in files)
        every = [rule for file in files for rule in file.rules]
        rules = [rule for rule in every if not rule.lends]

        def collect(rules: Sequence[Rule], *, deep: bool = True) -> RuleSet:
            # On a case-insensitive file system, a refusal must ignore case too.
            return RuleSet(rules, roots, home, deep=deep, fold=deep and sys.platform == "darwin")

        allows = [rule for rule in rules if rule.tier == "allow"]
        return cls(
            mode,
            defaults,
            locked,
            deny=collect([rule for rule in rules if rule.tier == "deny"]),
            ask=collect([rule for rule in rules if rule.tier == "ask"]),
            allow=collect([] if defaults.fixed else [rule for rule in allows if may_loosen(rule, locked)], deep=False),
            opening=collect([r for r in rules if r.exact and r.tier != "deny" and may_loosen(r, locked)], deep=False),
            idle=collect([rule for rule in allows if not may_loosen(rule, locked)], deep=False),
            lending=tuple(rule for rule in every if rule.lends and may_loosen(rule, locked)),
        )

    @property
    def reads_anywhere(self) -> bool:
        """Whether commands may read outside the workspace without asking."""
        return self.defaults.tiers["outside_read"] == "allow"


class Trees:
    """The trees outside the workspace that commands see in every mode, or by a rule."""

    def __init__(self, rules: SortedRules, roots: Sequence[str], home: str) -> None:
        self._rules = rules
        self._roots = roots
        self._home = home

    @cached_property
    def _usual_trees(self) -> list[str]:
        """Directories of the session, the system and toolchains, which commands may read in every mode."""
        from handrail.shell.sandbox.visible import list_visible

        return list_visible(load_defaults()["commands"]["system"], self._roots, self._home, os.environ)

    @cached_property
    def _real_usual_trees(self) -> list[str]:
        return [os.path.realpath(tree) for tree in self._usual_trees]

    def is_usual(self, path: str) -> bool:
        """Whether commands may read a real path without asking, by its place or by the mode."""
        return self._rules.reads_anywhere or any(is_within(place, path) for place in self._real_usual_trees)

    def list_visible(self) -> list[str] | None:
        """The only trees visible to a command that nobody approved; None if the mode shows everything."""
        if self._rules.reads_anywhere:
            return None
        return [*self._usual_trees, *self._list_allowed_places()]

    def _list_allowed_places(self) -> list[str]:
        """Paths outside the workspace that rules allow commands to read."""
        places: list[str] = []
        for rule in self._rules.allow.all:
            if "read" in rule.actions and not any(pattern.except_ for pattern in rule.paths):
                for pattern in rule.paths:
                    whole = PathPattern(pattern.text.removesuffix("**")) if pattern.text.endswith("/**") else pattern
                    place = whole.place(self._home)
                    if place:
                        places.append(place)
                    elif pattern.text.startswith(("/", "~/")):
                        places += expand(pattern.text, self._roots)[0][:_MOST_MATCHED]
        return places


class Sight:
    """Decides which files may be read, by rules, built-in rules and ignore files."""

    def __init__(
        self,
        rules: SortedRules,
        roots: Sequence[str],
        home: str,
        judge: Callable[[str], bool],
        tracked: TrackedFiles,
        ignores: FirstIgnores | None = None,
    ) -> None:
        """``judge``: whether the policy allows reading a path that a rule matches."""
        self._rules = rules
        self.roots = roots
        self.home = home
        self._judge = judge
        self.built_in = BuiltInPaths(roots, home, tracked, ignores)
        self.ignored = IgnoreFiles(roots)
        self.trees = Trees(rules, roots, home)

    @cached_property
    def hard_links(self) -> HardLinks:
        return HardLinks(lambda: [*self._list_unreadable_names(), *self.credentials()])

    @cached_property
    def secret_files(self) -> SecretFiles:
        """Files that may not be read unless git tracks them, which changes with every commit."""
        built_in = self.built_in
        readable = lambda path: not built_in.has_secret_name(path) and self.may_read_name(path)  # noqa: E731
        rules = self._rules
        key = repr((rules.mode, self.home, rules.deny.all, rules.ask.all, rules.allow.all, rules.opening.all))
        return SecretFiles(self.roots, built_in, self.suspect_names, readable, self._is_ruled, key)

    @property
    def hides(self) -> Sequence[str]:
        """Globs of unreadable files for a search to skip; other files are judged when found."""
        root = self.roots[0] if len(self.roots) == 1 else None
        ignored = self.ignored.hides()
        for rule in (*self._rules.deny.all, *self._rules.ask.all):
            if "read" in rule.actions:
                ignored += list_globs_to_hide(rule.paths, root) if rule.paths else ["**"]
        opened = {name for rule in self._rules.opening.all for path in rule.paths for name in path.text.split("/")}
        opened |= set(self.built_in.list_tracked_names())
        for rule in load_built_in_rules():
            if "read" in rule.actions:
                globs = list_globs_to_hide(rule.paths, root)
                ignored += [glob for glob in globs if not any(map(Glob(glob, hidden=True).match, opened))]
        return join_globs(ignored)

    def asking(self) -> AbstractContextManager[None]:
        """Share one git process between many questions in a row."""
        return self.built_in.tracked.reading()

    def looks_secret(self, path: str, source: str | bytes) -> bool:
        """Whether a file looks secret, even if the model knows it. ``source``: its contents, or a path to them."""
        return self.built_in.looks_secret(path, source)

    def visible_trees(self) -> list[str] | None:
        """The only trees visible to a command that nobody approved; None if the mode shows everything."""
        return self.trees.list_visible()

    def readable(self, path: str) -> bool:
        """Whether a search may show this real path: it may be read without asking."""
        return self.may_read_name(path) and not self.is_other_name(path) and not self.holds_secret(path)

    def is_other_name(self, path: str) -> bool:
        """Whether a path is a hard link to a secret."""
        return bool(self.hard_links.find(path))

    def holds_secret(self, path: str) -> bool:
        return self.built_in.holds_secret(path) and not self._rules.opening.file("read", path)

    def may_read_name(self, path: str) -> bool:
        secret = self.built_in.is_secret(path)
        if secret and not self._rules.opening.file("read", path):  # most refusals end here
            return False
        if secret or self._has_rule(path):
            return self._judge(path)
        return not self.ignored.find(path)

    def _has_rule(self, path: str) -> bool:
        return bool(self._rules.ask.file("read", path) or self._rules.deny.file("read", path))

    def _is_ruled(self, path: str) -> bool:
        """Whether a rule or an ignore file covers reading a path."""
        return self._has_rule(path) or bool(self.ignored.find(path))

    def suspect_names(self, directory: str, has_ignore_file: bool) -> NameTest | None:
        """A test for names in a real directory. Names that fail it are `readable`; None if all are.

        ``has_ignore_file``: whether the directory may contain one of `POLICY_NAMES`.
        """
        if self.ignored.apply_in(directory, has_ignore_file):
            return pass_every_name
        secrets = self.built_in.suspect_secrets(directory)
        rules = self._rules.ask.suspects("read", directory), self._rules.deny.suspects("read", directory)
        tests = [test for test in (secrets, *rules) if test]
        return (lambda name: any(test(name) for test in tests)) if len(tests) > 1 else tests[0] if tests else None

    def unreadable(self) -> list[str]:
        """List files that may not be read, for the sandbox to hide.

        Files that a deny rule names in full come first, wherever they are. Files in the workspace follow, nearest
        first, and then the hard links to all of these.
        """
        names = self._list_unreadable_names()
        return [
            *names,
            *self.hard_links.other_names(lambda: self.secret_files.directories, [*names, *self.credentials()]),
        ]

    def _list_unreadable_names(self) -> list[str]:
        paths, hidden = self.denied_by_name(), dict[str, None]()
        with self.built_in.tracked.reading():
            for here, names in self.secret_files.find_names().items():
                if not any(above in hidden for above in _list_parents(here)):
                    whole = (os.path.join(here, name) for name in names)
                    hidden |= dict.fromkeys(one for path in whole for one in self._list_names(path))
            hidden |= dict.fromkeys(path for path in self.secret_files.find_contents() if self.holds_secret(path))
        return [*paths, *hidden]

    def _list_names(self, path: str) -> list[str]:
        """The unreadable paths of an entry: itself, and the target of a link unless git tracks it."""
        real = os.path.realpath(path) if os.path.islink(path) else path
        names = [] if self.may_read_name(path) else [path]
        if real != path and (not self.may_read_name(real) or (names and not self.built_in.is_public(real))):
            names.append(real)
        return names

    def find_unreadable_below(self, directory: str, *, hidden: bool = True) -> str:
        """The first unreadable path below a real directory; empty if there is none.

        ``hidden``: whether dot names count too.
        """
        start = f"{directory.rstrip('/')}/"
        every = (*self.unreadable(), *self.credentials())
        inner = {path: path[len(start) :].split("/") for path in every if path.startswith(start)}
        below = (path for path, names in inner.items() if FOREIGN.isdisjoint(names))
        return next((path for path in below if hidden or not any(name[:1] == "." for name in inner[path])), "")

    def shorten_path(self, path: str) -> str:
        """A path for display, relative if it is in the workspace."""
        root = next((root for root in self.roots if path.startswith(root.rstrip("/") + "/")), None)
        return os.path.relpath(path, root) if root else path

    @property
    def searched_all(self) -> bool:
        """Whether the last search for unreadable files covered the whole workspace."""
        return self.secret_files.complete

    def credentials(self) -> list[str]:
        """Credentials of the user and of the system, outside the workspace.

        These are the secret entries of the home directory, and the secrets that built-in rules name by a fixed path.
        """
        places = self.built_in.secret_places
        try:
            names = os.listdir(self.home)
        except OSError:  # it cannot be listed, but its fixed paths are still found
            names = [top for top, _ in places]
        secret = [path for name in names if self.built_in.is_secret(path := os.path.join(self.home, name))]
        secret += [path for top, path in places if not top or top in names]
        return [path for path in secret if os.path.lexists(path) and not self.may_read_name(path)]

    def denied_by_name(self) -> list[str]:
        """List existing files that a deny rule names in full, anywhere."""
        rules = [
            rule for rule in self._rules.deny.all if "read" in rule.actions and not any(p.except_ for p in rule.paths)
        ]
        named = (pattern.place(self.home) for rule in rules for pattern in rule.paths)
        return [path for path in named if path and os.path.lexists(path)]

    def protects(self, path: str, *, created: bool = False) -> bool:
        """Whether a command needs a person's approval to change this: it is protected, or a rule denies it.

        ``created``: the path's entry at the top of the workspace counts as new, although it exists by now.
        """
        if created and self.built_in.protected.is_new_entry(path, created=True):
            return True
        return self.built_in.protects(path) or bool(self._rules.deny.file("write", path))


_NAMES = (
    "journal",
    "artefacts",
    "homes",
    "remotes",
    "locks",
    "approvers",
    "trust",
    "init",
    "listings",
    "tracked",
    "conversations",
    "mcp-http-token",
    "mcp-installs.json",
)
"""Names in the state directory, hidden one by one if the workspace lies inside it."""
_RULE = "Handrail's own files"
_COMMANDS = {
    "approve": "only the user may answer Handrail's questions",
    "web": "only the user may answer Handrail's questions",
    "policy trust": "only the user may trust a project's policy",
    "init": "only the user may trust a project's policy",
    "config set": "only the user may change Handrail's settings",
    "config unset": "only the user may change Handrail's settings",
}
_MODULE = re.compile(r"handrail(\.cli)?(\.__main__)?")
_GLUED = re.compile(r"-[A-Za-z]*m(?=handrail)")
"""`python -mhandrail`: the option and its value in one word."""
_SEPARATORS = re.compile(r"/(?:\.?/)+")


@frozen
class OwnFiles:
    """The paths of Handrail's own files."""

    state: tuple[str, ...]
    """Real paths: journal, artefacts of all sessions, locks, sockets, tokens."""
    config: tuple[str, ...]
    """Real paths: settings, rules, and saved answers."""
    kept: str
    """This session's artefacts: its calls may read them, and the workspace and the sandbox keep them read-only."""
    names: tuple[str, ...]
    """The ways a command may spell these paths."""
    is_within: bool
    """Whether some of the state lies inside the workspace, within reach of the file tools."""

    @classmethod
    def locate(cls, state: str, artefacts: str, roots: Sequence[str], environ: Mapping[str, str]) -> OwnFiles:
        """Find this user's paths, for a session on ``roots``."""
        configured = [os.path.dirname(find_user_file(environ))]
        if config := environ.get("HANDRAIL_CONFIG"):
            configured.append(os.path.abspath(config))
        real = [os.path.realpath(root) for root in roots]
        places = [os.path.realpath(state)]
        if any(is_within(places[0], root) for root in real):  # hiding all of it would hide the workspace
            places = [os.path.join(places[0], name) for name in _NAMES]
        settings = [os.path.realpath(path) for path in configured]
        settings = [path for path in settings if not any(is_within(path, root) for root in real)]
        spelled = dict.fromkeys(_list_spellings([*places, *settings, state, *configured], environ))
        within = any(is_within(root, place) for root in real for place in places)
        return cls(tuple(places), tuple(settings), os.path.realpath(artefacts), tuple(spelled), within)

    def shows(self, path: str) -> bool:
        """Whether a search may show a real path."""
        return is_within(self.kept, path) or not any(is_within(place, path) for place in self.state)

    def judge(self, accesses: Sequence[Access], hidden: Callable[[], bool]) -> Verdict | None:
        """Return the strictest verdict on the accesses; None if no access concerns these paths.

        ``hidden``: whether a sandbox hides the paths from commands.
        """
        verdicts = filter(None, (self._judge_access(access, hidden) for access in accesses))
        return max(verdicts, key=lambda verdict: STRICT[verdict.decision], default=None)

    def _judge_access(self, access: Access, hidden: Callable[[], bool]) -> Verdict | None:
        if isinstance(access, CommandAccess):
            return self._judge_command(access, hidden)
        return self._judge_file(access, hidden) if isinstance(access, FileAccess) else None

    def _judge_file(self, access: FileAccess, hidden: Callable[[], bool]) -> Verdict | None:
        path = access.path or access.target
        if is_within(self.kept, path):
            return None
        for place in (*self.state, *(self.config if access.by_command else ())):
            if is_within(place, path) or (access.glob and _matches(path, place)):
                return Verdict(
                    "deny", _RULE, f"{escape(access.target)} belongs to Handrail; tools and commands may not use it"
                )
            if access.below and is_within(path, place):
                if access.action != "read":
                    return Verdict("deny", _RULE, f"{escape(access.target)} contains Handrail's own files")
                if access.sees not in ("names", "tracked") and not hidden():
                    return Verdict(
                        "ask", _RULE, f"{escape(access.target)} would be read with Handrail's own files in it"
                    )
        return None

    def _judge_command(self, access: CommandAccess, hidden: Callable[[], bool]) -> Verdict | None:
        if verdict := _judge_own_command(parse_access(access)):
            return verdict
        text = _SEPARATORS.sub("/", access.target.replace(self.kept, ""))
        if any(name in text for name in self.names) and not hidden():
            return Verdict("ask", _RULE, "it names a directory with Handrail's own files")
        return None


def _list_spellings(paths: Sequence[str], environ: Mapping[str, str]) -> Iterator[str]:
    """Each path, and its part below the home directory, because that can be spelled in several ways."""
    homes = {os.path.expanduser("~"), environ.get("HOME") or "/", os.path.realpath(os.path.expanduser("~"))} - {"/"}
    for path in paths:
        yield path
        for home in homes:
            if path != home and is_within(home, path):
                yield os.path.relpath(path, home)


def _matches(pattern: str, place: str) -> bool:
    """Whether a shell pattern may match a path, or something below it."""
    parts, names = pattern.strip("/").split("/"), place.strip("/").split("/")
    return len(parts) >= len(names) and all(map(fnmatch.fnmatchcase, names, parts))


def _judge_own_command(script: Script) -> Verdict | None:
    """Refuse Handrail commands that only the user may run."""
    for run in script.runs:
        words = [word.fixed for word in run.words]
        calls = [at for at, word in enumerate(words) if _MODULE.fullmatch(os.path.basename(_GLUED.sub("", word or "")))]
        for at, (command, why) in product(calls, _COMMANDS.items()):
            if CommandPattern(tuple(command.split()), open=True).begins(words[at + 1 :]):
                return Verdict("deny", f"handrail {command}", why)
        if any(_may_be(words[at + 1 :], command.split()) for at, command in product(calls, _COMMANDS)):
            return Verdict("ask", "handrail", "it computes which command of Handrail runs")
    return None


def _may_be(words: Sequence[str | None], command: Sequence[str]) -> bool:
    """Whether words, some of them computed, may call a command."""
    return len(words) >= len(command) and all(word in (None, part) for word, part in zip(words, command, strict=False))
