"""Rules for hosts: commands reach these hosts through a filtering proxy, and no others.

Real curl, git, wget and pip talk to servers on this machine's loopback. Only the last step is replaced: the names of
the test lead to these servers.
"""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Session, Setup
from handrail.model import Answer, Question, Result
from handrail.policy.files import parse
from handrail.shell.effects.hosts import Host
from handrail.shell.sandbox import filter_proxy
from tests.command import TIMEOUT
from tests.shell.own_places import BOUNDARIES, User, made_user

pytestmark = pytest.mark.slow  # starts many processes

RULES = [
    "allow Network(*.good.example)",
    "deny Network(bad.good.example)",
    "allow Network(port.example:81)",
    "allow Bash",
]
WHEEL = "packages/tiny/tiny-1.0-py3-none-any.whl"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.startswith("/to-other"):
            self.send_response(302)
            self.send_header("Location", "http://other.example/hello.txt")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            super().do_GET()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server with a file, a repository and a package."""
    top = tmp_path_factory.mktemp("site")
    (top / "hello.txt").write_text("hello\n", encoding="utf-8")
    (top / "packages/tiny").mkdir(parents=True)
    with zipfile.ZipFile(top / WHEEL, "w") as wheel:
        wheel.writestr("tiny.py", "x = 1\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    if shutil.which("git"):
        clone, bare = str(top / "made"), str(top / "repo.git")
        for words in (
            ["git", "init", "-q", "-b", "main", clone],
            [
                "git",
                "-C",
                clone,
                "-c",
                "user.name=n",
                "-c",
                "user.email=e@x",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "m",
            ],
            ["git", "clone", "-q", "--bare", clone, bare],
            ["git", "-C", bare, "update-server-info"],
        ):
            subprocess.run(words, check=True, capture_output=True, timeout=TIMEOUT)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(top))) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield server.server_address[1]
        server.shutdown()
        serving.join(TIMEOUT)


@pytest.fixture
def contacted(site: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts that the proxy connects to, each of which is the server of the test."""
    hosts: list[str] = []

    def connect(host: Host) -> socket.socket:
        hosts.append(str(host))
        return socket.create_connection(("127.0.0.1", site), TIMEOUT)

    monkeypatch.setattr(filter_proxy, "connect_to", connect)
    return hosts


