"""Calls over stdio that take time: at once, cancelled, asked about, and left behind by a client that has gone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Answer, Question
from handrail.approval import elicitation
from handrail.approval.answer_tokens import AnswerTokens
from handrail.approval.ask_attached import Approvers
from handrail.errors import NeedsApproval
from handrail.model import Call, Verdict
from tests.command import TIMEOUT, surroundings
from tests.drafts.machine import require_drafts
from tests.mcp.stdio_client import HANDRAIL, RawClient, envelope, read_advice, text_of

COMMAND = "touch made"
READING = 0.5
"""Seconds that a person takes at least: a client that declines faster has asked nobody."""


class Sleeper:
    """A command that sleeps long, and can be found again by how long."""

    def __init__(self) -> None:
        self.length = f"600.{secrets.randbelow(10**9):09}"
        self.command = f"sleep {self.length}"

    @property
    def running(self) -> bool:
        """Whether any process of the machine is this one; in a sandbox it has another number than outside."""
        wanted = self.length.encode()
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if place.read_bytes().split(b"\0")[:2] == [b"sleep", wanted]:
                    return True
        return False

    def wait_until(self, running: bool) -> None:
        for _ in range(12_000):
            if self.running is running:
                return
            time.sleep(0.05)
        raise AssertionError("the command still runs" if self.running else "the command does not start")


@pytest.fixture
def free(tmp_path: Path) -> Iterator[RawClient]:
    """A client whose calls need no approval."""
    (tmp_path / "a.txt").write_text("0\n", encoding="utf-8")
    with RawClient("--mode", "full", cwd=tmp_path) as client:
        client.shake()
        yield client


@pytest.fixture
def asked(tmp_path: Path, without_drafts: None) -> Iterator[RawClient]:
    """A client that can ask a person, of the handshake's era."""
    with RawClient("--mode", "ask", cwd=tmp_path) as client:
        client.shake("2025-11-25", elicitation={})
        yield client


def question(client: RawClient) -> dict[str, Any]:
    while True:
        message = client.next()
        if message.get("method") == "elicitation/create":
            return message


def reply(client: RawClient, asked: dict[str, Any], action: str = "accept", **content: Any) -> None:
    """Answer as a person does, who needs a moment to read."""
    time.sleep(0 if content else READING)
    result = {"action": action, **({"content": content} if content else {})}
    client.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})


