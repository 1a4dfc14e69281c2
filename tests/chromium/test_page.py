"""The page in a real browser: live updates, approvals while an MCP client waits, undo, hostile names, accessibility."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from benchmarks.journal import fill
from handrail import Session, Settings
from handrail.approval.attached_terminal import ApprovalServer
from handrail.drafts.store import DraftStore, NoDraft
from handrail.files.locks import state_directory
from handrail.journal.store import get_default_path
from handrail.model import Answer
from tests.chromium.accessibility import find_problems
from tests.chromium.browser import open_page, serve_page, set_width
from tests.mcp.stdio_client import RawClient, text_of

HOSTILE = "<img src=x onerror=document.title='hacked'>.txt"
LINES = "".join(f"line_{number} = {number}\n" for number in range(1, 41))
_SECONDS = 40
T = TypeVar("T")


@pytest.fixture
def session(project: Path) -> Iterator[Session]:
    with Session(project, mode="full", settings=Settings(durable=False, sandbox="off")) as opened:
        yield opened


@pytest.fixture
def client(project: Path) -> Iterator[RawClient]:
    """An MCP client that cannot ask anybody itself."""
    with RawClient(str(project), "--mode", "ask", cwd=project) as raw:
        raw.shake()
        yield raw


def wait(page: Chrome, condition: Callable[[Chrome], T]) -> T:
    return WebDriverWait(page, _SECONDS, 0.1).until(condition)


def texts(page: Chrome, selector: str) -> list[str]:
    """The texts of elements, all at once: the page may replace them at any moment."""
    each = "one => one.checkVisibility() ? one.innerText.trim() : ''"
    texts: list[str] = page.execute_script(f"return [...document.querySelectorAll(arguments[0])].map({each})", selector)
    return texts


def edit(session: Session) -> None:
    session.call("Read", {"file_path": "app.py"})
    arguments = {"file_path": "app.py", "old_string": "line_3 = 3\n", "new_string": "line_3 = 'three'\n"}
    assert session.call("Edit", arguments).status == "ok"


def ask_two_changes(client: RawClient) -> int:
    """Start an edit of two places, which needs an answer."""
    client.call("Read", file_path="app.py")
    content = LINES.replace("line_3 = 3\n", "line_3 = 'three'\n").replace("line_30 = 30\n", "line_30 = 'thirty'\n")
    return client.begin("tools/call", name="Write", arguments={"file_path": "app.py", "content": content})


def focus_question(page: Chrome) -> Any:
    question = wait(page, lambda p: p.find_elements(By.CSS_SELECTOR, ".question:not(.ended)"))[0]
    page.find_element(By.TAG_NAME, "body").send_keys("j")
    assert page.switch_to.active_element == question
    return question


def test_the_token_leaves_the_address(page: Chrome) -> None:
    assert "token" not in page.current_url and page.title == "Timeline · Handrail"
    assert page.execute_script("return document.cookie") == ""  # scripts cannot read it


def test_new_calls_appear_by_themselves(page: Chrome, session: Session) -> None:
    assert texts(page, "#turns .call") == []
    edit(session)
    wait(page, lambda p: len(texts(p, "#turns .call")) == 2)
    assert [row.split()[0] for row in texts(page, "#turns .call")] == ["edited", "read"]


def test_one_of_two_changes_is_approved_by_key_while_an_mcp_client_waits(
    page: Chrome, client: RawClient, project: Path
) -> None:
    number = ask_two_changes(client)
    wait(page, lambda p: texts(p, "#open-questions") == ["1"])  # on the page of activity
    page.find_element(By.LINK_TEXT, "Questions 1").click()
    question = focus_question(page)
    assert "raw asks: change 1 file, +2 −2 lines" in question.text and "'thirty'" in question.text
    question.find_elements(By.NAME, "hunk")[0].click()
    page.execute_script("arguments[0].focus()", question)
    question.send_keys("y")
    wait(page, lambda p: "Answered: yes." in question.text)
    assert not client.answer_to(number)["result"].get("isError")
    text = (project / "app.py").read_text(encoding="utf-8")
    assert "line_3 = 3\n" in text and "line_30 = 'thirty'\n" in text


def test_a_big_question_is_folded_and_keeps_its_answers_in_view(page: Chrome, client: RawClient) -> None:
    set_width(page, 390)
    content = "".join(f"line {number}\n" for number in range(300))
    number = client.begin("tools/call", name="Write", arguments={"file_path": "big.txt", "content": content})
    page.find_element(By.PARTIAL_LINK_TEXT, "Questions").click()
    question = focus_question(page)
    assert "raw asks: create 1 file, +300 lines" in question.text and "line 299" not in question.text
    question.find_element(By.CSS_SELECTOR, ".file > summary").click()
    assert "line 299" in question.text
    bar = page.execute_script("return arguments[0].querySelector('.bar').getBoundingClientRect()", question)
    high, whole = page.execute_script("return [innerHeight, arguments[0].offsetHeight]", question)
    assert whole > 3 * high and bar["top"] > 0 and bar["bottom"] <= high
    question.find_element(By.CSS_SELECTOR, ".bar .main").click()
    assert not client.answer_to(number)["result"].get("isError")
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_no_with_a_reason_reaches_the_model(page: Chrome, client: RawClient, project: Path) -> None:
    page.find_element(By.PARTIAL_LINK_TEXT, "Questions").click()
    number = ask_two_changes(client)
    question = focus_question(page)
    question.send_keys("n")  # goes to the reason first
    page.switch_to.active_element.send_keys("not on a Monday\n")
    wait(page, lambda p: "Answered: no." in question.text)
    assert "not on a Monday" in text_of(client.answer_to(number)["result"])
    assert "three" not in (project / "app.py").read_text(encoding="utf-8")


def test_a_new_question_is_notified_while_another_tab_is_in_front(page: Chrome, client: RawClient) -> None:
    start, first = page.current_url, page.current_window_handle
    set_notifications(page, start, "prompt")
    page.get(start + "approvals")
    assert wait(page, lambda p: p.find_element(By.ID, "notify").is_displayed())  # the offer, before it is allowed
    set_notifications(page, start, "granted")
    added = page.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _RECORD_NOTIFICATIONS})
    page.get(start)
    page.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": False})
    page.switch_to.new_window("tab")
    page.get(start + "statistics")
    ask_two_changes(client)
    shown = wait(page, lambda p: p.execute_script("return localStorage.getItem('shown')"))
    assert shown == "Handrail: A call waits for your answer"
    page.close()
    page.switch_to.window(first)
    page.execute_script("window.notification.dispatchEvent(new Event('click'))")
    wait(page, lambda p: p.current_url == start + "approvals" and p.find_elements(By.CSS_SELECTOR, ".question"))
    assert not page.find_element(By.ID, "notify").is_displayed()
    page.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def set_notifications(page: Chrome, start: str, setting: str) -> None:
    """Answer the browser's question whether the page may notify, as a person would."""
    command = {"permission": {"name": "notifications"}, "setting": setting, "origin": start.rstrip("/")}
    page.execute_cdp_cmd("Browser.setPermission", command)


