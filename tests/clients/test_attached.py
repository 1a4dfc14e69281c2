"""Real agents with their own tools, attached: their commands and edits are undone byte for byte from elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from handrail_demo.scripted_server import Line, Script, ScriptedServer, Seen
from tests.clients.bodies import answers, offered, wait_for_command
from tests.clients.cast import codex_options, codex_settings
from tests.clients.fence import Fence

_SECONDS = 900
PROMPT = "Do it."
Use = tuple[str, dict[str, Any] | str]
_HANDRAIL = str(Path(sys.executable).with_name("handrail"))


@dataclass(frozen=True, slots=True)
class Agent:
    """How one prompt is run, and the names of the agent's own tools."""

    name: str
    words: Callable[[str], list[str]]
    """What follows the program; given the address of the model."""
    bash: Callable[[str], tuple[str, dict[str, Any]]]
    environment: Callable[[str], dict[str, str]] = lambda url: {}
    settings: str = ""
    """What its person has set already."""


def _run_codex(*more: str) -> Callable[[str], list[str]]:
    def list_words(url: str) -> list[str]:
        settings = {name: value for name, value in codex_settings(url).items() if not name.startswith("mcp_servers")}
        return ["exec", "--skip-git-repo-check", *more, *codex_options(settings | {"model": "gpt-5.5"}), PROMPT]

    return list_words


CLAUDE = Agent(
    "claude",
    lambda url: ["-p", "--allowedTools", "Bash,Edit,Write,Read", "--", PROMPT],
    lambda command: ("Bash", {"command": command, "description": "A step"}),
    lambda url: {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "BASH_DEFAULT_TIMEOUT_MS": "600000",  # then it moves a command to the background
        "IS_SANDBOX": "1",
    },
)
CAREFUL_CLAUDE = replace(CLAUDE, words=lambda url: ["-p", "--", PROMPT])
CODEX, FREE_CODEX = (
    Agent("codex", _run_codex("--sandbox", mode), lambda command: ("exec_command", {"cmd": command}))
    for mode in ("workspace-write", "danger-full-access")
)
OPENCODE = Agent(
    "opencode",
    lambda url: ["run", "--model", "scripted/scripted", PROMPT],
    lambda command: ("bash", {"command": command, "description": "A step"}),
    lambda url: {
        "OPENCODE_CONFIG_CONTENT": json.dumps(
            {
                "provider": {
                    "scripted": {
                        "npm": "@ai-sdk/openai-compatible",
                        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
                        "models": {"scripted": {}},
                    }
                },
                "permission": {"bash": {"*": "allow", "touch no.txt": "deny"}},
                "small_model": "scripted/scripted",
                "autoupdate": False,
            }
        ),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    },
)
GEMINI = Agent(
    "gemini",
    lambda url: ["--model", "gemini-2.5-pro", "--approval-mode", "yolo", "--skip-trust", "-p", PROMPT],
    lambda command: ("run_shell_command", {"command": command, "description": "A step"}),
    lambda url: {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url},
    '{"security": {"auth": {"selectedType": "gemini-api-key"}}}',
)
QWEN = Agent(
    "qwen",
    lambda url: [
        *("--auth-type", "openai", "--openai-base-url", f"{url}/v1", "--openai-api-key", "none"),
        *("--model", "scripted", "--approval-mode", "yolo", "-p", PROMPT),
    ],
    lambda command: ("run_shell_command", {"command": command, "description": "A step", "is_background": False}),
)
AGENTS = {"claude": CLAUDE, "codex workspace-write": CODEX, "codex danger-full-access": FREE_CODEX}


