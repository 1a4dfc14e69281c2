"""What Bash may not do: dangerous, denied and unheld commands; and patches, which are no commands at all."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from handrail import Session
from handrail.model import Access, Result, Verdict
from handrail.shell.sandbox import choose as choosing
from handrail.shell.sandbox.choose import Boundary
from handrail.shell.sandbox.confinement import Confinement
from handrail.shell.sandbox.launcher_client import NoNamespaces
from tests.patience import until_it_got_far_enough

pytestmark = pytest.mark.slow  # starts many processes

Make = Callable[..., Session]
HELLO = "*** Begin Patch\n*** Add File: sub/hello.txt\n+Hello, world!\n*** End Patch\n"
SHELLS = {
    "native": "Bash",
    "claude": "Bash",
    "claw": "bash",
    "deepagents": "execute",
    "envelope": "Bash",
    "codex": "shell",
    "gemini": "run_shell_command",
    "hello": "bash",
}


@pytest.fixture
def session(make_session: Make) -> Session:
    return make_session(durable=False, sandbox="off")


@pytest.fixture(params=["namespaces", "landlock"])
def held(request: pytest.FixtureRequest, make_session: Make, tmp_path: Path) -> Session:
    """A session on `work`, whose commands a kernel boundary holds."""
    work = tmp_path / "work"
    work.mkdir()
    session = make_session(work, durable=False, sandbox=request.param, sandbox_required=True)
    tried = session.call("Bash", {"command": "true"})
    if tried.error is not None and tried.error.code == "no_sandbox":
        pytest.skip(f"{request.param} does not work here: {tried.text}")
    return session


def _bash(session: Session, command: str, **more: object) -> Result:
    return session.call("Bash", {"command": command, **more})


# Asked, denied, dangerous.


def test_a_preview_shows_the_command_and_never_runs_it(session: Session, tmp_path: Path) -> None:
    for more in ({}, {"background": True}):
        prepared = session.prepare("Bash", {"command": "touch ran\necho on", **more})
        assert prepared.preview() == "$ touch ran\necho on\n"
        assert [(access.action, access.target) for access in prepared.accesses][:1] == [("run", "touch ran\necho on")]
    assert os.listdir(tmp_path) == []


class _NoCommands:
    hides: Sequence[str] = ()

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        run = any(access.action == "run" for access in accesses)
        return Verdict("deny", "no commands", "no commands here") if run else Verdict("allow", "", "")


def test_a_denied_command_is_never_run(make_session: Make, tmp_path: Path) -> None:
    session = make_session(sandbox="off", policy=_NoCommands())
    for arguments in ({"command": "touch ran"}, {"command": "touch ran", "background": True}):
        result = session.call("Bash", arguments)
        assert result.status == "denied" and "no commands here" in result.text
    typed = session.call("BashInput", {"job": "job-1", "text": "touch ran\n"})
    assert typed.status == "denied"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "command",
    [
        "sudo true",
        "env sudo x",
        '"su"do x',
        "$(echo sudo) x",
        "bash -c 'sudo x'",
        "echo x | xargs sudo",
        "find . -exec sudo x \\;",
        "eval 'su''do x'",
        "shutdown -h now",
        "reboot",
        "rm -rf /",
        "rm -fr -- /*",
        "cat /dev/zero > /dev/sda",
        "{ sudo x; } 2>&1 | cat",
    ],
)
def test_a_dangerous_command_is_never_run_however_it_is_spelled(session: Session, tmp_path: Path, command: str) -> None:
    result = _bash(session, f"touch ran; {command}")
    assert result.status == "denied" and result.error is not None and result.error.code == "dangerous"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", ["echo sudo", "grep -c sudo /dev/null", "echo x > /dev/null", "echo 'rm -rf /'"])
def test_a_command_that_only_speaks_of_danger_is_run(session: Session, command: str) -> None:
    assert _bash(session, command).data["exit_code"] in (0, 1)


# Without a boundary.


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nobody can create user namespaces."""

    def refuse(_: Confinement) -> Boundary:
        raise NoNamespaces("only root creates user namespaces", "")

    monkeypatch.setitem(cast("dict[str, Any]", choosing._BOUNDARIES), "namespaces", refuse)


@pytest.mark.usefixtures("without")
def test_without_a_boundary_a_command_needs_a_person(make_session: Make, tmp_path: Path) -> None:
    result = _bash(make_session(sandbox="namespaces", mode="accept-edits"), "touch ran")
    assert result.status == "denied" and result.error is not None and result.error.code == "needs_approval"
    asked = []
    refusing = make_session(
        sandbox="namespaces", mode="accept-edits", approve=lambda prepared: bool(asked.append(prepared.preview()))
    )
    assert _bash(refusing, "touch ran").status == "denied" and asked == ["$ touch ran\n"]
    assert os.listdir(tmp_path) == []
    agreeing = make_session(sandbox="namespaces", mode="accept-edits", approve=lambda prepared: True)
    result = _bash(agreeing, "touch ran")
    assert (result.status, result.data["boundary"]) == ("ok", "none") and os.listdir(tmp_path) == ["ran"]


@pytest.mark.usefixtures("without")
def test_a_boundary_that_is_required_and_not_there_runs_nothing(make_session: Make, tmp_path: Path) -> None:
    for approve in (None, lambda prepared: True):
        result = _bash(make_session(sandbox="namespaces", sandbox_required=True, approve=approve), "touch ran")
        assert result.error is not None and result.error.code == "no_sandbox"
        assert "only root creates user namespaces" in result.text
    assert os.listdir(tmp_path) == []


