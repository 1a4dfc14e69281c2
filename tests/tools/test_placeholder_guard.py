"""Placeholders: a line that is an omission is refused once; comments with such words, and prose, never."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests.sizes import spread

FILE = "def run(x):\n    first = load(x)\n    second = check(first)\n    third = store(second)\n    return third\n"
MARKS = ["# {}", "// {}", "/* {} */", "<!-- {} -->", "{{/* {} */}}"]
COMMENTS = [  # each has a word that omissions have, and says something else
    "Check the remaining items",
    "Handle other cases",
    "Use the existing session",
    "Previous value wins",
    "Existing users keep their access",
    "Same order as the table",
    "Fetch the remaining pages...",
    "Waiting for other workers...",
    "TODO: migrate the existing rows",
    "No changes needed if the token is valid",
    "Identical to what curl sends",
    "Skip the rest if the queue is closed",
    "Original caller is unknown here",
    "Everything else is handled as before the upgrade",
    "处理其他情况",
    "检查现有用户",
]
OMISSIONS = [
    "... rest of the code ...",
    "... existing code ...",
    "rest of the function unchanged",
    "existing handler logic",
    "rest of run()",
    "remaining methods stay the same",
    "[... unchanged ...]",
    "...",
    "其余代码不变",
]
PROSE = ["notes.md", "README.MD", "page.rst", "page.adoc", "notes.txt", "a/thesis.tex"]
CODE = ["app.py", "app.ts", "Makefile", "requirements.txt", "CMakeLists.txt", "page.mdx", "md"]


def shorten(line: str) -> str:
    """The function with a line in the place of its middle, where code vanishes."""
    return f"def run(x):\n    first = load(x, 1)\n    {line}\n    return third\n"


def make_call(tool: str, name: str, line: str) -> tuple[str, dict[str, Any]]:
    new = shorten(line)
    if tool == "Edit":
        return tool, {"file_path": name, "old_string": FILE, "new_string": new}
    if tool == "MultiEdit":
        return tool, {"file_path": name, "edits": [{"old_string": FILE, "new_string": new}]}
    rows = "".join(f"-{row}\n" for row in FILE.splitlines()) + "".join(f"+{row}\n" for row in new.splitlines())
    return tool, {"patch": f"*** Begin Patch\n*** Update File: {name}\n@@\n{rows}*** End Patch\n"}


@pytest.fixture
def send(make_session: Callable[..., Session], tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Make an edit in a session of its own, or in that of the edit before; the file and the answer."""
    sessions: list[Session] = []

    def run(tool: str, name: str, line: str, *, again: bool = False, anew: bool = True) -> tuple[str, str]:
        path = tmp_path / name
        if not again:
            path.parent.mkdir(exist_ok=True)
            path.write_text(FILE, encoding="utf-8")
        if anew or not sessions:
            sessions.append(make_session(tmp_path, durable=False))
            sessions[-1].call("Read", {"file_path": name})
        result = sessions[-1].call(*make_call(tool, name, line))
        return path.read_text(encoding="utf-8"), result.text

    return run


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit", "ApplyPatch"])
def test_a_comment_that_says_something_is_no_omission(send: Callable[..., tuple[str, str]], tool: str) -> None:
    for mark, words in spread(list(product(MARKS, COMMENTS)), 40):
        line = mark.format(words)
        assert send(tool, "app.py", line)[0] == shorten(line), line


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit", "ApplyPatch"])
@pytest.mark.parametrize("anew", [False, True])
def test_an_omission_is_refused_once(send: Callable[..., tuple[str, str]], tool: str, anew: bool) -> None:
    """The answer says how to go on: the same call again is made, also by a client that starts a session for each."""
    for mark, words in spread(list(product(MARKS, OMISSIONS)), 15):
        line = mark.format(words)
        after, text = send(tool, "app.py", line)
        assert after == FILE and "send the same" in text, line
        after, text = send(tool, "app.py", line, again=True, anew=anew)
        assert after == shorten(line), (line, text)


def test_another_call_is_no_repetition(send: Callable[..., tuple[str, str]]) -> None:
    for words in OMISSIONS:
        for tool, name in product(["Edit", "MultiEdit", "ApplyPatch"], ["app.py", "app.ts"]):
            after, text = send(tool, name, f"# {words}", anew=False)
            assert after == FILE and "send the same" in text


@pytest.mark.parametrize("name", PROSE + CODE)
def test_prose_is_exempt_and_code_is_not(send: Callable[..., tuple[str, str]], name: str) -> None:
    for tool, words in product(["Edit", "ApplyPatch"], OMISSIONS):
        after, text = send(tool, name, f"# {words}")
        assert after == (shorten(f"# {words}") if name in PROSE else FILE), text
