"""Long output: what is shown of it, and the file that holds all of it, which the other tools can open."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.model import Result
from tests.command import TIMEOUT

pytestmark = pytest.mark.slow  # starts many processes

Make = Callable[..., Session]


@pytest.fixture
def session(make_session: Make) -> Session:
    return make_session(durable=False, sandbox="off")


def _bash(session: Session, command: str, call: str = "") -> Result:
    return session.call("Bash", {"command": command}, id=call)


def test_long_output_is_shown_as_its_beginning_and_its_end(session: Session) -> None:
    result = _bash(session, "seq 100000", "call-1")
    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    head, _, rest = result.text.partition("\n(... ")
    note, _, tail = rest.partition(" ...)\n")
    assert whole.startswith(head) and whole.rstrip("\n").endswith(tail) and len(head) > 4_900 and len(tail) > 4_900
    assert note.endswith("the full output is in /large_tool_results/call-1: use Read or Grep")
    assert result.data["truncated"] and result.data["output_bytes"] == len(whole)


def test_how_a_command_with_long_output_ended_is_told_too(session: Session) -> None:
    assert _bash(session, "seq 100000; exit 7").text.endswith("\n100000\n(exit code 7)")
    assert _bash(session, "seq 100000; kill -9 $$").text.partition("\n(Changes")[0].endswith("\n100000\n(SIGKILL)")
    timed_out = session.call("Bash", {"command": "seq 100000; sleep 600", "timeout": 1})
    assert "\n100000\n(Timed out after 1 s" in timed_out.text and "/large_tool_results/" in timed_out.text


def test_the_file_is_read_searched_found_and_listed_by_its_name(session: Session) -> None:
    _bash(session, "seq 100000", "call-1")
    read = session.call("Read", {"file_path": "/large_tool_results/call-1", "offset": 54321, "limit": 1})
    assert read.text.split("\n")[0].split() == ["54321", "54321"]
    grep = session.call("Grep", {"pattern": "^5432.$", "path": "/large_tool_results", "output_mode": "content"})
    assert [match["line"] for match in grep.data["matches"]] == list(range(54320, 54330))
    glob = session.call("Glob", {"pattern": "call-*", "path": "/large_tool_results"})
    assert glob.data["paths"] == ["/large_tool_results/call-1"]
    assert session.call("LS", {"path": "/large_tool_results"}).text == "call-1"


def test_the_file_holds_every_byte_as_it_was_printed(session: Session) -> None:
    _bash(session, "printf '\\033[31m\\xff\\x00\\r'; seq 100000; printf end", "call-1")
    (log,) = Path(os.environ["HANDRAIL_STATE"]).glob("artefacts/*/call-1")
    whole = b"\x1b[31m\xff\x00\r" + b"".join(b"%d\n" % number for number in range(1, 100_001)) + b"end"
    assert log.read_bytes() == whole


@pytest.mark.parametrize(
    "path",
    [
        "/large_tool_results/..",
        "/large_tool_results/../../locks",
        "/large_tool_results/call-1/../../../locks",
        "/large_tool_resultsx/call-1",
        "/large_tool_results/link",
    ],
)
def test_the_name_leads_to_nothing_else(session: Session, tmp_path: Path, path: str) -> None:
    _bash(session, "seq 100000", "call-1")
    state = Path(os.environ["HANDRAIL_STATE"])
    (state / "secret").write_text("secret\n", encoding="ascii")
    (directory,) = state.glob("artefacts/*")
    (directory / "link").symlink_to(state / "secret")
    for tool, arguments in (
        ("Read", {"file_path": path}),
        ("LS", {"path": path}),
        ("Grep", {"path": path, "pattern": "secret"}),
    ):
        result = session.call(tool, arguments)
        assert result.status == "denied" and "secret\n" not in result.text, (tool, result.text)


def test_nothing_can_be_written_there(session: Session) -> None:
    _bash(session, "seq 100000", "call-1")
    for name in ("call-1", "new"):
        result = session.call("Write", {"file_path": f"/large_tool_results/{name}", "content": "x"})
        assert result.error is not None and result.error.code == "read_only_root"


def test_the_name_of_a_call_cannot_lead_out(session: Session) -> None:
    result = _bash(session, "seq 100000", "../../a b/ç")
    assert result.data["log"] == "/large_tool_results/_.._a_b__"
    assert session.call("Read", {"file_path": result.data["log"], "limit": 1}).status != "denied"


def test_the_same_name_twice_is_two_files(session: Session) -> None:
    assert _bash(session, "seq 100000", "x").data["log"] == "/large_tool_results/x"
    assert _bash(session, "seq 200000 300000", "x").data["log"] == "/large_tool_results/x-2"
    assert "200000" in session.call("Read", {"file_path": "/large_tool_results/x-2", "limit": 1}).text


def test_an_endless_line_is_cut_and_kept(session: Session) -> None:
    result = _bash(session, "head -c 3000000 /dev/zero | tr '\\0' x", "call-1")
    assert len(result.text) < 41_000 and result.data["output_bytes"] == 3_000_000
    read = session.call("Read", {"file_path": "/large_tool_results/call-1"})
    assert "xxx" in read.text


def test_two_sessions_do_not_see_the_output_of_each_other(make_session: Make) -> None:
    one, other = make_session(sandbox="off"), make_session(sandbox="off")
    _bash(one, "seq 100000", "call-1")
    _bash(other, "seq 100000", "call-2")
    assert session_names(one) == ["call-1"] and session_names(other) == ["call-2"]


def session_names(session: Session) -> list[str]:
    return session.call("LS", {"path": "/large_tool_results"}).text.splitlines()


def test_where_no_file_can_be_kept_the_command_runs_and_the_answer_holds_its_output(session: Session) -> None:
    state = Path(os.environ["HANDRAIL_STATE"])
    (state / "artefacts").write_text("a file where the directory should be", encoding="ascii")
    assert _bash(session, "echo short; exit 3").text == "short\n(exit code 3)"
    result = _bash(session, "seq 50000; exit 3")  # more than is shown otherwise
    assert result.text == "\n".join(map(str, range(1, 50_001))) + "\n(exit code 3)"
    assert result.data["exit_code"] == 3 and result.data["log"] is None
    longer = _bash(session, "seq 200000")
    assert longer.text.startswith("1\n2\n") and longer.text.rstrip().endswith("\n200000")
    assert Path(longer.data["log"]).stat().st_size == longer.data["output_bytes"]
    session.close()
    assert not Path(longer.data["log"]).exists()


_FULL = """
import resource, signal, sys
from handrail import Session, Settings
from handrail.policy import AllowAll
settings = Settings(sandbox="off", state=sys.argv[2])
session = Session(sys.argv[1], policy=AllowAll(), journal=None, settings=settings)
session.call("Bash", {"command": "true"})
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
result = session.call("Bash", {"command": "seq 10000; exit 3"})
print(result.status, [note.code for note in result.notes], result.data["exit_code"], result.text[:4].split())
session.close()
"""


def test_output_that_does_not_fit_on_the_disk_is_told_of(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _FULL, str(tmp_path), os.environ["HANDRAIL_STATE"]]
    done = subprocess.run(words, capture_output=True, check=True, timeout=TIMEOUT, text=True, encoding="utf-8")
    assert done.stdout == "partial ['lost_output'] 3 ['1', '2']\n"


def test_jobs_run_where_no_file_can_be_kept(session: Session) -> None:
    (Path(os.environ["HANDRAIL_STATE"]) / "artefacts").touch()
    job = session.call("Bash", {"command": "echo one", "background": True}).data["job"]
    assert session.call("BashOutput", {"job": job, "wait": 20}).data["output"] == "one\n"


def test_old_output_goes_when_there_is_too_much_and_running_jobs_keep_theirs(make_session: Make) -> None:
    session = make_session(sandbox="off", artefact_bytes=2_000_000)
    job = session.call("Bash", {"command": "echo mine; sleep 600", "background": True}, id="job")
    for number in range(5):
        assert _bash(session, "seq 100000", f"call-{number}").data["log"] == f"/large_tool_results/call-{number}"
    assert session_names(session) == ["call-2", "call-3", "call-4", "job"]
    assert session.call("BashOutput", {"job": job.data["job"], "all": True}).data["output"] == "mine\n"
    gone = session.call("Read", {"file_path": "/large_tool_results/call-0"})
    assert gone.error is not None and gone.error.code == "not_found"
