"""One row a call: what was asked, what was decided, what came of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from handrail.files.versions import hash_bytes
from handrail.journal import BeforeImage, PendingRecord, Record
from handrail.journal.log_lines import get_logs_path
from handrail.journal.logs import OldContents
from handrail.journal.queries import JournalReader
from handrail.journal.records import IN_SCRIPT
from handrail.journal.store import SqliteJournal
from handrail.model import Call, Result
from tests.journal.wired import Wired

Make = Callable[..., Wired]


def test_a_change_is_written_down_with_hashes_modes_diff_and_verdict(wired: Make, project: Path) -> None:
    (project / "a").write_bytes(b"one\n")
    (project / "a").chmod(0o604)
    session = wired()
    session.call("Read", {"file_path": "a"})
    session.call("Edit", {"file_path": "a", "old_string": "one", "new_string": "two"}, id="toolu_1")
    with JournalReader(session.kept.path) as reader:
        row = reader.find_call("toolu_1")
        assert row
        (file,) = reader.read_files(row.seq)
    assert (row.seq, row.tool, row.session, row.dialect, row.status, row.error) == (
        2,
        "Edit",
        "s",
        "native",
        "ok",
        None,
    )
    assert row.workspace == os.path.realpath(project)
    assert row.arguments == {"file_path": "a", "old_string": "one", "new_string": "two"}
    assert row.accesses == [["write", "a", str(project / "a")]]
    assert (row.decision, row.rule) == ("allow", "AllowAll")
    assert row.diff
    assert "-one\n+two\n" in row.diff
    assert row.duration is not None
    assert row.output
    assert (file.path, file.before, file.after) == (str(project / "a"), hash_bytes(b"one\n"), hash_bytes(b"two\n"))
    assert (file.before_mode, file.after_mode) == (0o604, 0o604)


def test_refusals_and_failures_are_written_down_too(wired: Make) -> None:
    session = wired()
    session.call("Read", {"file_path": "../outside"})
    session.call("Read", {"file_path": "missing"})
    session.call("Nothing", {"x": 1})
    session.call("Read", "{not json")
    session.call("Read", {"file_path": "a\ud800b"})
    rows = session.rows()
    assert [(row.status, row.error) for row in rows] == [
        ("denied", "outside_workspace"),
        ("error", "not_found"),
        ("error", "unknown_tool"),
        ("error", "bad_json"),
        ("error", "bad_path"),
    ]
    assert rows[0].arguments == {"file_path": "../outside"}
    assert session.both.warning == ""


def test_deep_and_odd_arguments_are_written_down_somehow(wired: Make) -> None:
    session = wired()
    deep: object = "x"
    for _ in range(3000):
        deep = [deep]
    for odd in (deep, float("nan"), b"bytes", {1, 2}, {"k": object()}, "\x00", 10**400):
        session.call("Read", {"file_path": "a", "odd": odd})
        assert session.both.warning == ""
    assert len(session.rows()) == 7


def test_the_journal_is_for_its_owner_alone(wired: Make, journal: SqliteJournal) -> None:
    old = os.umask(0)
    try:
        session = wired()
        session.call("Write", {"file_path": "a", "content": "x"})
        session.undo()
        for file in Path(journal.path).parent.rglob("*"):
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
        assert stat.S_IMODE(Path(journal.path).parent.stat().st_mode) == 0o700
    finally:
        os.umask(old)


def test_a_content_is_kept_once(wired: Make, journal: SqliteJournal, project: Path) -> None:
    raw = b"the same line\n" * 1000
    session = wired()
    for name in ("a", "b"):
        (project / name).write_bytes(raw)
        session.call("Read", {"file_path": name})
        assert session.call("Write", {"file_path": name, "content": "new\n"}).status == "ok"
    with JournalReader(journal.path) as reader:
        use = reader.measure_use()
        assert (use.count, use.size) == (1, len(raw))
        assert reader.read_images([hash_bytes(raw)]) == {hash_bytes(raw): raw}


def test_images_stay_within_their_budget_and_the_newest_stay(wired: Make, project: Path, tmp_path: Path) -> None:
    small = SqliteJournal(str(tmp_path / "small.db"), budget=20_000)
    session = wired(journal=small)
    (project / "f").write_bytes(b"start")
    for number in range(20):
        text = os.urandom(2_000).hex() + f" {number}"
        session.call("Read", {"file_path": "f"})
        assert session.call("Write", {"file_path": "f", "content": text}).status == "ok"
        with JournalReader(small.path) as reader:
            assert reader.measure_use().size <= 20_000
    was = (project / "f").read_bytes()
    session.call("Read", {"file_path": "f"})
    session.call("Write", {"file_path": "f", "content": "last"})
    assert not session.undo().missing
    assert (project / "f").read_bytes() == was
    first = next(row.seq for row in session.rows() if row.tool == "Write")
    assert session.undo(since=first).missing == (str(project / "f"),)
    small.close()


def test_an_image_that_rotted_is_not_given_out(wired: Make, journal: SqliteJournal, project: Path) -> None:
    (project / "f").write_bytes(b"start")
    session = wired()
    session.call("Read", {"file_path": "f"})
    session.call("Write", {"file_path": "f", "content": "x"})
    contents = OldContents(get_logs_path(journal.path))
    Path(contents.get_path(hash_bytes(b"start"))).write_bytes(b"other")
    assert contents.load([hash_bytes(b"start")]) == {}
    assert session.undo().missing == (str(project / "f"),)


def test_figures_are_counted_for_each_tool(wired: Make, journal: SqliteJournal, project: Path) -> None:
    (project / "f").write_text("äöü\n", encoding="utf-8")
    session = wired()
    texts = [session.call("Read", {"file_path": name}).text for name in ("f", "missing", "../x", "f")]
    with JournalReader(journal.path) as reader:
        (one,), codes = reader.compute_stats()
        assert reader.compute_stats(session="other") == ([], {})
    assert (one.tool, one.calls, one.failures, one.refusals) == ("Read", 4, 1, 1)
    assert one.chars_out == sum(map(len, texts))
    assert one.bytes_out == sum(len(text.encode("utf-8")) for text in texts)
    assert codes == {"not_found": 1, "outside_workspace": 1} and one.chars_saved == 0


def test_what_answers_leave_out_and_what_scripts_read_is_counted_as_saved(
    wired: Make, journal: SqliteJournal, project: Path
) -> None:
    whole = "".join(f"line {number} of a long file\n" for number in range(10_000))
    (project / "long").write_text(whole, encoding="utf-8")
    session = wired()
    page = session.call("Read", {"file_path": "long"}).text
    part = session.call("Read", {"file_path": "long", "offset": 3, "limit": 2}).text
    output = session.call("Bash", {"command": "seq 20000"}).text
    script = Result("Read", "ok", "x" * 500)
    journal.record(Record(Call("Read", {}, f"{IN_SCRIPT}7/1"), (), None, result=script))
    with JournalReader(journal.path) as reader:
        figures = {one.tool: one for one in reader.compute_stats()[0]}
    numbers = "".join(f"{number}\n" for number in range(1, 20_001))
    assert figures["Bash"].chars_out == len(output) and figures["Bash"].chars_saved == len(numbers) - len(output)
    assert figures["Read"].calls == 3 and figures["Read"].chars_out == len(page) + len(part)
    left = figures["Read"].chars_saved - 500
    assert abs(left - (len(whole) - len(page))) < len(whole) / 4, left


def test_a_change_that_is_tried_again_has_one_row_with_what_was_tried_last(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    call, path = Call("Write", {"file_path": "f"}), tmp_path / "f"
    token = None
    for text in (b"first", b"second"):
        token = journal.begin(PendingRecord(call, (), None, [BeforeImage(str(path), text, 0o644)]), token)
    path.write_bytes(b"after")
    assert journal.record(Record(call, (), None, result=Result("Write", "ok", ""), token=token)) == ""
    with JournalReader(journal.path) as reader:
        (row,) = reader.read_calls()
        (file,) = reader.read_files(row.seq)
        assert (file.before, file.after) == (hash_bytes(b"second"), hash_bytes(b"after"))
        assert reader.verify() is None


def test_contents_that_are_too_big_to_keep_are_named_at_once(tmp_path: Path) -> None:
    journal = SqliteJournal(str(tmp_path / "small.db"), budget=1_000)
    items = [BeforeImage("/a", os.urandom(2_000), 0o644), BeforeImage("/b", b"small", 0o644)]
    assert journal.begin(PendingRecord(Call("Write", {}), (), None, items)).unkept == ("/a",)
    journal.close()
