"""S0-2, S0-3, S0-4 and S0-49: who decides over a call, the defaults, and the safety layer, in `deepagents`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import FileAccess, Question, Root, Session, Setup, dialects, parse_rules
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


Asked = list[tuple[str, str]]


@pytest.fixture
def asked() -> Asked:
    return []


@pytest.fixture
def open_session(project: Path, make_session: Make, asked: Asked) -> Make:
    """`open_session(mode, *more_rules)`: a session with the rules that the dialect ships, and somebody who says yes."""
    shipped = parse_rules(dialects.load("deepagents").policy, source="deepagents/policy.toml")

    def approve(question: Question) -> bool:
        asked.append((question.call.tool, str(question.call.arguments.get("file_path") or question.call.arguments)))
        return True

    def make(mode: Any = "ask", *more: str) -> Session:
        rules = [shipped, parse_rules(f"rules = {list(more)!r}")]
        return make_session(
            project, dialect="deepagents", mode=mode, setup=Setup(rules=rules), approve=approve, durable=False
        )

    return make


MODES = pytest.mark.parametrize("mode", ["ask", "accept-edits"])
EDIT = {"file_path": "/bar.txt", "old_string": "old", "new_string": "new"}


@MODES
def test_s0_2_each_call_is_decided_by_itself(project: Path, open_session: Make, asked: Asked, mode: str) -> None:
    """The three calls of the document: one goes through, one is asked about, one is refused and nobody is asked."""
    session = open_session(mode)
    for name in ("foo.txt", "bar.txt"):
        assert session.call("read_file", {"file_path": f"/{name}"}).status == "ok"
    assert asked == []

    assert session.call("edit_file", EDIT).status == "ok"
    assert asked == [("edit_file", "/bar.txt")]
    assert (project / "bar.txt").read_text(encoding="utf-8") == "new\n"

    result = session.call("execute", {"command": "rm baz.txt"})
    assert (result.status, len(asked)) == ("denied", 1)
    assert result.error is not None and result.error.code == "denied"
    assert (project / "baz.txt").exists()


def test_s0_2_an_edit_that_the_person_refuses_changes_nothing(project: Path, make_session: Make) -> None:
    shipped = parse_rules(dialects.load("deepagents").policy)
    for approve, code in ((lambda _: False, "denied"), (None, "needs_approval")):
        session = make_session(project, dialect="deepagents", setup=Setup(rules=[shipped]), approve=approve)
        session.call("read_file", {"file_path": "/bar.txt"})
        result = session.call("edit_file", EDIT)
        assert result.error is not None and (result.status, result.error.code) == ("denied", code)
    assert (project / "bar.txt").read_text(encoding="utf-8") == "old\n"


@MODES
@pytest.mark.parametrize(
    ("tool", "arguments", "wanted"),
    [
        ("read_file", {"file_path": "/foo.txt"}, "free"),
        ("ls", {"path": "/"}, "free"),
        ("glob", {"pattern": "*.txt"}, "free"),
        ("grep", {"pattern": "old"}, "free"),
        ("edit_file", EDIT, "asked"),
        ("write_file", {"file_path": "/new.txt", "content": "x"}, "asked"),
        ("delete", {"file_path": "/baz.txt"}, "asked"),
        ("execute", {"command": "cat foo.txt"}, "free"),
        ("execute", {"command": "echo x > foo.txt"}, "asked"),
        ("execute", {"command": "rm -f baz.txt"}, "denied"),
        ("execute", {"command": "true; rm baz.txt"}, "denied"),
        ("execute", {"command": "mkfs.ext4 /dev/sda1"}, "denied"),
        ("execute", {"command": "sudo ls"}, "denied"),
    ],
    ids=str,
)
def test_s0_3_reads_are_free_changes_are_asked_about_and_commands_are_tiered_by_danger(
    open_session: Make, asked: Asked, mode: str, tool: str, arguments: dict[str, Any], wanted: str
) -> None:
    session = open_session(mode)
    session.call("read_file", {"file_path": "/bar.txt"})
    result = session.call(tool, arguments)
    assert (result.status, len(asked)) == {"free": ("ok", 0), "asked": ("ok", 1), "denied": ("denied", 0)}[wanted]


def test_s0_3_a_change_that_is_listed_needs_no_confirmation(open_session: Make, asked: Asked, project: Path) -> None:
    listed = parse_rules('rules = ["allow Edit(src/**)"]')
    policy = RulePolicy([Root(str(project))], "ask", [listed])
    path = str(project.resolve() / "src" / "a.py")
    assert policy.judge([FileAccess("write", path, path)]).decision == "allow"


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
