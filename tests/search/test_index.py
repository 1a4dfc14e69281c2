"""The index: which files it may leave out, and that a search with it has the answer, order and receipt of one without.

One tree lives through many rounds. In each one a foreign program changes something, between two searches or during one,
and the same query is asked with the index and without it.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import Session, Settings
from handrail.cli import main
from handrail.search import grep, listing, ripgrep
from handrail.search.index import candidates, fresh, limits, store, use
from handrail.search.index.contents import ContentTest
from handrail.search.index.literals import find_literals
from handrail.search.index.read import IndexFile
from handrail.search.query import NameFilter, Query
from handrail.search.receipt import Budget
from handrail.search.ripgrep import find_program
from tests import sizes
from tests.drafts.machine import require_drafts
from tests.search.changing_tree import World, check_out_branch, fill_queue, mount_draft

pytest.importorskip("numpy", reason="numpy is not there: no index can be built")
pytestmark = [
    pytest.mark.skipif(find_program() is None, reason="ripgrep is not there"),
    pytest.mark.skipif(sys.platform != "linux", reason="indexes are for Linux"),
]


ROUNDS = sizes.pick(25, 100)
FIRST = int(os.environ.get("HANDRAIL_SEED", "0"))

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


# which files match

LINE_ATOMS = [
    *("abc", "Key", "k", "needle", "[a-c]", "[^a]", "[kK ]", r"[\w.]", r"\.", r"\w", r"\W", r"\d", r"\s", r"\S", "."),
    *("^", "$", r"\b", "(abc|Key)", "(?:ab|needle)?", "|", "x", r"\B", "(?i:abc)", "[[:alpha:]]", "(x)+", r"\x41", "é"),
]
LINE_REPEATS = ["", "", "", "", "?", "*", "+", "{2}", "{0,1}", "{1,}", "{2,3}", "+?", "??", "*+", "++", "{2}+"]


def test_the_verdict_on_a_file_is_that_of_ripgrep(tmp_path: Path) -> None:
    chance, program = random.Random(FIRST), find_program()
    assert program
    for number in range(60):
        words = chance.choices(
            ["abc", "Key", "k", "needle", "ABC", "NEEDLE", "x", "xx", " ", ".", "1", "\t", "\n"], k=20
        )
        words += chance.choices(["", "\r\n", "é", "ſ", "\x0b", "\x1c", "\x85"], weights=[9, 1, 1, 1, 1, 1, 1], k=2)
        chance.shuffle(words)
        (tmp_path / f"{number}.txt").write_bytes("".join(words).encode())
    decided = 0
    for _ in range(sizes.pick(100, 5000)):
        parts = [chance.choice(LINE_ATOMS) + chance.choice(LINE_REPEATS) for _ in range(chance.randrange(4))]
        parts.insert(chance.randrange(len(parts) + 1), chance.choice(["abc", "needle", "Key"]))
        query = Query("".join(parts), ignore_case=chance.random() < 0.3, literal=chance.random() < 0.1)
        alternatives = find_literals(query.pattern, literal=query.literal, ignore_case=query.ignore_case)
        flags = ["--fixed-strings"] * query.literal + ["--ignore-case"] * query.ignore_case + ["--crlf"] * query.crlf
        command = [program, "--no-config", "-l", *flags, f"--regexp={query.pattern}", "."]
        answer = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8")
        if alternatives is None or answer.returncode == 2:
            continue
        matching, test = answer.stdout.splitlines(), ContentTest(query, alternatives)
        for path in tmp_path.iterdir():
            with path.open("rb") as file:
                verdict = test.judge(file.fileno(), os.fstat(file.fileno()))
            if verdict != "perhaps":
                decided += 1
                assert (verdict == "yes") == (f"./{path.name}" in matching), (query, path.read_bytes())
    assert decided


# a tree that changes


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], World]]:
    """Builds worlds whose indexes are built in this process, where numpy is imported once."""
    opened: list[World] = []

    def build_here(task: Any, names: list[bytes], *_: object) -> int:
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
        one.end()


def compare(world: World, query: dict[str, Any], rounds: object, tool: str = "Grep") -> None:
    with_index, without = world.ask(world.on, tool, query), world.ask(world.off, tool, query)
    if any("Stopped after" in str(answer) for answer in (with_index, without)):
        return  # the machine was too busy
    assert with_index == without, (rounds, tool, query)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + sizes.pick(3, 100)))
def test_same_answer_order_and_receipt_while_the_tree_changes(
    world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    here = world(seed)
    here.has_large_changes = sizes.LONG and seed % 4 == 0
    monkeypatch.setattr(candidates, "_FEW", seed % 3 * 4)
    answered = [0]
    view, search_indexed = fresh.FreshIndex.view, grep._search_indexed
    list_files, among = ripgrep.Ripgrep.list_files, ripgrep.Ripgrep.among
    used: list[fresh.FreshIndex | None] = [None]

    def count_answers(*args: Any) -> Any:
        try:
            page = search_indexed(*args)
        finally:
            used[0] = None
        answered[0] += page is not None
        return page

    def view_and_change(self: fresh.FreshIndex, *args: Any) -> Any:
        """Change something after the candidates are known, before they are searched."""
        used[0] = self
        known = view(self, *args)
        here.interrupt(self)
        return known

    def list_and_change(*args: Any) -> Any:
        """Change something before or after the files are listed."""
        here.interrupt(used[0])
        names = list_files(*args)
        here.interrupt(used[0])
        return names

    def search_and_change(*args: Any, **options: Any) -> Any:
        """Change something before or after the candidates are searched."""
        here.interrupt(used[0])
        yield from among(*args, **options)
        here.interrupt(used[0])

    monkeypatch.setattr(grep, "_search_indexed", count_answers)
    monkeypatch.setattr(fresh.FreshIndex, "view", view_and_change)
    monkeypatch.setattr(ripgrep.Ripgrep, "list_files", list_and_change)
    monkeypatch.setattr(ripgrep.Ripgrep, "among", search_and_change)
    compare(here, {"pattern": "needle"}, "before any change")
    assert answered[0]  # later on, that depends on the limits and on how much has changed
    if seed % 2 == 0:  # as with many candidates
        for name, value in {"_MOST_OPEN": 8, "_CHUNK": 4, "_MANY_CANDIDATES": 3}.items():
            monkeypatch.setattr(grep, name, value)
    for number in range(ROUNDS):
        for _ in range(here.chance.randrange(3)):
            here.change()
        if here.chance.random() < 0.1:  # new sessions, which have to compare everything
            here.renew()
        tool, query = here.query()
        if here.is_checking_out:  # the answer may be that of any moment, but the next one must be right
            here.ask(here.on, tool, query)
            here.wait()
        if here.chance.random() < 0.3:
            for session in (here.on, here.off):
                tree = session.search_tree(".")
                tree.is_large = True
        compare(here, query, number, tool)
        if here.chance.random() < 0.3:
            here.check_draft()


def test_same_answer_with_git_a_draft_and_a_full_queue(world: Callable[[int], World]) -> None:
    here = world(1)
    query = {"pattern": "needle", "output_mode": "count"}
    for change in (check_out_branch, mount_draft, fill_queue, check_out_branch, mount_draft):
        for _ in range(2):
            compare(here, query, "watched from now on")
        change(here)
        here.ask(here.on, "Grep", query)
        here.wait()
        compare(here, query, change)


def test_a_change_is_in_the_next_answer_while_another_program_writes(world: Callable[[int], World]) -> None:
    """A writer that never rests: whatever it has finished before a search began is found by that search."""
    here = world(2)
    finished, over = [0], threading.Event()
    paths = [here.root / "src" / f"{number}.txt" for number in range(50)]
    for path in paths:
        path.write_text("token0000000 end\n", encoding="utf-8")

    def write() -> None:
        for number in range(1, 1_000_000):
            if over.is_set():
                return
            with paths[number % len(paths)].open("r+b", buffering=0) as file:
                file.write(b"token%07d end\n" % number)
            finished[0] = number

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(sizes.pick(10, 500)):
            before = finished[0]
            lines = here.on.call("Grep", {"pattern": r"token\d+ end", "output_mode": "content"}).text
            numbers = [int(number) for number in re.findall(r"token(\d+)", lines)]
            assert len(numbers) == len(paths)
            assert min(numbers) > before - len(paths)
    finally:
        over.set()
        writer.join()


def move_in(here: World) -> None:
    """Another directory takes the place of one in the index."""
    shutil.copytree(here.root / "docs", here.outside / "docs")
    (here.outside / "docs/a.py").write_text("brandnew\n", encoding="utf-8")
    (here.root / "docs").rename(here.outside / "old")
    (here.outside / "docs").rename(here.root / "docs")


def write_in_place(here: World) -> None:
    (here.root / "docs/a.py").write_text("brandnew\n", encoding="utf-8")


@pytest.mark.parametrize("change", [write_in_place, move_in])
@pytest.mark.parametrize("before", [["."], [".", "src"], [".", "src", "src"], [".", "."], [".", ".", "src"]])
def test_a_change_before_its_directory_was_watched_is_found(
    world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch, before: list[str], change: Callable[[World], None]
) -> None:
    """The first search watches nothing, a later one only the directories it goes through."""
    monkeypatch.setattr(candidates, "_FEW", 0)
    here = world(7)
    for path in before:
        compare(here, {"pattern": "brandnew", "path": path}, "before")
    change(here)
    assert here.on.call("Grep", {"pattern": "brandnew"}).data["files"] == ["docs/a.py"]


def test_changes_known_to_another_search_at_the_same_time(world: Callable[[int], World]) -> None:
    here = world(2)
    query = {"pattern": "absent"}
    for _ in range(2):
        here.ask(here.on, "Grep", query)
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


def test_a_directory_that_comes_while_the_tree_is_listed(
    world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(3)
    query = {"pattern": "absent"}
    for _ in range(2):
        here.ask(here.on, "Grep", query)
    program, tree, new = find_program(), here.on.search_tree("src"), here.outside / "brand"
    assert program
    new.mkdir()
    (new / "new.py").write_text("absent\n", encoding="utf-8")
    count_links = type(tree).count_links

    def count_and_move(*args: Any) -> int:
        """Another program moves a directory into one that has been listed already."""
        if new.exists():
            new.rename(here.root / "src/brand")
        return count_links(*args)

    monkeypatch.setattr(type(tree), "count_links", count_and_move)
    engine = ripgrep.Ripgrep(program, Query("absent"), tree, NameFilter(Query("absent")))
    view = here.indexes.view(program, Query("absent"), tree, engine, Budget(10))
    assert view and b"src/brand/new.py" not in view.list.unknown
    assert not view.is_current()


def test_a_file_that_comes_or_goes_is_no_reason_to_list_the_whole_tree(
    world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(6)
    (here.root / ".gitignore").write_text("*.log\n", encoding="utf-8")
    query = {"pattern": "needle", "sort": "path"}
    for _ in range(3):
        compare(here, query, "watched from now on")
    listed: list[object] = []
    list_directory = listing._list_directory

    def count(fd: int, *known: Any) -> Any:
        listed.append(fd)
        return list_directory(fd, *known)

    monkeypatch.setattr(listing, "_list_directory", count)
    for change in (
        lambda: (here.root / "src/deep/brand.py").write_text("needle\n", encoding="utf-8"),
        lambda: (here.root / "src/brand.py").write_text("needle\n", encoding="utf-8"),
        lambda: (here.root / "src/brand.py").unlink(),
        lambda: (here.root / "src/deep/brand.py").rename(here.root / "docs/brand.py"),
    ):
        change()
        here.ask(here.on, "Grep", query)
        before = len(listed)
        compare(here, query, "changed")
        assert len(listed) == before
    assert 4 <= len(listed) <= 6  # the directories that have changed
    (here.root / "docs/brand.log").write_text("needle\n", encoding="utf-8")  # an ignored one, which is counted
    compare(here, query, "ignored")
    for target in ("brand.py", "brand.log"):  # links are counted too
        (here.root / "docs/link").symlink_to(target)
        compare(here, query, "a link")
        (here.root / "docs/link").unlink()
        if target == "brand.log":
            (here.root / "docs/link").write_text("needle\n", encoding="utf-8")
        compare(here, query, "no link")


def test_a_new_directory_that_another_tool_has_seen_first_is_searched(world: Callable[[int], World]) -> None:
    here = world(8)
    for _ in range(3):
        here.ask(here.on, "Glob", {"pattern": "**/*"})
        compare(here, {"pattern": "brandnew"}, "watched from now on")
    (here.root / "brand/new").mkdir(parents=True)
    (here.root / "brand/new/a.py").write_text("brandnew\n", encoding="utf-8")
    here.ask(here.on, "Glob", {"pattern": "**/*"})
    assert here.on.call("Grep", {"pattern": "brandnew"}).data["files"] == ["brand/new/a.py"]


def test_what_another_tool_has_seen_first_is_counted(world: Callable[[int], World]) -> None:
    here = world(8)
    query = {"pattern": "brandnew"}
    for _ in range(3):
        here.ask(here.on, "Glob", {"pattern": "**/*"})
        compare(here, query, "watched from now on")
    for name in ("src/.new", "src/new.log"):
        (here.root / name).write_text("x", encoding="utf-8")
        here.ask(here.on, "Glob", {"pattern": "**/*"})
        compare(here, query, name)


@pytest.mark.parametrize("other", ["outside/rules", "work/docs/rules"])
def test_an_ignore_file_may_be_written_by_another_name(world: Callable[[int], World], other: str) -> None:
    here = world(8)
    rules, name = here.root / "src/.ignore", here.root.parent / other
    rules.write_text("*.log\n", encoding="utf-8")
    os.link(rules, name)
    (here.root / "src/brand.log").write_text("brandnew\n", encoding="utf-8")
    for _ in range(3):
        compare(here, {"pattern": "brandnew"}, "watched from now on")
    for text, files in (("", ["src/brand.log"]), ("*.log\n", [])):
        name.write_text(text, encoding="utf-8")
        assert here.on.call("Grep", {"pattern": "brandnew"}).data["files"] == files


def test_nothing_of_a_secret_file_is_in_the_index(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "plain.txt").write_text("ordinary words\n", encoding="utf-8")
    (root / ".handrailignore").write_text("private.txt\nvault/\n", encoding="utf-8")
    for name in ("vault", "below", "below/vaults"):
        (root / name).mkdir()
    (root / "below/.aiignore").write_text("/vaults/\n", encoding="utf-8")
    for name in ("private.txt", "vault/inner.txt", "below/vaults/inner.txt", "server.pem", "id_rsa", ".env"):
        (root / name).write_text("ordinary words\n", encoding="utf-8")
    os.link(root / "server.pem", root / "below/othername.txt")
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
        assert all(name not in raw for name in (b"private", b"inner", b"server", b"id_rsa", b"othername"))
        assert os.stat(path).st_mode & 0o777 == 0o600
        for _ in range(3):
            assert session.call("Grep", {"pattern": "ordinary"}).data["files"] == ["plain.txt"]


@pytest.mark.parametrize("limit", ["SLOW_FILES", "SLOW_BYTES"])
def test_a_session_builds_an_index_after_a_search_of_much(
    world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    here = world(3)
    for path in here.indexes.store.paths():
        here.indexes.store.drop(path)
    here.ask(here.on, "Grep", {"pattern": "needle"})
    assert not here.indexes.store.paths()
    monkeypatch.setattr(use, limit, 10)
    here.ask(here.on, "Grep", {"pattern": "needle"})
    here.indexes.wait()
    assert len(here.indexes.store.paths()) == 1


def test_a_process_that_ends_leaves_an_index_to_be_completed(tmp_path: Path) -> None:
    root, state = tmp_path / "work", tmp_path / "state"
    root.mkdir()
    for number in range(20):
        (root / f"{number}.txt").write_text("needle\n", encoding="utf-8")
    script = f"""
import os
from handrail import Session, Settings
from handrail.search.index import use
use.SLOW_FILES = 10
with Session({str(root)!r}, settings=Settings(state={str(state)!r}), journal=None) as session:
    assert session.call("Grep", {{"pattern": "needle"}}).ok
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    (lock,) = (state / "index").glob("*.lock")
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # the builder has it until the index is there
    assert len(list((state / "index").glob("*.index"))) == 1


def test_the_oldest_indexes_are_deleted_when_they_take_too_much_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        path = tmp_path / f"{number}.index"
        path.write_bytes(b"x" * 100)
        os.utime(path, (number, number))
    monkeypatch.setattr(limits, "MOST_BYTES", 250)
    limits.delete_oldest(keep=str(tmp_path / "0.index"))
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
