"""The pages of the journal: activity with filters and pages, single calls, undo, the stream; hostile names as text."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from handrail import Session
from handrail.journal.log_lines import GENESIS, get_logs_path
from handrail.journal.logs import hash_text
from handrail.journal.store import get_default_path
from handrail.web.access import PageAccess
from handrail.web.ansi import render_ansi
from handrail.web.diffs import parse_diff
from handrail.web.site import Site
from tests.web.conftest import PORT

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m'\"&.txt"


def edit(session: Session, old: str = "'Hello '", new: str = "'Goodbye '") -> None:
    session.call("Read", {"file_path": "app.py"})
    assert session.call("Edit", {"file_path": "app.py", "old_string": old, "new_string": new}).status == "ok"


def numbers(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'<li class="call[^"]*" id="call-(\d+)"', page)]


def test_before_the_first_call_the_page_says_so(browser: TestClient) -> None:
    assert "No calls yet" in browser.get("/").text


def test_the_timeline_shows_who_what_and_the_result(browser: TestClient, session: Session, project: Path) -> None:
    edit(session)
    session.call("Read", {"file_path": "/etc/shadow"})
    page = browser.get("/").text
    assert numbers(page) == [3, 2, 1]
    for piece in (str(project), "changed 1 file, +1 -1, 1 refused", "edited", "app.py", "wanted to read", "refused"):
        assert piece in page


def test_filters_choose_calls(browser: TestClient, session: Session, project: Path) -> None:
    edit(session)
    session.call("Read", {"file_path": "missing.txt"})
    assert numbers(browser.get("/", params={"tool": "Edit"}).text) == [2]
    assert numbers(browser.get("/", params={"status": "error"}).text) == [3]
    assert numbers(browser.get("/", params={"workspace": str(project), "tool": "Read"}).text) == [3, 1]
    assert numbers(browser.get("/", params={"workspace": "/nowhere"}).text) == []
    assert numbers(browser.get("/", params={"session": session.origin.session}).text) == [3, 2, 1]
    assert numbers(browser.get("/", params={"q": "GOODBYE"}).text) == [2]
    assert numbers(browser.get("/", params={"q": "100%_"}).text) == []
    assert numbers(browser.get("/", params={"file": str(project / "app.py")}).text) == [2]
    assert numbers(browser.get("/", params={"file": "app.py", "workspace": str(project)}).text) == [2]
    assert numbers(browser.get("/", params={"days": "1"}).text) == [3, 2, 1]
    session.name_source("an-agent")
    session.call("Read", {"file_path": "app.py"})
    assert numbers(browser.get("/", params={"agent": "an-agent"}).text) == [4]
    assert numbers(browser.get("/", params={"agent": "another"}).text) == []


def test_pages_go_by_number_and_no_call_is_left_out(browser: TestClient, session: Session) -> None:
    for _ in range(120):
        session.call("Read", {"file_path": "app.py"})
    seen: list[int] = []
    address = "/"
    while address:
        page = browser.get(address).text
        seen += numbers(page)
        older = re.search(r'href="(/\?[^"]*)" rel="next"', page)
        address = older[1].replace("&amp;", "&") if older else ""
    assert seen == list(range(120, 0, -1))


def test_a_call_shows_arguments_verdict_and_both_forms_of_the_diff(browser: TestClient, session: Session) -> None:
    edit(session)
    page = browser.get("/calls/2").text
    for piece in ("old_string", "Verdict", "allow", '<tr class="removed">', '<tr class="added">', "<mark>", "t-k"):
        assert piece in page
    split = browser.get("/calls/2", params={"view": "split"}).text
    assert '<table class="diff split">' in split and "Goodbye" in split
    assert browser.get("/calls/99").status_code == 404
    assert browser.get("/calls/99999999999999999999999").status_code == 404


def test_undo_shows_what_it_will_do_and_then_does_it(browser: TestClient, session: Session, project: Path) -> None:
    before = (project / "app.py").read_bytes()
    edit(session)
    after = (project / "app.py").read_bytes()
    preview = browser.get("/calls/2/undo").text
    assert "will be reverted" in preview and "Goodbye" in preview and '<button type="submit"' in preview
    assert (project / "app.py").read_bytes() == after
    assert "is undone" in browser.post("/calls/2/undo").text
    assert (project / "app.py").read_bytes() == before
    again = browser.get("/calls/2/undo").text
    assert "nothing to undo" in again and '<button type="submit"' not in again
    page = browser.get("/").text
    assert "undid" in page and "undone" in page and "/calls/3/undo" in page  # which is a redo
    assert "Redo what call 3 took back?" in browser.get("/calls/3/undo").text
    assert "Done again" in browser.post("/calls/3/undo").text
    assert (project / "app.py").read_bytes() == after


def test_undo_leaves_a_file_alone_that_has_changed_since(browser: TestClient, session: Session, project: Path) -> None:
    edit(session)
    (project / "app.py").write_text("mine\n", encoding="utf-8")
    page = browser.post("/calls/2/undo").text
    assert "Nothing was undone" in page and "changed since call 2, not by a call" in page
    assert (project / "app.py").read_text(encoding="utf-8") == "mine\n"


def test_undo_in_a_project_that_is_gone_is_reported(browser: TestClient, session: Session, project: Path) -> None:
    edit(session)
    session.close()
    project.rename(project.with_name("moved"))
    assert "The directory of its project is gone" in browser.get("/calls/2/undo").text


def test_names_and_outputs_with_markup_are_text(browser: TestClient, session: Session, project: Path) -> None:
    (project / HOSTILE).write_text("<script>alert(1)</script>\n", encoding="utf-8")
    (project / os.fsdecode(b"\xff\xfe.txt")).write_text("odd\n", encoding="utf-8")
    session.call("Read", {"file_path": HOSTILE})
    session.call("Write", {"file_path": HOSTILE, "content": "</pre><script>alert(2)</script>\n"})
    session.call("Bash", {"command": "printf '<b>\\033[31mred</b>\\n'; cat *.txt; ls"})
    session.call("Read", {"file_path": os.fsdecode(b"\xff\xfe.txt")})
    for path in ("/", "/calls/1", "/calls/2", "/calls/2?view=split", "/calls/2/undo", "/calls/3", "/calls/4"):
        answer = browser.get(path)
        assert answer.status_code == 200, (path, answer.text)
        assert not re.search(r"<(?:img|b>red|script>)|\u202e|\x1b", answer.text.replace("<b>Re", "")), path
    assert "&lt;img src=x onerror=alert(1)&gt;\\u202e" in browser.get("/").text


def test_a_project_with_an_odd_name_can_be_chosen(browser: TestClient, tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"odd \xff <b>&")
    root.mkdir()
    with Session(root, mode="full") as session:
        session.call("LS", {"path": "."})
    page = browser.get("/").text
    value = re.search(r'<option value="([^"]*odd[^"]*)"', page)
    assert value
    name = value[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert numbers(browser.get("/", params={"workspace": name}).text) == [1]


def test_a_damaged_journal_is_reported(browser: TestClient, session: Session) -> None:
    edit(session)
    session.close()
    path = get_default_path(os.environ["HANDRAIL_STATE"])
    assert browser.get("/").status_code == 200
    with sqlite3.connect(path) as db:
        db.execute("UPDATE calls SET touches = 'no json', arguments = '{' WHERE seq = 1")
    db.close()
    assert browser.get("/").status_code == 200 and browser.get("/calls/1").status_code == 200
    Path(path).write_bytes(b"no database at all, not even a short one" * 100)
    assert browser.get("/").status_code == 200  # the index is made again
    text = '[1,0,"start",[[99,"id",1],[]]]'
    Path(get_logs_path(path), "000002.log").write_text(
        f"{hash_text(GENESIS, text.encode())} {text}\n", encoding="ascii"
    )
    Path(path).unlink()
    answer = browser.get("/")
    assert answer.status_code == 500 and "The journal cannot be read" in answer.text
    assert "newer version" in answer.text


async def read_events(app: PageAccess, cookie: str, query: bytes, site: Site, most: int) -> list[dict[str, Any]]:
    """The first events of the stream."""
    events: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        for block in message.get("body", b"").decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "data" in fields:
                events.append({**fields, "data": json.loads(fields["data"])})
        if len(events) >= most:
            site.closing.set()

    async def receive() -> Any:
        await anyio.sleep_forever()

    headers = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"cookie", cookie.encode())]
    scope = {"type": "http", "method": "GET", "path": "/events", "query_string": query, "headers": headers}
    with anyio.fail_after(60):
        await app({**scope, "asgi": {"version": "3.0", "spec_version": "2.4"}}, receive, send)
    return events


def test_the_stream_has_the_calls_that_end_and_goes_on_where_it_stopped(
    browser: TestClient, guarded: PageAccess, session: Session, site: Site
) -> None:
    edit(session)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    first = anyio.run(read_events, guarded, cookie, b"since=0", site, 2)
    assert [event["event"] for event in first] == ["questions", "turn"]
    assert first[1]["data"]["calls"] == [2, 1] and '<li class="call" id="call-2"' in first[1]["data"]["html"]
    site.closing.clear()
    edit(session, "'Goodbye '", "'Hello '")
    rest = anyio.run(read_events, guarded, cookie, f"since={first[-1]['id']}&tool=Edit".encode(), site, 2)
    assert [event["data"].get("calls") for event in rest] == [None, [4, 2]]
    assert '<li class="call" id="call-4"' in rest[1]["data"]["html"]


def test_lines_of_a_diff_belong_to_a_hunk_by_its_counts() -> None:
    text = (
        "--- a\n+++ a\n@@ -1,3 +1,2 @@\n x\n--- b\n--- c\n+++ d\n"
        "--- e\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n\\ No newline at end of file\n"
    )
    first, second = parse_diff(text)
    assert (first.path, first.counts) == ("a", (1, 2))
    assert (second.path, second.counts) == ("e", (0, 1))
    assert "no newline" in str(next(second.hunks[0].column())[3])


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("\x1b[31mred\x1b[0m x", '<span class="ansi-red">red</span> x'),
        ("\x1b[1;38;5;2mb", '<span class="ansi-bold ansi-green">b</span>'),
        ("\x1b[38;2;1;2;3mrgb\x1b[39m", "rgb"),
        ("\x1b[2Ja\x1b]0;title\x07b\x1b[?25l", "ab"),
        ("\x1b[31", "\\u001b[31"),
        ("\x1b[31;<i>m", "&gt;m"),
        ("\x1b[9999999999999999999m<", "&lt;"),
    ],
)
def test_colours_of_a_terminal_are_shown_and_other_sequences_are_not(text: str, html: str) -> None:
    assert str(render_ansi(text)) == html


def test_a_call_names_its_client_and_model_as_text(browser: TestClient, session: Session) -> None:
    session.name_source("<b>client</b>\x1b", "model-1")
    session.call("Read", {"file_path": "app.py"})
    for page in (browser.get("/").text, browser.get("/calls/1").text):
        assert "&lt;b&gt;client&lt;/b&gt;" in page and "model-1" in page and "<b>client" not in page
    session.name_source("other")
    edit(session)
    assert "other" in browser.get("/").text and "model-1" in browser.get("/calls/2").text


def test_a_picture_is_shown_as_a_picture_and_nothing_else_is_served(
    browser: TestClient, session: Session, project: Path
) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
    (project / "red.png").write_bytes(picture)
    session.call("Read", {"file_path": "red.png"})
    session.call("Read", {"file_path": "app.py"})
    assert '<img class="picture" src="/calls/1/pictures/0" alt="red.png">' in browser.get("/calls/1").text
    got = browser.get("/calls/1/pictures/0")
    assert (got.content, got.headers["content-type"]) == (picture, "image/png")
    assert "<img" not in browser.get("/calls/2").text
    for place in ("/calls/2/pictures/0", "/calls/1/pictures/7", "/calls/9/pictures/0"):
        assert browser.get(place).status_code == 404
    outside = project.parent / "outside.png"
    outside.write_bytes(picture)
    (project / "red.png").unlink()
    (project / "red.png").symlink_to(outside)
    assert browser.get("/calls/1/pictures/0").status_code == 404