@dataclass
class Attached:
    """A user whose agent is attached, and a project."""

    agent: Agent
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

    def prompt(self, agent: Agent, *uses: Use, script: Script | None = None) -> list[Seen]:
        """One prompt, and calls of the model; returns all requests to it."""
        with Fence() as fence, ScriptedServer(script or following(*uses)) as model:
            done = subprocess.run(
                [*self.program, *agent.words(model.url)],
                cwd=self.project,
                env={**self.environment, **fence.environment, **agent.environment(model.url)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return model.requests

    def run(self, *uses: Use, agent: Agent | None = None) -> list[list[str]]:
        """One prompt; returns what the model read of its calls."""
        asked = [seen for seen in self.prompt(agent or self.agent, *uses) if seen.body.get("tools")]
        return answers(asked[-1].body)

    def find_settings(self) -> Path:
        """The file with the agent's settings."""
        return self.home / f".{self.agent.name}" / ("config.toml" if self.agent.name == "codex" else "settings.json")

    def list_tools(self) -> list[str]:
        """The tools of all recorded calls."""
        return [json.loads(line)["tool"] for line in self.handrail("log", "--json").splitlines()]

    def list_commands(self) -> list[str]:
        """The commands that ran."""
        calls = [json.loads(line) for line in self.handrail("log", "--json").splitlines()]
        return [one["arguments"]["command"] for one in calls if one["tool"] == "Bash" and one["status"] == "ok"]

    def find_helper(self) -> int:
        """The process of the resident helper."""
        lock = self.home / ".local" / "state" / "handrail" / "attach" / "lock"
        return int(lock.read_text(encoding="utf-8"))

    def undo_turn(self) -> None:
        """Undo everything since the first prompt."""
        self.handrail("undo", "--since", str(json.loads(self.handrail("log", "--json").splitlines()[0])["seq"]))

    def read(self) -> dict[str, bytes]:
        files = (path for path in self.project.rglob("*") if path.is_file())
        return {str(path.relative_to(self.project)): path.read_bytes() for path in files}


def following(*uses: Use) -> Script:
    """A model that makes one call after the other with the agent's own tools."""

    def script(seen: Seen) -> Line:
        if not offered(seen.body):
            return Line("A title")
        if wait := wait_for_command(seen.body):
            return Line("", [wait])
        done = len(answers(seen.body))
        return Line("", [uses[done]]) if done < len(uses) else Line("It is done.")

    return script


def wait_until(is_met: Callable[[], bool]) -> None:
    until = time.monotonic() + _SECONDS
    while not is_met():
        assert time.monotonic() < until
        time.sleep(0.1)


def is_running(*words: str) -> bool:
    """Whether a process runs with exactly these words."""
    wanted = b"".join(word.encode() + b"\0" for word in words)
    return any(_read(path) == wanted for path in Path("/proc").glob("[0-9]*/cmdline"))


def _read(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


@pytest.fixture
def attached(tmp_path: Path, program: Callable[[str], list[str]]) -> Iterator[Callable[[Agent], Attached]]:
    home, project = tmp_path / "home", tmp_path / "project"
    scenes: list[Attached] = []

    def make(agent: Agent) -> Attached:
        # Codex puts no programs of its sandbox into a home below the directory for temporary files.
        temporary = home / "tmp"
        for folder in (home, project, temporary):
            folder.mkdir()
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TMPDIR": str(temporary)}
        scene = Attached(agent, program(agent.name), home, project, environment)
        if agent.settings:
            path = scene.find_settings()
            path.parent.mkdir()
            path.write_text(agent.settings, encoding="utf-8")
        scene.handrail("attach", agent.name)
        if agent.name == "codex":
            trust_hooks(scene)
        scenes.append(scene)
        return scene

    yield make
    for scene in scenes:
        with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
            os.kill(scene.find_helper(), signal.SIGTERM)


def trust_hooks(scene: Attached) -> None:
    """Trust the hooks as a person does in Codex: it lists them with their hashes, and writes these down."""
    requests = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(scene.project)]}},
    ]
    words = [*scene.program, "app-server"]
    with subprocess.Popen(
        words, cwd=scene.project, env=scene.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin and server.stdout
        for request in requests:
            server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = next(one for one in map(json.loads, server.stdout) if one.get("id") == 2)
        server.terminate()
    (listed,) = answer["result"]["data"]
    assert not listed["errors"] and not listed["warnings"], listed
    assert {hook["trustStatus"] for hook in listed["hooks"]} == {"untrusted"}
    with (scene.home / ".codex" / "config.toml").open("a", encoding="utf-8") as file:
        for hook in listed["hooks"]:
            file.write(f"[hooks.state.{json.dumps(hook['key'])}]\ntrusted_hash = {json.dumps(hook['currentHash'])}\n")


@pytest.mark.parametrize("agent", [CLAUDE, CODEX, GEMINI, QWEN], ids=lambda agent: agent.name)
def test_attach_and_doctor_try_the_installed_version(
    attached: Callable[[Agent], Attached], agent: Agent, tmp_path: Path
) -> None:
    scene = attached(agent)
    name = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI", "qwen": "Qwen Code"}[agent.name]
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / agent.name).symlink_to(scene.program[0])
    scene.environment["PATH"] = f"{programs}:{scene.environment['PATH']}"
    works = "its commands run in drafts, and can be undone"
    if agent in (GEMINI, QWEN):
        works = "its edits can be undone; its commands are only recorded"
    doctor = json.loads(scene.handrail("doctor", "--json"))
    assert {one["name"]: one for one in doctor["checks"]}[f"attached {name}"]["detail"] == works
    scene.handrail("detach", agent.name)
    outcome = scene.handrail("attach", agent.name)
    if agent is CODEX:  # trust stays with the hooks, and they are the same as before
        (scene.home / ".codex" / "config.toml").write_text("", encoding="utf-8")
        assert f"Test of {name}: {works}." in outcome
        outcome, works = scene.handrail("attach", agent.name), "it runs Handrail's hooks only after you trust them"
    assert f"Test of {name}: {works}" in outcome
    assert scene.read() == {}


