"""Rules, redaction and the boundary, read as an attacker: other spellings of what may not be read or changed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Question, Session, Settings, Setup
from handrail.errors import NoSandbox
from handrail.model import CommandAccess
from handrail.policy.files import parse
from handrail.policy.shell_patterns import expand
from handrail.secrets.redaction import Redaction

pytestmark = pytest.mark.slow  # starts many processes

Make = Callable[..., Session]


@pytest.fixture
def judge(tmp_path: Path) -> Callable[..., str]:
    """What is said of a command in a project with a secret, a repository below, and files that a rule keeps."""
    root = tmp_path / "pro[j]ect"
    for name in (".env", ".npmrc", "a.txt", "sub/keep/x", "sub/y", "deep/.git/config", "deep/z", "build/o", "s/.env"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n", encoding="utf-8")
    (root / "link").symlink_to("a.txt")
    settings = Settings(state=str(tmp_path / "state"), raise_bugs=True, sandbox="off")

    def decide(command: str, mode: Any = "full", rules: str = 'rules = ["deny Edit(sub/keep/**)"]') -> str:
        files = [parse(rules, "policy.toml", "user", str(root))]
        with Session(root, mode=mode, setup=Setup(rules=files), settings=settings) as session:
            return session.prepare("Bash", {"command": command}).verdict.decision

    return decide


@pytest.mark.parametrize(
    ("command", "full", "ask"),
    [
        # What is in a directory that goes is judged with it, and the strictest rule holds.
        ("rm -r build", "ask", "ask"),
        ("rm -r sub", "ask", "ask"),
        ("rm -r su*", "ask", "ask"),
        ("mv sub other", "ask", "ask"),
        ("find sub -delete", "allow", "ask"),
        ("rm -r deep", "ask", "ask"),
        ("rm -r s", "ask", "ask"),
        ("chmod -R 700 sub", "ask", "ask"),
        ("chmod -R 700 build", "ask", "ask"),
        # Whoever moves a secret, or gives it a second name, could read it by that.
        ("mv .npmrc plain.txt", "deny", "deny"),
        ("ln .npmrc plain.txt", "deny", "deny"),
        ("ln .npmrc", "deny", "deny"),
        ("git mv .npmrc plain.txt", "deny", "deny"),
        ("ln -s a.txt plain.txt", "allow", "ask"),
        ("mv a.txt b.txt", "allow", "ask"),
        # Signs in the name of the workspace are no pattern.
        ("cat .en*", "deny", "deny"),
        ("cat .[e]nv", "deny", "deny"),
        ("cat ./.e?v", "deny", "deny"),
        ("rm .e*", "ask", "ask"),
        ("cat *.txt", "allow", "allow"),
        # A link that goes is not what it leads to.
        ("rm link", "allow", "ask"),
    ],
)
def test_what_a_command_comes_to_is_judged_with_all_that_is_in_it(
    judge: Callable[..., str], command: str, full: str, ask: str
) -> None:
    assert (judge(command), judge(command, "ask")) == (full, ask)


def test_a_deny_is_found_behind_an_ask(judge: Callable[..., str]) -> None:
    rules = 'rules = ["ask Read(sub/**)", "deny Read(sub/keep/**)", "ask Read(a.txt)", "deny Read(build/o)"]'
    assert judge("grep -r x sub", rules=rules) == "ask"  # what may not be read is named, and a person decides
    assert judge("cat a.txt build/*", rules=rules) == "deny"
    assert judge("cat */o", rules=rules) == "deny"


def test_a_link_that_is_deleted_gives_no_leave_to_delete_the_file(tmp_path: Path, make_session: Make) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("x\n", encoding="utf-8")
    (root / "link").symlink_to("a.txt")
    session = make_session(root, mode="ask", sandbox="off")
    accesses = session.prepare("Bash", {"command": "rm link"}).accesses
    assert [one.path for one in accesses if one.action == "delete"] == [str(root / "link")]


# What is typed for a job.


def test_a_secret_is_not_read_by_typing_the_command_for_a_shell(tmp_path: Path, make_session: Make) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / ".env").write_text("KEY=1\n", encoding="utf-8")

    def only_the_shell(question: Question) -> bool:
        return question.call.arguments.get("command") == "bash"

    session = make_session(root, mode="full", sandbox="off", approve=only_the_shell)
    job = session.call("Bash", {"command": "bash", "background": True}).data["job"]
    assert session.call("BashInput", {"job": job, "text": "cat .env\n"}).status == "denied"
    assert session.call("BashInput", {"job": job, "text": "cat .e"}).ok
    split = session.call("BashInput", {"job": job, "text": "nv\n"})
    assert split.error is not None and split.error.code == "dangerous"
    assert session.call("BashInput", {"job": job, "text": "\n"}).error is not None  # `cat .e` is a command, too


def test_leave_to_type_for_one_job_is_none_for_another(tmp_path: Path, make_session: Make) -> None:
    session = make_session(tmp_path, mode="ask", sandbox="off")
    places = [
        {
            one.place
            for one in session.prepare("BashInput", {"job": job, "text": "y\n"}).accesses
            if isinstance(one, CommandAccess)
        }
        for job in ("job-1", "job-2")
    ]
    assert places == [{"job job-1"}, {"job job-2"}]
    assert session.prepare("BashInput", {"job": "job-1", "text": "y\n"}).verdict.allow == ""


# Redaction.

SECRET = "hunter2-hunter2"


def test_names_in_data_and_doubts_tell_no_secret() -> None:
    hide = Redaction([SECRET])
    assert SECRET not in str(hide.hidden({SECRET: {"x": [SECRET]}}))
    assert hide.restore(hide.hidden({SECRET: 1})) == {SECRET: 1}


def test_a_file_that_is_named_after_a_secret_tells_it_nowhere(
    tmp_path: Path, make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_SECRET", SECRET)
    (tmp_path / SECRET).write_text(f"{SECRET}\nplain\n", encoding="utf-8")
    session = make_session(sandbox="off", redact_values_from_env=("THE_SECRET",))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("LS", {"path": "."}),
        ("Glob", {"pattern": "*"}),
        ("Grep", {"pattern": "hunter"}),
        ("Grep", {"pattern": "hunter", "output_mode": "count"}),
        ("Grep", {"pattern": "plain", "output_mode": "content", "-C": 2}),
        ("Read", {"file_path": "nothing-here"}),
        ("Bash", {"command": f"ls; cat *; cat {SECRET}; ls --no-such-{SECRET}"}),
    ]
    for tool, arguments in calls:
        result = session.call(tool, arguments)
        assert SECRET not in repr(result), (tool, arguments)


@pytest.mark.parametrize(
    "command",
    [
        "coproc cat .env",
        "coproc true; cat .env",
        "script -qc 'cat .env' /dev/null",
        "cat $'\\x2eenv'",
        "cat .en[z\\-v]",
        "cat .en[v\\]]",
        "cat .en['!'v]",
        "cat .en{v..v}",
    ],
)
def test_no_construct_hides_the_name_of_a_secret(judge: Callable[..., str], command: str) -> None:
    assert judge(command) in ("ask", "deny")


# The boundary.


@pytest.mark.parametrize(
    "command",
    [
        "cat .env",
        "cat ./.env/",
        "cat .ENV",
        "cat /proc/self/root$PWD/.env",
        "cat /proc/self/cwd/.env",
        "cat /proc/1/root$PWD/.env",
        "ln .env second; cat second",
        "cp -r . /tmp/all; cat /tmp/all/.env",
        "mv .env other; cat other",
        "umount .env; cat .env",
        "unshare -Urm sh -c 'umount .env; cat .env'",
        "mkdir m; unshare -Urm sh -c 'mount --bind . m; cat m/.env'",
        "tar cf /tmp/t .env; tar xf /tmp/t -C /tmp; cat /tmp/.env",
        "python3 -c \"print(open(chr(46)+'env').read())\"",
        "cat keys/k.pem; cat keys/../keys/k.pem; ls keys; cat link/k.pem",
    ],
)
def test_a_hidden_file_cannot_be_read_by_another_way(tmp_path: Path, make_session: Make, command: str) -> None:
    root = tmp_path / "project"
    (root / "keys").mkdir(parents=True)
    (root / ".env").write_text("TOP-SECRET\n", encoding="utf-8")
    (root / "keys/k.pem").write_text("TOP-SECRET\n", encoding="utf-8")
    (root / "link").symlink_to("keys")
    session = _held(make_session, root)
    if command.startswith("cat") and "proc" not in command:
        assert "TOP-SECRET" not in session.call("Bash", {"command": command}).text
    hidden = session.call("Bash", {"command": f"eval {_quoted(command)}; true $X"})
    assert "TOP-SECRET" not in hidden.text
    # And not by policy alone: the boundary itself holds.
    terminal = session.services.command_host()
    run, ended = terminal.run(command, str(root), 20, "x", None)
    with open(run.order.log, "rb") as log:
        assert b"TOP-SECRET" not in log.read()
    assert ended is not None and (root / ".env").read_text(encoding="utf-8") == "TOP-SECRET\n"


def _held(make_session: Make, root: Path) -> Session:
    session = make_session(
        root, mode="accept-edits", sandbox="namespaces", sandbox_required=True, approve=lambda _: True
    )
    try:
        assert session.services.command_host().sandbox.confined
    except NoSandbox as error:
        pytest.skip(f"namespaces cannot be used here: {error}")
    return session


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def test_a_second_name_that_a_secret_had_before_is_a_secret_too(tmp_path: Path, make_session: Make) -> None:
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    (root / ".env").write_text("TOP-SECRET\n", encoding="utf-8")
    (root / "plain").write_text("harmless\n", encoding="utf-8")
    os.link(root / ".env", root / "sub/second")
    os.link(root / "plain", root / "sub/other")
    session = _held(make_session, root)
    for tool, arguments in (
        ("Read", {"file_path": "sub/second"}),
        ("Bash", {"command": "cat sub/second"}),
        ("Bash", {"command": "python3 -c \"print(open('sub/sec'+'ond').read())\""}),
        ("Grep", {"pattern": "SECRET", "output_mode": "content"}),
    ):
        assert "TOP-SECRET" not in session.call(tool, arguments).text, (tool, arguments)
    assert "harmless" in session.call("Read", {"file_path": "sub/other"}).text
    assert "harmless" in session.call("Bash", {"command": "cat sub/other"}).text


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_process_that_has_just_ended_stops_no_judgement(judge: Callable[..., str]) -> None:
    """Its links are still listed, and can no longer be read."""
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert judge(f"cat /proc/{ended.pid}/cw?", mode="ask") == "ask"


def test_a_pattern_too_long_to_be_read_matches_every_name(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert expand(f"{'[' * 60_000}b]", [str(tmp_path)]) == ([str(tmp_path / "a")], True)
