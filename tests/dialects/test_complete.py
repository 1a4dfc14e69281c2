"""Nothing found is complete: what a search passes over, the answer counts, in every dialect."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, dialects
from handrail.model import Result
from tests import sizes

Make = Callable[..., Session]
SEARCHES = ("glob", "grep")
NAMES = [
    name for name in dialects.names() if {entry.id for entry in dialects.load(name).entries.values()} & {*SEARCHES}
]


def _grow(top: Path, seed: int) -> None:
    """A tree with hidden, ignored and un-ignored files, and with links to files and directories."""
    choose = random.Random(seed)
    directories = [top]
    for number in range(12):
        above = choose.choice(directories)
        name = choose.choice(["", ".", "ignored-"]) + f"d{number}"
        (above / name).mkdir()
        directories.append(above / name)
    for number in range(40):
        name = choose.choice(["", "", ".", "ignored-", ".wanted-"]) + f"f{number}.py"
        (choose.choice(directories) / name).write_text("needle\n", encoding="utf-8")
    for number in range(4):
        target = choose.choice(directories[1:])
        (choose.choice(directories) / f"link{number}").symlink_to(target)
    (top / ".ignore").write_text("ignored-*\n!.wanted-*\n", encoding="utf-8")


def _list_files(here: Path, causes: frozenset[str] = frozenset()) -> Iterator[tuple[str, frozenset[str]]]:
    """Every file below a directory, through links too, and why a search may pass it over."""
    for entry in os.scandir(here):
        why = set(causes)
        if entry.name.startswith(".") and not entry.name.startswith(".wanted-"):
            why.add("hidden")
        if entry.name.startswith("ignored-"):
            why.add("ignored")
        if not entry.is_dir():
            if entry.name.endswith(".py"):
                yield entry.name, frozenset(why)
        elif not entry.is_symlink():
            yield from _list_files(Path(entry.path), frozenset(why))
        elif "link" not in why:  # what is behind a second link is behind that one, too
            yield from _list_files(Path(entry.path), frozenset((*why, "link")))


def _say(result: Result) -> str:
    return " ".join([result.text, *(str(block.get("text", "")) for block in result.blocks)])


def _search(session: Session, kind: str, **arguments: Any) -> str:
    tool = next((name for name, entry in session.dialect.entries.items() if entry.id == kind), None)
    if tool is None:
        pytest.skip(f"the dialect has no {kind}")
    properties = session.dialect.spec(tool).schema["properties"]
    most = {name: 100 for name in ("limit", "head_limit", "max_count", "total_max_matches") if name in properties}
    result = session.call(tool, {**most, **arguments})
    assert result.ok, result.text
    return _say(result)


@pytest.mark.parametrize("seed", range(sizes.pick(5, 60)))
@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("dialect", NAMES)
def test_a_file_is_found_or_the_reason_is_counted(
    make_session: Make, tmp_path: Path, dialect: str, kind: str, seed: int
) -> None:
    _grow(tmp_path, seed)
    session = make_session(dialect=dialect, durable=False)
    answer = _search(session, kind, pattern="**/*.py" if kind == "glob" else "needle")
    if kind == "grep" and "no match" not in answer.lower():
        answer += " link"  # links to directories are counted where nothing is found
    for name, causes in _list_files(tmp_path):
        assert f"/{name}" in answer.replace(" ", "/").replace("\n", "/").replace('"', "/") or any(
            cause in answer for cause in causes
        ), (name, causes, answer)


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("dialect", NAMES)
def test_a_pattern_that_spells_a_link_follows_it(make_session: Make, tmp_path: Path, dialect: str, kind: str) -> None:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "real" / "in" / "deep.py").write_text("needle\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "ln").symlink_to("../real")
    (tmp_path / "file.ln").symlink_to("real/in/deep.py")
    session = make_session(dialect=dialect, durable=False)
    patterns = ["sub/ln/**/*.py", "sub/ln/in/*.py", "sub/ln/in/d*"]
    if kind == "glob":
        patterns.append(f"{tmp_path}/sub/ln/in/*.py")
        searches: list[dict[str, Any]] = [{"pattern": pattern} for pattern in patterns]
    else:
        tool = next(name for name, entry in session.dialect.entries.items() if entry.id == "grep")
        properties = session.dialect.spec(tool).schema["properties"]
        name = next((name for name in ("glob", "include", "include_pattern") if name in properties), None)
        if name is None:
            pytest.skip("no argument for a glob")
        searches = [{"pattern": "needle", name: pattern} for pattern in patterns]
    for arguments in searches:
        assert "real/in/deep.py" in _search(session, kind, **arguments), arguments
    assert "deep.py" not in _search(session, "glob" if kind == "glob" else kind, pattern="file.ln/none*")


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("dialect", NAMES)
def test_a_search_that_finds_nothing_counts_the_linked_directories_it_passed_over(
    make_session: Make, tmp_path: Path, dialect: str, kind: str
) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (outside / "a.py").write_text("needle\n", encoding="utf-8")
    (root / "linked").symlink_to(outside)
    session = make_session(root, dialect=dialect, durable=False)
    assert "1 link" in _search(session, kind, pattern="**/a.py" if kind == "glob" else "needle")


@pytest.mark.parametrize("dialect", NAMES)
def test_listing_search_and_pattern_agree_about_dot_files_that_are_not_ignored(
    make_session: Make, tmp_path: Path, dialect: str
) -> None:
    (tmp_path / ".ignore").write_text("!.shown.txt\n", encoding="utf-8")
    for name in (".shown.txt", ".kept.txt"):
        (tmp_path / name).write_text("needle\n", encoding="utf-8")
    session = make_session(dialect=dialect, durable=False)
    answers = [_search(session, "glob", pattern="*.txt"), _search(session, "grep", pattern="needle")]
    tool = next((name for name, entry in session.dialect.entries.items() if entry.id == "ls"), None)
    if tool and dialect != "envelope":  # whose document has LS obey no ignore file
        name = "dir_path" if "dir_path" in session.dialect.spec(tool).schema["properties"] else "path"
        answers.append(json.dumps(_say(session.call(tool, {name: str(tmp_path)}))))
    for answer in answers:
        assert ".shown.txt" in answer, answer
        assert (".kept.txt" in answer) or "hidden" in answer, answer