@pytest.mark.parametrize("agent", [CLAUDE, CODEX, OPENCODE], ids=lambda agent: agent.name)
def test_a_skill_tells_the_model_about_undo(attached: Callable[[Agent], Attached], agent: Agent) -> None:
    scene = attached(agent)
    description = "Undo and rules for your commands and edits"
    assert description in json.dumps([seen.body for seen in scene.prompt(agent)])
    scene.handrail("detach", agent.name)
    assert description not in json.dumps([seen.body for seen in scene.prompt(agent)])


COMMANDS = [
    "echo new > new.txt",
    "sed -i s/one/two/ a.txt",
    "mv a.txt b.txt && rm -r d",
    "git init -q . && git add . && git -c user.name=n -c user.email=e commit -qm first",
    "tar cf all.tar a.txt d && tar xf all.tar -C d",
    "python3 -c \"open('made.txt', 'wb').write(bytes(range(256)))\"",
    "printf 'all:\\n\\techo hi > built\\n' > Makefile && make -s",
]


@pytest.mark.parametrize("name", AGENTS)
def test_commands_run_in_drafts_and_are_undone_byte_for_byte(attached: Callable[[Agent], Attached], name: str) -> None:
    agent = AGENTS[name]
    scene = attached(agent)
    (scene.project / "a.txt").write_bytes(b"one\r\n\xff\x00")
    (scene.project / "d").mkdir()
    (scene.project / "d" / "c.txt").write_bytes(b"c")
    before = scene.read()
    for command in COMMANDS:
        (answer,) = scene.run(agent.bash(command))
        assert "handrail" not in answer[-1], answer
        if agent is CODEX and command.startswith("git"):
            assert scene.read() == before and "Read-only file system" in answer[-1], answer
            continue
        assert scene.read() != before, (command, answer)
        scene.handrail("undo")
        assert scene.read() == before, command


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_lives_in_a_draft_with_its_hooks(attached: Callable[[Agent], Attached], name: str) -> None:
    agent = AGENTS[name]
    scene = attached(agent)
    (scene.project / "a.txt").write_bytes(b"one\n")
    before = scene.read()
    scene.handrail("draft", "start", "b")
    inside = ["draft", "run", "b", "--"]
    scene.program = [_HANDRAIL, *inside, *scene.program]
    scene.run(agent.bash("echo two >> a.txt"))
    assert scene.read() == before
    recorded = [json.loads(line) for line in scene.handrail(*inside, _HANDRAIL, "log", "--json").splitlines()]
    assert [one["arguments"]["command"] for one in recorded if one["tool"] == "Bash"] == ["echo two >> a.txt"]
    assert f"by {agent.name}" in scene.handrail("draft", "list")
    scene.handrail("draft", "keep", "b")
    assert scene.read() == {"a.txt": b"one\ntwo\n"}
    scene.handrail("undo")
    assert scene.read() == before


def test_edits_of_claude_code_are_undone_and_a_turn_at_once(attached: Callable[[Agent], Attached]) -> None:
    scene = attached(CLAUDE)
    path = scene.project / "a.txt"
    path.write_bytes(b"one\ntwo\n")
    before = scene.read()
    texts = scene.run(
        ("Read", {"file_path": str(path)}),
        ("Edit", {"file_path": str(path), "old_string": "one", "new_string": "eins"}),
        CLAUDE.bash("echo drei >> a.txt; cd /; pwd"),
        ("Write", {"file_path": str(scene.project / "b.txt"), "content": "b\n"}),
    )
    assert path.read_bytes() == b"eins\ntwo\ndrei\n" and texts[2][-1].startswith("/\n"), texts
    assert scene.list_tools() == ["Prompt", "Edit", "Bash", "Write"]
    scene.undo_turn()
    assert scene.read() == before


