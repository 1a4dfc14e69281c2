"""S0-2, S0-3, S0-4 and S0-49: who decides over a call, the defaults, and the safety layer, in `deepagents`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Access, Question, Root, Session
from handrail.policy.files import parse
from handrail.policy.judge import RulePolicy

Make = Callable[..., Session]


def _policy(root: Path, mode: Any = "ask", lines: list[str] | None = None) -> RulePolicy:
    files = [parse(f"rules = {lines or []!r}", "policy.toml", "user")]
    return RulePolicy([Root(str(root))], mode, files)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("foo.txt", "bar.txt", "baz.txt"):
        (tmp_path / name).write_text("old\n", encoding="utf-8")
    return tmp_path


def test_s0_2_each_call_is_decided_by_itself(project: Path, make_session: Make) -> None:
    """The three calls of the document: one goes through, one is asked about, one is refused and nobody is asked."""
    asked: list[tuple[str, str]] = []

    def approve(question: Question) -> bool:
        asked.append((question.call.tool, question.verdict.why))
        return True

    policy = _policy(project, lines=["deny Bash(rm:*)"])
    session = make_session(project, dialect="deepagents", policy=policy, approve=approve, durable=False)
    assert session.call("read_file", {"file_path": "foo.txt"}).status in ("ok", "partial")
    assert asked == []

    session.call("read_file", {"file_path": "bar.txt"})
    edit = {"file_path": "bar.txt", "old_string": "old", "new_string": "new"}
    assert session.call("edit_file", edit).status == "ok"
    assert asked == [("edit_file", "bar.txt would be changed")]
    assert (project / "bar.txt").read_text(encoding="utf-8") == "new\n"

    result = session.call("execute", {"command": "rm baz.txt"})
    assert (result.status, len(asked)) == ("denied", 1)
    assert result.error is not None and result.error.code == "denied"
    assert (project / "baz.txt").exists()


def test_s0_2_an_edit_that_the_person_refuses_changes_nothing(project: Path, make_session: Make) -> None:
    for approve, code in ((lambda _: False, "denied"), (None, "needs_approval")):
        session = make_session(project, dialect="deepagents", policy=_policy(project), approve=approve)
        session.call("read_file", {"file_path": "bar.txt"})
        result = session.call("edit_file", {"file_path": "bar.txt", "old_string": "old", "new_string": "new"})
        assert result.error is not None and (result.status, result.error.code) == ("denied", code)
    assert (project / "bar.txt").read_text(encoding="utf-8") == "old\n"


def test_s0_3_reads_are_allowed_and_writes_are_confirmed_or_listed(project: Path) -> None:
    path = str(project.resolve() / "src" / "a.py")
    read, write = Access("read", path, path), Access("write", path, path)
    assert _policy(project).judge([read]).decision == "allow"
    assert _policy(project).judge([write]).decision == "ask"
    assert _policy(project, lines=["allow Edit(src/**)"]).judge([write]).decision == "allow"


@pytest.mark.parametrize(("tier", "wanted"), [("read_only", "allow"), ("ordinary", "ask"), ("destructive", "deny")])
def test_s0_3_commands_are_tiered_by_danger(project: Path, tier: Any, wanted: str) -> None:
    assert _policy(project).judge([Access("run", "x y", tier=tier)]).decision == wanted


def test_s0_4_policy_speaks_of_the_parameters_of_a_call(project: Path, make_session: Make) -> None:
    (project / ".env").write_text("KEY=hunter2\n", encoding="utf-8")
    session = make_session(project, dialect="deepagents", policy=_policy(project, "full"))
    assert session.call("read_file", {"file_path": "foo.txt"}).status in ("ok", "partial")
    result = session.call("read_file", {"file_path": ".env"})
    assert result.status == "denied" and "hunter2" not in result.text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"file_path": "../outside.txt"}),
        ("write_file", {"file_path": "../outside.txt", "content": "x"}),
        ("edit_file", {"file_path": "../outside.txt", "old_string": "old", "new_string": "new"}),
        ("ls", {"path": ".."}),
        ("glob", {"pattern": "*.txt", "path": ".."}),
        ("grep", {"pattern": "old", "path": ".."}),
        (
            "execute",
            {"command": "apply_patch <<'E'\n*** Begin Patch\n*** Delete File: out/outside.txt\n*** End Patch\nE"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_s0_49_every_path_is_checked_whatever_the_policy_allows(
    tmp_path: Path, make_session: Make, tool: str, arguments: dict[str, Any]
) -> None:
    (tmp_path / "outside.txt").write_text("old\n", encoding="utf-8")
    root = tmp_path / "project"
    root.mkdir()
    (root / "out").symlink_to("..")
    lines = ["allow Read", "allow Edit", "allow Delete", "allow Bash"]
    session = make_session(root, dialect="deepagents", policy=_policy(root, "full", lines), approve=lambda _: True)
    result = session.call(tool, arguments)
    assert result.status == "denied", result.text
    assert result.error is not None and result.error.code == "outside_workspace"
    assert (tmp_path / "outside.txt").read_text(encoding="utf-8") == "old\n"


def test_s0_49_a_command_needs_permission_and_its_output_is_bounded(project: Path, make_session: Make) -> None:
    command = {"command": "seq 100000"}
    refusing = make_session(project, dialect="deepagents", policy=_policy(project, "read-only", ["deny Bash(seq:*)"]))
    assert refusing.call("execute", command).status == "denied"
    policy = _policy(project, lines=["allow Bash(seq:*)"])
    result = make_session(project, dialect="deepagents", policy=policy).call("execute", command)
    assert result.status in ("ok", "partial"), result.text
    assert len(result.text) < 100_000
