"""Decide whether a file with a secret's name is tracked by git, and therefore public.

A path counts as tracked if it is in a trusted commit, not made by a model's command: HEAD before the first command, or
a later commit, pull or checkout by the person. A file is also public if its contents equal its blob in HEAD, or if the
model wrote them. The index never counts, because any command can change it.

Objects are read with `git cat-file` and checked against their ids, so forged and replaced objects have no effect. The
commits a model made, and the contents its commands left, are stored for later sessions.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from handrail.shell.git.objects import CommitTrees, hash_blob
from handrail.shell.git.settings import ask_git, make_git_environment

_ID = re.compile(r"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")
_REFERENCE = re.compile(r"(?:^|/)(?:refs|reftable)/|(?:^|/)packed-refs$|HEAD$")
"""Files of a repository that name commits."""
_MOST_MADE = 20_000
"""The most commits of one command. After a command with more, no new commit is trusted."""
_EVERY_COMMIT = "*"
_MOST_LEFT = 50
"""The most versions remembered of each file that commands wrote."""
_MOST_BYTES = 16 << 20
_MOST_RECORD_BYTES = 64 << 20
_Stamp = tuple[str, ...]
"""The contents of HEAD and of the branch file it names, and stamps of the files that hold packed branches."""
_FRESH_SECONDS = 0.5
"""Between commands, HEAD is read again only after this many seconds."""


@dataclass(slots=True)
class _Record:
    """What is known about one repository, or about all files outside repositories."""

    trusted: str = ""
    """The last HEAD that was not created or checked out by a model's command."""
    left: str = ""
    """HEAD after the last command of the model."""
    commits: list[str] = field(default_factory=list)
    """Commits made by the model's commands."""
    before: list[str] | None = None
    """The tips before a command that is still running. Later commits are its work, even if it is killed."""
    contents: dict[str, list[str]] = field(default_factory=dict)
    """By path, hashes of contents that the model wrote, by commands or other calls."""

    @property
    def may_trust(self) -> bool:
        """Whether every commit made by a command is known."""
        return _EVERY_COMMIT not in self.commits

    def add_made(self, commits: Sequence[str]) -> None:
        """Add commits made by commands."""
        self.commits = list(dict.fromkeys((*self.commits, *commits[:_MOST_MADE])))
        if len(commits) > _MOST_MADE:
            self.commits.append(_EVERY_COMMIT)


@dataclass(slots=True)
class _Place:
    """A repository as last seen."""

    top: str
    record: _Record
    stamp: _Stamp | None = None
    head: str = ""
    looked: float = -_FRESH_SECONDS


class _Records:
    """The records of repositories in the state directory."""

    def __init__(self, state: str) -> None:
        self._directory = os.path.join(state, "tracked") if state else ""

    def read(self, top: str, now: _Record | None = None) -> _Record:
        """The record of a repository, merged with ``now``, the record of this session."""
        record = _Record()
        if not self._directory:
            return now or record
        with contextlib.suppress(OSError, ValueError, TypeError), open(self._get_path(top), "rb") as file:
            record = _Record(**json.loads(file.read(_MOST_RECORD_BYTES)))
        if now:
            record.trusted, record.left = record.trusted or now.trusted, record.left or now.left
            record.before = now.before
            record.commits = list(dict.fromkeys((*record.commits, *now.commits)))
            for path, hashes in now.contents.items():
                both = dict.fromkeys((*record.contents.get(path, ()), *hashes))
                record.contents[path] = list(both)[-_MOST_LEFT:]
        return record

    def write(self, place: _Place) -> None:
        if not self._directory:
            return
        record = place.record
        if not (record.trusted or record.left or record.commits or record.contents):
            return
        path = self._get_path(place.top)
        temporary = f"{path}.{os.getpid()}-{threading.get_ident()}"
        with contextlib.suppress(OSError):  # this session still has it in memory
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(json.dumps(asdict(record)))
            os.replace(temporary, path)

    def _get_path(self, top: str) -> str:
        return os.path.join(self._directory, hashlib.sha256(os.fsencode(top)).hexdigest()[:32] + ".json")


