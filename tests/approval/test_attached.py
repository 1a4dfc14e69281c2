"""Being asked from another process: a server without a person asks, and whoever has attached a terminal answers.

Everything here is real: the server and the terminals are processes of their own, and keys are typed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from handrail import Session
from handrail.approval import json_socket
from handrail.approval.ask_attached import Approvers
from handrail.model import Answer, Question
from tests.command import TIMEOUT, Driver, handrail_process, surroundings
from tests.forked import run_python
from tests.mcp.stdio_client import RawClient, envelope, read_advice, text_of
from tests.terminal import spawn_in_terminal

Attach = Callable[..., pexpect.spawn]

ASKED = r"\[\?\] "
ATTACHED = "Ctrl-C detaches"


@pytest.fixture
def project(tmp_path: Path, without_drafts: None) -> Path:
    """Commands are asked about before they run, and not about what they have changed."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 41)), encoding="utf-8")
    return root


@pytest.fixture
def attach(project: Path) -> Iterator[Attach]:
    """`handrail approve` in a terminal of its own."""
    started: list[pexpect.spawn] = []

    def start(*words: str, cwd: Path = project, **variables: str) -> pexpect.spawn:
        command, env = [sys.executable, "-m", "handrail", "approve", *words], surroundings(variables)
        child = spawn_in_terminal(command, cwd=cwd, env=env, dimensions=(24, 80))
        started.append(child)
        child.expect(ATTACHED)
        return child

    yield start
    for child in started:
        child.close(force=True)


@contextlib.contextmanager
def serving(project: Path, *words: str) -> Iterator[RawClient]:
    """An MCP server whose client cannot ask anybody."""
    with RawClient(str(project), "--mode", "ask", *words, cwd=project) as client:
        client.shake()
        yield client


def change(client: RawClient) -> int:
    """Ask for a change of two places, and do not wait."""
    client.call("Read", file_path="a.txt")
    pairs = (("line 3\n", "THREE\n"), ("line 30\n", "THIRTY\n"))
    edits = [{"old_string": old, "new_string": new} for old, new in pairs]
    return client.begin("tools/call", name="MultiEdit", arguments={"file_path": "a.txt", "edits": edits})


def write(client: RawClient, content: str = "made\n", name: str = "new.txt") -> int:
    return client.begin("tools/call", name="Write", arguments={"file_path": name, "content": content})


def outcome(client: RawClient, call: int) -> tuple[bool, str]:
    """Whether the call was made, and what the model reads."""
    result = client.answer_to(call)["result"]
    return not result["isError"], text_of(result)


# What a person answers.


def test_yes_makes_the_change_that_the_other_terminal_has_shown(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project, "--tools", "all") as client:
        call = change(client)
        person.expect("MultiEdit asks")
        person.expect("-line 3")
        person.expect("THREE")
        person.expect(ASKED)
        assert "\x1b[" in person.before
        assert "THREE" not in (project / "a.txt").read_text(encoding="utf-8")
        person.send("y")
        assert outcome(client, call)[0]
    text = (project / "a.txt").read_text(encoding="utf-8")
    assert "THREE" in text and "THIRTY" in text


def test_no_reaches_the_model_with_its_reason(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project) as client:
        call = write(client)
        person.expect(ASKED)
        person.send("n")
        person.expect("why not")
        person.sendline("not before the release")
        result, message = outcome(client, call)
    assert not result and "not before the release" in message and not (project / "new.txt").exists()


def test_hunks_are_chosen_from_the_other_terminal(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project, "--tools", "all") as client:
        call = change(client)
        person.expect(ASKED)
        person.send("h")
        person.expect("hunk 1 of 2")
        person.send("n")
        person.expect("hunk 2 of 2")
        person.send("y")
        result, message = outcome(client, call)
    text = (project / "a.txt").read_text(encoding="utf-8")
    assert result and "THREE" not in text and "THIRTY" in text and "approved 1 of 2" in message


def test_a_yes_for_the_session_is_not_asked_again(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project) as client:
        call = client.begin("tools/call", name="Bash", arguments={"command": "touch made.txt"})
        person.expect(ASKED)
        person.send("a")
        assert outcome(client, call)[0]
        assert not client.call("Bash", command="touch made.txt")["isError"]
    person.expect("answered: yes, session")


def test_always_writes_the_rule_down_that_was_shown(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project) as client:
        call = client.begin("tools/call", name="Bash", arguments={"command": "touch made.txt"})
        person.expect(r"A would save: allow Bash\(touch made.txt\)")
        person.expect(ASKED)
        person.send("A")
        assert outcome(client, call)[0]
    with serving(project) as client:
        assert not client.call("Bash", command="touch made.txt")["isError"]


