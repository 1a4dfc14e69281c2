"""`handrail run` as a script sees it: the real command against a scripted model on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import anthropic  # noqa: F401 - here, so that the forks have it
import openai  # noqa: F401
import pytest

from handrail.agent.loop import How
from handrail.agent.messages import (
    CallFinished,
    CallStarted,
    Compacted,
    Event,
    ModelReplied,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCall,
    Usage,
    event_json,
)
from handrail.agent.providers import APIS
from handrail.cli.run import CODES
from handrail_demo.scripted_server import Line, Script, ScriptedServer, in_order
from tests.command import TIMEOUT
from tests.forked import as_fork

ROOT = Path(__file__).parents[2]
READ = ("Read", {"file_path": "README.md"})
DONE = ("Edit", {"file_path": "README.md", "old_string": "TODO", "new_string": "DONE", "replace_all": True})
TODO = [Line("I look first.", [READ]), Line("", [DONE]), Line("Both are **done**.")]


class Place:
    """A project, a home, and a server."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        self.readme = self.project / "README.md"
        self.readme.write_text("TODO one\nTODO two\n", encoding="utf-8")
        self._stack = stack

    def serve(self, script: Script | Sequence[Line]) -> ScriptedServer:
        return self._stack.enter_context(ScriptedServer(script if callable(script) else in_order(script)))

    def environ(self, server: ScriptedServer | None, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HANDRAIL_", "OPENAI_"))}
        kept = {name: value for name, value in kept.items() if not name.startswith("ANTHROPIC_")}
        own = {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / "config")}
        urls = {"OPENAI_BASE_URL": server.url, "ANTHROPIC_BASE_URL": server.url} if server else {}
        return {**kept, **own, "HANDRAIL_STATE": str(self.folder / "state"), **urls, **more}

    def start(self, server: ScriptedServer | None, *words: str, **more: str) -> subprocess.Popen[bytes]:
        """The command in a session of its own: there is no terminal to ask anybody at."""
        pipe = subprocess.PIPE
        command, env = [sys.executable, "-m", "handrail", *words], self.environ(server, **more)
        return subprocess.Popen(
            command,
            cwd=self.project,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=env,
            start_new_session=True,
            preexec_fn=as_fork(command, env),
        )

    def run(self, server: ScriptedServer | None, *words: str, stdin: str = "", **more: str) -> tuple[int, str, str]:
        with self.start(server, *words, **more) as process:
            out, err = process.communicate(stdin.encode("utf-8"), TIMEOUT)
        return process.returncode, out.decode("utf-8"), err.decode("utf-8")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


@pytest.mark.parametrize("api", APIS)
def test_a_task_is_done_and_the_text_is_on_stdout(place: Place, api: str) -> None:
    server = place.serve(TODO)
    words = ["run", "finish the README", "--model", "scripted", "--mode", "accept-edits", "--api", api]
    code, out, err = place.run(server, *words)
    assert code == 0, err
    assert out == "I look first.\nBoth are **done**.\n"
    assert place.readme.read_text(encoding="utf-8") == "DONE one\nDONE two\n"
    assert "Read README.md" in err and "+DONE one" in err and "scripted · " in err
    assert "\x1b" not in out + err


def test_json_is_one_event_a_line_and_nothing_else(place: Place) -> None:
    server = place.serve(TODO)
    code, out, err = place.run(server, "run", "go", "--model", "m", "--mode", "accept-edits", "--json")
    events = [json.loads(line) for line in out.splitlines()]
    kinds = [event["event"] for event in events]
    assert code == 0 and err == ""
    assert [kind for kind in kinds if kind != "said"] == [
        *("asked", "began", "ended"),
        *("asked", "began", "ended"),
        *("asked", "over"),
    ]
    assert "".join(event["text"] for event in events if event["event"] == "said") == "I look first.Both are **done**."
    assert events[-1]["how"] == "done" and events[-1]["conversation"]


def read_table(heading: str) -> dict[str, str]:
    """The first two columns of a table in the page on the agent, without their marks."""
    page = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")
    rows = page.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return {cells[1].strip(" `"): cells[2].strip() for cells in (row.split("|") for row in rows)}


def test_the_page_has_the_keys_of_every_event(place: Place) -> None:
    documented = {event: set(keys.replace("`", "").split(", ")) for event, keys in read_table("event").items()}
    call = ToolCall("1", "Read", "{}")
    events: list[Event] = [
        *(TextDelta("a"), ReasoningDelta("b"), ModelReplied("t", Usage(1, 2, 3), 1.0), CallStarted(call)),
        *(CallFinished(call, "ok", "t", 1.0), Retrying("w", 1.0, 1), Compacted(1, 2, "notes")),
    ]
    assert {type(event) for event in events} == set(get_args(Event))
    server = place.serve([Line("One.")])
    _, out, _ = place.run(server, "run", "go", "--model", "m", "--json")
    written = [*map(event_json, events), json.loads(out.splitlines()[-1])]
    assert {one.pop("event"): set(one) for one in written} == documented
    assert event_json(events[2])["usage"] == {"input": 1, "output": 2, "cached": 3, "is_estimated": False}
    assert event_json(events[3])["use"] == {"id": "1", "name": "Read", "arguments": "{}"}


