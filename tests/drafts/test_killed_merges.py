"""A merge that is killed at any call leaves the workspace as it is, and has the same result when it is repeated."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from handrail.drafts.changes import ChangeReader
from handrail.drafts.compare import compare
from handrail.drafts.keep import keep, recover
from handrail.drafts.layout import DraftDirectory, read_clock, remove_tree
from handrail.drafts.three_way import save_bases
from handrail.pipeline.merging import merge_draft, read_conflicts, resolve_conflicts, resolve_overlaps
from tests.drafts.test_kills import count_calls, kill_at
from tests.sizes import pick

LINES = "".join(f"line {number}\n" for number in range(1, 11))
NAMES = ("a.txt", "b.txt")


@pytest.fixture(autouse=True)
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed merge leaves behind goes with the test. The person's merge tool takes the lines of both."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    both = json.dumps("sed -E -i '/^[<=>]{7}/d' \"$MERGED\"")
    (tmp_path / ".gitconfig").write_text(
        f'[merge]\n\ttool = both\n[mergetool]\n\tprompt = false\n[mergetool "both"]\n\ttrustExitCode = true\n'
        f"\tcmd = {both}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("HOME", str(tmp_path))


def make(folder: Path, theirs: str) -> DraftDirectory:
    """A draft of two files that something else has changed, too."""
    for name in ("workspace", "draft"):
        if (folder / name).exists():
            remove_tree(str(folder / name))
    workspace = folder / "workspace"
    workspace.mkdir()
    for name in NAMES:
        (workspace / name).write_text(LINES, encoding="utf-8")
    draft = DraftDirectory.create(str(folder / "draft"), str(workspace))
    for name in NAMES:
        Path(draft.upper, name).write_text(LINES.replace("line 2\n", "ours\n"), encoding="utf-8")
    save_bases(draft)
    for name in NAMES:
        (workspace / name).write_text(LINES.replace(theirs, "theirs\n"), encoding="utf-8")
    return draft


def merge(draft: DraftDirectory) -> None:
    comparison = compare(draft)
    if comparison.conflicts:
        with ChangeReader(draft) as reader:
            changes = reader.list(comparison)
        merge_draft(draft, comparison, changes)


def merge_and_keep(draft: DraftDirectory) -> None:
    merge(draft)
    keep(draft)


def read(draft: DraftDirectory) -> list[str]:
    return [Path(draft.info.workspace, name).read_text(encoding="utf-8") for name in NAMES]


def resolve_on_page(draft: DraftDirectory) -> None:
    """What the page does with "both" for each overlap."""
    time = read_clock(draft.path)
    conflicts = read_conflicts(draft, compare(draft))
    resolve_overlaps(draft, [(one, ["both"] * len(one.overlaps)) for one in conflicts], time)


MERGED = LINES.replace("line 2\n", "ours\n").replace("line 9\n", "theirs\n")
BOTH = LINES.replace("line 2\n", "ours\ntheirs\n")
MARKED = LINES.replace("line 2\n", "<<<<<<< draft\nours\n=======\ntheirs\n>>>>>>> workspace\n")
WAYS: dict[str, tuple[Callable[[DraftDirectory], object], str, str]] = {
    "merge": (merge, "line 9\n", MERGED),
    "ours": (partial(resolve_conflicts, side="ours"), "line 2\n", LINES.replace("line 2\n", "ours\n")),
    "theirs": (partial(resolve_conflicts, side="theirs"), "line 2\n", LINES.replace("line 2\n", "theirs\n")),
    "markers": (partial(resolve_conflicts, side="merge"), "line 2\n", MARKED),
    "tool": (partial(resolve_conflicts, side="tool"), "line 2\n", BOTH),
    "page": (resolve_on_page, "line 2\n", BOTH),
}


def choose_points(calls: int) -> range:
    """Calls at even distances: there are thousands, most of which ask git."""
    return range(0, calls, max(1, calls // pick(15, 200)))


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_a_killed_resolution_changes_no_workspace_and_can_be_repeated(name: str, tmp_path: Path) -> None:
    work, theirs, expected = WAYS[name]
    calls = count_calls(partial(work, make(tmp_path, theirs)))
    assert calls > 10
    for call in choose_points(calls):
        draft = make(tmp_path, theirs)
        before = read(draft)
        kill_at(partial(work, draft), call)
        assert read(draft) == before, f"killed before call {call}"
        draft = DraftDirectory.open(draft.path)
        work(draft)
        keep(draft)
        assert read(draft) == [expected, expected], f"killed before call {call}"


@pytest.mark.slow
def test_a_killed_keep_of_a_merge_is_whole_or_not_at_all(tmp_path: Path) -> None:
    calls = count_calls(partial(merge_and_keep, make(tmp_path, "line 9\n")))
    for call in choose_points(calls):
        draft = make(tmp_path, "line 9\n")
        before = read(draft)
        kill_at(partial(merge_and_keep, draft), call)
        draft = DraftDirectory.open(draft.path)
        if not recover(draft) and draft.state == "open":
            assert read(draft) == before, f"killed before call {call}"
            merge_and_keep(draft)
        assert read(draft) == [MERGED, MERGED], f"killed before call {call}"
