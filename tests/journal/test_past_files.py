"""A file as of any call, and what changed between any two, against the trees that were there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.journal.call_changes import iterate_changing_calls
from handrail.journal.past_files import ContentsGone, make_net_diff, read_past
from handrail.journal.queries import JournalReader
from tests.command import handrail
from tests.journal.test_redo import NAMES, Tree, make_call, read_files
from tests.sizes import pick


@pytest.mark.parametrize("seed", range(pick(4, 60)))
def test_any_file_as_of_any_call_and_the_diff_between_any_two(tmp_path: Path, seed: int) -> None:
    chance, project = random.Random(seed), tmp_path / "project"
    (project / "d").mkdir(parents=True)
    (project / "a").write_text("one\ntwo\n", encoding="utf-8")
    trees: dict[int, Tree] = {}
    with Session(project, mode="full", settings=Settings(durable=False, raise_bugs=True)) as session:
        path = session.journal.path  # type: ignore[attr-defined] # a SQLite journal
        session.call("LS", {})
        for _ in range(8):
            make_call(session, chance)
            with JournalReader(path) as reader:
                trees[reader.find_last_call()] = read_files(project)
    with JournalReader(path) as reader:
        for seq, files in trees.items():
            past = {name: read_past(reader, str(project / name), seq) for name in NAMES}
            assert past == {name: files[name][1] if name in files else None for name in NAMES}
        first, last = sorted(chance.sample(sorted(trees), 2))
        for end in (last, None):
            changes = list(iterate_changing_calls(reader, first=first + 1, before=end and end + 1))
            diff = make_net_diff(reader, changes, str(project), end)
            now = trees[last] if end else read_files(project)
            changed = {name for name in NAMES if trees[first].get(name, (0, b""))[1] != now.get(name, (0, b""))[1]}
            assert {name for name in NAMES if f"--- {name}\n" in diff or f"+++ {name}\n" in diff} == changed


def test_show_and_diff_print_what_was_there(project: Path) -> None:
    for text in ("one\n", "two\n", "three\n"):
        handrail(
            "call",
            "Write",
            *(["--read-first"] if text != "one\n" else []),
            "file_path=x",
            f"content={text}",
            cwd=project,
        )
    assert (project / "x").read_bytes() == b"three\n"
    numbers = [int(line.split()[0]) for line in handrail("log", cwd=project).stdout.splitlines() if b"Write" in line]
    shown = [handrail("show", str(number), "x", cwd=project).stdout for number in numbers]
    assert shown == [b"one\n", b"two\n", b"three\n"]
    assert handrail("show", str(numbers[0]), "y", cwd=project).returncode == 1
    between = handrail("diff", f"{numbers[0]}..{numbers[1]}", cwd=project).stdout
    assert b"-one" in between and b"+two" in between and b"three" not in between
    assert b"+three" in handrail("diff", str(numbers[0]), cwd=project).stdout
    assert handrail("diff", str(numbers[2]), cwd=project).stdout == b""
    for wrong in ("..", "1..2..3", "..3", "999"):
        assert handrail("diff", wrong, cwd=project).returncode == 2


def test_contents_that_are_gone_are_said_to_be(tmp_path: Path) -> None:
    with Session(tmp_path, settings=Settings(durable=False)) as session:
        session.call("Write", {"file_path": "x", "content": "one"})
        (tmp_path / "x").write_text("mine", encoding="utf-8")
        path = session.journal.path  # type: ignore[attr-defined] # a SQLite journal
        with JournalReader(path) as reader, pytest.raises(ContentsGone, match="not in the journal"):
            read_past(reader, str(tmp_path / "x"), reader.find_last_call())