def test_commands_and_edits_of_opencode_are_undone_and_its_rules_and_ours_hold(
    attached: Callable[[Agent], Attached],
) -> None:
    scene = attached(OPENCODE)
    path = scene.project / "a.txt"
    path.write_bytes(b"one\ntwo\n")
    (scene.project / ".env").write_text("KEY=value\n", encoding="utf-8")
    before = scene.read()
    texts = scene.run(
        ("read", {"filePath": str(path)}),
        ("edit", {"filePath": str(path), "oldString": "one", "newString": "eins"}),
        OPENCODE.bash("echo drei >> a.txt; rm -rf nothing; seq 3 > b.txt"),
        ("write", {"filePath": str(scene.project / "c.txt"), "content": "c\n"}),
        OPENCODE.bash("touch no.txt"),
        ("read", {"filePath": str(scene.project / ".env")}),
        OPENCODE.bash("cat .env"),
    )
    assert path.read_bytes() == b"eins\ntwo\ndrei\n" and not (scene.project / "no.txt").exists(), texts
    assert "value" not in json.dumps(texts) and "looks like a secret" in "".join(texts[-1]), texts
    assert [tool for tool in scene.list_tools() if tool not in ("Read", "read")][:4] == [
        "Prompt",
        "edit",
        "Bash",
        "write",
    ]
    scene.undo_turn()
    assert scene.read() == before


@pytest.mark.parametrize("agent", [GEMINI, QWEN], ids=lambda agent: agent.name)
def test_edits_of_gemini_and_qwen_are_undone_and_their_commands_recorded_as_not_undoable(
    attached: Callable[[Agent], Attached], agent: Agent
) -> None:
    scene = attached(agent)
    path, created = scene.project / "a.txt", scene.project / "c.txt"
    path.write_bytes(b"one\ntwo\n")
    (scene.project / ".env").write_text("KEY=value\n", encoding="utf-8")
    replace_tool = {"gemini": "replace", "qwen": "edit"}[agent.name]
    texts = scene.run(
        ("read_file", {"file_path": str(path)}),
        (replace_tool, {"file_path": str(path), "old_string": "one", "new_string": "eins", "instruction": "German"}),
        agent.bash("echo drei > b.txt"),
        ("write_file", {"file_path": str(created), "content": "c\n"}),
        ("read_file", {"file_path": str(scene.project / ".env")}),
        agent.bash("cat .env"),
    )
    assert (path.read_bytes(), created.read_bytes()) == (b"eins\ntwo\n", b"c\n"), texts
    assert "value" not in json.dumps(texts) and "looks like a secret" in "".join(texts[-1]), texts
    tools = [tool for tool in scene.list_tools() if tool not in ("Read", "read_file")]
    assert tools[:4] == ["Prompt", replace_tool, "Bash", "write_file"]
    scene.undo_turn()
    assert path.read_bytes() == b"one\ntwo\n" and not created.exists()
    assert (scene.project / "b.txt").read_bytes() == b"drei\n"
    assert "this agent's commands cannot be wrapped" in scene.handrail("log", "--json")


@pytest.mark.parametrize("agent", [GEMINI, QWEN], ids=lambda agent: agent.name)
def test_a_protected_file_is_refused_where_nobody_can_be_asked(
    attached: Callable[[Agent], Attached], agent: Agent
) -> None:
    scene = attached(agent)
    hook = scene.project / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(parents=True)
    scene.run(("write_file", {"file_path": str(hook), "content": "echo\n"}), agent.bash("git push origin main"))
    assert not hook.exists()
    assert (agent is GEMINI) == ("git push" in "".join(scene.list_commands()))  # it has judged the command itself


