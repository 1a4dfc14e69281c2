"""The comparison with other tools: its cases mean what they say, and Handrail answers every one of them right."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.peers.__main__ import PEERS, ROWS, judge_edits
from benchmarks.peers.cases import list_cases
from benchmarks.peers.connections import Connection


def test_every_case_changes_the_file_or_must_be_refused() -> None:
    cases = list(list_cases())
    assert len({case.kind for case in cases}) == 12
    for case in cases:
        compile(case.before, "app.py", "exec")
        assert case.wanted != case.before and (case.wanted is None) == case.kind.endswith(": refuse"), case.kind
        if case.wanted:
            compile(case.wanted, "app.py", "exec")


def test_handrail_makes_or_refuses_every_edit_as_it_must(tmp_path: Path) -> None:
    ours = PEERS[0]
    place = tmp_path / "work"
    place.mkdir()
    right, wrong, refused = judge_edits(lambda: Connection(ours.command(tmp_path, place), place), place)
    assert (right, wrong, refused) == (len(list(list_cases())), 0, 0)


def test_the_page_has_a_table_with_a_version_of_each_peer() -> None:
    page = (Path(__file__).parents[1] / "docs" / "peers.md").read_text(encoding="utf-8")
    for peer in PEERS[1:]:
        assert f"{peer.name} {peer.version}" in page
    assert all(f"| {row} |" in page for row in ROWS)
    assert not page.count(sys.prefix)
