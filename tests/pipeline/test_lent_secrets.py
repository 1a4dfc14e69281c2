"""Hidden files that the model requests for a command: one yes shows them to this command, and to nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Answer, Question, Session, Settings
from handrail.policy.rules import BadRule, from_line
from handrail.secrets.redaction import LentSecrets
from tests.drafts.machine import require_drafts

PASSWORD, TOKEN = "correct-horse-battery", "pq12"
SERVER = """
import http.server, os, urllib.request
values = dict(line.strip().split("=", 1) for line in open(".env"))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(values["PASSWORD"].encode())
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print("ready with", values["PASSWORD"], "on port", server.server_port, flush=True)
"""
SERVES = SERVER + "server.serve_forever()\n"
"""A dev server that needs its `.env`."""
ONCE = SERVER + "server.server_close()\n"


class Person:
    """Answers questions, and keeps them."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.answer = Answer(True)

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.answer


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    require_drafts()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / ".env").write_text(f"PASSWORD={PASSWORD}\nDB=postgres://me:{TOKEN}@db/x\n", encoding="utf-8")
    (folder / "auth.json").write_text(json.dumps({"login": {"value": "zyxwvuts-1"}}), encoding="utf-8")
    (folder / "serve.py").write_text(SERVES, encoding="utf-8")
    (folder / "once.py").write_text(ONCE, encoding="utf-8")
    return folder


def _open(work: Path, person: Person | None, mode: str = "accept-edits") -> Session:
    settings = Settings(state=str(work.parent / "state"))
    return Session(work, mode=mode, approve=person, settings=settings)  # type: ignore[arg-type]


@pytest.fixture
def session(work: Path, person: Person) -> Iterator[Session]:
    with _open(work, person) as opened:
        yield opened


def test_nobody_is_asked_before_the_model_requests_the_files(session: Session, person: Person) -> None:
    failed = session.call("Bash", {"command": "python3 once.py"})
    assert "FileNotFoundError" in failed.text and person.asked == []
    assert 'secrets: [".env"]' in failed.text  # the way to request it


def test_a_dev_server_gets_its_env_after_one_yes(session: Session, person: Person) -> None:
    started = session.call("Bash", {"command": "python3 serve.py", "secrets": [".env"], "background": True})
    (question,) = person.asked
    assert question.command == "python3 serve.py" and ".env" in question.verdict.why
    job = str(started.data["job"])
    text = ""
    while "ready" not in text:
        answer = session.call("BashOutput", {"job": job})
        text += answer.text
        assert "exit code" not in text
    assert "ready with [secret] on port" in text and PASSWORD not in text
    port = text.partition("on port ")[2].split()[0]
    read = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
    fetched = session.call("Bash", {"command": f'python3 -c "{read}" http://127.0.0.1:{port}/'})
    assert fetched.text.startswith("[secret]")  # also in the output of other commands


def test_the_yes_is_for_this_command_and_these_files(session: Session, person: Person) -> None:
    seen = session.call("Bash", {"command": "python3 once.py; python3 -c \"open('auth.json')\"", "secrets": [".env"]})
    assert "ready with [secret]" in seen.text and "No such file" in seen.text
    assert len(person.asked) == 1
    other = session.call("Bash", {"command": "python3 once.py"})
    assert "FileNotFoundError" in other.text and len(person.asked) == 1
    session.call("Bash", {"command": "python3 ./once.py", "secrets": [".env"]})
    assert len(person.asked) == 2


def test_the_question_names_all_files(session: Session, person: Person) -> None:
    wanted = {"command": "cat auth.json | wc -c; python3 once.py", "secrets": [".env", "./auth.json"]}
    assert "ready with [secret]" in session.call("Bash", wanted).text
    assert ".env, ./auth.json" in person.asked[0].verdict.why and len(person.asked) == 1


def test_a_no_runs_nothing(session: Session, person: Person, work: Path) -> None:
    person.answer = Answer(False)
    refused = session.call("Bash", {"command": "touch ran; cat .env", "secrets": [".env"]})
    assert refused.status == "denied" and not (work / "ran").exists()