def test_the_page_has_every_exit_status() -> None:
    assert set(map(int, read_table("exit status"))) == {*CODES.values(), 2}
    assert set(CODES) == set(get_args(How))


def test_a_model_that_repeats_itself_is_exit_status_4(place: Place) -> None:
    server = place.serve(lambda _: Line("", [("LS", {"path": "."})]))
    code, out, _ = place.run(server, "run", "for ever", "--model", "m", "--json")
    over = json.loads(out.splitlines()[-1])
    assert code == 4 and over["how"] == "loop" and "5 times" in over["text"]


def test_what_must_be_asked_is_refused_where_nobody_can_be(place: Place) -> None:
    server = place.serve(TODO)
    code, _, err = place.run(server, "run", "go", "--model", "m")
    assert code == 0 and "⊘ Edit" in err
    assert place.readme.read_text(encoding="utf-8") == "TODO one\nTODO two\n"
    assert "needs" in server.requests[2].results[0]


def test_the_task_can_come_from_stdin(place: Place) -> None:
    server = place.serve([Line("Hello.")])
    assert place.run(server, "run", "-", "--model", "m", stdin="say hello\nplease\n")[0] == 0
    assert server.requests[0].body["messages"][-1]["content"] == "say hello\nplease\n"


def test_the_model_comes_from_the_environment_or_the_configuration(place: Place) -> None:
    server = place.serve(lambda _: Line("Hello.", tokens=1_000_000))
    config = place.folder / "config.toml"
    text = '[agent]\nmodel = "mine"\napi = "chat"\nwindow = 2000000\nprice_in = 3.0\nprice_out = 15.0\n'
    config.write_text(text, encoding="utf-8")
    code, _, err = place.run(server, "run", "hi", HANDRAIL_CONFIG=str(config))
    assert code == 0 and "mine · 1,000,000 in, 2 out · cost 3.00 · 50% of 2,000,000" in err
    code, _, err = place.run(server, "run", "hi", HANDRAIL_CONFIG=str(config), HANDRAIL_MODEL="other")
    assert code == 0 and "cost" not in err and [seen.body["model"] for seen in server.requests] == ["mine", "other"]


def test_a_file_that_is_named_with_an_at_sign_is_told_to_be_one(place: Place) -> None:
    server = place.serve([Line("Hello.")])
    place.run(server, "run", "what is in @README.md, and mail me@home.org about @nothing?", "--model", "m")
    message = server.requests[0].body["messages"][-1]["content"]
    assert message.splitlines()[0] == "what is in @README.md, and mail me@home.org about @nothing?"
    assert message.splitlines()[1:] == ["[@README.md is the name of a file or directory of the project: README.md]"]


def test_a_failure_of_the_server_is_exit_status_1(place: Place) -> None:
    server = place.serve(lambda _: Line("no such key", status=401))
    code, out, err = place.run(server, "run", "go", "--model", "m")
    assert (code, out) == (1, "") and "check the key" in err


def test_trouble_that_passes_is_shown_and_waited_out(place: Place) -> None:
    server = place.serve([Line("busy", status=429, headers={"retry-after": "0"}), Line("Here.")])
    code, out, err = place.run(server, "run", "go", "--model", "m")
    assert (code, out) == (0, "Here.\n") and "429" in err and "trying again" in err