@pytest.mark.parametrize("agent", [CODEX, FREE_CODEX])
def test_patches_of_codex_are_undone_and_a_turn_at_once(attached: Callable[[Agent], Attached], agent: Agent) -> None:
    scene = attached(agent)
    (scene.project / "a.txt").write_bytes(b"one\ntwo\n")
    (scene.project / "old.txt").write_bytes(b"old\n")
    before = scene.read()
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+eins\n*** Delete File: old.txt\n*** End Patch\n"
    more = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+zwei\n*** Add File: b.txt\n+b\n*** End Patch\n"
    texts = scene.run(
        ("apply_patch", patch),
        ("apply_patch", patch.replace("eins", "uno")),  # fails
        agent.bash("echo drei >> a.txt"),
        agent.bash(f"apply_patch <<'EOF'\n{more}EOF\n"),
    )
    assert scene.read() == {"a.txt": b"eins\nzwei\ndrei\n", "b.txt": b"b\n"}, texts
    assert scene.list_tools() == ["Prompt", "apply_patch", "apply_patch", "Bash", "Bash"]
    scene.undo_turn()
    assert scene.read() == before


@pytest.mark.parametrize("name", AGENTS)
def test_the_model_learns_in_one_line_what_was_refused(attached: Callable[[Agent], Attached], name: str) -> None:
    agent = AGENTS[name]
    scene = attached(agent)
    (scene.project / ".env").write_text("KEY=value\n", encoding="utf-8")
    reads: list[Use] = [("Read", {"file_path": str(scene.project / ".env")})] if agent is CLAUDE else []
    protect = agent.bash("mkdir -p .github/workflows && touch ran.txt .github/workflows/ci.yml")
    texts = scene.run(agent.bash("cat .env"), *reads, agent.bash("grep -r KEY . | cat"), protect)
    assert all("looks like a secret" in "".join(one) for one in texts[:-2]), texts
    assert "value" not in json.dumps(texts)
    (line,) = (line for line in texts[-1][-1].splitlines() if "handrail: " in line)
    assert "changes were not kept" in line and ".github/workflows" in line, texts[-1]
    assert list(scene.read()) == [".env"]


@pytest.mark.parametrize("agent", [CLAUDE, FREE_CODEX], ids=lambda agent: agent.name)
def test_a_helper_killed_in_mid_command_leaves_the_project_as_it_was_and_the_agent_goes_on(
    attached: Callable[[Agent], Attached], agent: Agent
) -> None:
    scene = attached(agent)
    (scene.project / "a.txt").write_bytes(b"one\n")
    seconds = f"{600 + random.random()}"
    uses = [agent.bash(f"echo two > a.txt; sleep {seconds}"), agent.bash("cat a.txt; echo three > b.txt")]
    with ThreadPoolExecutor() as pool:
        answered = pool.submit(scene.run, *uses)
        wait_until(lambda: is_running("sleep", seconds) or answered.done())
        os.kill(scene.find_helper(), signal.SIGKILL)
        texts = answered.result()
    assert "the helper ended, and the command with it" in texts[0][-1], texts
    assert texts[1][-1].splitlines()[-1] == "one" and scene.read() == {"a.txt": b"one\n", "b.txt": b"three\n"}, texts
    scene.handrail("undo")
    assert scene.read() == {"a.txt": b"one\n"}


def test_two_agents_at_once_share_one_record_and_each_is_undone(
    attached: Callable[[Agent], Attached], program: Callable[[str], list[str]]
) -> None:
    claude = attached(CLAUDE)
    codex = replace(claude, agent=FREE_CODEX, program=program("codex"))
    codex.handrail("attach", "codex")
    trust_hooks(codex)
    (claude.project / "a.txt").write_bytes(b"one\n")
    before = claude.read()
    with ThreadPoolExecutor() as pool:
        running = [
            pool.submit(
                scene.run, *(scene.agent.bash(f"echo {number} >> {scene.agent.name}.txt") for number in range(5))
            )
            for scene in (claude, codex)
        ]
        texts = [one.result() for one in running]
    assert "handrail" not in json.dumps(texts), texts
    lines = b"".join(b"%d\n" % number for number in range(5))
    assert claude.read() == {**before, "claude.txt": lines, "codex.txt": lines}
    assert sorted(claude.list_tools()) == ["Bash"] * 10 + ["Prompt"] * 2
    claude.undo_turn()
    assert claude.read() == before


