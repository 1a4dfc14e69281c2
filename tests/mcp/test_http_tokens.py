"""The tokens of the HTTP server are not for the commands that it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from handrail import Session, Setup
from handrail.cli.mcp_http import make_http_options, parser
from handrail.mcp.http.principals import make_separating_rules
from handrail.workspace import Root
from tests.command import TIMEOUT

TOKEN = "secret-token-0123456789"


@pytest.mark.skipif(sys.platform != "linux", reason="the command line of a process is read from /proc")
@pytest.mark.parametrize("form", [["--token", TOKEN], [f"--token={TOKEN}"]])
def test_a_token_of_the_command_line_is_not_left_in_the_process_list(form: list[str]) -> None:
    code = (
        "import sys; from handrail.cli.mcp_http import make_http_options, parser; "
        "make_http_options(parser().parse_args(['--http', '127.0.0.1:0', *sys.argv[1:]])); "
        "print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, *form], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"1\n"
        shown = Path(f"/proc/{started.pid}/cmdline").read_bytes()
        started.communicate(b"\n", timeout=TIMEOUT)
    assert b"--token" in shown
    assert TOKEN.encode() not in shown


def test_a_token_file_is_denied_to_its_own_principal(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n", encoding="utf-8")
    token.chmod(0o600)
    work = tmp_path / "work"
    work.mkdir()
    asked = make_http_options(parser().parse_args(["--http", "127.0.0.1:0", str(work), "--token-file", str(token)]))
    (principal,) = asked.principals.known
    (rules,) = make_separating_rules(principal, asked.principals)
    assert [path.text for rule in rules.rules for path in rule.paths] == [str(token)]


def test_the_own_token_lies_in_the_state_directory_that_sessions_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, work = tmp_path / "configured", tmp_path / "work"
    work.mkdir()
    config = tmp_path / "config.toml"
    config.write_text(f"[settings]\nstate = {json.dumps(str(state))}\n", encoding="utf-8")
    monkeypatch.setenv("HANDRAIL_CONFIG", str(config))
    make_http_options(parser().parse_args(["--http", "127.0.0.1:0", str(work)]))
    (token,) = state.glob("*token*")
    with Session(work, setup=Setup(roots=[Root(str(tmp_path))])) as session:
        refused = session.call("Read", {"file_path": str(token)})
    assert not refused.ok
    assert token.read_text(encoding="ascii").strip() not in refused.text
