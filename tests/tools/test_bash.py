"""Bash through the session: what runs, how it ends, where it runs, and that it always comes back."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from handrail import Session
from handrail.model import Result
from tests.command import TIMEOUT
from tests.patience import until_it_got_far_enough

pytestmark = pytest.mark.slow  # starts many processes

Make = Callable[..., Session]
SOON = float(TIMEOUT)
"""Seconds after which something that happens at once is given up on."""


@pytest.fixture
def session(make_session: Make) -> Session:
    return make_session(durable=False, sandbox="off")


def _bash(session: Session, command: str, **more: object) -> Result:
    return session.call("Bash", {"command": command, **more})


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _ended(pid: int) -> bool:
    until = time.monotonic() + SOON
    while _alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not _alive(pid)


def _appears(path: Path) -> str:
    """The first line of a file that a command is about to write."""
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        if path.exists() and path.read_text(encoding="ascii").endswith("\n"):
            return path.read_text(encoding="ascii").strip()
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


# Running.


def test_both_outputs_come_in_the_order_of_printing(session: Session) -> None:
    result = _bash(session, "for n in {1..200}; do echo out $n; echo err $n >&2; done")
    assert result.text == "\n".join(f"{name} {n}" for n in range(1, 201) for name in ("out", "err"))
    assert (result.status, result.data["exit_code"], result.data["boundary"]) == ("ok", 0, "none")


def test_a_command_that_prints_nothing_says_so(session: Session) -> None:
    assert _bash(session, "true").text == "(no output)"
    assert _bash(session, "printf '\\n\\n'").text == "(no output)"


@pytest.mark.parametrize(
    ("command", "code", "expected"),
    [
        ("exit 3", 3, "(exit code 3)"),
        ("echo out; false", 1, "out\n(exit code 1)"),
        ("grep nothing /dev/null", 1, "(exit code 1: no line matched)"),
        ("diff /dev/null /etc/passwd >/dev/null", 1, "(exit code 1: the files differ)"),
        (
            "no-such-command-here 2>/dev/null",
            127,
            "(exit code 127: no-such-command-here: there is no such command here)",
        ),
        ("timeout 0.1 sleep 60", 124, "(exit code 124: the time given to `timeout` was over)"),
    ],
)
def test_an_exit_code_is_told_with_what_it_means(session: Session, command: str, code: int, expected: str) -> None:
    result = _bash(session, command)
    text = result.text.partition("\n(Changes of this command")[0]  # here commands run in no draft
    assert (text, result.data["exit_code"], result.status) == (expected, code, "ok")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGHUP"])
def test_a_signal_that_ended_the_shell_is_named(session: Session, name: str) -> None:
    result = _bash(session, f"echo before; kill -{name.removeprefix('SIG')} $$; echo after")
    assert result.text.startswith("before\n") and name in result.text and "after" not in result.text
    assert (result.data["exit_code"], result.data["signal"]) == (None, name)


def test_the_same_failure_is_an_error_where_the_dialect_says_so(make_session: Make) -> None:
    claude = make_session(dialect="claude", durable=False, sandbox="off")
    result = _bash(claude, "echo out; exit 3")
    assert result.status == "error" and result.text == "out\n(exit code 3)" and result.data["exit_code"] == 3


def test_nothing_can_be_typed(session: Session) -> None:
    assert _bash(session, "cat; read -r line; echo code $?").text == "code 1"


def test_a_program_that_wants_a_person_is_told_of(session: Session) -> None:
    result = _bash(session, "vi -c q; false" if shutil.which("vi") else "vi")
    assert result.data["exit_code"] != 0 and "needs a terminal, and there is none" in result.text


def test_colours_and_progress_are_cleaned_and_bytes_that_are_no_text_are_shown(session: Session) -> None:
    assert _bash(session, "printf '\\033[31mred\\033[0m 1%%\\r100%%\\n\\x00\\xff'").text == "100%1%\n\\x00�"


def test_output_without_a_newline_is_shown(session: Session) -> None:
    assert _bash(session, "printf abc").text == "abc"


# The end.


def test_a_timeout_returns_what_was_printed_and_ends_the_whole_tree(session: Session, tmp_path: Path) -> None:
    command = "echo first; setsid sleep 600 & trap '' TERM; echo $! > pid; sleep 600"
    result, seconds = until_it_got_far_enough(
        lambda seconds: _bash(session, command, timeout=seconds), lambda _: (tmp_path / "pid").exists()
    )
    assert result.text.startswith(f"first\n(Timed out after {seconds:g} s") and result.status == "partial"
    assert result.data["timed_out"] and [note.code for note in result.notes] == ["command_timed_out"]
    assert _ended(int(_appears(tmp_path / "pid")))


def test_a_timeout_may_be_given_as_text_and_must_be_above_zero(session: Session) -> None:
    assert _bash(session, "echo ok", timeout="5").text == "ok"
    for wrong in (0, -1, "soon"):
        refused = _bash(session, "touch ran", timeout=wrong)
        assert refused.error is not None and refused.error.code == "bad_arguments"
    late = _bash(session, "touch ran", timeout=3601)
    assert late.error is not None and late.error.code == "timeout_too_long"
    assert _bash(session, "ls").text == "(no output)"


def test_a_child_in_the_background_is_not_waited_for_but_named_and_ended_with_the_session(
    make_session: Make,
) -> None:
    session = make_session(durable=False, sandbox="off")
    result = _bash(session, "sleep 600 & echo started")
    (stray,) = result.data["strays"]
    assert result.text.startswith("started\n(still running in the background: ") and stray["command"] == "sleep 600"
    assert _alive(stray["pid"])
    session.close()
    assert _ended(stray["pid"])


def test_what_a_child_in_the_background_prints_later_is_in_its_log(session: Session, tmp_path: Path) -> None:
    result = _bash(session, "(while [ ! -e go ]; do sleep 0.05; done; echo later; touch done) & echo now")
    (tmp_path / "go").touch()
    until = time.monotonic() + SOON
    while not (tmp_path / "done").exists() and time.monotonic() < until:
        time.sleep(0.02)
    while time.monotonic() < until:
        shown = session.call("Read", {"file_path": result.data["log"]})
        if "later" in shown.text:
            break
        time.sleep(0.02)
    assert shown.text == "1\tnow\n2\tlater"


def test_a_cancel_from_another_thread_ends_it(session: Session, tmp_path: Path) -> None:
    cancel = threading.Event()
    with ThreadPoolExecutor(1) as other:
        call = other.submit(session.call, "Bash", {"command": "echo first; echo $$ > pid; sleep 600"}, cancel=cancel)
        pid = int(_appears(tmp_path / "pid"))
        cancel.set()
        result = call.result(SOON)
    assert result.data["cancelled"] and result.status == "partial" and result.text.startswith("first\n")
    assert _ended(pid)


def test_the_end_of_the_session_brings_back_whoever_waits(make_session: Make, tmp_path: Path) -> None:
    session = make_session(durable=False, sandbox="off")
    with ThreadPoolExecutor(1) as other:
        call = other.submit(_bash, session, "echo $$ > pid; sleep 600")
        pid = int(_appears(tmp_path / "pid"))
        session.close()
        result = call.result(SOON)
    assert result.data["cancelled"] and result.data["signal"] and _ended(pid)


def test_after_the_end_of_the_session_nothing_is_started(make_session: Make, tmp_path: Path) -> None:
    session = make_session(durable=False, sandbox="off")
    assert _bash(session, "echo one").text == "one"
    session.close()
    result = _bash(session, "touch ran")
    assert result.error is not None and result.text.startswith("The session is closed")
    assert not (tmp_path / "ran").exists()


def test_the_death_of_this_thread_by_an_interrupt_leaves_no_command(session: Session, tmp_path: Path) -> None:
    """Ctrl-C at a host that waits: the exception passes, the command does not stay."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach only the main thread")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sender = threading.Thread(target=lambda: (_appears(tmp_path / "pid"), os.kill(os.getpid(), signal.SIGINT)))
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            _bash(session, "echo $$ > pid; sleep 600")
        sender.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert _ended(int(_appears(tmp_path / "pid")))


