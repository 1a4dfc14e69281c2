"""S4-14 to S4-19 and S4-25: Grep in the dialect `envelope`, and the way from LS to Read."""

from __future__ import annotations

import json
import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests.seeds.golden import put, run_batch

Make = Callable[..., Session]
Ask = Callable[..., dict[str, Any]]
needs_rg = pytest.mark.skipif(
    not (shutil.which("rg") or os.path.exists(os.path.join(sysconfig.get_path("scripts"), "rg"))),
    reason="there is no ripgrep on this machine",
)


@pytest.fixture
def ask(make_session: Make) -> Ask:
    session = make_session(dialect="envelope", durable=False)

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(session.call(tool, arguments).text)
        return result

    return call


@pytest.fixture
def without_rg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDRAIL_RG", "")


@needs_rg
def test_s4_14_ripgrep_is_used_where_it_is(ask: Ask, tmp_path: Path) -> None:
    put(tmp_path, "a.py", "def f():\n    pass\n")
    actual = ask("Grep", pattern=r"def \w+")
    assert actual["data"] == {"matches": [{"file": "a.py", "line": 1, "text": "def f():"}]}
    assert actual["status"] == "success"


@pytest.mark.usefixtures("without_rg")
def test_s4_15_without_it_python_searches_and_the_answer_is_flagged(ask: Ask, tmp_path: Path) -> None:
    put(tmp_path, "a.py", "def f():\n    pass\n")
    actual = ask("Grep", pattern=r"def \w+")
    assert actual["data"]["matches"] == [{"file": "a.py", "line": 1, "text": "def f():"}]
    assert (actual["status"], actual["data"]["fallback_used"]) == ("partial", True)
    assert actual["data"]["fallback_reason"] == "rg_not_found"


def test_s4_16_at_most_a_hundred_matches(ask: Ask, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "hit\n" * 150)
    actual = ask("Grep", pattern="hit")
    assert len(actual["data"]["matches"]) == 100
    assert (actual["status"], actual["data"]["aborted_reason"]) == ("partial", "count_limit")


NEVER_ENDS = """#!/bin/sh
for last; do :; done
case $last in /dev/fd/*) printf '%s\\0001:1:hit\\n' "$last"; exit 0;; esac
printf './a.txt\\0001:1:hit\\n'
exec sleep 600
"""


@pytest.mark.slow
def test_s4_17_a_search_that_takes_longer_than_two_seconds_stops_and_says_so(tmp_path: Path) -> None:
    """Driven with a ripgrep that prints one match and then never ends, except where it gets an open file."""
    put(tmp_path, "a.txt", "hit\n")
    program = put(tmp_path, "bin/rg", NEVER_ENDS)
    program.chmod(0o755)
    call = {"tool": "Grep", "arguments": {"pattern": "hit"}}
    (answer,) = run_batch(tmp_path, "envelope", [call], {"HANDRAIL_RG": str(program)})
    actual = json.loads(answer["text"])
    assert (answer["status"], actual["status"]) == ("partial", "partial")
    assert actual["data"]["aborted_reason"] == "time_limit"
    assert actual["data"]["matches"] == [{"file": "a.txt", "line": 1, "text": "hit"}]  # found before time was up
    assert "Stopped after 2 s (time_limit): the result may be incomplete." in actual["text"]


@pytest.mark.slow
def test_s4_17_the_search_without_ripgrep_stops_after_two_seconds_too(tmp_path: Path) -> None:
    """Driven with a pattern whose time grows with the power of the line's length."""
    put(tmp_path, "a.txt", "x" * 5000 + "\n")
    call = {"tool": "Grep", "arguments": {"pattern": "(x+x+)+[^x]"}}
    (answer,) = run_batch(tmp_path, "envelope", [call], {"HANDRAIL_RG": ""})
    actual = json.loads(answer["text"])
    assert (actual["status"], actual["data"]["aborted_reason"]) == ("partial", "time_limit")
    assert actual["data"]["matches"] == [] and "Stopped after 2 s (time_limit)" in actual["text"]


def test_s4_18_files_that_were_changed_last_come_first(ask: Ask, tmp_path: Path) -> None:
    for age, name in enumerate(("new.txt", "a.txt", "b.txt")):
        os.utime(put(tmp_path, name, "hit\nhit\n"), ns=(10**18 - age * 10**9,) * 2)
    matches = ask("Grep", pattern="hit")["data"]["matches"]
    wanted = [(name, line) for name in ("new.txt", "a.txt", "b.txt") for line in (1, 2)]
    assert [(match["file"], match["line"]) for match in matches] == wanted


def test_s4_19_not_found_and_not_looked_at_can_be_told_apart(ask: Ask, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "nothing\n")
    actual = ask("Grep", pattern="absent")
    assert (actual["status"], actual["data"]) == ("success", {"matches": []})
    assert actual["text"].startswith("No match for absent in . (1 file searched).")


@pytest.mark.usefixtures("without_rg")
def test_s4_19_why_an_answer_may_be_incomplete_is_said_in_its_text(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a.txt", "nothing\n")
    assert "without ripgrep (rg_not_found)" in ask("Grep", pattern="absent")["text"]
    monkeypatch.setattr("handrail.search.receipt.Budget.spent", lambda *_: "time_limit")
    actual = ask("Grep", pattern="absent")
    assert "which was not all" in actual["text"] and "time_limit" in actual["text"]


def test_s4_25_from_the_directory_to_the_line(ask: Ask, tmp_path: Path) -> None:
    put(tmp_path, "src/app/main.py", "import os\n\n\ndef greet():\n    return 'hi'\n")
    put(tmp_path, "README.md", "# App\n")
    top = ask("LS")["data"]["entries"]
    assert top[0] == {"path": "src", "type": "dir"}
    (path,) = ask("Glob", pattern="**/*.py", path=top[0]["path"])["data"]["paths"]
    (match,) = ask("Grep", pattern="def greet", path=path)["data"]["matches"]
    page = ask("Read", path=match["file"], start_line=match["line"], limit=2)
    assert page["data"]["content"] == "   4 | def greet():\n   5 |     return 'hi'"