def test_a_host_that_wants_no_boundary_is_not_asked(session: Session) -> None:
    result = _bash(session, "echo on")
    assert (result.text, result.data["boundary"]) == ("on", "none")


# Within one.


def test_a_held_command_writes_in_the_workspace_and_nowhere_else(held: Session, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("kept", encoding="ascii")
    result = _bash(held, f"echo in > file; echo out > {outside}; echo out > {tmp_path}/new; rm {outside}; cat file")
    assert "in" in result.text.splitlines() and result.data["boundary"] != "none"
    assert outside.read_text(encoding="ascii") == "kept" and sorted(os.listdir(tmp_path)) == ["outside", "work"]
    assert (tmp_path / "work" / "file").read_text(encoding="ascii") == "in\n"


def test_a_held_command_reaches_no_socket_of_another_program(held: Session) -> None:
    """By default it reaches TCP on loopback (tests/shell/test_network.py), and nothing else."""
    name = f"handrail-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as packets:
        server.bind(f"\0{name}")
        server.listen()
        packets.bind(("127.0.0.1", 0))
        packets.settimeout(1)
        port = packets.getsockname()[1]
        code = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + '{name}')"
        assert "Error" in _bash(held, f'{sys.executable} -I -c "{code}" 2>&1 | tail -1').text
        code = f"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))"
        _bash(held, f'{sys.executable} -I -c "{code}" 2>&1 | tail -1')
        with pytest.raises(TimeoutError):
            packets.recv(1)


def test_a_held_command_has_a_place_for_temporary_files(held: Session) -> None:
    assert _bash(held, 'f=$(mktemp) && echo kept > "$f" && cat "$f" && rm "$f"').text.splitlines()[0] == "kept"


def test_a_held_command_cannot_touch_the_output_that_was_kept(held: Session) -> None:
    _bash(held, "seq 100000")
    (log,) = Path(os.environ["HANDRAIL_STATE"]).glob("artefacts/*/*")
    before = log.read_bytes()
    _bash(held, f"echo forged > {log}; truncate -s 0 {log}; rm -f {log}; mv {log} {log}.moved")
    assert log.read_bytes() == before


def test_a_held_command_always_comes_back(held: Session, tmp_path: Path) -> None:
    command = "echo first; trap '' TERM; setsid sleep 600 & sleep 600"
    result, _ = until_it_got_far_enough(
        lambda seconds: _bash(held, command, timeout=seconds), lambda result: "first" in result.text
    )
    assert result.data["timed_out"] and result.text.startswith("first\n")
    assert _bash(held, "echo on; exit 5").text == "on\n(exit code 5)"
    started = _bash(held, "sleep 600 & echo started")
    assert started.text.startswith("started")
    job = _bash(held, "read -r x; echo got $x", background=True).data["job"]
    held.call("BashInput", {"job": job, "text": "it\n"})
    assert held.call("BashOutput", {"job": job, "wait": 20}).data["output"] == "got it\n"


def test_a_held_session_leaves_nothing_in_the_workspace(held: Session, tmp_path: Path) -> None:
    _bash(held, "true")
    assert os.listdir(tmp_path / "work") == []


# The virtual command.


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, make_session: Make) -> tuple[Session, str]:
    return make_session(dialect=request.param, durable=False, sandbox="off"), SHELLS[request.param]


def _given(session: Session, script: str) -> object:
    return ["bash", "-lc", script] if session.dialect.name == "codex" else script


@pytest.mark.parametrize(
    "script", ["apply_patch <<'EOF'\n{patch}EOF\n", "cd sub/.. && apply_patch <<'EOF'\n{patch}EOF"]
)
def test_a_patch_is_applied_without_a_shell_in_every_dialect(
    shell: tuple[Session, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    session, tool = shell
    (tmp_path / "sub").mkdir()
    monkeypatch.setenv("PATH", "")
    arguments = {"command": _given(session, script.replace("{patch}", HELLO))}
    assert "run" not in [access.action for access in session.prepare(tool, arguments).accesses]
    result = session.call(tool, arguments)
    assert result.error is None, result.text
    assert (tmp_path / "sub" / "hello.txt").read_text(encoding="ascii") == "Hello, world!\n"


@pytest.mark.parametrize(
    "script",
    [
        "true; apply_patch <<'EOF'\n{patch}EOF\n",
        "apply_patch <<'EOF' && true\n{patch}EOF\n",
        "apply_patch <<'EOF'\n{patch}EOF\ntrue\n",
        "X=1 apply_patch <<'EOF'\n{patch}EOF\n",
        "(apply_patch <<'EOF'\n{patch}EOF\n)",
    ],
)
def test_with_anything_around_it_a_patch_is_refused(shell: tuple[Session, str], tmp_path: Path, script: str) -> None:
    session, tool = shell
    result = session.call(tool, {"command": _given(session, script.replace("{patch}", HELLO))})
    assert result.error and result.error.code == "patch_not_alone"
    assert os.listdir(tmp_path) == []


def test_a_patch_that_names_danger_is_no_danger(session: Session, tmp_path: Path) -> None:
    result = _bash(session, f"apply_patch <<'EOF'\n{HELLO.replace('Hello, world!', 'sudo rm -rf /')}EOF\n")
    assert result.status == "ok" and (tmp_path / "sub" / "hello.txt").exists()


def test_a_patch_in_the_background_is_refused(session: Session, tmp_path: Path) -> None:
    result = _bash(session, f"apply_patch <<'EOF'\n{HELLO}EOF\n", background=True)
    assert result.error and result.error.code == "patch_not_alone"
    assert os.listdir(tmp_path) == []
