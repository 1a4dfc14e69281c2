"""Programs that only may use the network: no question where a sandbox cuts it, and as ever where none does."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.model import Answer, CommandAccess, Question
from handrail.policy.files import PolicyFile
from handrail.policy.judge import Machine, RulePolicy
from handrail.policy.modes import Mode
from handrail.policy.rules import from_table, parse_command, parse_pattern
from handrail.shell.parser import grammar
from handrail.workspace import Root

BUILDS = ["go test ./...", "cargo check", "npx tsc --noEmit", "uv run pytest", "mvn test", "pnpm exec tsc"]
NETWORK = ["curl https://x", "git push", "npm install", "pip install x", "go get x", "npx -y thing"]


def policy(root: Path, mode: Mode, *, held: bool, rule: str = "") -> RulePolicy:
    files = (PolicyFile("user", "user", (from_table({"rule": rule}),)),) if rule else ()
    held_ = partial(bool, held)
    return RulePolicy([Root(str(root))], mode, files, Machine(namespaced=held_, offline=held_), str(root / "home"))


def decide(root: Path, command: str, mode: Mode = "accept-edits", *, held: bool, rule: str = "") -> str:
    settings = Settings(raise_bugs=True, sandbox="off", state=str(root.parent / "state"))
    with Session(root, policy=policy(root, mode, held=held, rule=rule), settings=settings) as session:
        return session.prepare("Bash", {"command": command}).verdict.decision


@pytest.mark.parametrize("command", BUILDS)
def test_a_build_tool_is_asked_about_only_without_a_boundary(command: str, tmp_path: Path) -> None:
    assert decide(tmp_path, command, held=True) == "allow"
    assert decide(tmp_path, command, held=False) == "ask"
    assert decide(tmp_path, command, "ask", held=True) == "ask"
    assert decide(tmp_path, command, "read-only", held=True) == "deny"


@pytest.mark.parametrize("command", NETWORK)
def test_a_program_of_the_network_is_asked_about_in_any_case(command: str, tmp_path: Path) -> None:
    assert decide(tmp_path, command, held=True) == "ask"
    assert decide(tmp_path, command, held=False) == "ask"


@pytest.mark.parametrize("command", [f"{build} && {other}" for build in BUILDS[:2] for other in NETWORK[:3]])
def test_a_build_tool_beside_a_program_of_the_network_loosens_nothing(command: str, tmp_path: Path) -> None:
    assert decide(tmp_path, command, held=True) == "ask"


def test_a_rule_against_the_network_stops_a_build_only_where_it_is_open(tmp_path: Path) -> None:
    assert decide(tmp_path, "go test", "full", held=False, rule="deny Network(*)") == "deny"
    assert decide(tmp_path, "go test", "full", held=False, rule="ask Network(*)") == "ask"
    assert decide(tmp_path, "go test", "accept-edits", held=True, rule="deny Network(*)") == "allow"
    assert decide(tmp_path, "curl x", "accept-edits", held=True, rule="deny Network(*)") == "deny"


@pytest.mark.parametrize("command", ["npx thing", "cd web && npx thing a", "npm exec thing", "uvx thing"])
def test_a_tool_that_may_not_be_installed_runs_without_the_network_in_a_sandbox(command: str, tmp_path: Path) -> None:
    assert decide(tmp_path, command, held=True) == "allow"
    assert decide(tmp_path, command, held=False) == "ask"


@pytest.mark.parametrize(("command", "opens"), [("go test; rm a", False), ("curl x; rm a", True)])
def test_a_yes_to_something_else_does_not_open_the_network_for_a_build(
    command: str, opens: bool, tmp_path: Path
) -> None:
    (tmp_path / "a").touch()
    settings = Settings(raise_bugs=True, sandbox="off", state=str(tmp_path.parent / "state"))
    asked: list[Question] = []

    def yes(question: Question) -> Answer:
        asked.append(question)
        return Answer(True)

    with Session(
        tmp_path, policy=policy(tmp_path, "accept-edits", held=True), settings=settings, approve=yes
    ) as session:
        prepared = session.prepare("Bash", {"command": command})
        approved = session.services.approvals.approve(prepared)
    assert asked
    assert approved.network.open is opens


@pytest.mark.parametrize(
    ("rule", "command", "refused"),
    [
        ("npm install -g *", "npm install x -g", True),
        ("npm install -g *", "npm -g install x", True),
        ("npm install -g *", "npm i x -g", False),
        ("npm install -g *", "npm install x", False),
        ("npm install --global *", "npm install x --global=true", True),
        ("go test -exec *", "go test ./... -exec sh", True),
        ("go test -exec *", "go test ./... -exec=sh", True),
        ("rm -r *", "rm a -fr b", True),
        ("rm -r *", "rm --force b", False),
        ("git push --force *", "git push origin main --force", True),
        ("git push --force", "git push --force", True),
        ("git push --force", "git push --force origin", False),
        ("git push *", "git -C d push", True),
    ],
)
def test_a_refusal_finds_a_flag_wherever_it_stands(rule: str, command: str, refused: bool) -> None:
    assert parse_pattern(rule).refuses(parse_command(command)) is refused


def test_an_allowance_holds_for_flags_as_they_are_written_only() -> None:
    assert parse_pattern("npm test -s *").allows(parse_command("npm test -s x"))
    assert not parse_pattern("npm test -s *").allows(parse_command("npm test x -s"))


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("ls -la && git status; cat a | head -5", 1),
        ("curl -s https://x | jq . && bash -c 'echo $(git log -1)'", 2),
        ("cd d && npx tsc | xargs grep -n x; env A=1 timeout 5 bash -c 'eval \"ls; pwd\"'", 3),
    ],
)
def test_a_command_line_is_parsed_once(
    command: str, texts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    begin = grammar.Parser.parse_commands

    def counted(self: grammar.Parser, closer: str, kind: str) -> int:
        if not closer and self.base is None:
            parsed.append(self.text)
        return begin(self, closer, kind)

    parse_command.cache_clear()
    with Session(tmp_path, mode="accept-edits", settings=Settings(raise_bugs=True, sandbox="off")) as session:
        session.prepare("Bash", {"command": "true"})
        monkeypatch.setattr(grammar.Parser, "parse_commands", counted)
        session.prepare("Bash", {"command": command})
    assert len(parsed) == len(set(parsed)) == texts


def test_an_access_is_written_without_its_parsed_command() -> None:
    access = CommandAccess("ls", script=parse_command("ls"))
    assert access == CommandAccess("ls")
    assert "script" not in repr(access)
