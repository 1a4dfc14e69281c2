"""Questions on the page: shown in full, answered once; whoever comes second reads who was first."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from handrail.approval import json_socket
from handrail.approval.attached_terminal import ApprovalServer
from handrail.approval.json_socket import Disconnected, JsonSocket
from handrail.model import Call, CommandAccess, FileAccess, FileDiff, Question, Verdict
from handrail.web.questions import Attendance, OpenQuestions
from handrail.web.site import Site
from tests.web.conftest import Asker

HUNKS = ("@@ -1 +1 @@\n-one\n+ONE\n", "@@ -9 +9 @@\n-nine\n+NINE\n")
EDIT = Question(
    Call("Edit", {"file_path": "<b>.txt"}),
    (FileAccess("write", "<b>.txt"),),
    Verdict("ask", "mode ask", "this mode asks about changes", allow="allow Edit(a/**)"),
    (FileDiff("<b>.txt", "--- <b>.txt\n+++ <b>.txt\n", HUNKS, selectable=True),),
    workspace="/srv/project",
    client="some client",
)
COMMAND = Question(
    Call("Bash", {"command": "rm x"}),
    (CommandAccess("rm x", tier="destructive"), FileAccess("delete", "x", by_command=True)),
    Verdict("ask", "", "it destroys"),
    command="rm x",
)

Ask = Callable[[Question], Asker]


def only(site: Site) -> str:
    (question,) = site.list_questions()
    return f"/approvals/{question.id}"


def answer(browser: TestClient, address: str, results: list[tuple[int, str]], **form: object) -> threading.Thread:
    """Send an answer in another thread: it is confirmed by the asker only later."""

    def send() -> None:
        got = browser.post(address, data=form, headers={"Accept": "text/plain"})
        results.append((got.status_code, got.text))

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_a_question_is_shown_in_full_and_as_text(browser: TestClient, site: Site, ask: Ask) -> None:
    asker = ask(EDIT)
    assert asker.hello["place"] == "on the browser page"
    page = browser.get("/approvals").text
    for piece in ("some client", "/srv/project", "&lt;b&gt;.txt", "NINE", "allow Edit(a/**)", "mode ask"):
        assert piece in page
    assert page.count('name="hunk"') == 2 and "<b>.txt" not in page
    asker.end("it was withdrawn", accepted=False)


def test_the_heading_counts_what_a_yes_would_do(browser: TestClient, ask: Ask) -> None:
    gone = [FileDiff(f"{name}.txt", "", ("@@ -1,2 +0,0 @@\n-one\n-two\n",), deleted=True) for name in "ab"]
    new = FileDiff("c.txt", "", ("@@ -0,0 +1 @@\n+one\n",), created=True, selectable=True)
    asker = ask(replace(EDIT, files=(*gone, new)))
    page = browser.get("/approvals").text
    assert "some client asks: delete 2 files, create 1 file, +1 −4 lines" in page
    assert 'name="hunk"' not in page and 'name="choose"' not in page  # a single hunk needs no choice
    asker.end("it was withdrawn", accepted=False)


def test_a_command_is_shown_with_its_effects_and_without_a_rule_there_is_no_always(
    browser: TestClient, ask: Ask
) -> None:
    asker = ask(COMMAND)
    page = browser.get("/approvals").text
    assert "destroys" in page and "delete <span" in page and 'value="always"' not in page
    asker.end("it was withdrawn", accepted=False)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"answer": "once"}, {"yes": True, "lasting": "once", "hunks": None}),
        ({"answer": "session"}, {"yes": True, "lasting": "session", "hunks": None}),
        ({"answer": "always"}, {"yes": True, "lasting": "always", "hunks": None}),
        ({"answer": "no", "reason": " not now "}, {"yes": False, "reason": "not now", "hunks": None}),
        ({"answer": "once", "choose": "1", "hunk": ["0.0", "0.1"]}, {"yes": True, "hunks": None}),
        ({"answer": "once", "choose": "1", "hunk": ["0.1"]}, {"yes": True, "hunks": {"<b>.txt": [1]}}),
        ({"answer": "once", "choose": "1"}, {"yes": True, "hunks": {"<b>.txt": []}}),
    ],
)
def test_an_answer_reaches_the_asker(
    browser: TestClient, site: Site, ask: Ask, form: dict[str, object], expected: dict[str, object]
) -> None:
    asker, results = ask(EDIT), list[tuple[int, str]]()
    sending = answer(browser, only(site), results, **form)
    got = asker.take()
    assert {name: got[name] for name in expected} == expected
    asker.end("it was answered on the browser page", accepted=True)
    sending.join()
    assert results[0][0] == 200 and results[0][1].startswith("Answered: ")
    assert site.list_questions() == []


def test_the_second_of_two_answers_is_told_who_was_first(browser: TestClient, site: Site, ask: Ask) -> None:
    asker, results = ask(EDIT), list[tuple[int, str]]()
    address = only(site)
    first = answer(browser, address, results, answer="once")
    asker.take()
    second = answer(browser, address, results, answer="no")
    asker.end("confirmed", accepted=True)
    first.join()
    second.join()
    assert sorted(results) == [
        (200, "Answered: yes."),
        (409, "This question needs no answer any more: it was answered yes on this page."),
    ]


def test_an_answer_that_loses_a_race_against_a_terminal_is_told_so(browser: TestClient, site: Site, ask: Ask) -> None:
    asker, results = ask(EDIT), list[tuple[int, str]]()
    sending = answer(browser, only(site), results, answer="once")
    asker.take()
    asker.end("it was answered in another terminal: no", accepted=False)
    sending.join()
    assert results == [(409, "This question needs no answer any more: it was answered in another terminal: no.")]


def test_a_question_that_was_answered_elsewhere_goes_away_with_the_reason(
    browser: TestClient, site: Site, ask: Ask
) -> None:
    asker = ask(EDIT)
    address = only(site)
    asker.end("it was answered in some client", accepted=False)
    while site.list_questions():
        pass
    assert "it was answered in some client" in browser.get(address).text
    assert browser.post(address, data={"answer": "once"}).status_code == 409


def test_an_asker_that_ends_takes_its_question_away(browser: TestClient, site: Site, ask: Ask) -> None:
    asker = ask(EDIT)
    address = only(site)
    asker.line.close()
    while site.list_questions():
        pass
    assert "the asking process has ended" in browser.get(address).text


def test_what_is_no_answer_is_refused_and_the_question_stays(browser: TestClient, site: Site, ask: Ask) -> None:
    asker = ask(EDIT)
    address = only(site)
    for form in ({}, {"answer": "maybe"}, {"answer": ["once", "no"]}, {"reason": "x"}):
        assert browser.post(address, data=form).status_code == 400, form
    assert browser.post(address, content=b"answer=once", headers={"Content-Type": "text/plain"}).status_code == 400
    assert browser.post("/approvals/unknown", data={"answer": "once"}).status_code == 404
    assert len(site.list_questions()) == 1
    asker.end("it was withdrawn", accepted=False)


def wait_for_end(line: JsonSocket) -> None:
    """Until the other side has hung up."""
    with contextlib.suppress(Disconnected), contextlib.closing(line):
        while line.wait(60):
            pass


def test_without_an_open_page_no_question_is_taken_and_open_ones_are_handed_back(tmp_path: Path) -> None:
    attendance = Attendance()
    with ApprovalServer(str(tmp_path), None, "here", attendance.is_attended) as server:
        questions = OpenQuestions(server, attendance)
        (unseen,) = map(JsonSocket, json_socket.connect_to_listeners(str(tmp_path)))
        wait_for_end(unseen)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("handrail.web.questions._RELOAD_SECONDS", 0.0)
            with attendance.attend():
                (line,) = map(JsonSocket, json_socket.connect_to_listeners(str(tmp_path)))
                assert line.wait(30)["place"] == "here"
                line.send({"ask": EDIT.as_json()})
                while not questions.list_open():
                    pass
            wait_for_end(line)
        while questions.list_open():
            pass


def test_the_count_of_open_questions_is_on_every_page(browser: TestClient, ask: Ask) -> None:
    asker = ask(EDIT)
    assert 'aria-label="1 open">1<' in browser.get("/").text
    asker.end("it was withdrawn", accepted=False)