_RECORD_NOTIFICATIONS = """
window.Notification = class extends Notification {
  constructor(title, options) {
    super(title, options);
    window.notification = this;
    this.addEventListener("show", () => localStorage.setItem("shown", `${title}: ${options.body}`));
  }
};
"""
"""The tab in front reads what was shown: to look into another tab would bring that to the front."""


def test_a_question_that_ends_elsewhere_says_so_and_takes_no_answer(page: Chrome, client: RawClient) -> None:
    page.find_element(By.PARTIAL_LINK_TEXT, "Questions").click()
    number = ask_two_changes(client)
    question = focus_question(page)
    client.notify("notifications/cancelled", requestId=number)
    wait(page, lambda p: "needs no answer any more" in question.text)
    assert not any(button.is_enabled() for button in question.find_elements(By.TAG_NAME, "button"))


def test_of_answers_that_race_one_holds(page: Chrome, client: RawClient, project: Path) -> None:
    page.find_element(By.PARTIAL_LINK_TEXT, "Questions").click()
    with ApprovalServer(state_directory(), None) as terminal:
        number = ask_two_changes(client)
        question = focus_question(page)
        at_terminal, go = terminal.questions.get(timeout=_SECONDS), threading.Barrier(2)
        thread = threading.Thread(target=lambda: (go.wait(), at_terminal.answer(Answer(False, "from the terminal"))))
        thread.start()
        go.wait()
        sent = page.execute_async_script(_ANSWER_TWICE, question.get_attribute("data-id"))
        thread.join()
        at_terminal.wait_until_over(_SECONDS)
    accepted = [one for one in sent if one["status"] == 200]
    late = [one for one in sent if one["status"] == 409]
    assert len(accepted) + at_terminal.accepted == 1 and len(accepted) + len(late) == 2, sent
    assert all("needs no answer any more" in one["text"] for one in late)
    result = client.answer_to(number)["result"]
    yes = bool(accepted) and "yes" in accepted[0]["text"]
    assert ("'three'" in (project / "app.py").read_text(encoding="utf-8")) == yes == (not result.get("isError"))
    assert ("from the terminal" in text_of(result)) == at_terminal.accepted


