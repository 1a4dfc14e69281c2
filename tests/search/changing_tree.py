"""A tree that foreign programs change, and two sessions that search it: with the index and without it."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from handrail import Session, Settings
from handrail.drafts.keep import DraftConflict
from handrail.pipeline.session_draft import SessionDraft
from handrail.search.index import fresh, use, watch
from handrail.search.listing import Listing
from handrail.search.ripgrep import find_program
from tests import sizes
from tests.drafts.machine import find_obstacle

WORDS = ["needle", "haystack", "kernel", "Mask", "straße", "window", "orange", "violet", "zebra", "lantern"]
PATTERNS = [
    *("needle", "hay.tack", "kernel|zebra", "Mask", "mask", "straße", "orange violet", "lan(tern|ce)", "needle$"),
    *("^window", r"zebra\s+orange", "absent", "ze", r"vio\w+ need", "n[eo]edle", "needle\\.", "(?i)needle"),
]
MOST_QUEUED = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text(encoding="ascii"))
PLACES = ["", "src/", "src/deep/", "docs/", "build/", ".hidden/", "src/empty/", "new/one/"]
NAMES = ["a.py", "b.txt", "c.md", ".dot", "x.log", "sp ace.py", "é.txt", "d.py", "nested.py", "-dash.md"]
RULES = ["*.log\n", "build/\n", "*.log\nbuild/\n", "docs/\n!docs/a.py\n", "", "/src/deep\n", "!.dot\n"]


class World:
    """A tree, a foreign writer, and two sessions: with the index and without it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.root = folder / "work"
        self.outside = folder / "outside"
        self.chance = chance
        self.moment = 0
        self.outside.mkdir()
        self.git = folder / "branches"
        for place in PLACES[:6]:
            (self.root / place).mkdir(parents=True, exist_ok=True)
            for name in NAMES:
                self.write(self.root / place / name, self.text())
        self._state = str(folder / "state")
        self._checkout: subprocess.Popen[bytes] | None = None
        self._draft: SessionDraft[Session] | None = None
        self._drafted = ""
        """The file that is in the draft only."""
        self.is_interrupted = False
        """Whether a change is made during a search."""
        self.has_large_changes = False
        self._killed: list[Session] = []
        self.open()

    def open(self) -> None:
        self.on, self.off = (
            Session(
                self.root,
                settings=Settings(state=self._state, raise_bugs=True, durable=False, index=index),
                journal=None,
            )
            for index in (True, False)
        )

    def renew(self) -> None:
        """Begin new sessions. The old ones ended well, or were killed and know nothing of it; some have no inotify."""
        if self.chance.random() < 0.5:
            self.close()
        else:
            self._killed += [self.on, self.off]
        self.open()
        if self.chance.random() < 0.3:
            self.listing._can_watch = False

    def close(self) -> None:
        self.on.close()
        self.off.close()

    def end(self) -> None:
        self.wait()
        self.drop_draft()
        self.close()
        for session in self._killed:
            session.close()

    @property
    def listing(self) -> Listing:
        return self.on.search_tree().listing

    @property
    def indexes(self) -> use.SessionIndexes:
        indexes = use.get_indexes(self.on.search_tree())
        assert indexes
        return indexes

    def build(self) -> None:
        self.indexes.wait()
        tree, program = self.on.search_tree(), find_program()
        assert program and self.indexes.store.build(tree, use.make_base(program, tree))

    def text(self) -> bytes:
        chance = self.chance
        lines = [" ".join(chance.choices(WORDS, k=chance.randrange(5))) for _ in range(chance.randrange(8))]
        text = "\n".join(lines).encode() + (b"\n" if chance.random() < 0.8 else b"")
        kind = chance.random()
        if kind < 0.08:
            at = chance.randrange(len(text) + 1)
            text = text[:at] + b"\0" + text[at:]
        elif kind < 0.1:  # a NUL byte behind what ripgrep reads at once, and a file that is cut into parts
            text = b"needle\n" + b"filler line\n" * 8000 + (b"\0" if chance.random() < 0.5 else b"") + text
        elif kind < 0.14:
            text = ("\ufeff" + text.decode()).encode("utf-16-le" if kind < 0.12 else "utf-8")
        return text

    def write(self, path: Path, text: bytes) -> None:
        path.write_bytes(text)
        self.moment += 1
        if self.chance.random() < 0.5:  # some files are of one age
            os.utime(path, ns=(10**18 + self.moment % 5 * 10**9,) * 2)

    def pick(self, directories: bool = False) -> Path | None:
        entries = [
            Path(here) / name for here, below, names in os.walk(self.root) for name in (below if directories else names)
        ]
        return self.chance.choice(entries) if entries else None

    def change(self) -> None:
        """One change by a foreign program; one that is not possible now is none."""
        is_large = self.has_large_changes and self.chance.random() < 0.04
        action = self.chance.choice(LARGE_CHANGES if is_large else CHANGES)
        with contextlib.suppress(OSError):
            action(self)

    def interrupt(self, index: fresh.FreshIndex | None) -> None:
        """A change during a search with the index, whose answer must be that of a later one."""
        if threading.current_thread() is not threading.main_thread():  # where an index is built in the background
            return
        if self.is_interrupted or index is None or not self.listing.is_watched or self.chance.random() > 0.1:
            return
        self.is_interrupted = True
        try:
            self.change()
        finally:
            self.is_interrupted = False

    def start_checkout(self) -> None:
        """Let git replace thousands of files, while the searches go on."""
        self.wait()
        if not self.git.exists():
            make_branches(self.git)
        place = self.root / "vendor"
        place.mkdir(exist_ok=True)
        branch = self.chance.choice(BRANCHES)
        self._checkout = subprocess.Popen([*self._git(place), "checkout", "--quiet", "--force", branch], env=GIT)

    @property
    def is_checking_out(self) -> bool:
        return self._checkout is not None

    def wait(self) -> None:
        """Wait for git."""
        if self._checkout:
            self._checkout.wait()
            self._checkout = None

    def _git(self, place: Path) -> list[str]:
        return ["git", f"--git-dir={self.git}", f"--work-tree={place}"]

    def open_draft(self) -> None:
        """Mount a draft of the workspace, and change something in it; the one before it is kept, or dropped."""
        if self._draft:
            with contextlib.suppress(OSError, DraftConflict):
                self._draft.keep()
            self.drop_draft()
            return
        self.moment += 1
        with Session(self.root, settings=self.on.settings, mode="full") as session:
            self._draft = session.draft()
        self._drafted = f"drafted{self.moment}.py"
        assert self._draft.session.call("Write", {"file_path": self._drafted, "content": "needle onlydrafted\n"}).ok

    def drop_draft(self) -> None:
        if self._draft:
            with contextlib.suppress(OSError, ValueError):
                self._draft.drop()
            self._draft = None

    def check_draft(self) -> None:
        """The session in the draft finds the file of the draft, and the one in the workspace does not."""
        if self._draft:
            query = {"pattern": "onlydrafted"}
            assert self._drafted in self._draft.session.call("Grep", query).data["files"]
            assert self._drafted not in self.on.call("Grep", query).data["files"]

    def query(self) -> tuple[str, dict[str, Any]]:
        """A tool and its arguments."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.15:
            return "Glob", self._choose_options({"pattern": chance.choice(GLOBS)}, GLOB_OPTIONS)
        if kind < 0.25:
            return "LS", self._choose_options({"depth": chance.choice([1, 3, 10])}, LS_OPTIONS)
        query: dict[str, Any] = {
            "pattern": chance.choice(PATTERNS),
            "output_mode": chance.choice(["files_with_matches", "content", "count"]),
            "sort": chance.choice(["newest", "path"]),
        }
        return "Grep", self._choose_options(query, OPTIONS)

    def _choose_options(self, query: dict[str, Any], options: dict[str, list[Any]]) -> dict[str, Any]:
        chosen = {name: self.chance.choice(values) for name, values in options.items() if self.chance.random() < 0.2}
        return {**query, **chosen}

    def ask(self, session: Session, tool: str, query: dict[str, Any]) -> Any:
        result = session.call(tool, query)
        return result.error.code if result.error else (result.text, result.data)


def make_branches(git: Path) -> None:
    """A repository with some branches, whose files differ."""
    chance = random.Random(1)
    words = ["git", "-c", "core.fsync=none", f"--git-dir={git}"]
    lines: list[str] = []
    for branch in BRANCHES:
        lines += [f"commit refs/heads/{branch}", "committer nobody <nobody@localhost> 0 +0000", "data 0"]
        for number in range(CHECKED_OUT):
            text = f"{number} {branch}\n{' '.join(chance.choices(['needle', 'zebra', 'violet', 'orange'], k=3))}\n"
            place = branch if number % 7 == 0 else "module"
            lines += [f"M 644 inline {place}{number % 40}/{number}.py", f"data {len(text)}", text]
    subprocess.run([*words, "init", "--quiet"], check=True, env=GIT)
    subprocess.run([*words, "fast-import", "--quiet"], check=True, env=GIT, input="\n".join(lines), encoding="ascii")


def write_file(world: World) -> None:
    path = world.root / world.chance.choice(PLACES) / world.chance.choice(NAMES)
    path.parent.mkdir(parents=True, exist_ok=True)
    world.write(path, world.text())


def change_in_place(world: World) -> None:
    if path := world.pick():
        with path.open("r+b") as file:
            file.seek(0, os.SEEK_END if world.chance.random() < 0.5 else os.SEEK_SET)
            file.write(b"needle zebra\n")


def change_with_old_times(world: World) -> None:
    """The same size and the same modification time."""
    if (path := world.pick()) and (text := path.read_bytes()):
        status = path.stat()
        path.write_bytes(text.replace(b"needle", b"violet").replace(b"zebra", b"kelvi"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def copy_with_old_times(world: World) -> None:
    """As `rsync -a` does it: another file is moved into place, with the same size and modification time."""
    if path := world.pick():
        status, text = path.stat(), path.read_bytes()
        aside = path.with_name(".aside")
        aside.write_bytes(text.replace(b"needle", b"violet").replace(b"zebra", b"kelvi"))
        os.utime(aside, ns=(status.st_atime_ns, status.st_mtime_ns))
        aside.replace(path)


def unpack_with_old_times(world: World) -> None:
    """As `tar -x` does it: the file is removed and written anew, with a time from before the index."""
    if path := world.pick():
        path.unlink()
        path.write_bytes(world.text())
        os.utime(path, ns=(10**18, 10**18))


def reach_watch_limit(world: World) -> None:
    """The kernel allows no more watches, from the next directory on."""
    if reports := world.listing._watch:

        def refuse(*_: object) -> None:
            raise watch.CannotWatch

        reports.add = refuse  # type: ignore[method-assign, assignment]
        (world.root / f"new{world.chance.randrange(5)}").mkdir(exist_ok=True)


def replace_file(world: World) -> None:
    if path := world.pick():
        aside = path.with_name(".aside")
        aside.write_bytes(world.text())
        aside.replace(path)


def remove(world: World) -> None:
    if path := world.pick(directories=world.chance.random() < 0.2):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def move(world: World) -> None:
    old, new = world.pick(directories=world.chance.random() < 0.5), world.pick(directories=True)
    if old and new:
        old.rename(new / world.chance.choice(["moved", "a.py"]))


def make_link(world: World) -> None:
    if path := world.pick():
        link = path.with_name("link")
        link.symlink_to(path.name) if world.chance.random() < 0.5 else os.link(path, link)


def write_through_link(world: World) -> None:
    """A file gets a second name outside of the tree, and is written by that name after the next comparison of all."""
    if not world.is_interrupted and (path := world.pick()):
        outside = world.outside / "other"
        outside.unlink(missing_ok=True)
        os.link(path, outside)
        for index in world.indexes._open.values():
            if index._state:
                index._state = replace(index._state, compared=float("-inf"))
        world.ask(world.on, "Grep", {"pattern": "absent"})
        outside.write_bytes(world.text())


def change_rules(world: World) -> None:
    place = world.chance.choice(["", "src/", "docs/"])
    world.write(
        world.root / place / world.chance.choice([".gitignore", ".ignore"]), world.chance.choice(RULES).encode()
    )


def make_repository(world: World) -> None:
    top = world.root / world.chance.choice(["", "src/"]) / ".git"
    top.rmdir() if top.exists() else top.mkdir()


def check_out(world: World) -> None:
    """Many files at once, as `git checkout` replaces them."""
    for number in range(40):
        path = world.root / f"part{number % 3}" / f"{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        world.write(path, world.text())


def lose_events(world: World) -> None:
    """Changes whose events are lost, because the queue was full: the kernel says so with an event of its own."""
    write_file(world)
    if reports := world.listing._watch:
        reports.read()
        reports._read_events = lambda: [(-1, watch.OVERFLOW, b"")]  # type: ignore[method-assign]


def fill_queue(world: World) -> None:
    """More events than the queue of the kernel takes, and a change after them."""
    paths = [path for path in (world.pick(), world.pick()) if path and not path.is_symlink()]
    if len(set(paths)) == 2 and MOST_QUEUED <= 100_000:
        for _ in range(MOST_QUEUED // 4 + 1):  # two events each, none like the one before it
            for path in paths:
                os.utime(path)
                path.chmod(0o644)
    write_file(world)


def check_out_branch(world: World) -> None:
    if not world.is_interrupted and shutil.which("git"):
        world.start_checkout()


def mount_draft(world: World) -> None:
    if not world.is_interrupted and not find_obstacle():
        world.open_draft()


def write_by_ourselves(world: World) -> None:
    if path := world.pick():
        name = str(path.relative_to(world.root))
        world.on.call("Read", {"file_path": name})
        world.on.call("Write", {"file_path": name, "content": "needle by a tool\n"})


def build_again(world: World) -> None:
    world.build()


CHANGES: list[Callable[[World], None]] = [
    *(write_file, write_file, change_in_place, change_with_old_times, replace_file, remove, move, make_link),
    *(write_through_link, change_rules, make_repository, check_out, lose_events, write_by_ourselves, build_again),
    *(copy_with_old_times, unpack_with_old_times, reach_watch_limit),
]
LARGE_CHANGES: list[Callable[[World], None]] = [fill_queue, check_out_branch, mount_draft]
"""They take as long as many rounds without them."""
OPTIONS: dict[str, list[Any]] = {
    "ignore_case": [True],
    "literal": [True],
    "multiline": [True],
    "include_hidden": [True],
    "include_ignored": [True],
    "context": [1, 2],
    "head_limit": [1, 2, 5],
    "offset": [1, 3],
    "glob": ["*.py", "!*.py", "src/*", "*.{md,txt}", "!docs"],
    "type": ["py", "md"],
    "path": ["src", "docs", "src/deep", "build"],
}
GLOBS = ["**/*.py", "**/*", "*", "src/**/*.txt", "**/a.*", "docs/*", "**/.dot"]
GLOB_OPTIONS: dict[str, list[Any]] = {
    **{name: OPTIONS[name] for name in ("include_hidden", "include_ignored", "path", "offset")},
    "limit": [1, 5],
}
LS_OPTIONS: dict[str, list[Any]] = {**GLOB_OPTIONS, "ignore": [["*.md"], ["deep"]]}
BRANCHES = ["first", "second", "third"]
CHECKED_OUT = sizes.pick(60, 2000)
GIT = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
