"""The pipeline: policy, approval, preview, journal, what a result says, and that nothing leaks or wedges."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handrail import Access, FileAccess, Question, Record, Result, Session, ToolError, Verdict
from handrail.files.commit import check_replaced
from handrail.journal import NoJournal
from handrail.model import as_json
from handrail.pipeline.call_state import Progress
from handrail.pipeline.session import run_and_commit
from handrail.text.document import Splice
from handrail.tools.tool import Outcome

Make = Callable[..., Session]


class Rule:
    """A policy with one answer, which remembers what it was asked."""

    def __init__(self, decision: Any, why: str = "the test says so") -> None:
        self.verdict = Verdict(decision, "test-rule", why)
        self.asked: list[tuple[Access, ...]] = []

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        self.asked.append(tuple(accesses))
        return self.verdict


class Kept(NoJournal):
    """A journal in a list."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def record(self, record: Record) -> str:
        self.records.append(record)
        return ""


def write(session: Session, name: str, content: str) -> Result:
    return session.call("Write", {"file_path": name, "content": content})


def edit(session: Session, name: str, old: str, new: str) -> Result:
    return session.call("Edit", {"file_path": name, "old_string": old, "new_string": new})


def test_the_example_of_the_package_works(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Hello\n", encoding="utf-8")
    with Session(tmp_path) as session:
        result = session.call("Read", {"file_path": "README.md"})
    assert (result.text, result.status, result.notes) == ("1\t# Hello", "ok", ())
    assert result.blocks == ({"type": "text", "text": result.text},)


def test_the_id_of_a_call_comes_back(make_session: Make) -> None:
    assert make_session().call("Read", {"file_path": "nothing"}, id="call-7").id == "call-7"


def test_a_result_is_plain_json(make_session: Make, tmp_path: Path) -> None:
    session = make_session(durable=False)
    for result in (write(session, "a", "x\n"), edit(session, "a", "x", "y"), edit(session, "a", "q", "z")):
        answer = json.loads(json.dumps(as_json(result)))
        assert set(answer) == {
            "id",
            "tool",
            "status",
            "text",
            "blocks",
            "data",
            "notes",
            "error",
            "accesses",
            "stats",
            "advice",
        }
        assert answer["accesses"] == [{"action": "write", "target": "a", "path": str(tmp_path / "a")}]
        assert answer["stats"]["time_ms"] > 0
    assert answer["error"] == {"code": "no_match", "message": result.text}


# Policy and approval


def test_a_policy_sees_the_real_path_and_not_the_tool(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("x", encoding="utf-8")
    (tmp_path / "link").symlink_to("real.txt")
    rule = Rule("allow")
    session = make_session(policy=rule)
    session.call("Read", {"file_path": "link"})
    assert rule.asked == [(FileAccess("read", "link", str(tmp_path / "real.txt")),)]


def test_a_denied_call_changes_nothing_and_says_why(make_session: Make, tmp_path: Path) -> None:
    result = write(make_session(policy=Rule("deny", "no writing on Sundays")), "a.txt", "x")
    assert (result.status, result.error and result.error.code) == ("denied", "denied")
    assert "no writing on Sundays" in result.text
    assert list(tmp_path.iterdir()) == []


def test_a_call_that_must_be_asked_for_is_denied_when_nobody_can_be_asked(make_session: Make, tmp_path: Path) -> None:
    result = write(make_session(policy=Rule("ask")), "a.txt", "x")
    assert (result.status, result.error and result.error.code) == ("denied", "needs_approval")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("answer", [True, False])
def test_a_sync_approval_decides(make_session: Make, tmp_path: Path, answer: bool) -> None:
    seen: list[str] = []

    def approve(question: Question) -> bool:
        seen.append(question.preview())
        assert not (tmp_path / "a.txt").exists()
        return answer

    result = write(make_session(policy=Rule("ask"), approve=approve), "a.txt", "x\n")
    assert result.status == ("ok" if answer else "denied")
    assert (tmp_path / "a.txt").exists() is answer
    assert seen == ["--- /dev/null\n+++ a.txt\n@@ -0,0 +1 @@\n+x\n"]


@pytest.mark.parametrize("answer", [True, False])
def test_an_async_approval_decides(make_session: Make, tmp_path: Path, answer: bool) -> None:
    async def approve(question: Question) -> bool:
        await asyncio.sleep(0)
        return answer

    result = write(make_session(policy=Rule("ask"), approve=approve), "a.txt", "x")
    assert (result.status, (tmp_path / "a.txt").exists()) == (("ok", True) if answer else ("denied", False))


def test_an_async_approval_decides_also_inside_a_running_loop(make_session: Make, tmp_path: Path) -> None:
    async def approve(question: Question) -> bool:
        await asyncio.sleep(0)
        return True

    session = make_session(policy=Rule("ask"), approve=approve, raise_bugs=False)

    async def host() -> Result:
        return write(session, "a.txt", "x")

    assert asyncio.run(host()).status == "ok"


def test_approval_is_not_asked_for_what_is_allowed_or_denied(make_session: Make) -> None:
    for decision in ("allow", "deny"):
        session = make_session(policy=Rule(decision), approve=lambda _: pytest.fail("asked"))
        write(session, f"{decision}.txt", "x")


def test_an_allowed_call_outside_the_workspace_is_still_refused(make_session: Make, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    rule = Rule("allow")
    result = write(make_session(inside, policy=rule), str(tmp_path / "a.txt"), "x")
    assert (result.error and result.error.code, rule.asked) == ("outside_workspace", [])
    assert not (tmp_path / "a.txt").exists()


# Question


def test_a_preview_shows_the_diff_and_changes_nothing(make_session: Make, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    session = make_session()
    session.call("Read", {"file_path": "a.txt"})
    before = path.stat()
    prepared = session.prepare("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2"})
    assert prepared.preview() == "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert path.read_text(encoding="utf-8") == "one\ntwo\n"
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert prepared.accesses == (FileAccess("write", "a.txt", str(path)),)
    assert prepared.verdict.decision == "allow"


def test_a_preview_raises_what_the_run_would_raise(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    prepared = make_session().prepare("Edit", {"file_path": "a.txt", "old_string": "on", "new_string": "2"})
    with pytest.raises(ToolError) as caught:
        prepared.preview()
    assert caught.value.code == "not_seen"


def test_a_preview_of_a_read_does_not_count_as_reading(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session = make_session()
    session.prepare("Read", {"file_path": "a.txt"}).preview()
    result = write(session, "a.txt", "two\n")
    assert result.error and result.error.code == "not_seen"


def test_prepare_raises_what_stops_a_call_before_it_is_judged(make_session: Make) -> None:
    with pytest.raises(ToolError) as caught:
        make_session().prepare("Nonsense", {})
    assert caught.value.code == "unknown_tool"


# Journal


def test_every_call_is_recorded_once_refusals_included(make_session: Make, tmp_path: Path) -> None:
    journal = Kept()
    session = make_session(journal=journal, durable=False)
    results = [
        session.call("Nonsense", {}),
        session.call("Read", "not json"),
        session.call("Read", {}),
        session.call("Read", {"file_path": "/etc/passwd"}),
        session.call("Read", {"file_path": "missing"}),
        write(session, "a.txt", "one\n"),
    ]
    assert [record.result for record in journal.records] == results
    codes = [record.result.error and record.result.error.code for record in journal.records]
    assert codes == ["unknown_tool", "bad_json", "bad_arguments", "outside_workspace", "not_found", None]


def test_a_refusal_is_recorded_with_what_it_wanted(make_session: Make) -> None:
    journal = Kept()
    make_session(journal=journal).call("Read", {"file_path": "/etc/passwd"}, id="7")
    (record,) = journal.records
    assert record.accesses == (FileAccess("read", "/etc/passwd"),)
    assert record.verdict is None
    assert (record.call.tool, record.call.arguments, record.call.id) == ("Read", {"file_path": "/etc/passwd"}, "7")


def test_a_denial_is_recorded_with_its_verdict(make_session: Make, tmp_path: Path) -> None:
    journal, rule = Kept(), Rule("deny")
    write(make_session(journal=journal, policy=rule), "a.txt", "x")
    (record,) = journal.records
    assert record.verdict == rule.verdict
    assert record.accesses == (FileAccess("write", "a.txt", str(tmp_path / "a.txt")),)
    assert record.changes == ()


def test_a_change_is_recorded_with_the_contents_before(make_session: Make, tmp_path: Path) -> None:
    journal = Kept()
    session = make_session(journal=journal, durable=False)
    write(session, "a.txt", "one\n")
    edit(session, "a.txt", "one", "two")
    created, edited = (record.changes[0] for record in journal.records)
    assert (created.before, created.after) == (None, b"one\n")
    assert edited.before and (edited.before.raw, edited.after) == (b"one\n", b"two\n")


def test_a_fault_of_ours_is_a_recorded_failure_with_its_traceback(make_session: Make) -> None:
    class Broken:
        def judge(self, accesses: Sequence[Access]) -> Verdict:
            raise ZeroDivisionError("oh")

    journal = Kept()
    session = make_session(policy=Broken(), journal=journal, raise_bugs=False)
    result = write(session, "a.txt", "x")
    assert (result.status, result.error and result.error.code) == ("error", "internal_error")
    assert "ZeroDivisionError" in journal.records[0].traceback
    with pytest.raises(ZeroDivisionError):
        write(make_session(policy=Broken()), "a.txt", "x")


# What a result says


def test_an_answer_is_partial_if_and_only_if_it_carries_a_note(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("x\n" * 5000, encoding="utf-8")
    (tmp_path / "wide.txt").write_text("x" * 5000, encoding="utf-8")
    (tmp_path / "plain.txt").write_text("x\n", encoding="utf-8")
    session = make_session()
    for name, status in (("long.txt", "partial"), ("wide.txt", "partial"), ("plain.txt", "ok")):
        result = session.call("Read", {"file_path": name})
        assert (result.status, bool(result.notes)) == (status, status == "partial"), name
        assert all(note.code and note.text and note.text in result.text for note in result.notes)


def test_what_the_last_bound_leaves_out_is_said_where_the_model_reads_it(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0123456789\n" * 500, encoding="utf-8")
    result = make_session(answer_chars=1000).call("Read", {"file_path": "a.txt"})
    assert result.status == "partial"
    assert [note.code for note in result.notes] == ["answer_cut"]
    assert result.notes[0].text in result.text
    assert len(result.text) < 1300


def test_the_session_goes_on_after_every_kind_of_failure(make_session: Make, tmp_path: Path) -> None:
    session = make_session()
    for tool, arguments in (("X", {}), ("Read", "{"), ("Read", {}), ("Edit", {"file_path": 3}), ("Read", None)):
        assert session.call(tool, arguments).status == "error"
    (tmp_path / "a.txt").write_text("fine\n", encoding="utf-8")
    assert session.call("Read", {"file_path": "a.txt"}).status == "ok"


# Nothing leaks


def descriptors() -> int:
    check_replaced()  # files that were replaced stay open for a moment
    gc.collect()  # what another test left to the collector is not ours to count
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to count descriptors")
def test_two_thousand_mixed_calls_leave_no_descriptor_and_no_temporary_file(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "bin").write_bytes(b"\0\1\2")
    (tmp_path / "cr.txt").write_bytes(b"a\rb\r")
    (tmp_path / "out").symlink_to("/etc/passwd")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "one").write_text("x", encoding="utf-8")
    os.link(tmp_path / "one", tmp_path / "two")
    (tmp_path / "big").write_bytes(b"line\n" * 300_000)
    session = make_session(durable=False)
    session.call("Read", {"file_path": "one"})

    def round_of_calls(number: int) -> set[str]:
        results = [
            session.call("Read", {"file_path": name})
            for name in (
                "dir",
                "bin",
                "cr.txt",
                "out",
                "loop",
                "pipe",
                "missing",
                "a/b",
                "big",
                "../x",
                "~/x",
                "n" * 300,
            )
        ]
        assert session.prepare("Write", {"file_path": "fresh", "content": "x"}).preview()
        results += [
            session.call("Read", {"file_path": "big", "offset": 1000 + number}),
            session.call("Read", {"file_path": "cr.txt", "offset": 9}),
            write(session, "two", "y"),
            write(session, f"new/{number % 7}/f", f"{number}\n"),
            write(session, "cr.txt/x", "y"),
            edit(session, "cr.txt", "b", "c" if number % 2 else "b"),
            edit(session, "missing", "b", "c"),
            write(session, "loop", "x"),
        ]
        return {result.status for result in results}

    assert round_of_calls(0) == {"ok", "error", "denied", "partial"}
    before = descriptors()
    for number in range(1, 101):
        round_of_calls(number)
    assert descriptors() == before
    assert list(tmp_path.rglob(".handrail-*")) == []


def test_many_threads_share_one_session(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n} 0\n" for n in range(8)), encoding="utf-8")
    session = make_session(durable=False)
    session.call("Read", {"file_path": "a.txt"})
    wrong: list[Result] = []

    def work(mine: int) -> None:
        for turn in range(20):
            results = (
                edit(session, "a.txt", f"line {mine} {turn}\n", f"line {mine} {turn + 1}\n"),
                session.call("Read", {"file_path": "a.txt"}),
                write(session, f"own-{mine}.txt", f"{turn}\n"),
            )
            wrong.extend(result for result in results if result.error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "".join(f"line {n} 20\n" for n in range(8))


def test_a_change_that_a_tool_did_not_declare_is_a_fault_and_is_not_made(make_session: Make, tmp_path: Path) -> None:
    session = make_session()
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session.call("Read", {"file_path": "a.txt"})

    def sly(args: Any, ctx: Any) -> Outcome[None]:
        ctx.stage(args.file_path, ctx.load(args.file_path), [Splice(0, 3, "two")])
        return Outcome("page", None)

    approved = session.services.approvals.approve(session.prepare("Read", {"file_path": "a.txt"}))
    judged, resolved, declared = approved.previous, approved.previous.previous, approved.previous.previous.previous
    parsed = replace(judged.parsed, tool=replace(judged.tool, run=sly))
    resolved = replace(resolved, previous=replace(declared, previous=parsed))
    approved = replace(approved, previous=replace(judged, previous=resolved))
    with pytest.raises(AssertionError, match="not declared"):
        run_and_commit(approved, session.services, Progress(approved))
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one\n"


def test_after_the_end_nothing_is_opened_again(make_session: Make, tmp_path: Path) -> None:
    ended = make_session()
    ended.close()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for tool, arguments in (("Read", {"file_path": "a"}), ("Write", {"file_path": "a", "content": "x"}), ("LS", {})):
        result = ended.call(tool, arguments)
        assert result.error is not None and result.error.code == "session_over"
    assert not (tmp_path / "a").exists()
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before