class _FileHashes:
    """Git's ids for the contents of files, computed once per version."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}

    def get(self, path: str, length: int = 40) -> str:
        """Git's id for the contents of a file or link; empty for anything else, or if it is too large."""
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                return hash_blob(os.fsencode(os.readlink(path)), length)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
                return ""
            stamp = (length, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            known = self._known.get(path)
            if known and known[0] == stamp:
                return known[1]
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                name = hash_blob(file.read(_MOST_BYTES + 1), length)
        except OSError:
            return ""
        self._known[path] = stamp, name
        return name


class TrackedFiles:
    """The tracked files of the repositories a session touches."""

    def __init__(self, state: str = "") -> None:
        """``state``: the state directory; if empty, nothing is stored for later sessions."""
        self.state = state
        self._records = _Records(state)
        self._places: dict[str, _Place] = {}
        self._trees = CommitTrees()
        self._readers = 0
        self._hashes = _FileHashes()
        self._tops: dict[str, str] = {}
        """A short-lived cache: the repository around each directory."""
        self._looked = 0.0
        self._lock = threading.RLock()
        self._ran = False
        """Whether a command has started in this session."""
        self._changing = 0
        """Commands that may be changing repositories now."""

    def is_tracked(self, path: str) -> bool:
        """Whether the model may see a file despite its name."""
        with self.reading(), self._lock:
            place = self._find_place(path)
            name = _name_below(place.top, path)
            if self._trees.look_up(place.top, place.record.trusted, name, tree=False):
                return True
            known = (
                self._trees.look_up(place.top, place.head, name, tree=False)
                if place.head != place.record.trusted
                else ""
            )
            if known and self._hashes.get(path, len(known)) == known:
                return True
            left = place.record.contents.get(path)
            return bool(left) and self._hashes.get(path) in (left or ())

    def list_untracked(self, directory: str, names: Sequence[str]) -> list[str]:
        """The files in a directory that are not in the trusted commit."""
        with self.reading(), self._lock:
            place = self._find_place(f"{directory}/.")
            if not place.record.trusted:
                return list(names)
            known = self._trees.get(place.top, self._find_tree(place, directory))
            return [name for name in names if name not in known]

    def load(self, directory: str) -> None:
        """Read the trusted commit's trees below a directory at once, before many questions about files in it."""
        with self.reading(), self._lock:
            place = self._find_place(f"{directory}/.")
            self._trees.load(place.top, self._find_tree(place, directory))

    def list_trusted(self, directories: Iterable[str]) -> dict[str, str]:
        """The trusted commit of each repository that is known, or that contains these directories."""
        with self._lock:
            places = [self._find_place(f"{directory}/.") for directory in (*directories, *self._places)]
            return {place.top: place.record.trusted for place in places}

    def is_published(self, directory: str) -> bool:
        """Whether the trusted commit has this directory, so its name alone makes nothing in it secret."""
        with self.reading(), self._lock:
            place = self._find_place(directory)
            name = _name_below(place.top, directory)
            return bool(self._trees.look_up(place.top, place.record.trusted, name, tree=True))

    def has_tracked(self, directory: str) -> bool:
        """Whether a directory may hold tracked files, so it cannot be hidden as a whole."""
        with self.reading(), self._lock:
            place = self._find_place(directory)
            name = _name_below(place.top, directory)
            commits = {place.record.trusted, place.head}
            return any(self._trees.look_up(place.top, commit, name, tree=True) for commit in commits) or any(
                path.startswith(f"{directory}/") for path in place.record.contents
            )

    def list_commits(self, root: str) -> set[str]:
        """HEAD and the trusted commit."""
        with self._lock:
            place = self._find_place(os.path.join(root, "."))
            return {commit for commit in (place.record.trusted, place.head) if commit}

    def list_names(self, root: str, commit: str) -> set[str]:
        """The base names of all files and directories in a commit."""
        code, listed = ask_git(["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit], root)
        return set() if code else set(os.fsdecode(listed).replace("\0", "/").split("/"))

    # Changes by commands

    def look(self, root: str) -> None:
        """Read HEAD before a command: since the last command, only the person or a background job can have moved it."""
        with self._lock:
            self._looked = 0.0
            self._find_place(os.path.join(root, "."))
            for place in self._places.values():
                self._look(place)

    def note_start(self) -> None:
        """Note that a command starts. Repositories found from now on may be its work."""
        self._ran = True

    def begin_changes(self, root: str, tops: Iterable[str] = ()) -> None:
        """Let a command change repositories until `end_changes`: new commits until then are its work.

        ``tops``: directories where it may create a repository, besides ``root``.
        """
        with self._lock:
            self.look(root)
            self._changing += 1
            for top in (root, *tops):
                if top not in self._places:
                    self._places[top] = _Place(top, self._records.read(top))
            for place in self._places.values():
                if place.record.before is None:
                    place.record.before = _list_tips(place.top) if os.path.lexists(f"{place.top}/.git") else []
                    self._records.write(place)

    def end_changes(self) -> None:
        with self._lock:
            self._changing -= 1
            for place in self._places.values():
                self._look(place)

    def knows_contents(self, path: str, raw: bytes) -> bool:
        """Whether the model wrote these contents to a file."""
        with self._lock:
            return hash_blob(raw, 40) in self._find_place(path).record.contents.get(path, ())

    def note_contents(self, files: Mapping[str, str | bytes]) -> None:
        """Remember the contents that the model wrote: by path, the contents or a file to read them from."""
        with self._lock:
            for path, source in files.items():
                own = hash_blob(source, 40) if isinstance(source, bytes) else self._hashes.get(source)
                place = self._find_place(path)
                known = place.record.contents.get(path, [])
                if own and own not in known:
                    place.record.contents[path] = [*known, own][-_MOST_LEFT:]
                    self._records.write(place)

    # Repositories

    def _find_place(self, path: str) -> _Place:
        """The repository a path belongs to; the root directory if there is none."""
        directory, now = path.rpartition("/")[0] or "/", time.monotonic()
        if now - self._looked >= _FRESH_SECONDS:
            self._tops, self._looked = {}, now
        top = self._find_top(directory)
        place = self._places.get(top)
        if place is None:
            place = self._places[top] = _Place(top, self._records.read(top))
        if now - place.looked >= _FRESH_SECONDS:
            self._look(place)
        return place

    def _find_top(self, directory: str) -> str:
        """The nearest directory, this one included, with a repository; the root directory if there is none."""
        here, below, tops = directory, list[str](), self._tops
        while here not in tops:
            below.append(here)
            above = os.path.dirname(here)
            if above == here or os.path.lexists(f"{here}/.git"):
                tops[here] = here
            here = above
        for one in reversed(below):
            tops.setdefault(one, tops[os.path.dirname(one)])
        return tops[directory]

    def _look(self, place: _Place) -> None:
        """Read HEAD again if it may have moved, and decide who moved it."""
        place.looked = time.monotonic()
        by_command = place.record.before is not None
        first, stamp = place.stamp is None, _stamp_head(place.top)
        if stamp == place.stamp and stamp is not None and not by_command:
            return
        place.stamp = stamp
        head = place.head
        place.head = _read_head(place.top, stamp) if os.path.lexists(f"{place.top}/.git") else ""
        if place.head == head and not by_command and not first:
            return
        record = place.record = self._records.read(place.top, place.record)
        old = asdict(record)
        if record.before is not None:
            record.left = place.head
            record.add_made(_list_commits(place.top, [place.head, *_list_tips(place.top)], record.before))
            record.before = record.before if self._changing > 0 else None
        elif place.head not in ("", record.left, *record.commits) and record.may_trust and not (first and self._ran):
            record.trusted, record.left = place.head, ""
        if asdict(record) != old:
            self._records.write(place)

    def _find_tree(self, place: _Place, directory: str) -> str:
        """The tree of a directory in the trusted commit; empty if it has none."""
        commit, name = place.record.trusted, _name_below(place.top, directory) if directory != place.top else ""
        return (
            self._trees.look_up(place.top, commit, name, tree=True) if name else self._trees.get_root(place.top, commit)
        )

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Share one git process between all questions asked meanwhile, by any thread."""
        with self._lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
                if self._trees.readers and not self._readers:
                    self._trees.close()


class DraftRepository:
    """A repository as changed by a draft that is not kept yet."""

    def __init__(self, workspace: str, upper: str, inside: str, changed: Sequence[str]) -> None:
        """``inside``: the path of the repository in the workspace. ``changed``: changed paths in its `.git`."""
        self.top = os.path.normpath(os.path.join(workspace, inside))
        self._upper = os.path.normpath(os.path.join(upper, inside, ".git"))
        self._changed = changed
        names = [name for name in changed if name == "packed-refs" or name.endswith("HEAD") or name.startswith("refs/")]
        texts = (_read_text(os.path.join(self._upper, name)) for name in names)
        self._heads = list(dict.fromkeys(one for text in texts for one in _ID.findall(text)))

    @property
    def moves_references(self) -> bool:
        """Whether the draft changes what a branch, a tag or HEAD points at."""
        return any(map(_REFERENCE.search, self._changed))

    @property
    def _env(self) -> dict[str, str]:
        return {**make_git_environment(), "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(self._upper, "objects")}

    def has_commits_of(self, paths: Sequence[str]) -> bool:
        """Whether the draft adds commits that change one of these paths in the repository."""
        old = ["--all", *_list_tips(self.top, ("HEAD",))]
        return bool(_list_commits(self.top, self._heads, old, self._env, paths)) if self._heads and paths else False

    def find_changed_entries(self, paths: Sequence[str]) -> list[str]:
        """The paths whose entries in the draft's index differ from those in the workspace's index."""
        if "index" not in self._changed:
            return []
        now = self._list_entries(os.path.join(self._upper, "index"), paths)
        before = self._list_entries("", paths)
        return sorted({name for name, _ in now ^ before})

    def _list_entries(self, index: str, paths: Sequence[str]) -> set[tuple[str, bytes]]:
        env = {**self._env, **({"GIT_INDEX_FILE": index} if index else {})}
        if index and not os.path.lexists(index):
            return set()
        code, output = ask_git(["ls-files", "--stage", "-z", "--full-name"], self.top, env)
        if code:
            return {("", b"unreadable"), (index, b"")}
        wanted, out = set(paths), set[tuple[str, bytes]]()
        for row in output.split(b"\0"):
            facts, _, raw = row.partition(b"\t")
            name = os.fsdecode(raw)
            if name and (name in wanted or any(above in wanted for above in _list_parents(name))):
                out.add((name, facts))
        return out


def _name_below(top: str, path: str) -> str:
    return path[len(top.rstrip("/")) + 1 :]


def _list_parents(name: str) -> Iterator[str]:
    while name:
        name = name.rpartition("/")[0]
        if name:
            yield name


def _read_head(top: str, stamp: _Stamp | None) -> str:
    for text in stamp[:2] if stamp else ():
        if _ID.fullmatch(text.strip()):
            return text.strip()
    code, output = ask_git(["rev-parse", "--verify", "-q", "HEAD^{commit}"], top)
    return os.fsdecode(output).strip() if code == 0 else ""


def _list_tips(top: str, names: Iterable[str] = ("--all", "HEAD")) -> list[str]:
    _, output = ask_git(["rev-parse", *names], top)
    return list(dict.fromkeys(_ID.findall(os.fsdecode(output))))


def _list_commits(
    top: str,
    new: Sequence[str],
    old: Sequence[str],
    env: Mapping[str, str] | None = None,
    paths: Sequence[str] = (),
) -> list[str]:
    """Commits reachable from ``new`` but not from ``old``, at most `_MOST_MADE` + 1."""
    if not any(new):
        return []
    rows = [*filter(None, new), "--not", *old, *(["--", *(f":(top,literal){path}" for path in paths)] if paths else [])]
    words = ["rev-list", "--ignore-missing", "--full-history", f"--max-count={_MOST_MADE + 1}", *rows]
    code, output = ask_git(words, top, env)
    return _ID.findall(os.fsdecode(output)) if code == 0 else [_EVERY_COMMIT]


def _read_text(path: str) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return os.fsdecode(file.read(_MOST_BYTES))
    except OSError:
        return ""


def _stamp_head(top: str) -> _Stamp | None:
    """A stamp that changes whenever HEAD may have moved; None if unknown."""
    git = os.path.join(top, ".git")
    common = git
    if not os.path.isdir(git):
        text = _read_text(git)
        if not text.startswith("gitdir:"):
            return ("",) if not os.path.lexists(git) else None
        git = os.path.join(top, text[7:].strip())
        common = os.path.join(git, _read_text(os.path.join(git, "commondir")).strip())
    head = _read_text(os.path.join(git, "HEAD"))
    name = head[5:].strip() if head.startswith("ref: ") else ""
    loose = _read_text(os.path.join(common, name)) if name and ".." not in name else ""
    others = [os.path.join(common, one) for one in ("packed-refs", "reftable/tables.list")]
    return head, loose, *map(_stamp, others)


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