_ANSWER_TWICE = """
const [id, done] = arguments;
const send = async (answer) => {
  const body = new URLSearchParams({ answer, reason: "from the page" });
  const response = await fetch(`/approvals/${id}`, { method: "POST", body, headers: { Accept: "text/plain" } });
  return { status: response.status, text: await response.text() };
};
Promise.all([send("once"), send("no")]).then(done);
"""


def test_a_hunk_of_a_draft_is_kept_and_undone(page: Chrome, project: Path) -> None:
    try:
        store = DraftStore.open(state_directory(), str(project))
    except NoDraft as error:
        pytest.skip(f"no drafts here: {error.strerror}")
    draft = store.create("try")
    changed = LINES.replace("line_3 = 3\n", "line_3 = 'three'\n").replace("line_30 = 30\n", "line_30 = 'thirty'\n")
    Path(draft.directory.upper, "app.py").write_text(changed, encoding="utf-8")
    draft.close()
    page.find_element(By.LINK_TEXT, "Drafts").click()
    page.find_element(By.LINK_TEXT, "try").click()
    assert find_problems(page) == []
    page.find_elements(By.NAME, "change")[0].click()
    page.find_element(By.CSS_SELECTOR, "button[value=keep]").click()
    wait(page, lambda p: "Kept" in p.find_element(By.TAG_NAME, "h1").text)
    text = (project / "app.py").read_text(encoding="utf-8")
    assert "line_3 = 3\n" in text and "line_30 = 'thirty'\n" in text
    page.find_element(By.LINK_TEXT, "Drafts").click()
    assert "1 changed" in page.find_element(By.TAG_NAME, "main").text
    page.find_element(By.LINK_TEXT, "Timeline").click()
    wait(page, lambda p: p.find_elements(By.LINK_TEXT, "Undo…"))[0].click()
    page.find_element(By.CSS_SELECTOR, "button.main").click()
    wait(page, lambda p: "is undone" in p.find_element(By.TAG_NAME, "h1").text)
    assert (project / "app.py").read_text(encoding="utf-8") == LINES


def test_a_hundred_thousand_calls_are_one_small_page_that_goes_on(project: Path, chromium: Chrome) -> None:
    fill(get_default_path(state_directory()), 100_000, str(project))
    with serve_page(project) as (_, address):
        chromium.get(address)
        assert _list_calls(chromium)[0::49] == [100_000, 99_951]
        loaded = chromium.execute_script(
            "return performance.getEntries().filter((one) => one.transferSize).map((one) => one.transferSize)"
        )
        assert 0 < sum(loaded) < 300 << 10, loaded
        chromium.find_element(By.CSS_SELECTOR, "a[rel=next]").click()
        wait(chromium, lambda p: _list_calls(p)[:1] == [99_950])
        chromium.get("about:blank")


def _list_calls(page: Chrome) -> list[int]:
    script = "return [...document.querySelectorAll('#turns .call')].map((call) => Number(call.id.slice(5)))"
    return sorted(page.execute_script(script), reverse=True)


def test_undo_shows_a_preview_and_restores_the_file(page: Chrome, session: Session, project: Path) -> None:
    before = (project / "app.py").read_bytes()
    edit(session)
    wait(page, lambda p: p.find_elements(By.LINK_TEXT, "Undo…"))[0].click()
    assert "will be reverted" in page.find_element(By.TAG_NAME, "main").text
    assert (project / "app.py").read_bytes() != before
    page.find_element(By.CSS_SELECTOR, "button.main").click()
    wait(page, lambda p: "is undone" in p.find_element(By.TAG_NAME, "h1").text)
    assert (project / "app.py").read_bytes() == before
    page.find_element(By.LINK_TEXT, "Timeline").click()
    wait(page, lambda p: p.find_elements(By.LINK_TEXT, "Redo…"))[0].click()
    page.find_element(By.CSS_SELECTOR, "button.main").click()
    wait(page, lambda p: "Done again" in p.find_element(By.TAG_NAME, "h1").text)
    assert (project / "app.py").read_bytes() != before