@pytest.mark.parametrize("what", ["command", "file"])
def test_what_is_asked_can_be_changed_in_the_editor_of_the_other_terminal(
    project: Path, tmp_path: Path, attach: Attach, what: str
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/first/second/ "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    person = attach(VISUAL=str(editor))
    with serving(project) as client:
        if what == "file":
            call = write(client, "first\n")
        else:
            call = client.begin("tools/call", name="Bash", arguments={"command": "echo first > new.txt"})
        person.expect(ASKED)
        person.send("e")
        assert outcome(client, call)[0]
    assert (project / "new.txt").read_text(encoding="utf-8") == "second\n"


def test_a_file_that_changed_while_the_person_thought_is_shown_again(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project, "--tools", "all") as client:
        call = change(client)
        person.expect(ASKED)
        text = (project / "a.txt").read_text(encoding="utf-8")
        (project / "a.txt").write_text("zero\n" + text, encoding="utf-8")
        person.send("y")
        person.expect("MultiEdit asks")
        person.expect(ASKED)
        person.send("y")
        assert outcome(client, call)[0]
    text = (project / "a.txt").read_text(encoding="utf-8")
    assert text.startswith("zero\n") and "THREE" in text


# Who is asked.


def test_with_nobody_attached_the_refusal_names_the_command_to_attach(project: Path) -> None:
    with serving(project) as client:
        result = client.answer_to(write(client))["result"]
    assert result["isError"] and "`handrail approve`" not in text_of(result) and "allow Edit(" not in text_of(result)
    advice = read_advice(result)
    assert "`handrail approve`" in advice and "allow Edit(" in advice
    assert not (project / "new.txt").exists()


YES = {"action": "accept", "content": {"decision": "once"}}
NO_FORM = {"error": {"code": -32601, "message": "no"}}


@contextlib.contextmanager
def asking(project: Path) -> Iterator[RawClient]:
    """An MCP server whose client can ask a person."""
    with RawClient(str(project), "--mode", "ask", cwd=project) as client:
        client.shake(elicitation={})
        yield client


def test_a_client_and_a_terminal_are_asked_at_once_and_the_client_is_first(project: Path, attach: Attach) -> None:
    person = attach()
    with asking(project) as client:
        call = write(client)
        form = client.next()
        assert form["method"] == "elicitation/create"
        person.expect("raw in ")
        person.expect(ASKED)
        client.send({"jsonrpc": "2.0", "id": form["id"], "result": YES})
        assert outcome(client, call)[0]
        person.expect("no longer needs an answer: it was answered in raw")


def test_a_client_and_a_terminal_are_asked_at_once_and_the_terminal_is_first(project: Path, attach: Attach) -> None:
    person = attach()
    with asking(project) as client:
        call = write(client)
        form = client.next()
        person.expect(ASKED)
        person.send("y")
        withdrawn = client.next()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"] == {"requestId": form["id"], "reason": "it was answered elsewhere"}
        client.send({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "decline"}})  # too late
        assert outcome(client, call)[0]


def test_a_terminal_that_attaches_while_the_client_asks_is_asked_too(project: Path, attach: Attach) -> None:
    with asking(project) as client:
        call = write(client)
        client.next()
        person = attach()
        person.expect(ASKED)
        person.send("y")
        assert outcome(client, call)[0]


@pytest.mark.parametrize("answer", [NO_FORM, {"result": {"action": "decline"}}, {"result": {"action": "cancel"}}])
def test_a_client_that_asks_nobody_leaves_it_to_the_terminal(
    project: Path, attach: Attach, answer: dict[str, Any]
) -> None:
    person = attach()
    with asking(project) as client:
        call = write(client)
        client.send({"jsonrpc": "2.0", "id": client.next()["id"], **answer})
        person.expect(ASKED)
        person.send("y")
        assert outcome(client, call)[0]


def test_a_client_that_repeats_its_call_brings_the_answer_of_the_terminal(project: Path, attach: Attach) -> None:
    person = attach()
    params = {"name": "Write", "arguments": {"file_path": "new.txt", "content": "made\n"}}
    with RawClient(str(project), "--mode", "ask", cwd=project) as client:
        meta = envelope(elicitation={})
        asked = client.ask("tools/call", **params, _meta=meta)["result"]
        person.expect(ASKED)
        person.send("y")
        person.expect("answered: yes")
        closed = {"approval": {"action": "cancel"}}
        state = asked["requestState"]
        result = client.ask("tools/call", **params, _meta=meta, requestState=state, inputResponses=closed)["result"]
    assert result["isError"] is False and (project / "new.txt").exists()