@pytest.fixture(params=BOUNDARIES)
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session with rules for hosts, in which every question gets a no."""
    with made_user(monkeypatch) as user:
        forget_settings(user)
        rules = [parse(f"rules = {RULES!r}", "policy.toml", "user")]
        session = user.session(
            request.param, mode="accept-edits", setup=Setup(rules=rules), approve=lambda _: Answer(False)
        )
        with session:
            require_proxy(session)
            yield session


def forget_settings(user: User) -> None:
    (user.config / "approved.toml").unlink()
    (user.config / "config.toml").unlink()


def require_proxy(session: Session) -> None:
    probe = session.call("Bash", {"command": "true # change nothing", "workdir": "."})
    if probe.error and probe.error.code == "no_sandbox":
        pytest.skip(f"this boundary cannot be had on this machine: {probe.text}")
    if not session.services.command_host().network.filters:
        pytest.skip("connections of commands cannot be made by Handrail on this machine")


def bash(session: Session, command: str) -> Result:
    return session.call("Bash", {"command": command, "timeout": TIMEOUT})


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_curl_reaches_an_allowed_host_and_no_other(session: Session, contacted: list[str]) -> None:
    for command in (
        "curl -sS http://www.good.example/hello.txt",
        "curl -sS -p http://www.good.example/hello.txt",  # through a tunnel
        "curl -sSL http://port.example:81/hello.txt | cat",
        "curl -sS --retry 1 -d x=y -X GET http://www.good.example/hello.txt && true",
    ):
        result = bash(session, command)
        assert result.ok and "hello" in result.text, result.text
    assert set(contacted) == {"www.good.example:80", "port.example:81"}
    del contacted[:]
    followed = bash(session, "curl -sSL http://www.good.example/to-other")
    assert "other.example:80 is not among the hosts that the rules allow" in followed.text
    assert [note.code for note in followed.notes] == ["needs_network"] and "other.example:80" in followed.text
    assert contacted == ["www.good.example:80"]
    for command in (
        "curl -sS http://bad.good.example/hello.txt",
        "curl -sS http://port.example/hello.txt",
        "curl -sS http://other.example/hello.txt",
        "curl -sS http://www.good.example/hello.txt http://other.example/hello.txt",
    ):
        assert bash(session, command).status == "denied", command
    assert contacted == ["www.good.example:80"]


@pytest.mark.skipif(not shutil.which("wget"), reason="needs wget")
def test_wget_follows_no_redirection_to_another_host(session: Session, contacted: list[str]) -> None:
    assert "hello" in bash(session, "wget -qO- http://www.good.example/hello.txt").text
    assert "hello" not in bash(session, "wget -qO- http://www.good.example/to-other").text
    assert set(contacted) == {"www.good.example:80"}


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_git_clones_and_fetches_over_http(session: Session, contacted: list[str]) -> None:
    for command in ("git clone -q http://code.good.example/repo.git got", "git -C got fetch -q origin"):
        result = bash(session, command)
        assert result.ok and not result.data["exit_code"], result.text
    assert bash(session, "git clone -q http://code.other.example/repo.git not").status == "denied"
    assert bash(session, "git clone -q git@code.good.example:repo.git not").status == "denied"  # no proxy for ssh
    assert set(contacted) == {"code.good.example:80"}


def test_pip_installs_from_an_allowed_index(
    session: Session, contacted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not shutil.which("pip"):
        pytest.skip("needs pip")
    options = "--disable-pip-version-check --no-cache-dir --no-deps -q --target got"
    index = "--trusted-host pypi.good.example -i http://pypi.good.example/packages"
    result = bash(session, f"pip install {options} {index} tiny")
    assert result.ok and not result.data["exit_code"], result.text
    assert (Path(session.workspace.home) / "got/tiny.py").exists()
    assert bash(session, f"pip install {options} tiny").status == "denied"
    assert set(contacted) == {"pypi.good.example:80"}


def test_a_build_that_fetches_gets_the_proxy_and_a_program_beside_it_reaches_nothing_else(
    session: Session, contacted: list[str]
) -> None:
    steal = (
        "import os, socket, urllib.request, urllib.error\n"
        "proxy = os.environ['http_proxy'].removeprefix('http://').split(':')\n"
        "for name in ('www.good.example', 'other.example', '127.0.0.1.other.example'):\n"
        "  try: print(name, urllib.request.urlopen(f'http://{name}/hello.txt', timeout=60).read())\n"
        "  except urllib.error.URLError as error: print(name, error)\n"
        "for text in ('CONNECT other.example:443 HTTP/1.1', 'CONNECT [::1]:22 HTTP/1.1', 'GET / HTTP/1.1', 'x',\n"
        "             'GET http://www.good.example@other.example/ HTTP/1.1', 'CONNECT 2130706433:22 HTTP/1.1',\n"
        "             'GET https://www.good.example/ HTTP/1.1', 'CONNECT other.example:0 HTTP/1.1'):\n"
        "  line = socket.create_connection((proxy[0], int(proxy[1])), 60)\n"
        "  line.sendall(text.encode() + b'\\r\\nHost: www.good.example\\r\\n\\r\\n')\n"
        "  print(line.makefile().readline().strip())\n"
    )
    (Path(session.workspace.home) / "build.py").write_text(steal, encoding="utf-8")
    result = bash(session, "go test ./... ; uv run true; python3 build.py")
    assert "www.good.example b'hello\\n'" in result.text, result.text
    assert "403" in result.text and "200" not in result.text
    assert set(contacted) == {"www.good.example:80"}


def test_without_a_rule_for_hosts_there_is_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with made_user(monkeypatch) as user:
        forget_settings(user)
        with user.session("off", mode="full") as session:
            assert "http" not in bash(session, "go version >/dev/null; echo $http_proxy").text


def test_a_name_that_leads_to_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule for a name of the network does not open services of this machine, whatever its name server answers."""
    for address in ("127.0.0.1", "::1", "169.254.169.254", "0.0.0.0", "::ffff:127.0.0.1"):
        answer = [(0, 0, 0, "", (address, 80))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, answer=answer, **__: answer)
        with pytest.raises(OSError, match="of this machine"):
            filter_proxy.connect_to(Host("www.good.example", 80))


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_port_of_this_machine_is_asked_about_and_then_reached(
    sandbox: str, site: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answers = [Answer(False), Answer(True), Answer(True)]

    def approve(question: Question) -> Answer:
        asked.append(question.verdict.why)
        return answers.pop(0)

    with made_user(monkeypatch) as user:
        forget_settings(user)
        free = parse('rules = ["allow Bash"]', "policy.toml", "user")
        with user.session(sandbox, mode="accept-edits", setup=Setup(rules=[free]), approve=approve) as session:
            require_proxy(session)
            code = (
                f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{site}/hello.txt', timeout=60).read())"
            )
            (user.work / "get.py").write_text(code, encoding="utf-8")
            first = bash(session, "python3 get.py")  # its words tell nothing
            assert [note.code for note in first.notes] == ["needs_port"] and str(site) in first.text and asked == []
            assert bash(session, "python3 get.py").status == "denied"
            assert f"localhost:{site}" in asked[0]
            again = bash(session, "python3 get.py")
            assert "hello" in again.text and len(asked) == 2, again.text
            if shutil.which("curl"):  # here the words tell it
                assert "hello" in bash(session, f"curl -sS http://127.0.0.1:{site}/hello.txt").text
                assert len(asked) == 3
            other = bash(session, "python3 ./get.py")
            assert [note.code for note in other.notes] == ["needs_port"]
        rules = [free, parse(f'rules = ["allow Network(localhost:{site})"]', "policy.toml", "user")]
        with user.session(sandbox, mode="accept-edits", setup=Setup(rules=rules)) as session:
            assert "hello" in bash(session, "python3 get.py").text
        with user.session(sandbox, mode="full") as session:
            assert "hello" in bash(session, "python3 get.py").text


def test_an_answer_for_good_about_one_command_opens_the_network_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = ["allow Network(www.good.example)", "allow Network(curl -L http://other.example/x)"]
    command = "curl -L http://other.example/x"
    with made_user(monkeypatch) as user:
        forget_settings(user)
        policies = [parse(f"rules = {rules!r}", "policy.toml", "user")]
        with user.session("auto", mode="accept-edits", setup=Setup(rules=policies)) as session:
            require_proxy(session)
            for line, grant in ((command, (True, False)), ("curl -L http://www.good.example/x", (False, True))):
                approved = session.services.approvals.approve(session.prepare("Bash", {"command": line}))
                assert (approved.network.open, approved.network.filtered) == grant, line