@pytest.mark.parametrize("limit", [["--max-turns", "2"], ["--max-tokens", "500"]])
def test_a_limit_is_exit_status_3(place: Place, limit: list[str]) -> None:
    server = place.serve(lambda _: Line("", [("LS", {"path": "."})], tokens=300))
    code, _, err = place.run(server, "run", "for ever", "--model", "m", *limit)
    assert code == 3 and "limit" in err and len(server.requests) == 2


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_ctrl_c_cancels_the_command_and_is_exit_status_130(place: Place, json_too: list[str]) -> None:
    config = place.folder / "config.toml"
    config.write_text("[settings]\ndrafts = false\n", encoding="utf-8")
    server = place.serve([Line("", [("Bash", {"command": "touch begun; sleep 60"})])])
    words = ["run", "wait", "--model", "m", "--mode", "full", *json_too]
    with place.start(server, *words, HANDRAIL_CONFIG=str(config)) as process:
        _until(lambda: (place.project / "begun").exists() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, (out, err)
    if json_too:
        assert json.loads(out.splitlines()[-1])["how"] == "cancelled"
    else:
        assert b"stopped; you can continue" in err


def test_ctrl_c_cancels_an_answer_that_does_not_come(place: Place) -> None:
    server = place.serve([Line("x" * 400, delay=30)])
    with place.start(server, "run", "talk", "--model", "m") as process:
        _until(lambda: bool(server.requests))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130


def test_a_run_can_be_continued_by_a_run(place: Place) -> None:
    server = place.serve([Line("One."), Line("Two.")])
    assert place.run(server, "run", "first", "--model", "m")[0] == 0
    assert place.run(server, "run", "second", "--continue")[:2] == (0, "Two.\n")
    messages = [(one["role"], one["content"]) for one in server.requests[1].body["messages"][1:]]
    assert messages == [("user", "first"), ("assistant", "One."), ("user", "second")]


def test_text_of_the_model_cannot_command_the_terminal(place: Place) -> None:
    server = place.serve([Line("\x1b]0;owned\x07\x1b[2Jhello\r\u202e")])
    code, out, _ = place.run(server, "run", "go", "--model", "m")
    assert code == 0 and "\x1b" not in out and "\r" not in out and "\u202e" not in out and "hello" in out


KEY = {"OPENAI_API_KEY": "k"}
MISTAKES: list[tuple[list[str], dict[str, str], str]] = [
    (["run", "x"], KEY, "--model M, set HANDRAIL_MODEL"),
    (["run", "x", "--model", "gpt-5"], {}, "set OPENAI_API_KEY, or OPENAI_BASE_URL"),
    (["run", "x", "--model", "claude-x"], {}, "set ANTHROPIC_API_KEY"),
    (["run", "x", "--model", "m"], {"OPENAI_BASE_URL": "localhost:1"}, "must start with http:// or https://"),
    (["run", "x", "--model", "m", "--dialect", "nope"], KEY, "unknown dialect 'nope'; the dialects are"),
    (["run", "x", "--model", "m", "--api", "soap"], KEY, "unknown API soap; the APIs are chat, responses, anthropic"),
    (["run", "x", "--model", "m", "--mode", "wild"], KEY, "the modes are read-only, ask"),
    (["run", "x", "--model", "m", "--window", "0"], KEY, "must be a whole number above 0"),
    (["run", "x", "--model", "m", "--continue"], KEY, "leave out --continue to start one"),
    (["run", "x", "--model", "m", "--resume", "2020"], KEY, "there is no conversation 2020; `handrail chat --list`"),
    (["run", "x", "--model", "m", "-w", "nowhere"], KEY, "-w nowhere does not exist"),
    (["run", " ", "--model", "m"], KEY, "the task is empty"),
    (["run"], KEY, "TASK"),
    (["chat"], KEY, "--model M, set HANDRAIL_MODEL"),
    (["chat", "--model", "gpt-5"], {}, "set OPENAI_API_KEY"),
    (["chat", "--continue"], KEY, "leave out --continue"),
    (["chat", "--resume", ""], KEY, "--resume needs the id"),
]


@pytest.mark.parametrize(("words", "more", "expected"), MISTAKES, ids=[" ".join(words) for words, _, _ in MISTAKES])
def test_a_mistake_is_one_sentence_with_the_mend_and_exit_status_2(
    place: Place, words: list[str], more: dict[str, str], expected: str
) -> None:
    code, out, err = place.run(None, *words, **more)
    assert (code, out) == (2, "") and expected in err and err.count("\n") == 1, err


def test_a_conversation_of_another_project_names_it(place: Place) -> None:
    server = place.serve([Line("One.")])
    _, out, _ = place.run(server, "run", "first", "--model", "m", "--json")
    own = json.loads(out.splitlines()[-1])["conversation"]
    code, _, err = place.run(server, "run", "x", "--resume", own, "-w", str(place.folder))
    assert code == 2 and f"give -w {place.project}" in err
    code, out, _ = place.run(server, "chat", "--list")
    assert code == 0 and own in out and "first" in out


def test_a_chat_in_a_pipe_takes_a_message_a_line_and_writes_no_escape_codes(place: Place) -> None:
    server = place.serve([Line("One."), Line("Two.")])
    words = ["chat", "--model", "m"]
    code, out, err = place.run(server, *words, stdin="first \\\nsecond line\n/mode read-only\nlast\n/nope\n/quit\nno\n")
    assert (code, out) == (0, "One.\nTwo.\n") and "\x1b" not in err
    assert server.requests[0].body["messages"][-1]["content"] == "first \nsecond line"
    assert "mode read-only" in err and "unknown command /nope" in err and len(server.requests) == 2


def _until(holds: Callable[[], Any]) -> None:
    import time

    for _ in range(60_000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")
