"""Hooks of rule files: commands before and after calls, by rule, in every interface."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from handrail import Answer, Session, Settings, Setup, parse_rules
from handrail.policy.files import trust
from tests.command import handrail
from tests.mcp.stdio_client import RawClient

WRITE = {"file_path": "src/a.py", "content": "x = 1\n"}


def open_session(root: Path, hooks: str, **options: Any) -> Session:
    return Session(root, journal=None, setup=Setup(rules=[parse_rules(hooks)]), **options)


def hook(event: str, pattern: str, run: str) -> str:
    return f"[[hooks]]\n{event} = {json.dumps(pattern)}\nrun = {json.dumps(run)}\n"


@pytest.mark.parametrize(
    ("pattern", "tool", "arguments", "concerned"),
    [
        ("*", "LS", {"path": "."}, True),
        ("Edit(src/**)", "Write", WRITE, True),
        ("Edit(src/**)", "Write", {**WRITE, "file_path": "b.py"}, False),
        ("Edit", "Trash", {"path": "b.txt"}, True),
        ("Edit(src/**)", "Read", {"file_path": "src/b.py"}, False),
        ("Read(src/**)", "Read", {"file_path": "src/b.py"}, True),
        ("Edit(src/**)", "Bash", {"command": "touch src/c.py"}, True),
        ("Bash(git *)", "Bash", {"command": "git status"}, True),
        ("Bash(git push *)", "Bash", {"command": "env X=1 git -C . push origin"}, True),
        ("Bash(git push *)", "Bash", {"command": "git status"}, False),
    ],
)
def test_a_hook_denies_the_calls_of_its_rule_and_no_others(
    tmp_path: Path, pattern: str, tool: str, arguments: dict[str, str], concerned: bool
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "b.py").write_text("1\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("1\n", encoding="utf-8")
    ran = tmp_path / "ran"
    hooks = hook("before", pattern, f"touch {ran}; echo not today >&2; exit 3")
    with open_session(tmp_path, hooks, mode="full") as session:
        result = session.call(tool, arguments)
    assert ran.exists() == concerned
    assert (result.status == "denied" and "not today" in result.text) == concerned
    assert not (tmp_path / "src" / "a.py").exists() or not concerned


def test_a_hook_gets_the_call_and_afterwards_its_result(tmp_path: Path) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    hooks = hook("before", "Edit(src/**)", f"cat >> {before}") + hook("after", "*", f"cat >> {after}; exit 1")
    with open_session(tmp_path, hooks) as session:
        assert session.call("Write", WRITE, id="7").ok
        assert session.call("Nothing", {}).status == "error"
    (first,) = map(json.loads, before.read_text(encoding="utf-8").splitlines())
    about = {"id": "7", "tool": "Write", "arguments": WRITE, "workspace": str(tmp_path.resolve())}
    assert first == {"event": "before_call", **about}
    ended = list(map(json.loads, after.read_text(encoding="utf-8").splitlines()))
    assert ended[0] | {"result": None} == {"event": "after_call", **about, "result": None}
    assert [one["result"]["status"] for one in ended] == ["ok", "error"]


def test_a_call_that_the_policy_denies_runs_no_hook_before_and_one_that_is_rewritten_runs_it_again(
    tmp_path: Path,
) -> None:
    seen = tmp_path / "seen.jsonl"
    hooks = "rules = ['deny Edit(secret/**)']\n" + hook("before", "Edit", f"cat >> {seen}")
    rewritten = Answer(True, arguments={**WRITE, "content": "y = 2\n"})
    answers = [rewritten, Answer(True)]
    with open_session(tmp_path, hooks, mode="ask", approve=lambda _: answers.pop(0)) as session:
        assert session.call("Write", {"file_path": "secret/a", "content": ""}).status == "denied"
        assert session.call("Write", WRITE).ok
    contents = [json.loads(line)["arguments"]["content"] for line in seen.read_text(encoding="utf-8").splitlines()]
    assert contents == ["x = 1\n", "y = 2\n"]


@pytest.mark.parametrize(
    ("run", "why"), [("exit 4", "exit status 4"), ("/no/such/program", "No such file"), ("sleep 60", "within 0.2 s")]
)
def test_a_hook_that_fails_denies(tmp_path: Path, run: str, why: str) -> None:
    with open_session(tmp_path, hook("before", "*", run) + "seconds = 0.2\n" * (run == "sleep 60")) as session:
        result = session.call("LS", {"path": "."})
    assert result.status == "denied" and why in result.text


def test_a_large_call_reaches_a_hook_that_does_not_read_it(tmp_path: Path) -> None:
    with open_session(tmp_path, hook("before", "*", "true") + hook("before", "*", "wc -c > size")) as session:
        assert session.call("Write", {**WRITE, "content": "x" * 3_000_000}).ok
    assert int((tmp_path / "size").read_text(encoding="utf-8")) > 3_000_000


def test_hooks_of_a_project_wait_for_trust_and_run_in_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, state, outside = tmp_path / "project", tmp_path / "state", tmp_path / "outside"
    root.mkdir()
    monkeypatch.setenv("HANDRAIL_STATE", str(state))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    text = hook("before", "Edit", f"touch {outside}; echo ask first; false")
    (root / "handrail.toml").write_text(text, encoding="utf-8")
    with Session(root, journal=None) as session:
        assert session.call("Write", WRITE).ok
        file = next(file for file in session.services.rules if file.origin == "project")
    trust(str(root), str(state), file.sha256)
    with Session(root, journal=None) as session:
        result = session.call("Write", {**WRITE, "file_path": "b.py"})
        assert result.status == "denied" and "ask first" in result.text and "handrail.toml:1" in result.text
        if session.services.command_host().sandbox.confined:
            assert not outside.exists()


def test_a_session_in_a_draft_has_the_hooks_too(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    rules = [parse_rules(hook("before", "Edit(src/**)", "echo not today; false"))]
    try:
        session = Session(root, setup=Setup(rules=rules, draft="one"), settings=Settings(state=str(tmp_path / "state")))
    except OSError as error:
        pytest.skip(f"no drafts here: {error}")
    with session:
        assert "not today" in session.call("Write", WRITE).text
        assert session.call("Write", {**WRITE, "file_path": "b.py"}).ok


def write_rules(tmp_path: Path, text: str) -> tuple[Path, dict[str, str]]:
    """A project, and the variables of a user with these rules."""
    config, root = tmp_path / "config" / "handrail", tmp_path / "project"
    config.mkdir(parents=True)
    root.mkdir()
    (config / "policy.toml").write_text(text, encoding="utf-8")
    return root, {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HANDRAIL_STATE": str(tmp_path / "state")}


@pytest.mark.parametrize(
    "words", [["call", "Write", json.dumps(WRITE)], ["batch"]], ids=["handrail call", "handrail batch"]
)
def test_hooks_hold_on_the_command_line(tmp_path: Path, words: list[str]) -> None:
    root, variables = write_rules(tmp_path, hook("before", "Edit(src/**)", "echo not today; false"))
    line = json.dumps({"tool": "Write", "arguments": WRITE}).encode()
    ended = handrail(*words, cwd=root, variables=variables, stdin=line if words == ["batch"] else b"")
    assert b"not today" in ended.stdout + ended.stderr, ended
    assert not (root / "src").exists()


def test_hooks_and_checks_hold_over_mcp(tmp_path: Path) -> None:
    checks = "[checks]\n'*.txt' = 'grep -nH BAD {files}'\n"
    root, variables = write_rules(tmp_path, checks + hook("before", "Edit(src/**)", "echo not today; false"))
    with RawClient(cwd=root, variables=variables) as client:
        client.shake()
        assert "not today" in client.call("Write", None, **WRITE)["content"][0]["text"]
        assert not client.call("Write", file_path="a.txt", content="BAD\n")["isError"]
        for _ in range(600):
            content = client.call("LS", path=".")["content"]
            if len(content) > 1:
                break
            time.sleep(0.05)
    assert content[1]["text"].splitlines()[1:] == ["a.txt:1:BAD"]
