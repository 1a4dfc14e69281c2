"""What a command can reach: what an answer named, and not what the host hides; and what may be typed for a job."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.errors import BadCommand, NoSandbox
from handrail.files.artefacts import Artefacts
from handrail.model import Result
from handrail.shell.command_host import CommandHost
from handrail.shell.effects.effects import find_effects
from handrail.shell.sandbox.confinement import MOST_MASKED
from handrail.shell.session_sandbox import HostOptions

pytestmark = pytest.mark.slow  # starts many processes

Make = Callable[..., Session]


@pytest.fixture(params=["namespaces", "landlock", "off"])
def session(request: pytest.FixtureRequest, make_session: Make) -> Session:
    required = request.param != "off"
    session = make_session(durable=False, sandbox=request.param, sandbox_required=required)
    tried = session.call("Bash", {"command": "true"})
    if tried.error is not None and tried.error.code == "no_sandbox":
        pytest.skip(f"{request.param} cannot be had on this machine: {tried.text}")
    return session


def _bash(session: Session, command: str, **more: object) -> Result:
    return session.call("Bash", {"command": command, **more})


# What an answer named.


def _evicted(session: Session) -> str:
    result = _bash(session, "seq 100000")
    assert result.data["log"].startswith("/large_tool_results/")
    return str(result.data["log"])


def _read(session: Session, command: str, log: str) -> str:
    """What a command prints that reads `{log}`: where there are no mounts, at the place that the refused one names."""
    result = _bash(session, command.format(log=log))
    if result.data["boundary"].startswith("namespaces"):
        return result.text
    assert result.data["exit_code"] != 0
    place = result.notes[-1].text.split(" in ")[1].rstrip(".)")
    return _bash(session, command.format(log=f"{place}/{Path(log).name}")).text


def test_a_command_reads_long_output_by_the_name_that_the_answer_gave(session: Session) -> None:
    log = _evicted(session)
    before = sorted(os.listdir("/"))
    many = sum("77" in str(number) for number in range(1, 100_001))
    shown = _read(session, "tail -n 1 {log}; wc -l < {log}; grep -c 77 '{log}'", log)
    assert shown == f"100000\n100000\n{many}"
    assert sorted(os.listdir("/")) == before


def test_a_program_reads_it_by_that_name_or_the_model_is_told_the_real_place(session: Session) -> None:
    log = _evicted(session)
    result = _bash(session, f"python3 -c \"print(open('{log}').read()[-7:])\"")
    if result.data["boundary"].startswith(("namespaces",)):
        assert (result.status, result.text) == ("ok", "100000")
        return
    assert result.data["exit_code"] == 1 and result.status == "partial"
    place = result.notes[-1].text.split(" in ")[1].rstrip(".)")
    again = _bash(session, f"python3 -c \"print(open('{place}/{Path(log).name}').read()[-7:])\"")
    assert again.text.startswith("100000\n")


def test_a_text_that_speaks_of_it_is_written_as_it_is(session: Session, tmp_path: Path) -> None:
    log = _evicted(session)
    _bash(session, f"echo see {log} > note; cat >> note <<E\n{log}\nE")
    assert (tmp_path / "note").read_text(encoding="utf-8") == f"see {log}\n{log}\n"


def test_what_was_kept_cannot_be_changed_by_that_name_in_a_sandbox(session: Session) -> None:
    log = _evicted(session)
    result = _bash(session, f"echo x >> {log}")
    assert result.data["exit_code"] != 0
    assert _read(session, "tail -n 1 {log}", log) == "100000"


# What the host hides.


def _command_host(tmp_path: Path, hidden: Callable[[], list[str]]) -> CommandHost:
    work = tmp_path / "work"
    work.mkdir()
    command_host = CommandHost(
        (str(work),),
        Artefacts(str(tmp_path / "kept"), 1 << 20),
        HostOptions("namespaces", required=True, hidden=hidden),
    )
    try:
        command_host.boundary  # noqa: B018 - made when it is asked for
    except NoSandbox as error:
        pytest.skip(f"namespaces cannot be had on this machine: {error.facts['why']}")
    return command_host


def _prints(command_host: CommandHost, command: str, cwd: Path) -> str:
    done, _ = command_host.run(command, str(cwd), 20, "x", None)
    return done.pipes.view(10_000, 0).text()


def test_hidden_files_and_directories_are_not_read_and_come_back_when_they_are_no_longer_hidden(tmp_path: Path) -> None:
    hidden: list[str] = []
    command_host = _command_host(tmp_path, lambda: hidden)
    work = tmp_path / "work"
    (work / "keys").mkdir()
    for name in (".env", "keys/a.pem", "plain"):
        (work / name).write_text("secret\n", encoding="utf-8")
    (work / "link").symlink_to(".env")
    seen = "cat .env link keys/a.pem plain 2>/dev/null; true"
    try:
        assert _prints(command_host, seen, work) == "secret\n" * 4
        hidden += [str(work / "link"), str(work / "keys"), str(work / "keys/a.pem"), str(work / "gone"), str(work)]
        assert _prints(command_host, seen, work) == "secret\n"
        _prints(command_host, "echo x > .env; rm -r keys", work)
        hidden.clear()
        assert _prints(command_host, seen, work) == "secret\n" * 4
    finally:
        command_host.close()
    assert sorted(os.listdir(work)) == [".env", "keys", "link", "plain"]


def test_nothing_runs_where_not_everything_can_be_hidden(tmp_path: Path) -> None:
    work = tmp_path / "work"
    hidden = [str(work / f"f{number:04}") for number in range(MOST_MASKED + 1)]
    command_host = _command_host(tmp_path, lambda: hidden)
    for number in range(300):
        (work / f"f{number:04}").write_text("secret\n", encoding="utf-8")
    try:
        with pytest.raises(BadCommand, match=str(MOST_MASKED)):
            _prints(command_host, "cat f* 2>/dev/null", work)
        del hidden[300:]
        assert _prints(command_host, "cat f* 2>/dev/null; echo ran", work) == "ran\n"
    finally:
        command_host.close()


# What is typed.


@pytest.mark.parametrize("shell", ["bash", "env sh", "cat | bash", 'while read x; do eval "$x"; done'])
@pytest.mark.parametrize("pieces", [["sudo id\n"], ["echo a\nshut", "down now\n"], ["rm -rf \\\n", "/\n"]])
def test_what_is_refused_as_a_command_is_not_typed_for_a_shell(
    make_session: Make, shell: str, pieces: list[str]
) -> None:
    session = make_session(durable=False, sandbox="off")
    job = _bash(session, shell, background=True).data["job"]
    results = [session.call("BashInput", {"job": job, "text": piece}) for piece in pieces]
    assert [result.status for result in results[:-1]] == ["ok"] * (len(pieces) - 1)
    assert results[-1].error is not None and results[-1].error.code == "dangerous"


def test_the_same_text_is_only_text_for_a_program_that_is_no_shell(make_session: Make) -> None:
    session = make_session(durable=False, sandbox="off")
    job = _bash(session, "cat", background=True).data["job"]
    assert session.call("BashInput", {"job": job, "text": "sudo id\n", "close": True}).status == "ok"
    assert session.call("BashOutput", {"job": job, "wait": 20}).data["output"] == "sudo id\n"


def test_a_shell_in_the_background_still_runs_what_is_harmless(make_session: Make) -> None:
    session = make_session(durable=False, sandbox="off")
    job = _bash(session, "bash", background=True).data["job"]
    for text in ("echo o", "ne\n", "exit\n"):
        assert session.call("BashInput", {"job": job, "text": text}).status == "ok"
    assert session.call("BashOutput", {"job": job, "wait": 20}).data["output"] == "one\n"


# Manners.


def test_git_status_leaves_the_index_alone(make_session: Make, tmp_path: Path) -> None:
    session = make_session(durable=False, sandbox="off")
    for command in (["init", "-q"], ["add", "."]):
        (tmp_path / "a").write_text("a", encoding="utf-8")
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    os.utime(tmp_path / "a", (1, 1))  # what makes git refresh the index, if it may
    index = tmp_path / ".git" / "index"
    before = index.read_bytes()
    assert "a" in _bash(session, "git status --short").text
    assert index.read_bytes() == before


@pytest.mark.parametrize(
    ("command", "workdir"),
    [
        ("echo x > link/../f", "."),
        ("echo x > ./link/./../f", "."),
        ("echo x > link//../f", "."),
        ("cd link && echo x > ../f", "."),
        ("echo x > ../f", "link"),
        ("cd link && tee ../f < /dev/null", "."),
    ],
)
def test_the_way_up_behind_a_link_is_the_one_that_the_kernel_takes(
    command: str, workdir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDRAIL_STATE", str(tmp_path / "state"))
    root = tmp_path / "work"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "link").symlink_to("sub/deep")
    (root / "f").write_text("outer")
    (root / "sub" / "f").write_text("inner")
    with Session(root, mode="full", settings=Settings(sandbox="off")) as session:
        arguments = {"command": command, "workdir": workdir}
        written = [access.path for access in session.prepare("Bash", arguments).accesses if access.action == "write"]
        assert written == [str((root / "sub" / "f").resolve())]
        session.call("Bash", arguments)
    assert (root / "f").read_text() == "outer" and (root / "sub" / "f").read_text() != "inner"


def test_going_up_behind_a_link_in_its_physical_sense_cannot_be_proven() -> None:
    assert find_effects("cd -P link/.. && cat f").doubts
    assert not find_effects("cd link/.. && cat f").doubts