def test_only_questions_of_the_workspace_are_asked_unless_all_are_wanted(
    project: Path, tmp_path: Path, attach: Attach
) -> None:
    (tmp_path / "project-two").mkdir()
    (project / "below").mkdir()
    elsewhere = [attach(cwd=tmp_path / "project-two"), attach("-w", str(project / "below"))]
    with serving(project) as client:
        assert not outcome(client, write(client))[0]
        person = attach("--all", cwd=tmp_path / "project-two")
        call = write(client)
        person.expect(f"in {project}")
        person.expect(ASKED)
        person.send("y")
        assert outcome(client, call)[0]
    for one in elsewhere:
        one.sendcontrol("c")
        one.expect("detached")
        assert "asks" not in one.before


def test_below_the_directory_counts_as_in_it(project: Path, attach: Attach) -> None:
    (project / "below").mkdir()
    person = attach()
    with serving(project / "below") as client:
        call = write(client)
        person.expect(ASKED)
        person.send("y")
        assert outcome(client, call)[0]


def test_of_two_who_are_asked_the_first_answer_counts(project: Path, attach: Attach) -> None:
    first, second = attach(), attach()
    with serving(project) as client:
        call = write(client)
        first.expect(ASKED)
        second.expect(ASKED)
        second.send("y")
        assert outcome(client, call)[0]
        first.expect("no longer needs an answer: it was answered in another terminal: ")
        call = write(client, name="other.txt")
        first.expect(ASKED)
        first.send("n")
        first.expect("why not")
        first.sendline("")
        assert not outcome(client, call)[0]


def test_several_questions_wait_for_each_other(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project) as client:
        calls = [write(client, name=f"{number}.txt") for number in range(3)]
        for _ in calls:
            person.expect(ASKED)
            person.send("y")
        results = [client.next()["result"] for _ in calls]  # in the order of the answers
        assert not any(result["isError"] for result in results)
    assert sorted(path.name for path in project.glob("?.txt")) == ["0.txt", "1.txt", "2.txt", "a.txt"]


@pytest.mark.parametrize("verb", ["batch", "call"])
def test_commands_without_a_terminal_ask_there_too(project: Path, attach: Attach, verb: str) -> None:
    person = attach()
    answers: list[int] = []

    def ask() -> None:
        if verb == "call":
            words = ("Write", "--mode", "ask", "file_path=new.txt", "content=made")
            answers.append(handrail_process("call", *words, cwd=project).returncode)
        else:
            driver = Driver("--mode", "ask", cwd=project)
            done = driver.ask({"tool": "Write", "arguments": {"file_path": "new.txt", "content": "made"}})
            answers.append(0 if done["status"] == "ok" else 1)
            driver.end()
            driver.close()

    thread = threading.Thread(target=ask)
    thread.start()
    person.expect(ASKED)
    person.send("y")
    thread.join(TIMEOUT)
    assert answers == [0] and (project / "new.txt").read_text(encoding="utf-8") == "made"


def test_a_server_over_http_asks_there_but_writes_no_rule_down(project: Path, attach: Attach) -> None:
    from tests.mcp.http_server import TOKEN, call, envelope
    from tests.mcp.http_server import serving as served

    person = attach()
    collected: list[dict[str, Any]] = []
    with served(str(project), "--token", TOKEN, "--mode", "ask", cwd=project) as door:

        def ask() -> None:
            body = call("Write", file_path="new.txt", content="made\n")
            collected.append(door.post(body, **envelope("Write")).json())

        thread = threading.Thread(target=ask)
        thread.start()
        person.expect(ASKED)
        assert "[A]" not in person.before
        person.send("y")
        thread.join(TIMEOUT)
        assert not collected[0]["result"]["isError"] and (project / "new.txt").exists()
        person.sendcontrol("c")
        person.expect("detached")
        again = door.post(call("Write", file_path="b.txt", content="made\n"), **envelope("Write")).json()
    assert "handrail approve" in read_advice(again["result"]) and not (project / "b.txt").exists()


# What ends without an answer.


def test_a_terminal_that_is_killed_while_asked_means_a_refusal(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project) as client:
        call = write(client)
        person.expect(ASKED)
        person.kill(signal.SIGKILL)
        result, message = outcome(client, call)
        assert not result and "needs the user's approval" in message
        person.wait()  # until then its socket may still take connections
        left = list(Path(os.environ["HANDRAIL_STATE"], "approvers").iterdir())
        assert len(left) == 1
        assert not outcome(client, write(client))[0]
        assert not left[0].exists()  # what the dead one left behind is taken away