def test_a_diff_is_loaded_when_it_is_opened_and_stays_open(page: Chrome, session: Session) -> None:
    edit(session)
    changes = wait(page, lambda p: p.find_elements(By.CSS_SELECTOR, "#call-2 .changes"))[0]
    assert page.find_elements(By.CSS_SELECTOR, "#turns .diff") == []
    changes.find_element(By.TAG_NAME, "summary").click()
    wait(page, lambda p: "'three'" in p.find_element(By.CSS_SELECTOR, "#call-2 .diff").text)
    session.call("Read", {"file_path": "app.py"})
    wait(page, lambda p: p.find_elements(By.ID, "call-3"))
    assert "'three'" in page.find_element(By.CSS_SELECTOR, "#call-2 .diff").text


def test_a_search_finds_calls(page: Chrome, session: Session) -> None:
    edit(session)
    session.call("Bash", {"command": "echo needle"})
    page.find_element(By.TAG_NAME, "body").send_keys("/")
    page.switch_to.active_element.send_keys("NEEDLE\n")
    wait(page, lambda p: texts(p, "#turns .what") == ["ran echo needle"])
    session.call("Bash", {"command": "echo other"})
    session.call("Bash", {"command": "echo another needle"})
    wait(page, lambda p: texts(p, "#turns .what") == ["ran echo another needle", "ran echo needle"])


def test_hostile_names_are_text_and_run_nothing(page: Chrome, session: Session) -> None:
    session.call("Write", {"file_path": HOSTILE, "content": "</pre><script>document.title = 'hacked'</script>\n"})
    wait(page, lambda p: any(HOSTILE in row for row in texts(p, "#turns .call")))
    for address in (page.current_url, page.current_url + "calls/1", page.current_url + "calls/1/undo"):
        page.get(address)
        assert HOSTILE in page.find_element(By.TAG_NAME, "main").text
        assert page.find_elements(By.CSS_SELECTOR, "main img, main script") == [] and "hacked" not in page.title


def test_a_server_that_is_gone_is_reported_and_followed_again(
    project: Path, chromium: Chrome, session: Session
) -> None:
    with serve_page(project) as (process, address):
        chromium.get(address)
        process.send_signal(signal.SIGTERM)
        wait(chromium, lambda p: texts(p, "#connection") == ["The server does not answer. Trying again…"])
    port = address.split(":")[2].split("/")[0]
    with serve_page(project, "--port", port) as (_, address):
        expected = "The server was started again. Open the address that it printed."
        wait(chromium, lambda p: texts(p, "#connection") == [expected])
        chromium.switch_to.new_window("tab")
        chromium.get(address)  # which gives this browser a new cookie
        chromium.close()
        chromium.switch_to.window(chromium.window_handles[0])
        edit(session)
        wait(chromium, lambda p: len(texts(p, "#turns .call")) == 2)
        assert texts(chromium, "#connection") == [""]


def test_no_page_asks_another_server_for_anything(page: Chrome, session: Session) -> None:
    edit(session)
    start = page.current_url
    for path in ("", "calls/2", "calls/2?view=split", "calls/2/undo", "approvals"):
        open_page(page, start + path)
        loaded = page.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
        assert loaded and all(name.startswith(start) for name in loaded)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_accessible(page: Chrome, session: Session, client: RawClient, project: Path, theme: str) -> None:
    edit(session)
    session.call("Read", {"file_path": "/etc/shadow"})
    session.call("Bash", {"command": "printf '\\033[31mred\\033[0m \\033[42mgreen\\033[0m\\n'"})
    ask_two_changes(client)
    page.execute_script("localStorage.setItem('theme', arguments[0])", theme)
    start = page.current_url
    file = f"files?path={project}/app.py"
    for path in (
        "",
        "calls/2",
        "calls/2?view=split",
        "calls/2/undo",
        "calls/4",
        "approvals",
        "nothing",
        "drafts",
        "statistics",
        file,
    ):
        page.get(start + path)
        wait(page, lambda p: p.execute_script("return document.documentElement.dataset.theme") == theme)
        assert find_problems(page) == [], path