def test_a_hundred_commands_at_once_keep_to_themselves(session: Session) -> None:
    with ThreadPoolExecutor(100) as many:
        results = list(many.map(lambda n: _bash(session, f"echo {n}; sleep 0.1; echo {n} >&2; exit {n}"), range(100)))
    for number, result in enumerate(results):
        assert result.data["exit_code"] == number and result.text.startswith(f"{number}\n{number}")


def test_many_commands_leave_no_descriptor_no_thread_and_no_file(session: Session, tmp_path: Path) -> None:
    for _ in range(2):  # the directory of the logs is opened when it is there
        _bash(session, "true")
    before = len(os.listdir("/dev/fd")), threading.active_count()
    for _ in range(30):
        _bash(session, "echo x; false")
        _bash(session, "if")
    assert (len(os.listdir("/dev/fd")), threading.active_count()) == before
    state = Path(os.environ["HANDRAIL_STATE"]) / "artefacts"
    assert list(state.glob("*/*")) == [] and os.listdir(tmp_path) == []


# Where.


def test_it_runs_in_the_workspace_or_below(session: Session, tmp_path: Path) -> None:
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "link").symlink_to("sub dir")
    assert _bash(session, "pwd").text == str(tmp_path)
    for named in ("sub dir", str(tmp_path / "sub dir"), "link"):
        assert _bash(session, "pwd", workdir=named).text == str(tmp_path / "sub dir")


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ("none", "not_found"),
        ("file", "not_directory"),
        ("..", "outside_workspace"),
        ("/", "outside_workspace"),
        ("out", "outside_workspace"),
        ("", "bad_arguments"),
        ("a\0b", "bad_path"),
    ],
)
def test_any_other_place_is_refused_and_nothing_runs(session: Session, tmp_path: Path, named: str, code: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "out").symlink_to(tmp_path.parent)
    result = _bash(session, f"touch {tmp_path}/ran", workdir=named)
    assert result.error is not None and result.error.code == code, result.text
    assert not (tmp_path / "ran").exists()