def test_two_changes_of_one_file_at_once_both_count(free: RawClient, tmp_path: Path) -> None:
    free.call("Read", file_path="a.txt")
    lines = [f"line {n}" for n in range(40)]
    (tmp_path / "many.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    free.call("Read", file_path="many.txt")
    ids = [
        free.begin(
            "tools/call",
            name="Edit",
            arguments={"file_path": "many.txt", "old_string": f"line {n}\n", "new_string": f"changed {n}\n"},
        )
        for n in range(40)
    ]
    answers: dict[Any, Any] = {}
    while len(answers) < len(ids):
        message = free.next()
        answers[message["id"]] = message["result"]
    assert all(not answers[number]["isError"] for number in ids), answers
    expected = "".join(f"changed {n}\n" for n in range(40))
    assert (tmp_path / "many.txt").read_text(encoding="utf-8") == expected


def piped(root: Path, *calls: tuple[str, dict[str, Any]], mode: str = "full", end: str = "\n") -> list[dict[str, Any]]:
    """What a script gets that sends all its calls, closes the pipe, and reads the answers."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    frames: list[dict[str, Any]] = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}]
    for number, (tool, arguments) in enumerate(calls, 1):
        params = {"name": tool, "arguments": arguments}
        frames.append({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    done = subprocess.run(
        [*HANDRAIL, "mcp", "--mode", mode],
        cwd=root,
        env=surroundings(),
        input="\n".join(map(json.dumps, frames)) + end,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0 and done.stderr == ""
    answers = [answer for answer in map(json.loads, done.stdout.splitlines()) if "method" not in answer]
    assert sorted(answer["id"] for answer in answers) == list(range(len(frames)))
    return [answer["result"] for answer in sorted(answers, key=lambda answer: int(answer["id"]))[1:]]


@pytest.mark.parametrize("end", ["\n", "", "\n\n", "\r\n"])
def test_calls_that_come_down_a_pipe_are_answered_although_no_more_come(tmp_path: Path, end: str) -> None:
    (tmp_path / "a.md").write_text("a\n", encoding="utf-8")
    answers = piped(tmp_path, *[("Glob", {"pattern": "*.md"})] * 6, end=end)
    assert all(text_of(answer).startswith("a.md") for answer in answers)


def test_the_end_of_the_input_cancels_no_call_however_long_it_takes(tmp_path: Path) -> None:
    slow, failing, quick, written = piped(
        tmp_path,
        ("Bash", {"command": "sleep 8; echo done"}),
        ("Bash", {"command": "sleep 3; exit 7"}),
        ("Bash", {"command": "echo at once"}),
        ("Write", {"file_path": "new.txt", "content": "text\n"}),
    )
    assert "done" in text_of(slow) and "7" in text_of(failing) and "at once" in text_of(quick)
    assert written["isError"] is False and (tmp_path / "new.txt").read_text(encoding="utf-8") == "text\n"


def test_a_command_that_hangs_when_the_input_has_ended_meets_its_own_limit(tmp_path: Path) -> None:
    sleeper = Sleeper()
    (result,) = piped(tmp_path, ("Bash", {"command": sleeper.command, "timeout": 2}))
    assert result["_meta"]["handrail/result"]["status"] == "partial", text_of(result)
    sleeper.wait_until(running=False)


@pytest.mark.usefixtures("without_drafts")
def test_a_question_that_can_no_longer_be_answered_is_a_refusal(tmp_path: Path) -> None:
    for result in piped(tmp_path, *[("Bash", {"command": COMMAND})] * 3, mode="ask"):
        assert result["_meta"]["handrail/result"]["status"] == "denied"
        assert f"allow Bash({COMMAND})" in read_advice(result)
    assert not (tmp_path / "made").exists()


def test_what_a_client_adds_to_every_call_for_itself_does_no_harm(free: RawClient) -> None:
    assert not free.call("Read", file_path="a.txt", wait_for_previous=True)["isError"]
    assert free.call("Read", file_path="a.txt", nonsense=True)["isError"]


def test_the_loop_answers_while_a_command_runs(free: RawClient) -> None:
    slow = free.begin("tools/call", name="Bash", arguments={"command": "sleep 2; echo done"})
    assert free.ask("ping")["result"] == {}
    assert text_of(free.call("Read", file_path="a.txt"))
    assert free.aside == []
    assert "done" in text_of(free.answer_to(slow)["result"])


def test_an_id_that_is_under_way_cannot_be_used_again(free: RawClient) -> None:
    first = free.begin("tools/call", name="Bash", arguments={"command": "sleep 600"})
    free.send({"jsonrpc": "2.0", "id": first, "method": "tools/call", "params": {"name": "LS", "arguments": {}}})
    assert free.answer_to(first)["error"]["code"] == -32600


def test_a_cancelled_command_is_ended_and_not_answered(free: RawClient) -> None:
    sleeper = Sleeper()
    slow = free.begin("tools/call", name="Bash", arguments={"command": sleeper.command})
    sleeper.wait_until(running=True)
    free.notify("notifications/cancelled", requestId=slow, reason="enough")
    sleeper.wait_until(running=False)
    assert text_of(free.call("Read", file_path="a.txt"))
    assert all(message.get("id") != slow for message in free.aside)


def test_a_long_call_with_a_token_tells_of_its_progress(free: RawClient) -> None:
    meta = {"progressToken": "p1"}
    result = free.call("Bash", meta, command="echo compiling; sleep 3.2")
    assert result["isError"] is False
    reports = [m["params"] for m in free.aside if m.get("method") == "notifications/progress"]
    assert len(reports) >= 2
    assert {one["progressToken"] for one in reports} == {"p1"}
    assert [one["progress"] for one in reports] == sorted({one["progress"] for one in reports})
    assert re.fullmatch(r"Bash: \d+ s: compiling", reports[-1]["message"])


def test_a_call_without_a_token_tells_nothing_on_the_way(free: RawClient) -> None:
    free.call("Bash", command="sleep 2.2")
    assert free.aside == []


@pytest.mark.parametrize("going", ["terminates the server", "reads no more"])
def test_a_client_that_goes_leaves_no_process_behind(free: RawClient, going: str) -> None:
    sleepers = waited, aside, job = Sleeper(), Sleeper(), Sleeper()
    free.begin("tools/call", name="Bash", arguments={"command": f"{aside.command} & {waited.command}"})
    free.call("Bash", command=job.command, background=True)
    for sleeper in sleepers:
        sleeper.wait_until(running=True)
    assert free.process.stdin
    free.process.stdin.close()
    if going == "terminates the server":
        free.process.terminate()
    else:
        free.stop_reading()
    assert free.process.wait(TIMEOUT) == 0
    assert free.process.stderr and b"Traceback" not in free.process.stderr.read()
    for sleeper in sleepers:
        sleeper.wait_until(running=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(free: RawClient, number: signal.Signals) -> None:
    sleeper = Sleeper()
    free.begin("tools/call", name="Bash", arguments={"command": sleeper.command})
    sleeper.wait_until(running=True)
    os.kill(free.process.pid, number)
    assert free.process.wait(TIMEOUT) == 0
    sleeper.wait_until(running=False)
    assert free.process.stderr and b"Traceback" not in free.process.stderr.read()


def test_a_client_that_no_longer_listens_ends_the_server(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    with subprocess.Popen(
        [*HANDRAIL, "mcp"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=surroundings(),
    ) as process:
        os.close(theirs)
        os.close(ours)
        assert process.stdin and process.stderr
        try:
            process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            process.stdin.flush()
            assert process.wait(TIMEOUT) == 0
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_calls_in_a_pipe_are_answered_although_it_ends(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    with RawClient(cwd=tmp_path) as client:
        client.shake()
        call = client.begin("tools/call", name="Read", arguments={"file_path": "a.txt"})
        code, log = client.end()
        assert code == 0, log
        assert "one" in text_of(client.answer_to(call)["result"])


def test_what_a_command_prints_or_reads_is_no_part_of_the_protocol(free: RawClient) -> None:
    result = free.call("Bash", command='echo \'{"jsonrpc": "2.0"}\' >&2; cat; echo end')
    assert "end" in text_of(result)
    assert free.ask("ping")["result"] == {}
    free.end()
    assert free.left_over() == []


def test_a_yes_lets_the_call_be_made(asked: RawClient, tmp_path: Path) -> None:
    call = asked.begin("tools/call", name="Bash", arguments={"command": COMMAND})
    form = question(asked)
    assert f"$ {COMMAND}" in form["params"]["message"]
    choices = [one["const"] for one in form["params"]["requestedSchema"]["properties"]["decision"]["oneOf"]]
    assert choices == ["once", "session", "always", "no"]
    reply(asked, form, decision="once")
    assert asked.answer_to(call)["result"]["isError"] is False
    assert (tmp_path / "made").exists()


def test_a_change_of_a_file_is_asked_about_with_its_diff(asked: RawClient, tmp_path: Path) -> None:
    call = asked.begin("tools/call", name="Write", arguments={"file_path": "new.txt", "content": "text\n"})
    form = question(asked)
    assert "+text" in form["params"]["message"]
    reply(asked, form, decision="once")
    assert asked.answer_to(call)["result"]["isError"] is False
    assert (tmp_path / "new.txt").read_bytes() == b"text\n"


@pytest.mark.parametrize(
    ("action", "content", "expected"),
    [
        ("accept", {"decision": "no", "reason": "too early"}, "too early"),  # a client may send it at once
        ("decline", {}, "the user refused"),
        ("cancel", {}, "closed"),
        ("accept", {}, "no valid choice"),
        ("accept", {"decision": "perhaps"}, "no valid choice"),
    ],
)
def test_whatever_is_no_plain_yes_is_a_no(
    asked: RawClient, tmp_path: Path, action: str, content: dict[str, Any], expected: str
) -> None:
    call = asked.begin("tools/call", name="Bash", arguments={"command": COMMAND})
    reply(asked, question(asked), action, **content)
    result = asked.answer_to(call)["result"]
    assert result["isError"] is True
    assert expected in text_of(result)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("action", "content", "expected"),
    [("accept", {"reason": " too early "}, "the user refused: too early"), ("cancel", {}, "the user refused")],
)
def test_the_reason_is_asked_after_a_no(
    asked: RawClient, tmp_path: Path, action: str, content: dict[str, Any], expected: str
) -> None:
    call = asked.begin("tools/call", name="Bash", arguments={"command": COMMAND})
    form = question(asked)
    assert list(form["params"]["requestedSchema"]["properties"]) == ["decision"]
    reply(asked, form, decision="no")
    why = question(asked)
    assert list(why["params"]["requestedSchema"]["properties"]) == ["reason"]
    reply(asked, why, action, **content)
    assert expected in text_of(asked.answer_to(call)["result"])
    assert not (tmp_path / "made").exists()


def test_the_first_line_of_a_question_says_what_would_change(asked: RawClient, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha\nbeta\n", encoding="utf-8")
    asked.call("Read", file_path="a.txt")
    edit = {"file_path": "a.txt", "old_string": "alpha", "new_string": "gamma"}
    calls = {
        "Edit a.txt: -alpha +gamma": ("Edit", edit),
        "Write new.txt: new file, 2 lines": ("Write", {"file_path": "new.txt", "content": "1\n2\n"}),
        f"Bash: {COMMAND}": ("Bash", {"command": COMMAND}),
        "Bash: touch x (and 1 more line)": ("Bash", {"command": "touch x\ntouch y"}),
    }
    for expected, (tool, arguments) in calls.items():
        call = asked.begin("tools/call", name=tool, arguments=arguments)
        form = question(asked)
        first, because, *_ = form["params"]["message"].splitlines()
        assert first == expected and because.startswith("Asked because: ")
        titles = [one["title"] for one in form["params"]["requestedSchema"]["properties"]["decision"]["oneOf"]]
        assert titles[:2] == ["Yes", "Yes, for this session"]
        reply(asked, form, "decline")
        asked.answer_to(call)


def test_a_yes_for_the_session_is_not_asked_again(asked: RawClient) -> None:
    call = asked.begin("tools/call", name="Bash", arguments={"command": COMMAND})
    reply(asked, question(asked), decision="session")
    assert asked.answer_to(call)["result"]["isError"] is False
    assert asked.call("Bash", command=COMMAND)["isError"] is False
    assert asked.aside == []


def test_an_older_client_gets_the_form_that_it_knows(tmp_path: Path) -> None:
    with RawClient("--mode", "ask", cwd=tmp_path) as client:
        client.shake("2025-06-18", elicitation={})
        client.begin("tools/call", name="Bash", arguments={"command": COMMAND})
        params = question(client)["params"]
    assert "mode" not in params
    decision = params["requestedSchema"]["properties"]["decision"]
    assert len(decision["enum"]) == len(decision["enumNames"]) == 4


@pytest.mark.usefixtures("without_drafts")
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}])
def test_without_a_person_the_rule_that_would_allow_it_is_for_the_operator(
    tmp_path: Path, capabilities: dict[str, Any]
) -> None:
    with RawClient("--mode", "ask", cwd=tmp_path) as client:
        client.shake(**capabilities)
        result = client.call("Bash", command=COMMAND)
    assert result["_meta"]["handrail/result"]["status"] == "denied"
    assert f"allow Bash({COMMAND})" in read_advice(result) and "allow Bash(" not in text_of(result)
    assert not (tmp_path / "made").exists()


def test_a_client_that_fails_to_ask_counts_as_one_that_cannot(asked: RawClient) -> None:
    call = asked.begin("tools/call", name="Bash", arguments={"command": COMMAND})
    form = question(asked)
    asked.send({"jsonrpc": "2.0", "id": form["id"], "error": {"code": -32601, "message": "no"}})
    assert f"allow Bash({COMMAND})" in read_advice(asked.answer_to(call)["result"])


def test_a_call_cancelled_while_a_person_is_asked_takes_its_question_back(asked: RawClient, tmp_path: Path) -> None:
    call = asked.begin("tools/call", name="Bash", arguments={"command": COMMAND})
    form = question(asked)
    asked.notify("notifications/cancelled", requestId=call)
    taken_back = asked.next()
    assert taken_back["method"] == "notifications/cancelled"
    assert taken_back["params"]["requestId"] == form["id"]
    reply(asked, form, decision="once")  # too late
    assert asked.ask("ping")["result"] == {}
    assert not (tmp_path / "made").exists()


def test_a_client_that_goes_while_a_person_is_asked_ends_the_server(asked: RawClient, tmp_path: Path) -> None:
    call = asked.begin("tools/call", name="Bash", arguments={"command": COMMAND})
    question(asked)
    assert asked.end()[0] == 0
    assert asked.answer_to(call)["result"]["_meta"]["handrail/result"]["status"] == "denied"
    assert not (tmp_path / "made").exists()


def first_round(client: RawClient, **arguments: Any) -> dict[str, Any]:
    result = client.call("Bash", envelope(elicitation={}), **arguments)
    assert result["resultType"] == "input_required"
    return result


def second_round(client: RawClient, state: str, answer: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    params = {"name": "Bash", "arguments": arguments, "_meta": envelope(elicitation={})}
    sent = client.ask("tools/call", **params, requestState=state, inputResponses={"approval": answer})
    result: dict[str, Any] = sent["result"]
    return result


YES = {"action": "accept", "content": {"decision": "once"}}


@pytest.fixture
def modern(tmp_path: Path, without_drafts: None) -> Iterator[RawClient]:
    """A client that can ask a person, of the era without a handshake."""
    with RawClient("--mode", "ask", cwd=tmp_path) as client:
        yield client


def test_in_the_new_era_a_call_comes_again_with_the_answer(modern: RawClient, tmp_path: Path) -> None:
    actual = first_round(modern, command=COMMAND)
    asked = actual["inputRequests"]["approval"]
    assert asked["method"] == "elicitation/create"
    assert f"$ {COMMAND}" in asked["params"]["message"]
    assert not (tmp_path / "made").exists()
    done = second_round(modern, actual["requestState"], YES, command=COMMAND)
    assert done["resultType"] == "complete" and done["isError"] is False
    assert (tmp_path / "made").exists()


def test_in_the_new_era_the_changes_of_a_command_are_shown_and_kept_with_the_answer(tmp_path: Path) -> None:
    require_drafts()
    with RawClient("--mode", "ask", cwd=tmp_path) as client:
        command = "echo one > made"
        actual = first_round(client, command=command)
        message = actual["inputRequests"]["approval"]["params"]["message"]
        assert "+one" in message and f"`{command}` has run. Keep its changes?" in message
        assert not (tmp_path / "made").exists()
        done = second_round(client, actual["requestState"], YES, command=command)
        assert done["resultType"] == "complete" and done["isError"] is False, text_of(done)
    assert (tmp_path / "made").read_text(encoding="utf-8") == "one\n"


def test_in_the_new_era_a_no_is_a_no(modern: RawClient, tmp_path: Path) -> None:
    state = first_round(modern, command=COMMAND)["requestState"]
    time.sleep(READING)
    refused = second_round(modern, state, {"action": "decline"}, command=COMMAND)
    assert "the user refused" in text_of(refused) and not (tmp_path / "made").exists()


def test_a_client_that_declines_at_once_has_asked_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(elicitation, "_AUTOMATIC", 3600.0)
    approvers = Approvers(str(tmp_path), tmp_path)
    question = Question(Call("Bash", {"command": COMMAND}), (), Verdict("ask", why="it is asked"), command=COMMAND)

    def client(reply: Any, version: str, params: dict[str, Any]) -> elicitation.Elicitation:
        repeats = version > "2026"
        return elicitation.Elicitation(version, True, repeats, params, (), lambda *_: reply, approvers, tokens)

    tokens = AnswerTokens()
    for action in ("decline", "cancel"):
        with pytest.raises(NeedsApproval, match="it is asked; the client declined without asking anybody"):
            client({"action": action}, "2025-11-25", {})(question)
        with pytest.raises(elicitation.InputRequired) as asked:
            client(None, "2026-07-28", {})(question)
        again = {"requestState": asked.value.token, "inputResponses": {"approval": {"action": action}}}
        with pytest.raises(NeedsApproval, match="the client declined without asking anybody"):
            client(None, "2026-07-28", again)(question)
    yes = {"action": "accept", "content": {"decision": "once"}}
    assert client(yes, "2025-11-25", {})(question) == Answer(True)


def test_in_the_new_era_the_reason_is_asked_after_a_no(modern: RawClient, tmp_path: Path) -> None:
    state = first_round(modern, command=COMMAND)["requestState"]
    no = {"action": "accept", "content": {"decision": "no"}}
    why = second_round(modern, state, no, command=COMMAND)
    assert why["resultType"] == "input_required" and list(why["inputRequests"]) == ["reason"]
    params = {"name": "Bash", "arguments": {"command": COMMAND}, "_meta": envelope(elicitation={})}
    answers = {"reason": {"action": "accept", "content": {"reason": "too early"}}, "approval": YES}
    refused = modern.ask("tools/call", **params, requestState=why["requestState"], inputResponses=answers)["result"]
    assert refused["isError"] is True and "the user refused: too early" in text_of(refused)
    assert not (tmp_path / "made").exists()


def test_a_yes_holds_for_what_was_shown_and_once(modern: RawClient, tmp_path: Path) -> None:
    state = first_round(modern, command="true > a")["requestState"]
    assert second_round(modern, state, YES, command="true > b")["resultType"] == "input_required"
    params = {"name": "Bash", "arguments": {"command": "true > a"}, "_meta": envelope(elicitation={})}
    for forged in ("0" * 32 + state[32:], state[:-1] + "x", "", "é.é"):
        sent = modern.ask("tools/call", **params, requestState=forged, inputResponses={"approval": YES})
        assert sent["error"]["code"] == -32602, forged
    assert second_round(modern, state, YES, command="true > a")["isError"] is False
    assert second_round(modern, state, YES, command="true > a")["resultType"] == "input_required"
    assert (tmp_path / "a").exists() and not (tmp_path / "b").exists()


def test_a_yes_to_a_change_does_not_hold_when_the_file_has_changed(modern: RawClient, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("one\ntwo\n", encoding="utf-8")
    meta = envelope(elicitation={})
    modern.call("Read", meta, file_path="a.txt")
    params = {
        "name": "Edit",
        "arguments": {"file_path": "a.txt", "old_string": "two", "new_string": "2"},
        "_meta": meta,
    }
    actual = modern.ask("tools/call", **params)["result"]
    assert actual["resultType"] == "input_required"
    target.write_text("0\none\ntwo\n", encoding="utf-8")
    again = modern.ask("tools/call", **params, requestState=actual["requestState"], inputResponses={"approval": YES})[
        "result"
    ]
    assert again.get("resultType") == "input_required" or again["isError"] is True
    assert target.read_text(encoding="utf-8") == "0\none\ntwo\n"


def test_in_the_new_era_the_rule_is_for_the_operator_too(modern: RawClient) -> None:
    assert f"allow Bash({COMMAND})" in read_advice(modern.call("Bash", envelope(), command=COMMAND))
