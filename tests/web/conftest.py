"""A project with a journal, and its pages in this process behind the check of access."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from handrail import Session, Settings
from handrail.approval import json_socket
from handrail.approval.attached_terminal import ApprovalServer
from handrail.approval.json_socket import JsonSocket
from handrail.files.locks import state_directory
from handrail.journal.store import get_default_path
from handrail.model import Question
from handrail.web.access import PageAccess
from handrail.web.pages import make_app
from handrail.web.questions import Attendance, OpenQuestions
from handrail.web.site import Site

PORT = 8790
ORIGIN = f"http://127.0.0.1:{PORT}"
TOKEN = "a token of sufficient length"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "app.py").write_text("import os\n\n\ndef greet(name):\n    return 'Hello ' + name\n", encoding="utf-8")
    return root


@pytest.fixture
def session(project: Path) -> Iterator[Session]:
    with Session(project, mode="full", settings=Settings(durable=False, sandbox="off", raise_bugs=True)) as opened:
        yield opened


@pytest.fixture
def site() -> Iterator[Site]:
    state = state_directory()
    attendance = Attendance()
    with ApprovalServer(state, None, "on the browser page", attendance.is_attended) as server, attendance.attend():
        questions = OpenQuestions(server, attendance)
        yield Site(get_default_path(state), Settings(durable=False), (), questions, attendance)


@pytest.fixture
def guarded(site: Site) -> PageAccess:
    """The pages as the server serves them."""
    return PageAccess(make_app(site), PORT, TOKEN, lambda client, server: False)


@pytest.fixture
def stranger(guarded: PageAccess) -> TestClient:
    """A browser without a cookie."""
    return TestClient(guarded, base_url=ORIGIN, follow_redirects=False)


@pytest.fixture
def browser(guarded: PageAccess) -> TestClient:
    """A browser that was given the address, and sends forms from our pages."""
    client = TestClient(guarded, base_url=ORIGIN, headers={"Origin": ORIGIN})
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    return client


class Asker:
    """The side that asks a question, by hand: it alone decides which answer is the first."""

    def __init__(self, question: Question) -> None:
        (connection,) = json_socket.connect_to_listeners(state_directory())
        self.line = JsonSocket(connection)
        self.hello = self.line.wait(10)
        self.line.send({"ask": question.as_json()})

    def take(self) -> dict[str, object]:
        """The answer, which is not confirmed yet."""
        while "answer" not in (message := self.line.wait(30)):
            pass
        answer: dict[str, object] = message["answer"]
        return answer

    def end(self, over: str, *, accepted: bool) -> None:
        self.line.send({"over": over, "accepted": accepted})
        self.line.close()


@pytest.fixture
def ask(site: Site) -> Callable[[Question], Asker]:
    """Ask the page, and wait until it knows the question."""

    def start(question: Question) -> Asker:
        known = len(site.list_questions())
        asker = Asker(question)
        assert site.questions
        while len(site.list_questions()) == known:
            os.sched_yield()
        return asker

    return start


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