def test_read_and_grep_never_show_them(session: Session) -> None:
    session.call("Bash", {"command": "python3 once.py; cp .env copy.txt; cp .env .env.copy", "secrets": [".env"]})
    texts = [session.call("Read", {"file_path": name}).text for name in (".env", ".env.copy", "copy.txt")]
    texts += [session.call("Grep", {"pattern": "PASS|DB", "output_mode": "content"}).text]
    assert not [text for text in texts if PASSWORD in text or TOKEN in text]


@pytest.mark.parametrize("lasting", ["session", "always"])
def test_a_lasting_answer_holds_for_the_same_command_alone(work: Path, person: Person, lasting: str) -> None:
    person.answer = Answer(True, lasting=lasting)  # type: ignore[arg-type]
    wanted = {"command": "python3 once.py", "secrets": [".env"]}
    with _open(work, person) as session:
        for _ in range(2):
            assert "ready" in session.call("Bash", wanted).text
        assert len(person.asked) == 1
        assert session.call("Read", {"file_path": ".env"}).status == "denied"
        session.call("Bash", wanted | {"command": "python3 once.py again"})
        assert len(person.asked) == 2
        session.call("Bash", wanted | {"secrets": ["auth.json"]})
        assert len(person.asked) == 3
    person.asked.clear()
    with _open(work, person) as later:
        assert "ready" in later.call("Bash", wanted).text
        assert len(person.asked) == (0 if lasting == "always" else 1)


@pytest.mark.parametrize("lasting", ["once", "session", "always"])
def test_lending_allows_nothing_else(work: Path, person: Person, lasting: str) -> None:
    person.answer = Answer(True, lasting=lasting)  # type: ignore[arg-type]
    hook = "mkdir -p .github/workflows && python3 once.py > .github/workflows/ci.yml"
    with _open(work, person) as session:
        session.call("Bash", {"command": hook, "secrets": [".env"]})
        about = [question.verdict.rule for question in person.asked]
        assert about == ["hidden files for one command", "protected"]  # the change is asked about too


def test_a_rule_of_the_user_is_not_lent_away(work: Path, person: Person) -> None:
    (work / ".handrailignore").write_text("auth.json\n", encoding="utf-8")
    with _open(work, person) as session:
        refused = session.call("Bash", {"command": "wc -c auth.json", "secrets": ["auth.json"]})
    assert refused.status == "denied" and person.asked == []


@pytest.mark.parametrize("mode", ["read-only", "deny-asks"])
def test_modes_that_ask_nobody_lend_nothing(work: Path, person: Person, mode: str) -> None:
    with _open(work, person, mode) as session:
        assert session.call("Bash", {"command": "wc -c .env", "secrets": [".env"]}).status == "denied"
    assert person.asked == []


def test_without_anybody_to_ask_the_command_does_not_run(work: Path) -> None:
    with _open(work, None) as session:
        refused = session.call("Bash", {"command": "python3 once.py", "secrets": [".env"]})
    assert refused.status == "denied" and "for Bash(python3 once.py)" in refused.advice


@pytest.mark.parametrize(
    "line",
    [
        "deny Read(.env) for Bash(make)",
        "ask Read(.env) for Bash(make)",
        "allow Edit(.env) for Bash(make)",
        "allow Read(.env) for Bash(a; b)",
    ],
)
def test_rules_that_lend_are_checked(line: str) -> None:
    with pytest.raises(BadRule):
        from_line(line)


@pytest.mark.parametrize(
    "text",
    [
        "KEY={0}",
        "export KEY='{0}' # a comment",
        'KEY="{0}"',
        "key: {0}",
        '{{"a": {{"b": ["{0}"]}}}}',
        "[section]\nname = {0}\n",
        "url = https://me:{0}@host/x",
        "-----BEGIN KEY-----\n{0}\n-----END KEY-----",
        "  - {0}\nx",
        "machine host login me password {0}",
    ],
)
def test_values_of_any_format_are_hidden(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text.format(PASSWORD), encoding="utf-8")
    lent = LentSecrets([str(tmp_path)])  # in a directory too
    assert PASSWORD not in lent.hide(f"it is '{PASSWORD}', or x={PASSWORD}&y") and lent.hide("plain") == "plain"
    assert lent.restore("[secret]") == "[secret]"
