"""The index: which files it may leave out, and that a search with it has the answer, order and receipt of one without.

One tree lives through many rounds. In each one a foreign program changes something, between two searches or during one,
and the same query is asked with the index and without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import Session, Settings
from handrail.cli import main
from handrail.search import grep
from handrail.search.index import fresh, store, use, watch
from handrail.search.index.literals import find_literals
from handrail.search.index.read import IndexFile
from handrail.search.query import Query
from handrail.search.receipt import Budget
from handrail.search.ripgrep import find_program
from tests import sizes
from tests.drafts.machine import require_drafts

pytest.importorskip("numpy", reason="numpy is not there: no index can be built")
pytestmark = [
    pytest.mark.skipif(find_program() is None, reason="ripgrep is not there"),
    pytest.mark.skipif(sys.platform != "linux", reason="indexes are for Linux"),
]


# which texts a pattern requires

ATOMS = [
    *(
        "abc",
        "Key",
        "k",
        "s",
        "é",
        "[ab]",
        "[^a]",
        r"\.",
        r"\w",
        ".",
        "^",
        "$",
        r"\b",
        "(?:ab|cd)",
        "(abc)",
        "x",
        "[a-c]",
    ),
    *("(?P<n>key)", "]", "b{2}", "{", "[]a]", r"\x41", "(?i:abc)", "|", r"\n", "(", ")"),
]
atoms = st.sampled_from(ATOMS)
patterns = st.lists(
    st.tuples(atoms, st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{0,1}", "{1,}", "+?"])), min_size=1, max_size=6
).map(lambda parts: "".join(atom + mark for atom, mark in parts))
texts = st.text(alphabet="abckKeysSxyéÉſKABC.]| {2", max_size=24)


@settings(max_examples=sizes.pick(150, 20_000), deadline=None)
@given(pattern=patterns, text=texts, ignore_case=st.booleans())
def test_every_match_contains_the_texts_of_an_alternative(pattern: str, text: str, ignore_case: bool) -> None:
    alternatives = find_literals(pattern, literal=False, ignore_case=ignore_case)
    try:
        expression = regex.compile(pattern, regex.V1 | (regex.IGNORECASE if ignore_case else 0))
    except regex.error:
        return
    if alternatives is not None and expression.search(text):
        folded = text.encode().lower()
        assert any(all(one in folded for one in texts) for texts in alternatives), alternatives


@pytest.mark.parametrize(
    ("pattern", "ignore_case", "expected"),
    [
        ("needle", False, [[b"needle"]]),
        ("Nee(dle|t+y)", False, [[b"needle"], [b"neet"]]),
        ("mask", True, None),  # U+017F and U+212A match too
        ("needle|ab", False, None),
        (r"func \w+\(ctx", False, [[b"func ", b"(ctx"]]),
        ("[kK]eyword", False, [[b"keyword"], [b"keyword"]]),
        ("(?i)needle", False, None),
    ],
)
def test_texts_of_typical_patterns(pattern: str, ignore_case: bool, expected: list[list[bytes]] | None) -> None:
    assert find_literals(pattern, literal=False, ignore_case=ignore_case) == expected


# a tree that changes

WORDS = ["needle", "haystack", "kernel", "Mask", "straße", "window", "orange", "violet", "zebra", "lantern"]
PATTERNS = [
    *("needle", "hay.tack", "kernel|zebra", "Mask", "mask", "straße", "orange violet", "lan(tern|ce)", "needle$"),
    *("^window", r"zebra\s+orange", "absent", "ze", r"vio\w+ need", "n[eo]edle", "needle\\.", "(?i)needle"),
]
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
        for place in PLACES[:6]:
            (self.root / place).mkdir(parents=True, exist_ok=True)
            for name in NAMES:
                self.write(self.root / place / name, self.text())
        self._state = str(folder / "state")
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

    def close(self) -> None:
        self.on.close()
        self.off.close()

    @property
    def indexes(self) -> use.SessionIndexes:
        indexes = use.get_indexes(self.on.search_tree())
        assert indexes
        return indexes

    def build(self) -> None:
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
        action = self.chance.choice(CHANGES)
        with contextlib.suppress(OSError):
            action(self)

    def query(self) -> dict[str, Any]:
        chance = self.chance
        query: dict[str, Any] = {
            "pattern": chance.choice(PATTERNS),
            "output_mode": chance.choice(["files_with_matches", "content", "count"]),
            "sort": chance.choice(["newest", "path"]),
        }
        for name, values in OPTIONS.items():
            if chance.random() < 0.2:
                query[name] = chance.choice(values)
        return query

    def ask(self, session: Session, query: dict[str, Any]) -> Any:
        result = session.call("Grep", query)
        return result.error.code if result.error else (result.text, result.data)


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
    if path := world.pick():
        outside = world.outside / "other"
        outside.unlink(missing_ok=True)
        os.link(path, outside)
        for index in world.indexes._open.values():
            index._compared = float("-inf")
        world.ask(world.on, {"pattern": "absent"})
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
    for index in world.indexes._open.values():
        if index._watch:
            index._watch.read()
            index._watch._read_events = lambda: [(-1, watch.OVERFLOW, b"")]  # type: ignore[method-assign]


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
]
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


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], World]]:
    """Builds worlds whose indexes are built in this process, where numpy is imported once."""
    opened: list[World] = []

    def build_here(task: Any, names: list[bytes], report: object) -> int:
        from handrail.search.index.write import write_index

        write_index(task, names)
        return 0

    monkeypatch.setattr(store, "_run_builder", build_here)

    def open_world(seed: int) -> World:
        folder = tmp_path / str(seed)
        folder.mkdir()
        opened.append(World(folder, random.Random(seed)))
        opened[-1].build()
        return opened[-1]

    yield open_world
    for one in opened:
        one.close()


def compare(world: World, query: dict[str, Any], rounds: object) -> None:
    with_index, without = world.ask(world.on, query), world.ask(world.off, query)
    if any("Stopped after" in str(answer) for answer in (with_index, without)):
        return  # the machine was too busy
    assert with_index == without, (rounds, query)


@pytest.mark.parametrize("seed", range(sizes.pick(3, 100)))
def test_same_answer_order_and_receipt_while_the_tree_changes(
    world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    here = world(seed)
    answered = [0]
    view, search_indexed = fresh.FreshIndex.view, grep._search_indexed

    def count_answers(*args: Any) -> Any:
        page = search_indexed(*args)
        answered[0] += page is not None
        return page

    def view_and_change(self: fresh.FreshIndex, *args: Any) -> Any:
        """Change something during a search: after the candidates are known, before they are searched."""
        known = view(self, *args)
        if known and self._watch and here.chance.random() < 0.2:
            monkeypatch.setattr(fresh.FreshIndex, "view", view)
            try:
                here.change()
            finally:
                monkeypatch.setattr(fresh.FreshIndex, "view", view_and_change)
        return known

    monkeypatch.setattr(grep, "_search_indexed", count_answers)
    monkeypatch.setattr(fresh.FreshIndex, "view", view_and_change)
    for number in range(sizes.pick(25, 100)):
        for _ in range(here.chance.randrange(3)):
            here.change()
        if here.chance.random() < 0.1:  # new sessions, which have to compare everything
            here.close()
            here.open()
        query = here.query()
        if here.chance.random() < 0.3:
            for session in (here.on, here.off):
                tree = session.search_tree(".")
                tree.is_large = True
        compare(here, query, number)
    assert answered[0] > sizes.pick(25, 100) // 5


def test_what_the_kernel_reports_when_its_queue_is_full(world: Callable[[int], World], tmp_path: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text(encoding="ascii"))
    if most > 100_000:
        pytest.skip(f"the queue takes {most} events")
    here = world(1)
    query = {"pattern": "lost", "output_mode": "content"}
    for _ in range(2):
        compare(here, query, "watched from now on")
    one, other = here.root / "a.py", here.root / "d.py"
    for _ in range(most // 4 + 1):  # two events each, none like the one before it
        for path in (one, other):
            os.utime(path)
            os.chmod(path, 0o644)
    other.write_text("lost\n", encoding="utf-8")
    compare(here, query, "queue full")
    assert "lost" in here.ask(here.on, query)[0]


def test_changes_known_to_another_search_at_the_same_time(world: Callable[[int], World]) -> None:
    here = world(2)
    query = {"pattern": "absent"}
    for _ in range(2):
        here.ask(here.on, query)
    program, tree = find_program(), here.on.search_tree()
    assert program
    engine = use.make_base(program, tree)

    def view() -> fresh.View | None:
        return here.indexes.view(program, Query("absent"), tree, engine, Budget(10))

    first = view()
    assert first and first.is_current()
    (here.root / "a.py").write_text("absent\n", encoding="utf-8")
    second = view()  # takes the events from the queue
    assert second and second.changed > first.changed
    assert second.is_current()
    assert not first.is_current()


def test_nothing_of_a_secret_file_is_in_the_index(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "plain.txt").write_text("ordinary words\n", encoding="utf-8")
    (root / ".handrailignore").write_text("private.txt\nvault/\n", encoding="utf-8")
    (root / "vault").mkdir()
    for name in ("private.txt", "vault/inner.txt", "server.pem", "id_rsa", ".env"):
        (root / name).write_text("ordinary words\n", encoding="utf-8")
    with Session(root, settings=Settings(state=str(tmp_path / "state")), journal=None) as session:
        tree, program = session.search_tree(), find_program()
        indexes = use.get_indexes(tree)
        assert indexes and program
        base = use.make_base(program, tree)
        assert indexes.store.build(tree, base)
        path = indexes.store.path(tree.path.real, base)
        assert IndexFile(path).files == [b"plain.txt"]
        raw = Path(path).read_bytes()
        assert b"plain.txt" in raw
        assert all(name not in raw for name in (b"private", b"inner", b"server", b"id_rsa"))
        assert os.stat(path).st_mode & 0o777 == 0o600
        for _ in range(3):
            assert session.call("Grep", {"pattern": "ordinary"}).data["files"] == ["plain.txt"]


def test_a_session_builds_an_index_after_a_search_of_many_files(
    world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(3)
    for path in here.indexes.store.paths():
        here.indexes.store.drop(path)
    here.ask(here.on, {"pattern": "needle"})
    assert not here.indexes.store.paths()
    monkeypatch.setattr(use, "SLOW_FILES", 10)
    here.ask(here.on, {"pattern": "needle"})
    here.indexes.wait()
    assert len(here.indexes.store.paths()) == 1


def test_the_oldest_indexes_are_deleted_when_they_take_too_much_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        path = tmp_path / f"{number}.index"
        path.write_bytes(b"x" * 100)
        os.utime(path, (number, number))
    monkeypatch.setattr(store, "MOST_BYTES", 250)
    store.IndexStore(str(tmp_path)).limit(keep=str(tmp_path / "0.index"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.index", "3.index"]


@pytest.mark.parametrize("damage", [b"", b"short", b"HRINDEX1" + b"\xff" * 100, b"\0" * 5000])
def test_a_damaged_index_is_not_used(world: Callable[[int], World], damage: bytes) -> None:
    here = world(4)
    (path,) = here.indexes.store.paths()
    Path(path).unlink()
    Path(path).write_bytes(damage)
    for _ in range(2):
        compare(here, {"pattern": "needle"}, damage)


def test_the_command_builds_shows_and_drops_an_index(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.txt").write_text("needle\n", encoding="utf-8")

    def run(*words: str) -> str:
        assert main(["index", *words, "-w", str(root)]) == 0
        return capsysbinary.readouterr().out.decode()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANDRAIL_STATE", str(tmp_path / "state"))
        assert "There is no index" in run("status")
        assert "1 files" in run("build")
        (index,) = json.loads(run("status", "--json"))["indexes"]
        assert (index["root"], index["files"], index["bytes"]) == (str(root), 1, 7)
        assert "Deleted the index" in run("drop")
        assert json.loads(run("status", "--json")) == {"indexes": []}


def test_a_draft_and_the_workspace_are_searched_as_they_are(world: Callable[[int], World]) -> None:
    require_drafts()
    here = world(5)
    query = {"pattern": "onlyinthedraft"}
    with Session(here.root, settings=here.on.settings, mode="full") as session, session.draft() as draft:
        assert draft.session.call("Write", {"file_path": "fresh.py", "content": "onlyinthedraft\n"}).ok
        for _ in range(3):
            assert draft.session.call("Grep", query).data["files"] == ["fresh.py"]
            assert session.call("Grep", query).data["files"] == []
        draft.keep()
        for _ in range(2):
            assert session.call("Grep", query).data["files"] == ["fresh.py"]