def test_a_workspace_that_goes_away_under_the_command_is_no_trouble(make_session: Make, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    session = make_session(work, durable=False, sandbox="off")
    assert _bash(session, f"rm -r {work}; echo gone; exit 2").text.startswith("gone\n(exit code 2)")
    assert _bash(session, "pwd").error is not None
    work.mkdir()
    assert _bash(session, "pwd").text == str(work)


# What is no command.


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", "Invalid arguments for Bash"),
        (" \n\t", "Not run: it is empty."),
        ("touch ran\0", "Not run: it contains a NUL character."),
        ("touch ran; if true; then", "Not run: syntax error"),
        ("touch ran; echo 'open", "Not run: "),
        ("touch ran\nfi\n", "Not run: syntax error near unexpected token `fi' (line 2): fi."),
    ],
)
def test_what_is_no_command_is_refused_and_nothing_runs(
    session: Session, tmp_path: Path, command: str, expected: str
) -> None:
    result = _bash(session, command)
    assert result.status == "error" and result.text.startswith(expected)
    assert not (tmp_path / "ran").exists()
    assert _bash(session, "echo on").text == "on"


def test_a_command_longer_than_the_kernel_takes_is_run(session: Session) -> None:
    assert _bash(session, f"x='{'y' * 300_000}'; echo ${{#x}}").text.splitlines()[0] == "300000"


# What changed.


def test_files_that_the_model_has_seen_and_the_command_changed_are_named(session: Session, tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py", "d.py"):
        (tmp_path / name).write_text("x=1\n", encoding="ascii")
    for name in ("a.py", "b.py", "c.py"):
        session.call("Read", {"file_path": name})
    result = _bash(session, "sed -i 's/=/ = /' a.py d.py; rm c.py; cat b.py")
    assert result.text.startswith("x=1\n(changed by this command: a.py, c.py)\n(Changes of this command")
    assert result.data["changed"] == ["a.py", "c.py"]
    edit = {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}
    conflict = session.call("Edit", edit)
    assert conflict.error and conflict.error.code == "changed_since" and conflict.text.endswith("x = 1")
    session.call("Read", {"file_path": "a.py"})
    assert session.call("Edit", edit).status == "ok"
    assert (tmp_path / "a.py").read_text(encoding="ascii") == "x = 2\n"


# The environment.


def test_secrets_do_not_arrive_unless_the_host_says_so(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush")
    monkeypatch.setenv("MY_SETTING", "loud")
    command = 'echo "[$SOME_API_KEY][$MY_SETTING][$PAGER]"; env | grep -c HANDRAIL_STATE'
    assert _bash(make_session(sandbox="off"), command).text.startswith("[][][cat]\n0")
    kept = make_session(sandbox="off", keep_env=("SOME_API_KEY", "MY_*"))
    assert _bash(kept, command).text.startswith("[hush][loud][cat]\n0")
