"""The parts of the terminal face that need no terminal: blocks of Markdown, summaries, figures, configuration."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Session, Setup
from handrail.agent.messages import CallFinished, ModelReplied, ToolCall, Usage
from handrail.agent.providers import family
from handrail.cli import run
from handrail.cli.chat import command
from handrail.cli.chat.approvals import describe_choice
from handrail.cli.chat.blocks import Blocks
from handrail.cli.chat.completion import rank_paths
from handrail.cli.chat.opening import CommandOutput
from handrail.cli.chat.slash import COMMANDS, is_command
from handrail.cli.chat.status import Meter
from handrail.cli.chat.summary import describe_call, describe_outcome
from handrail.model import Call, FileDiff, Question, Verdict
from handrail.pipeline.events import SessionEvent
from handrail.settings import AgentSettings, Settings
from handrail.settings.config_file import ConfigError, load
from tests.command import TIMEOUT


def test_a_block_ends_at_an_empty_line_but_not_inside_a_fence() -> None:
    blocks = Blocks()
    assert blocks.feed("one\ntwo\n\n```py\na\n") == ["one\ntwo\n\n"]
    assert blocks.feed("\nb\n``") == [] and blocks.open == "```py\na\n\nb\n``"
    assert blocks.feed("`\nrest") == ["```py\na\n\nb\n```\n"]
    assert blocks.finish() == "rest" and blocks.open == ""


def test_a_fence_is_closed_by_one_that_is_as_long_and_says_nothing() -> None:
    blocks = Blocks()
    assert blocks.feed("````\n```\n~~~~\n````x\n\n") == []
    assert blocks.feed("````\n") == ["````\n```\n~~~~\n````x\n\n````\n"]


@given(st.lists(st.text(alphabet="a`~ \n")))
def test_no_character_of_a_stream_is_lost_but_empty_lines(pieces: list[str]) -> None:
    blocks = Blocks()
    actual = [block for piece in pieces for block in blocks.feed(piece)]
    text = "".join([*actual, blocks.finish()])
    assert text.split() == "".join(pieces).split()


def test_the_lines_of_a_running_command_show_no_secrets_and_go_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2hunter2")
    output, shown = CommandOutput(), list[list[str]]()

    def listen(event: SessionEvent) -> None:
        output.notice(event)
        shown.append(output.last_lines())
        if any("secret" in line for line in shown[-1]):
            (tmp_path / "go").touch()

    command = "seq 9; printf 'a\\tb\\n'; echo hunter2hunter2; while ! test -e go; do sleep 0.01; done"
    settings = Settings(redact_values_from_env=("MY_SECRET",))
    with Session(tmp_path, journal=None, settings=settings, setup=Setup(on_event=listen)) as session:
        assert session.call("Bash", {"command": command, "timeout": TIMEOUT}, id="1").ok
    longest = max(shown, key=len)
    assert longest[:4] == ["7", "8", "9", "a   b"] and "⟦secret:" in longest[4] and len(longest) == 5
    assert "hunter2hunter2" not in repr(shown) and shown[-1] == []


def test_a_summary_names_the_first_thing_that_was_given_on_one_line() -> None:
    assert (
        describe_call(ToolCall("1", "Bash", '{"timeout": 3, "command": "echo a\\n\\u001b[2J"}'))
        == "Bash echo a \\x1b[2J"
    )
    assert describe_call(ToolCall("1", "Read", "{broken")) == "Read {broken"
    assert describe_call(ToolCall("1", "LS", "[]")) == "LS"
    assert len(describe_call(ToolCall("1", "Bash", '{"command": "' + "x" * 500 + '"}'))) < 80


def test_the_outcome_of_a_failure_has_its_first_line() -> None:
    use = ToolCall("1", "Read", "{}")
    assert describe_outcome(CallFinished(use, "ok", "a\nb\n", 0.5)) == "2 lines, 4 B · 0.50 s"
    assert describe_outcome(CallFinished(use, "error", "no\nsuch", 0)).endswith("· no")


def test_the_meter_adds_up_and_knows_the_cost_only_where_a_price_is_known() -> None:
    meter = Meter("m", 1_000, price_in=2.0, price_out=10.0)
    for _ in range(2):
        meter.notice(ModelReplied("", Usage(400, 100), 0.1))
    assert meter.line() == "m · 800 in, 200 out · cost 0.0036 · 50% of 1,000"
    assert "cost" not in Meter("m", 1_000).line()
    meter.notice(ModelReplied("", Usage(100, 50, is_estimated=True), 0.1))
    assert meter.line().startswith("m · about 900 in, 250 out")
    assert Meter("/models/small.gguf", 1_000).line().startswith("small.gguf · ")  # llama.cpp's names are paths


def test_a_path_is_no_command() -> None:
    assert is_command("/help") and is_command("/mode ask")
    assert not is_command("/etc/hosts is odd") and not is_command("help")


def test_completion_prefers_what_begins_so_then_names_then_the_rest() -> None:
    assert rank_paths("RE", ["src/more.py", "docs/readme.md", "README.md", "x.py"]) == [
        *("README.md", "docs/readme.md", "src/more.py"),
    ]


def test_the_agent_table_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    text = '[agent]\nmodel = "m"\napi = "responses"\nwindow = 1000\nprice_in = 1\nprice_out = 2.5\n'
    file.write_text(text, encoding="utf-8")
    assert load({"HANDRAIL_CONFIG": str(file)}).agent == AgentSettings("m", "responses", 1000, 1.0, 2.5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("agent = 1", "agent: must be a table, [agent], not 1"),
        ('[agent]\nmodle = "m"', "agent.modle: unknown key; did you mean model?"),
        ('[agent]\nmodel = ""', 'agent.model: must be a non-empty string, not ""'),
        ('[agent]\napi = "soap"', 'agent.api: must be one of "chat", "responses", "anthropic", not "soap"'),
        ("[agent]\nwindow = 1.5", "agent.window: must be a whole number"),
        ("[agent]\nprice_in = true", "agent.price_in: must be a number"),
    ],
)
def test_a_mistake_in_the_agent_table_is_named_with_its_file(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load({"HANDRAIL_CONFIG": str(file)})
    assert str(caught.value).startswith(f"{file}: {expected}")


PAGE = (Path(__file__).parents[2] / "docs" / "agent.md").read_text(encoding="utf-8")


def _commands() -> list[list[str]]:
    lines = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    return [shlex.split(line[line.index("handrail ") :])[1:] for line in lines if "handrail " in line]


def test_the_page_shows_commands() -> None:
    assert {words[0] for words in _commands()} == {"chat", "run"} and len(_commands()) >= 9


@pytest.mark.parametrize("words", _commands(), ids=" ".join)
def test_the_commands_of_the_page_are_understood(words: list[str]) -> None:
    parser = {"chat": command.parser, "run": run.parser}[words[0]]()
    assert parser.parse_intermixed_args(words[1:])


def test_the_page_has_every_slash_command_every_exit_status_and_the_families() -> None:
    assert re.findall(r"^\| `/(\w+)", PAGE, re.MULTILINE) == list(COMMANDS)
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)} == {*run.CODES.values(), 2}
    for name, api, dialect in (
        ("claude-x", "anthropic", "claude"),
        ("gpt-6", "responses", "codex"),
        ("x", "chat", "native"),
    ):
        assert (family(name).api, family(name).dialect) == (api, dialect)
    assert (family("gpt-oss-1").api, family("gemini-3").dialect) == ("chat", "gemini")


def test_the_configuration_of_the_page_is_accepted(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    file = tmp_path / "config.toml"
    file.write_text(block, encoding="utf-8")
    assert load({"HANDRAIL_CONFIG": str(file)}).agent == AgentSettings("qwen3-coder", "chat", 262144, 0.2, 0.8)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, "3 of 3 hunks kept"),
        ({"a.py": [1]}, "2 of 3 hunks kept"),
        ({"a.py": []}, "1 of 3 hunks kept"),
        ({"a.py": [0, 1], "b.py": []}, "2 of 3 hunks kept"),
        ({"a.py": [], "b.py": [], "other.py": []}, "0 of 3 hunks kept"),
    ],
)
def test_how_many_hunks_were_kept_is_said(chosen: dict[str, list[int]], expected: str) -> None:
    files = (FileDiff("a.py", hunks=("@@ 1\n", "@@ 2\n")), FileDiff("b.py", hunks=("@@ 3\n",)))
    question = Question(Call("Edit", {}), (), Verdict("ask"), files)
    assert describe_choice(question, chosen) == expected
