"""Who gets in: the token, the cookie, Host and Origin, the headers of each answer, and processes that are commands."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from handrail import Session, Settings
from handrail.web.access import HOST, PageAccess
from handrail.web.connections import is_stranger
from handrail.web.pages import make_app
from handrail.web.site import Site
from handrail.wire.http_server import open_socket
from tests.command import TIMEOUT, handrail
from tests.web.conftest import ORIGIN, PORT, TOKEN

PATHS = ["/", "/calls/1", "/approvals", "/events", "/static/page.js", "/nothing", "/drafts", "/statistics", "/files"]


@pytest.mark.parametrize("path", PATHS)
def test_without_the_cookie_there_is_a_401_that_says_how_to_get_in(stranger: TestClient, path: str) -> None:
    for query in ("", "?token=", "?token=wrong", f"?token={TOKEN}&token=wrong", f"?token={TOKEN}x"):
        answer = stranger.get(path + query)
        assert answer.status_code == 401 and "run <code>handrail web</code> again" in answer.text, query
        assert "set-cookie" not in answer.headers and TOKEN not in answer.text
        assert "unsafe" not in answer.headers["content-security-policy"]


def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger: TestClient) -> None:
    answer = stranger.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and TOKEN not in cookie and "domain" not in cookie
    assert stranger.get("/").status_code == 200


@pytest.mark.parametrize("host", ["example.com", f"example.com:{PORT}", "127.0.0.1", "127.0.0.1:1", "[::1]:8790", ""])
def test_another_host_is_refused(browser: TestClient, host: str) -> None:
    answer = browser.get("/", headers={"Host": host})
    assert answer.status_code == 421 and b"Wrong address" in answer.content


@pytest.mark.parametrize("origin", ["http://127.0.0.1:3000", "https://127.0.0.1:8790", "http://example.com", "null"])
def test_another_origin_is_refused(browser: TestClient, origin: str) -> None:
    for method, path in (("POST", "/calls/1/undo"), ("POST", "/approvals/x"), ("GET", "/")):
        answer = browser.request(method, path, headers={"Origin": origin})
        assert answer.status_code == 403 and b"Nothing was changed" in answer.content, path


def test_a_request_that_changes_something_must_say_where_it_comes_from(stranger: TestClient) -> None:
    stranger.get("/", params={"token": TOKEN})
    assert stranger.post("/calls/1/undo").status_code == 403
    assert stranger.post("/calls/1/undo", headers={"Origin": ORIGIN}).status_code == 404


@pytest.mark.parametrize("path", PATHS[:3] + PATHS[4:])
def test_every_answer_has_a_strict_policy_and_loads_nothing_from_elsewhere(browser: TestClient, path: str) -> None:
    answer = browser.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    if "html" in answer.headers["content-type"]:
        for piece in ("http://", "https://", "<script>", " style=", " onclick="):
            assert piece not in answer.text


def test_a_command_is_refused_whatever_it_knows(site: Site) -> None:
    app = PageAccess(make_app(site), PORT, TOKEN, lambda client, server: client[1] == 1234)
    command = TestClient(app, base_url=ORIGIN, client=("127.0.0.1", 1234))
    assert command.get("/", params={"token": TOKEN}).status_code == 401
    person = TestClient(app, base_url=ORIGIN, client=("127.0.0.1", 1235))
    assert person.get("/", params={"token": TOKEN}).status_code == 200


@pytest.mark.skipif(sys.platform != "linux", reason="which process is at the other end is known on Linux only")
def test_the_process_behind_a_connection_is_found(project: Path) -> None:
    connect = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.recv(1)"
    with open_socket(HOST, 0) as listener:
        port = listener.getsockname()[1]
        settings = Settings(durable=False, sandbox="off")
        with Session(project, mode="full", settings=settings) as session:
            command = f'{sys.executable} -c "{connect}" {port}'
            assert session.call("Bash", {"command": command, "background": True}).status != "error"
            with listener.accept()[0] as connection:
                assert is_stranger(connection.getpeername(), ("127.0.0.1", port))
        words = [sys.executable, "-c", connect, str(port)]
        with subprocess.Popen(words) as process:
            with listener.accept()[0] as connection:
                assert not is_stranger(connection.getpeername(), ("127.0.0.1", port))
            process.wait(TIMEOUT)


@pytest.mark.skipif(sys.platform != "linux", reason="whose process is at the other end is known on Linux only")
@pytest.mark.skipif(os.getuid() == 0, reason="as root, whoever has the token gets in")
def test_another_user_is_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_socket(HOST, 0) as listener, socket.create_connection(listener.getsockname()) as client:
        address, server = client.getsockname(), listener.getsockname()
        assert not is_stranger(address, server)
        own = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: own + 1)
        assert is_stranger(address, server)


def test_a_port_that_is_taken_is_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = handrail("web", "--port", str(port), cwd=tmp_path)
    assert done.returncode == 1 and f"cannot listen on 127.0.0.1:{port}".encode() in done.stderr
    assert not list(Path(os.environ["HANDRAIL_STATE"]).glob("approvers/*.sock"))


def test_a_port_that_cannot_be_is_reported(tmp_path: Path) -> None:
    assert handrail("web", "--port", "70000", cwd=tmp_path).returncode == 2
