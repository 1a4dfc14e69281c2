"""What may be changed in a file that the session never read: lines that the call quotes exactly, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session

Make = Callable[..., Session]
TEXT = "import os\n\ndef one():\n    return 1\n\ndef two():\n    return 1\n    return 2\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_bytes(TEXT.encode())
    return tmp_path


def edit(session: Session, old: str, new: str, **rest: Any) -> Result:
    return session.call("Edit", {"file_path": "a.py", "old_string": old, "new_string": new, **rest})


def code(result: Result) -> str | None:
    return result.error.code if result.error else None


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "old",
    [
        "import os",
        "import os\n",
        "def two():",
        "    return 2",
        "    return 2\n",
        "def one():\n    return 1",
        "\ndef two():\n",
        "():\n    return 1\n    return",  # parts of lines around a whole one
        TEXT,
    ],
)
def test_whole_lines_that_are_quoted_exactly_are_replaced_with_a_note(
    make_session: Make, root: Path, old: str, ending: str
) -> None:
    (root / "a.py").write_bytes(TEXT.replace("\n", ending).encode())
    result = edit(make_session(root), old, "x = 1\n" if old.endswith("\n") else "x = 1")
    assert (result.status, [note.code for note in result.notes]) == ("partial", ["unread_file"]), result.text
    assert "You have not read a.py" in result.text
    expected = TEXT.replace(old, "x = 1\n" if old.endswith("\n") else "x = 1").replace("\n", ending)
    assert (root / "a.py").read_bytes().decode() == expected


@pytest.mark.parametrize(
    ("old", "rest"),
    [
        ("import", {}),
        ("os", {}),
        ("return 2", {}),  # without its indentation it is a part of a line
        ("os\n", {}),
        ("\n\n", {}),
        ("():\n    ret", {}),
        ("    return 1", {}),  # twice
        ("    return 1", {"replace_all": True}),
        ("\treturn 2", {}),  # only like it
        ("def two():\n  return 1", {}),
        ("import  os", {}),
        ("not there", {}),
    ],
)
def test_anything_else_is_refused_and_reading_leads_out(
    make_session: Make, root: Path, old: str, rest: dict[str, Any]
) -> None:
    session = make_session(root)
    result = edit(session, old, "x", **rest)
    assert code(result) == "not_seen" and "quote at least one whole line" in result.text
    assert (root / "a.py").read_bytes() == TEXT.encode()
    session.call("Read", {"file_path": "a.py"})
    assert code(edit(session, old, "x", **rest)) != "not_seen"


def test_the_file_still_counts_as_unread_afterwards(make_session: Make, root: Path) -> None:
    session = make_session(root)
    assert edit(session, "import os", "import sys").status == "partial"
    assert code(session.call("Write", {"file_path": "a.py", "content": "x\n"})) == "not_seen"
    assert code(edit(session, "sys", "re")) == "not_seen"
    assert edit(session, "import sys", "import re").status == "partial"
    session.call("Read", {"file_path": "a.py"})
    assert session.call("Write", {"file_path": "a.py", "content": "x\n"}).status == "ok"


def test_all_of_several_edits_must_quote_the_file(make_session: Make, root: Path) -> None:
    def edits(*pairs: tuple[str, str]) -> Result:
        listed = [{"old_string": old, "new_string": new} for old, new in pairs]
        return make_session(root).call("MultiEdit", {"file_path": "a.py", "edits": listed})

    assert code(edits(("import os", "import re"), ("return 2", "x"))) == "not_seen"
    assert code(edits(("import os", "import re"), ("import re", "import io"))) == "not_seen"
    assert (root / "a.py").read_bytes() == TEXT.encode()
    result = edits(("import os", "import re"), ("    return 2", "    return 3"))
    assert [note.code for note in result.notes] == ["unread_file"]
    assert (root / "a.py").read_text(encoding="utf-8") == TEXT.replace("os", "re").replace("return 2", "return 3")


def test_a_patch_quotes_the_lines_of_its_hunks(make_session: Make, root: Path) -> None:
    def patch(*rows: str) -> Result:
        body = "\n".join(["*** Begin Patch", "*** Update File: a.py", *rows, "*** End Patch"])
        return make_session(root).call("ApplyPatch", {"patch": body})

    assert code(patch("@@", "-    return 1", "+    return 9")) == "not_seen"
    assert code(patch("*** Move to: b.py", "@@", "-import os", "+import re")) == "not_seen"
    assert code(patch("@@", "+new line")) == "not_seen"
    assert (root / "a.py").read_bytes() == TEXT.encode()
    result = patch("@@", " def two():", "-    return 1", "+    return 9")
    assert [note.code for note in result.notes] == ["unread_file"]
    assert "def two():\n    return 9\n" in (root / "a.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("dialect", ["claude", "deepagents", "envelope", "hello"])
def test_a_dialect_with_a_document_keeps_its_rule(make_session: Make, root: Path, dialect: str) -> None:
    session = make_session(root, dialect=dialect)
    tool = "Edit" if dialect in ("claude", "envelope") else "edit_file"
    named = "path" if dialect == "envelope" else "file_path"
    path = str(root / "a.py") if dialect in ("claude", "deepagents") else "a.py"
    result = session.call(tool, {named: path, "old_string": "import os", "new_string": "import re"})
    assert code(result) == "not_seen", result.text
    assert (root / "a.py").read_bytes() == TEXT.encode()


@pytest.mark.parametrize(
    ("dialect", "tool", "names"),
    [
        ("anthropic", "str_replace_based_edit_tool", ("path", "old_str", "new_str")),
        ("anthropic-agent", "edit", ("file_path", "old_string", "new_string")),
        ("gemini", "replace", ("file_path", "old_string", "new_string")),
    ],
)
def test_dialects_without_a_rule_of_their_own_do_as_native(
    make_session: Make, root: Path, dialect: str, tool: str, names: tuple[str, str, str]
) -> None:
    values = dict(zip(names, (str(root / "a.py"), "import os", "import re"), strict=True))
    more = {"command": "str_replace"} if dialect == "anthropic" else {}
    result = make_session(root, dialect=dialect).call(tool, values | more)
    assert [note.code for note in result.notes] == ["unread_file"], result.text
    assert (root / "a.py").read_text(encoding="utf-8").startswith("import re\n")


def test_a_binary_file_is_not_quoted(make_session: Make, root: Path) -> None:
    (root / "a.py").write_bytes(b"one\n\0\n")
    assert code(edit(make_session(root), "one", "two")) == "not_seen"


def test_two_sessions_that_quote_what_the_other_wrote_are_not_lost(make_session: Make, root: Path) -> None:
    assert edit(make_session(root), "import os", "import re").status == "partial"
    assert code(edit(make_session(root), "import os", "import io")) == "not_seen"
    assert edit(make_session(root), "import re", "import io").status == "partial"
    assert (root / "a.py").read_text(encoding="utf-8").startswith("import io\n")