def test_ctrl_c_detaches_and_leaves_nothing_behind(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project) as client:
        call = write(client)
        person.expect(ASKED)
        person.sendcontrol("c")
        person.expect("detached")
        person.expect(pexpect.EOF)
        person.close()
        assert not outcome(client, call)[0]
    assert person.exitstatus == 0
    assert list(Path(os.environ["HANDRAIL_STATE"], "approvers").iterdir()) == []


def test_a_question_that_is_cancelled_goes_away_and_the_next_is_asked(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project) as client:
        call = write(client)
        person.expect(ASKED)
        client.notify("notifications/cancelled", requestId=call)
        person.expect("no longer needs an answer: it was answered elsewhere, or cancelled")
        other = write(client, name="other.txt")
        person.expect("other.txt")
        person.expect(ASKED)
        person.send("y")
        assert outcome(client, other)[0]
    assert not (project / "new.txt").exists()


def test_a_question_whose_process_ends_goes_away_also_while_the_reason_is_typed(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project) as client:
        write(client)
        person.expect(ASKED)
        person.send("n")
        person.expect("why not")
        client.process.kill()
        person.expect("no longer needs an answer: the asking process has ended")


def test_a_stopped_terminal_is_not_waited_for(project: Path, attach: Attach) -> None:
    person = attach()
    person.kill(signal.SIGSTOP)
    with serving(project) as client:
        assert not outcome(client, write(client))[0]
    person.kill(signal.SIGCONT)


@pytest.mark.parametrize("hello", [{"handrail": json_socket.VERSION + 1, "workspace": None}, {"workspace": None}, {}])
def test_one_that_speaks_otherwise_is_not_asked(project: Path, hello: dict[str, Any]) -> None:
    listening, path = json_socket.listen(os.environ["HANDRAIL_STATE"])
    with listening, serving(project) as client:
        call = write(client)
        connection, _ = listening.accept()
        with connection:
            connection.sendall(json.dumps(hello).encode() + b"\n")
            assert connection.recv(1) == b""  # and nothing was told
        assert not outcome(client, call)[0]
    os.unlink(path)


def test_a_cancelled_call_is_recorded_as_such_and_not_as_a_no(
    make_session: Callable[..., Session], project: Path
) -> None:
    cancel = threading.Event()

    def approve(question: Question) -> Answer:
        assert question.cancel is cancel
        cancel.set()
        return Answer(False)

    session = make_session(project, mode="ask", approve=approve)
    result = session.call("Write", {"file_path": "new.txt", "content": "made"}, cancel=cancel)
    assert result.status == "denied" and "cancelled" in result.text and "the user refused" not in result.text


def test_without_a_terminal_there_is_nothing_to_attach(project: Path) -> None:
    # In a session of its own a process has no terminal, wherever the tests run.
    ended = run_python("-m", "handrail", "approve", cwd=project, env=surroundings())
    assert ended.returncode == 2 and "needs a terminal" in ended.stderr


# The wire.


def test_nobody_else_can_go_where_the_sockets_are(project: Path, attach: Attach) -> None:
    attach()
    place = Path(os.environ["HANDRAIL_STATE"], "approvers")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    (actual,) = place.iterdir()
    assert stat.S_IMODE(actual.stat().st_mode) == 0o600


def test_a_directory_that_others_can_go_into_is_not_looked_at(project: Path, attach: Attach) -> None:
    attach()
    Path(os.environ["HANDRAIL_STATE"], "approvers").chmod(0o755)
    with serving(project) as client:
        assert not outcome(client, write(client))[0]


def test_a_command_that_the_asking_process_has_started_does_not_approve(
    make_session: Callable[..., Session], project: Path, attach: Attach
) -> None:
    attach()  # a child of this process, which is the one that asks
    session = make_session(project, mode="ask", approve=Approvers(os.environ["HANDRAIL_STATE"], project))
    result = session.call("Write", {"file_path": "new.txt", "content": "made"})
    assert result.error and result.error.code == "needs_approval"


def test_the_most_that_is_asked_is_shown_with_a_warning(project: Path, attach: Attach) -> None:
    person = attach()
    with serving(project) as client:
        call = write(client, "".join(f"{number} {'y' * 3000}\n" for number in range(3_000)))
        person.expect("NOT shown here: .* of new.txt")
        person.expect(ASKED)
        person.send("y")
        assert outcome(client, call)[0]
    assert (project / "new.txt").read_text(encoding="utf-8").endswith("y\n")
