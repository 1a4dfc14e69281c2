"""How the HTTP door starts: tokens, principals, addresses, and what is said of a mistake."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from handrail.cli import main
from handrail.mcp.http import serve as serving_module
from handrail.mcp.http.principals import Principals
from tests.mcp.http_server import TOKEN, call, envelope, need_hiding_sandbox, serving


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    return root


Started = Callable[..., str]


@pytest.fixture
def refused(project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Started:
    """What is said of a command line that cannot start a server."""
    monkeypatch.chdir(project)

    def refused(*words: str) -> str:
        assert main(["mcp", *words]) == 2
        return capfd.readouterr().err

    return refused


def test_a_token_is_made_once_and_kept_where_only_its_owner_reads(project: Path, refused: Started) -> None:
    kept = Path(os.environ["HANDRAIL_STATE"]) / "mcp-http-token"
    with serving(str(project), cwd=project) as door:
        token = kept.read_text(encoding="ascii").strip()
        assert len(token) >= 32 and any(token in line for line in door.lines)
        assert kept.stat().st_mode & 0o777 == 0o600
        assert door.post(call("LS"), token=token, **envelope("LS")).status_code == 200
    with serving(str(project), cwd=project) as door:
        assert not any(token in line for line in door.lines) and any(str(kept) in line for line in door.lines)
        assert door.post(call("LS"), token=token, **envelope("LS")).status_code == 200
    kept.chmod(0o644)
    message = refused("--http", "127.0.0.1:0")
    assert "chmod 600" in message and token not in message


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--http", "0.0.0.0:0"), "--allow-remote"),
        (("--http", "[::]:0"), "--allow-remote"),
        (("--http", "example.com:1"), "--allow-remote"),
        (("--http", "8765"), "HOST:PORT"),
        (("--http", "127.0.0.1:99999"), "HOST:PORT"),
        (("--http", "127.0.0.1:0", "--token", "short"), "at least 16 characters"),
        (("--http", "127.0.0.1:0", "--token", TOKEN, "missing"), "not a directory"),
        (("--http", "127.0.0.1:0", "--token", TOKEN, "--dialect", "nobody"), "nobody"),
        (("--http", "127.0.0.1:0", "--token", TOKEN, "--token-file", "x"), "not allowed with"),
        (("--http", "127.0.0.1:0", "--principals", "none.toml"), "No such file"),
        (("--http", "127.0.0.1:0", "--colour"), "--colour"),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_line(refused: Started, words: tuple[str, ...], why: str) -> None:
    message = refused(*words)
    assert why in message and message.count("\n") == 1


def test_an_address_that_others_can_reach_is_used_when_it_is_meant(project: Path) -> None:
    command = ("--token", TOKEN, "--allow-remote", "--allow-host", "tools.example", "--http", "0.0.0.0:0")
    with serving(str(project), *command, cwd=project) as door:
        assert any("warning" in line for line in door.lines)
        url = f"http://127.0.0.1:{door.port}/mcp"
        for host, status in (("tools.example", 200), ("evil.example", 421)):
            headers = {name.replace("_", "-"): value for name, value in envelope("LS").items()}
            headers |= {
                "Authorization": f"Bearer {TOKEN}",
                "Host": host,
                "Accept": "application/json, text/event-stream",
            }
            assert httpx2.post(url, json=call("LS"), headers=headers).status_code == status


ROW = '[[principal]]\nname = "a"\nroot = "."\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "one [[principal]] table"),
        ("x = 1\n" + ROW, "only [[principal]]"),
        (ROW, "either token or token_sha256"),
        (ROW + f'token = "{TOKEN}"\ntoken_sha256 = "{"0" * 64}"\n', "either token or token_sha256"),
        (ROW + 'token = "short"\n', "at least 16 characters"),
        (ROW + 'token_sha256 = "abc"\n', "64 hexadecimal digits"),
        (ROW + f'token = "{TOKEN}"\ncolour = "red"\n', "unknown key colour"),
        (ROW + f'token = "{TOKEN}"\nmode = "wild"\n', "mode is one of"),
        (ROW + f'token = "{TOKEN}"\ntools = "Read"\n', "tools is not a list"),
        (ROW + f'token = "{TOKEN}"\ntools = ["Dance"]\n', "Dance"),
        (ROW.replace('"."', '"gone"') + f'token = "{TOKEN}"\n', "not a directory"),
        (2 * (ROW + f'token = "{TOKEN}"\n'), "the same name"),
        (ROW + f'token = "{TOKEN}"\n' + ROW.replace('"a"', '"b"') + f'token = "{TOKEN}"\n', "the same token"),
        ("[[principal\n", "not valid TOML"),
    ],
)
def test_a_mistake_in_the_file_of_principals_is_named(project: Path, refused: Started, text: str, why: str) -> None:
    file = project / "principals.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    message = refused("--http", "127.0.0.1:0", "--principals", "principals.toml")
    assert why in message and TOKEN not in message


def test_tokens_in_a_file_that_others_can_read_are_refused(project: Path, refused: Started) -> None:
    file = project / "principals.toml"
    file.write_text(ROW + f'token = "{TOKEN}"\n', encoding="utf-8")
    file.chmod(0o644)
    assert "chmod 600" in refused("--http", "127.0.0.1:0", "--principals", "principals.toml")


TWO = "".join(f'[[principal]]\nname = "{name}"\nroot = "."\ntoken_sha256 = "{name * 64}"\n' for name in "ab")


@pytest.mark.parametrize("sandbox", ["off", "landlock"])
def test_principals_whose_commands_nothing_keeps_apart_are_refused(
    project: Path, refused: Started, sandbox: str
) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "handrail" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[settings]\nsandbox = "{sandbox}"\n', encoding="utf-8")
    (project / "principals.toml").write_text(TWO, encoding="utf-8")
    words = refused("--http", "127.0.0.1:0", "--principals", "principals.toml")
    assert "commands of a could read the files of the other principals" in words and words.count("\n") == 1
    without = TWO.replace("root", 'tools = ["Read"]\nroot')
    (project / "principals.toml").write_text(without, encoding="utf-8")
    with serving("--principals", "principals.toml", cwd=project) as door:
        assert door.post(call("LS"), token="test", **envelope("LS")).status_code == 401


def test_the_principals_of_the_docs_are_accepted(project: Path) -> None:
    need_hiding_sandbox(project)
    text = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
    (project / "principals.toml").write_text(text.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    with serving("--principals", "principals.toml", cwd=project) as door:
        assert door.post(call("LS"), token="test", **envelope("LS")).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_small_answer_is_sent_at_once(host: str) -> None:
    """Accepted sockets have TCP_NODELAY, which asyncio sets only where the listening socket says that it is TCP."""
    try:
        sock = serving_module.open_socket(serving_module.HttpOptions(host, 0, Principals([])))
    except serving_module.HttpError as error:
        pytest.skip(f"no such address here: {error}")
    collected: list[int] = []

    async def meet() -> None:
        met = asyncio.Event()

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted = transport.get_extra_info("socket")
                collected.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()
                met.set()

        # As uvicorn does with a socket that it is given.
        async with await asyncio.get_running_loop().create_server(Protocol, sock=sock):
            _, writer = await asyncio.open_connection(host, sock.getsockname()[1])
            await met.wait()
            writer.close()
            await writer.wait_closed()

    asyncio.run(meet())
    assert [bool(one) for one in collected] == [True]
