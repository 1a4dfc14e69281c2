"""Real agents with their own tools, attached: their commands and edits are undone byte for byte from elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handrail_demo.scripted_server import Line, Script, ScriptedServer, Seen
from tests.clients.bodies import answers, offered
from tests.clients.fence import Fence

_SECONDS = 150
PROMPT = "Do it."
_HANDRAIL = str(Path(sys.executable).with_name("handrail"))


def _claude_words(url: str, mode: str) -> list[str]:
    return ["-p", *(["--allowedTools", "Bash,Edit,Write,Read"] if mode else []), "--", PROMPT]


def _claude_environment(url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


@dataclass
class Attached:
    """A user whose agent is attached, and a project."""

    name: str
    program: list[str]
    home: Path
    project: Path
    environment: dict[str, str]

    def handrail(self, *words: str) -> str:
        done = subprocess.run(
            [_HANDRAIL, *words], cwd=self.project, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, *uses: tuple[str, dict[str, Any]], mode: str = "allowed") -> list[list[str]]:
        """One prompt; returns what the model read of its calls."""
        with Fence() as fence, ScriptedServer(following(*uses)) as model:
            words = _claude_words(model.url, mode)
            done = subprocess.run(
                [*self.program, *words],
                cwd=self.project,
                env={**self.environment, **fence.environment, **_claude_environment(model.url)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            asked = [seen for seen in model.requests if seen.body.get("tools")]
            return answers(asked[-1].body)

    def read(self) -> dict[str, bytes]:
        files = (path for path in self.project.rglob("*") if path.is_file())
        return {str(path.relative_to(self.project)): path.read_bytes() for path in files}


def following(*uses: tuple[str, dict[str, Any]]) -> Script:
    """A model that makes one call after the other with the agent's own tools."""

    def script(seen: Seen) -> Line:
        if not offered(seen.body):
            return Line("A title")
        done = len(answers(seen.body))
        return Line("", [uses[done]]) if done < len(uses) else Line("It is done.")

    return script


@pytest.fixture
def attached(tmp_path: Path, program: Callable[[str], list[str]]) -> Iterator[Callable[[str], Attached]]:
    home, project = tmp_path / "home", tmp_path / "project"

    def make(name: str) -> Attached:
        home.mkdir()
        project.mkdir()
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        scene = Attached(name, program(name), home, project, environment)
        scene.handrail("attach", name)
        return scene

    yield make
    lock = home / ".local" / "state" / "handrail" / "attach" / "lock"
    with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
        os.kill(int(lock.read_text(encoding="utf-8")), signal.SIGTERM)


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "Bash", {"command": command, "description": "A step"}


COMMANDS = [
    "echo new > new.txt",
    "sed -i s/one/two/ a.txt",
    "mv a.txt b.txt && rm -rf d",
    "git init -q . && git add . && git -c user.name=n -c user.email=e commit -qm first",
    "tar cf all.tar a.txt d && tar xf all.tar -C d",
    "python3 -c \"open('made.txt', 'wb').write(bytes(range(256)))\"",
    "printf 'all:\\n\\techo hi > built\\n' > Makefile && make -s",
]


def test_commands_of_claude_code_run_in_drafts_and_are_undone_byte_for_byte(
    attached: Callable[[str], Attached],
) -> None:
    scene = attached("claude")
    (scene.project / "a.txt").write_bytes(b"one\r\n\xff\x00")
    (scene.project / "d").mkdir()
    (scene.project / "d" / "c.txt").write_bytes(b"c")
    before = scene.read()
    for command in COMMANDS:
        (answer,) = scene.run(bash(command))
        assert "handrail" not in answer[-1], answer
        assert scene.read() != before, command
        scene.handrail("undo")
        assert scene.read() == before, command


def test_edits_of_claude_code_are_undone_and_a_turn_at_once(attached: Callable[[str], Attached]) -> None:
    scene = attached("claude")
    path = scene.project / "a.txt"
    path.write_bytes(b"one\ntwo\n")
    before = scene.read()
    texts = scene.run(
        ("Read", {"file_path": str(path)}),
        ("Edit", {"file_path": str(path), "old_string": "one", "new_string": "eins"}),
        bash("echo drei >> a.txt; cd /; pwd"),
        ("Write", {"file_path": str(scene.project / "b.txt"), "content": "b\n"}),
    )
    assert path.read_bytes() == b"eins\ntwo\ndrei\n" and texts[2][-1].startswith("/\n"), texts
    lines = scene.handrail("log").splitlines()
    assert [tool for line in lines for tool in ("Prompt", "Edit", "Bash", "Write") if f" {tool} " in line] == [
        "Prompt",
        "Edit",
        "Bash",
        "Write",
    ]
    scene.handrail("undo", "--since", lines[0].split()[0])
    assert scene.read() == before


def test_claude_code_learns_in_one_line_what_was_refused(attached: Callable[[str], Attached]) -> None:
    scene = attached("claude")
    (scene.project / ".env").write_text("KEY=value\n", encoding="utf-8")
    texts = scene.run(
        ("Read", {"file_path": str(scene.project / ".env")}), bash("cat .env"), bash("grep -r KEY . | cat")
    )
    assert all("looks like a secret" in "".join(one) for one in texts[:2]), texts
    assert "value" not in json.dumps(texts)


def test_the_persons_own_rules_still_match_their_command(attached: Callable[[str], Attached]) -> None:
    scene = attached("claude")
    path = scene.home / ".claude" / "settings.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["permissions"] = {"allow": ["Bash(touch yes.txt)"], "deny": ["Bash(touch no.txt)"]}
    path.write_text(json.dumps(settings), encoding="utf-8")
    scene.run(bash("touch yes.txt"), bash("touch no.txt"), bash("touch perhaps.txt"), mode="")
    assert list(scene.read()) == ["yes.txt"]
    scene.handrail("detach", "claude")
    assert json.loads(path.read_text(encoding="utf-8")) == {"permissions": settings["permissions"]}


def test_detach_restores_the_configuration_byte_for_byte(attached: Callable[[str], Attached]) -> None:
    scene = attached("claude")
    path = scene.home / ".claude" / "settings.json"
    scene.handrail("detach", "claude")
    assert not path.exists()
    path.parent.mkdir(exist_ok=True)
    text = '{ "model": "opus",\n\t"hooks": {"Stop": [ ]}, "env": {"A": "b"} }'
    path.write_text(text, encoding="utf-8")
    scene.handrail("attach", "claude")
    assert path.read_text(encoding="utf-8") != text
    scene.handrail("detach", "claude")
    assert path.read_text(encoding="utf-8") == text