def test_a_background_command_of_claude_code_is_recorded_when_it_ends_and_undone_by_its_number(
    attached: Callable[[Agent], Attached],
) -> None:
    scene = attached(CLAUDE)
    (scene.project / "a.txt").write_bytes(b"one\r\n\xff")
    before = scene.read()
    tool, arguments = CLAUDE.bash("sed -i s/one/two/ a.txt; mkdir d; cat a.txt > d/b.txt")
    script = following((tool, {**arguments, "run_in_background": True}), CLAUDE.bash("echo on"))

    def answer(seen: Seen) -> Line:
        if len(answers(seen.body)) == 1:
            wait_until(lambda: "Job" in scene.list_tools())
        return script(seen)

    scene.prompt(CLAUDE, script=answer)
    assert scene.read() == {**before, "a.txt": b"two\r\n\xff", "d/b.txt": b"two\r\n\xff"}
    (job,) = (one for one in map(json.loads, scene.handrail("log", "--json").splitlines()) if one["tool"] == "Job")
    scene.handrail("undo", str(job["seq"]))
    assert scene.read() == before


@pytest.mark.parametrize("agent", [CODEX, FREE_CODEX])
def test_a_command_that_codex_goes_on_without_is_recorded_when_it_ends_and_undone(
    attached: Callable[[Agent], Attached], agent: Agent
) -> None:
    scene = attached(agent)
    command = "echo early > a.txt; sleep 11; echo late >> a.txt"  # Codex goes on after ten seconds
    (answer,) = scene.run(agent.bash(command))
    assert "Process running" in answer[0] and "exited with code 0" in answer[-1], answer
    assert scene.read() == {"a.txt": b"early\nlate\n"} and scene.list_commands() == [command]
    scene.handrail("undo")
    assert scene.read() == {}


def test_the_persons_own_rules_for_claude_code_still_match_their_command(
    attached: Callable[[Agent], Attached],
) -> None:
    scene = attached(CLAUDE)
    path = scene.home / ".claude" / "settings.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["permissions"] = {"allow": ["Bash(touch yes.txt)"], "deny": ["Bash(touch no.txt)"]}
    path.write_text(json.dumps(settings), encoding="utf-8")
    uses = [CLAUDE.bash(f"touch {name}.txt") for name in ("yes", "no", "perhaps")]
    scene.run(*uses, agent=CAREFUL_CLAUDE)
    assert list(scene.read()) == ["yes.txt"]
    scene.handrail("detach", "claude")
    assert json.loads(path.read_text(encoding="utf-8")) == {"permissions": settings["permissions"]}


@pytest.mark.parametrize("agent", [CODEX, FREE_CODEX])
def test_the_persons_own_rules_for_codex_still_match_their_command(
    attached: Callable[[Agent], Attached], agent: Agent
) -> None:
    scene = attached(agent)
    rules = scene.home / ".codex" / "rules" / "default.rules"
    rules.parent.mkdir()
    rules.write_text('prefix_rule(pattern=["touch", "no.txt"], decision="forbidden")\n', encoding="utf-8")
    texts = scene.run(*(agent.bash(command) for command in ("touch yes.txt", "touch no.txt", "rm -rf yes.txt")))
    assert list(scene.read()) == ["yes.txt"], texts  # Codex itself refuses `rm -rf` where nobody can be asked


def test_codex_in_its_read_only_sandbox_changes_nothing(attached: Callable[[Agent], Attached]) -> None:
    scene = attached(CODEX)
    read_only = replace(CODEX, words=_run_codex("--sandbox", "read-only"))
    (answer,) = scene.run(CODEX.bash("echo x > x.txt; echo status $?"), agent=read_only)
    assert "Read-only file system" in answer[-1] and "status 1" in answer[-1]
    assert scene.read() == {}


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        (CLAUDE, '{ "model": "opus",\n\t"hooks": {"Stop": [ ]}, "env": {"A": "b"} }'),
        (GEMINI, '{\n  // mine\n  "hooks": {"BeforeTool": []}, "ui": {},\n}\n'),
        (QWEN, '{"$version": 3, "tools": {}}\n'),
        (CODEX, '# mine\nmodel="x"  # a\n[shell_environment_policy]\ninherit = "all"\n'),
        (CODEX, '[shell_environment_policy.set]\nA="b"\n\n[features]\nhooks = true\n'),
    ],
)
def test_detach_restores_the_configuration_byte_for_byte(
    attached: Callable[[Agent], Attached], agent: Agent, text: str
) -> None:
    scene = attached(agent)
    path = scene.find_settings()
    scene.handrail("detach", agent.name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    scene.handrail("attach", agent.name)
    assert path.read_text(encoding="utf-8") != text
    scene.handrail("detach", agent.name)
    assert path.read_text(encoding="utf-8") == text
    assert not (scene.home / ".codex" / "hooks.json").exists()
