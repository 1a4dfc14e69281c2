"""S1-1 and S1-11 to S1-17: the four primitives and bash, in the dialect `claw`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.model import Result
from tests.patience import until_it_got_far_enough
from tests.seeds.golden import tree

NOTHING = "命令执行成功,无终端输出。"
TIMEOUT = "\n[警告: 命令执行超时({seconds}s),已被系统强制终止。如果是启动常驻服务,请尝试将其转入后台。]"
CUT = "\n\n...[终端输出过长,已截断至前 8000 字节]..."


@pytest.fixture
def claw(make_session: Callable[..., Session]) -> Session:
    return make_session(dialect="claw", durable=False, sandbox="off", journal=None)


@pytest.fixture
def hasty(make_session: Callable[..., Session], tmp_path_factory: pytest.TempPathFactory) -> Session:
    """The same dialect, but for a second instead of thirty."""
    folder = tmp_path_factory.mktemp("dialect")
    (folder / "tools.toml").write_text('extends = "claw"\n[tools.bash]\nlimits = { seconds = 1.0 }\n', encoding="utf-8")
    return make_session(dialect=str(folder), durable=False, sandbox="off", journal=None)


def _bash(session: Session, command: str) -> Result:
    return session.call("bash", {"command": command})


def test_s1_1_four_primitives_each_with_name_definition_and_execution(claw: Session, tmp_path: Path) -> None:
    specs = {spec.name: spec for spec in claw.specs()}
    assert list(specs) == ["read_file", "write_file", "bash", "edit_file"]
    for spec in specs.values():
        assert spec.description and spec.schema["type"] == "object"
        assert set(spec.schema["required"]) <= set(spec.schema["properties"])
        json.dumps(spec.schema)
    assert claw.call("write_file", {"path": "a.txt", "content": "one\n"}).status == "ok"
    assert claw.call("read_file", {"path": "a.txt"}).text == "one\n"
    assert claw.call("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "two"}).status == "ok"
    assert _bash(claw, "cat a.txt").text == "two\n"


def test_s1_1_the_workspace_is_given_to_the_tools_and_not_by_the_model(
    make_session: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    session = make_session(work, dialect="claw", durable=False, sandbox="off", journal=None)
    assert session.call("write_file", {"path": "a.txt", "content": "one\n"}).status == "ok"
    assert _bash(session, "pwd").text == f"{work}\n"
    assert tree(work) == {"a.txt": "one\n"} and tree(elsewhere) == {}


def test_s1_11_the_description_and_the_schema_are_those_of_the_document(claw: Session) -> None:
    spec = claw.dialect.spec("bash")
    assert spec.description == (
        "在当前工作区执行任意的 bash 命令。支持链式命令(如 &&)。返回标准输出(stdout)和标准错误(stderr)。"
    )
    assert spec.schema == {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "要执行的 bash 命令,例如: ls -la 或 go test ./..."}
        },
        "required": ["command"],
    }


def test_s1_11_arguments_that_are_no_json_are_told(claw: Session) -> None:
    assert claw.call("bash", '{"command": ').text.startswith("参数解析失败: ")


def test_s1_12_bash_runs_it_in_the_workspace(claw: Session, tmp_path: Path) -> None:
    output = _bash(claw, 'pwd; echo "$BASH_VERSION" | grep -c .; shopt -q login_shell || echo not a login shell').text
    assert output == f"{tmp_path}\n1\nnot a login shell\n"


def test_s1_12_variables_pipes_and_chains_work(claw: Session) -> None:
    assert _bash(claw, "x=3; echo $((x * 2)) | tr 6 7 && false || echo else").text == "7\nelse\n"


def test_s1_12_both_outputs_come_as_one_in_the_order_of_printing(claw: Session) -> None:
    command = "for n in 1 2 3; do echo out $n; echo err $n >&2; done"
    assert _bash(claw, command).text == "".join(f"out {n}\nerr {n}\n" for n in (1, 2, 3))


def test_s1_12_a_command_has_thirty_seconds(claw: Session) -> None:
    assert claw.dialect.limits("bash").seconds == claw.dialect.limits("bash").most_seconds == 30


def test_s1_13_a_timeout_is_a_warning_behind_the_output_and_no_error(hasty: Session) -> None:
    result, _ = until_it_got_far_enough(  # the limit of this dialect is fixed: tried again
        lambda _: _bash(hasty, "echo first; sleep 600"), lambda result: "first" in result.text
    )
    assert (result.text, result.status) == ("first\n" + TIMEOUT.format(seconds=1), "ok")
    assert result.error is None and result.data["timed_out"] is True


@pytest.mark.long
def test_s1_13_after_thirty_seconds_the_warning_is_that_of_the_document(claw: Session) -> None:
    result = _bash(claw, "echo first; sleep 600")
    assert (result.text, result.status) == ("first\n" + TIMEOUT.format(seconds=30), "ok")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo out; echo err >&2; exit 3", "执行报错: exit status 3\n输出:\nout\nerr\n"),
        ("false", "执行报错: exit status 1\n输出:\n"),
        (
            "no-such-command-here",
            "执行报错: exit status 127\n输出:\nbash: line 1: no-such-command-here: command not found\n",
        ),
    ],
)
def test_s1_14_a_failure_is_what_the_model_reads_and_not_an_error(claw: Session, command: str, expected: str) -> None:
    result = _bash(claw, command)
    assert (result.text.replace("/usr/bin/bash:", "bash:").replace("/bin/bash:", "bash:"), result.status) == (
        expected,
        "ok",
    )
    assert result.error is None


@pytest.mark.parametrize("sandbox", ["off", "auto"])
@pytest.mark.parametrize(
    ("name", "words"), [("KILL", "killed"), ("TERM", "terminated"), ("SEGV", "segmentation fault"), ("ABRT", "aborted")]
)
def test_s1_14_a_command_that_a_signal_ended_is_a_failure_too(
    make_session: Callable[..., Session], sandbox: str, name: str, words: str
) -> None:
    """The words of Go for a signal, whether the shell ends by it or a sandbox reports it."""
    session = make_session(dialect="claw", durable=False, sandbox=sandbox, journal=None)
    result = _bash(session, f"echo last words; ulimit -c 0; kill -{name} $$")
    assert (result.text, result.status) == (f"执行报错: signal: {words}\n输出:\nlast words\n", "ok")


@pytest.mark.parametrize("command", ["true", "mkdir made", "echo hidden >/dev/null", ":"])
def test_s1_15_a_command_that_prints_nothing_has_an_answer(claw: Session, command: str) -> None:
    assert (_bash(claw, command).text, _bash(claw, "true").status) == (NOTHING, "ok")


def test_s1_16_eight_thousand_bytes_are_shown_as_they_are(claw: Session) -> None:
    result = _bash(claw, "head -c 8000 /dev/zero | tr '\\0' x")
    assert result.text == "x" * 8000 and result.data["truncated"] is False


def test_s1_16_of_more_the_first_eight_thousand_bytes_are_shown(claw: Session) -> None:
    result = _bash(claw, "head -c 8000 /dev/zero | tr '\\0' x; echo behind")
    assert result.text == "x" * 8000 + CUT and result.data["truncated"] is True


def test_s1_16_bytes_are_counted_and_not_characters(claw: Session) -> None:
    """The document cuts bytes, which would tear the character at the end: that one is left out."""
    assert _bash(claw, "printf '读%.0s' {1..2000}").text == "读" * 2000
    result = _bash(claw, "printf '读%.0s' {1..3000}")
    assert result.text == "读" * (8000 // 3) + CUT and result.data["truncated"] is True
    whole = claw.call("read_file", {"path": result.data["log"]})
    assert whole.text.startswith("读" * 2600)


def test_s1_16_a_failure_is_cut_too(claw: Session) -> None:
    result = _bash(claw, "head -c 9000 /dev/zero | tr '\\0' x; exit 4")
    assert result.text == "执行报错: exit status 4\n输出:\n" + "x" * 8000 + CUT


@pytest.mark.parametrize(("more", "before"), [("", ""), ("; exit 3", "执行报错: exit status 3\n")])
def test_s1_8_far_too_much_output_is_offloaded_with_a_preview_of_both_ends(
    claw: Session, more: str, before: str
) -> None:
    result = claw.call("bash", {"command": f"seq 20000{more}"}, id="call-1")
    path = "/large_tool_results/call-1"
    first, _, preview = result.text.removeprefix(before).partition("\n")
    assert result.text.startswith(before) and first == (
        f"文件过长(共 20000 行,已卸载至 {path})。以下为首尾预览,如需完整内容请调用 read_file('{path}')。"
    )
    assert preview.startswith("1\n2\n3\n") and preview.endswith("\n19999\n20000") and len(preview) < 8_100
    assert claw.call("read_file", {"path": path}).text.startswith("1\n2\n3\n")


def test_s1_12_there_is_no_other_argument(claw: Session) -> None:
    result = claw.call("bash", {"command": "true", "timeout": 60})
    assert result.text.startswith("参数解析失败: ") and result.status == "error"


def test_s1_17_the_workspace_the_time_the_answer_and_the_mending_are_bounded(
    claw: Session, hasty: Session, tmp_path: Path
) -> None:
    """The four limits of the document in one command after another, and the session goes on each time."""
    assert _bash(claw, "pwd").text == f"{tmp_path}\n"
    assert "已被系统强制终止" in _bash(hasty, "sleep 600").text
    assert _bash(claw, "python3 -c 'print(1'").text.startswith("执行报错: exit status 1\n输出:\n")
    assert len(_bash(claw, "yes | head -c 20000").text.encode("utf-8")) == 8000 + len(CUT.encode("utf-8"))
    assert _bash(claw, "echo still here").text == "still here\n"
