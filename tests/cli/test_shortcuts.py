"""What was made fast still says the same: paths, sentences, records of calls, and imports that come later."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Root, Session, Setup
from handrail.dialects.templates import DialectTemplates, facts_in
from handrail.errors import OutsideWorkspace, RootMissing
from handrail.journal.queries import JournalReader
from handrail.journal.store import SqliteJournal
from handrail.workspace import Workspace


def loaded(code: str, folder: Path) -> set[str]:
    """The modules that are there once the code has run in an interpreter of its own."""
    words = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(words, cwd=folder, check=True, capture_output=True, encoding="utf-8").stdout.split())


def test_a_session_that_only_stands_ready_needs_no_pydantic(tmp_path: Path) -> None:
    there = loaded("from handrail import Session; Session('.')", tmp_path)
    assert "handrail.pipeline.session" in there
    assert not there & {"pydantic", "importlib.metadata", "handrail.search.walk", "handrail.tools.read", "sqlite3"}


def test_a_session_that_was_warmed_has_what_its_first_call_needs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    warm = "from handrail import Session; s = Session('.'); s.warm()"
    call = f"{warm}; assert s.call('Read', {{'file_path': 'a.txt'}}).ok"
    assert {"handrail.tools.arguments", "handrail.tools.read"} <= loaded(warm, tmp_path)
    assert not {name for name in loaded(call, tmp_path) - loaded(warm, tmp_path) if name.startswith("pydantic")}


@pytest.mark.parametrize("named", ["", "/", "/.", "//", "/./"])
def test_a_root_by_its_full_name_is_the_root(tmp_path: Path, named: str) -> None:
    resolved = Workspace([Root(str(tmp_path))]).resolve(f"{tmp_path}{named}")
    assert (resolved.real, resolved.inner) == (str(tmp_path), ".")


@pytest.mark.parametrize("named", ["d/x", "./d/x", "d//x", "d/./x", "{root}/d/x", "{root}//d/./x"])
def test_every_spelling_of_a_path_has_one_real_path(tmp_path: Path, named: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_text("", encoding="utf-8")
    resolved = Workspace([Root(str(tmp_path))]).resolve(named.format(root=tmp_path))
    assert (resolved.real, resolved.inner) == (str(tmp_path / "d" / "x"), "d/x")


def test_the_root_of_the_machine_may_be_a_workspace(tmp_path: Path) -> None:
    workspace = Workspace([Root("/")])
    assert workspace.resolve(str(tmp_path)).real == str(tmp_path)
    assert workspace.resolve(str(tmp_path)[1:]).real == str(tmp_path)
    assert workspace.resolve("/").inner == "."


def test_a_root_that_is_made_anew_is_found_again(tmp_path: Path) -> None:
    root, old = tmp_path / "root", tmp_path / "old"
    root.mkdir()
    (root / "x").write_text("old", encoding="utf-8")
    workspace = Workspace([Root(str(root))])
    workspace.resolve("x")
    root.rename(old)
    with pytest.raises(RootMissing):
        workspace.resolve("x")
    root.mkdir()
    (root / "x").write_text("new", encoding="utf-8")
    for named in ("x", f"{root}/x"):
        fd = workspace.open_file(workspace.resolve(named))
        with open(fd, encoding="utf-8") as file:
            assert file.read() == "new"
    workspace.close()


def test_a_second_root_that_comes_later_is_reached_by_name_and_through_a_link(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    workspace = Workspace([Root(str(first)), Root(str(second))])
    (first / "link").symlink_to(second)
    with pytest.raises((OutsideWorkspace, RootMissing)):
        workspace.resolve("link/x")
    second.mkdir()
    (second / "x").write_text("", encoding="utf-8")
    assert workspace.resolve("link/x").root.path == str(second)
    assert workspace.resolve(f"{second}/x").real == str(second / "x")
    workspace.close()


@pytest.mark.parametrize("named", ["kept/x", "./kept//x", "{root}/kept/x", "link/x", "../{name}/kept/x"])
def test_a_read_only_root_inside_the_workspace_is_so_by_every_name(
    tmp_path: Path, make_session: Callable[..., Session], named: str
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "kept" / "x").write_text("a\n", encoding="utf-8")
    session = make_session(setup=Setup(roots=[Root(str(tmp_path / "kept"), writable=False)]))
    path = named.format(root=tmp_path, name=tmp_path.name)
    assert session.call("Read", {"file_path": path}).ok
    refused = session.call("Edit", {"file_path": path, "old_string": "a", "new_string": "b"})
    assert refused.error and refused.error.code == "read_only_root"
    assert (tmp_path / "kept" / "x").read_text(encoding="utf-8") == "a\n"
    (tmp_path / "free").write_text("a\n", encoding="utf-8")
    assert session.call("Read", {"file_path": "free"}).ok and session.call("LS", {"path": "."}).ok
    assert session.call("Edit", {"file_path": "free", "old_string": "a", "new_string": "b"}).ok


@pytest.mark.parametrize(
    ("template", "facts", "expected"),
    [
        ("{count:n line} of {path}", {"count": 1, "path": "a\nb"}, "1 line of a\\nb"),
        ("{count:n line}", {"count": 2}, "2 lines"),
        ("{{literal}} {size:>5}|{share:.1f}", {"size": 7, "share": 0.25}, "{literal}     7|0.2"),
        ("a[[ and {b}]][[!b? without]]", {"b": None}, "a without"),
        ("a[[ and {b}]][[!b? without]]", {"b": 0}, "a without"),
        ("a[[ and {b}]][[!b? without]]", {"b": "x"}, "a and x"),
        ("{name!r} {items[0]}", {"name": "x", "items": {0: 1}}, "'x' 1"),
        ("[[seen?]]end", {"seen": True}, "end"),
    ],
)
def test_sentences_are_said_as_their_templates_want(template: str, facts: dict[str, Any], expected: str) -> None:
    assert DialectTemplates({"key": template}, "{number}").fill("key", **facts) == expected


def test_a_missing_fact_is_told_and_not_passed_over() -> None:
    with pytest.raises(KeyError, match="absent"):
        DialectTemplates({"key": "a {absent}"}, "{number}").fill("key", path="x")


def test_a_passage_without_words_still_names_its_fact() -> None:
    assert facts_in("a[[seen?]]") == [("seen", "")]


@pytest.mark.parametrize("text", ["plain", "nul \0 nul", "grüße 漢字 😀", "half \ud800 of one", "\x7f\x1b[0m", ""])
def test_the_chain_holds_whatever_a_call_that_changes_nothing_says(
    tmp_path: Path, make_session: Callable[..., Session], text: str
) -> None:
    journal = SqliteJournal(str(tmp_path / "kept" / "journal.db"))
    session = make_session(journal=journal)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8", errors="surrogatepass")
    session.call("Read", {"file_path": "a.txt"}, id=text)
    session.call("Read", {"file_path": text or "missing"})
    session.call(text, {text: [text, None, True, 1.5, 1 << 70]})
    with JournalReader(journal.path) as reader:
        assert reader.verify() is None
        assert len(reader.read_calls()) == 3
    journal.close()


def test_a_value_that_the_database_keeps_otherwise_is_hashed_as_it_is_kept(tmp_path: Path) -> None:
    from handrail.journal import Record
    from handrail.model import Call, Result

    journal = SqliteJournal(str(tmp_path / "journal.db"))
    result = Result("Bash", "ok", "x", data={"exit_code": True}, time_ms=0.0)
    assert not journal.record(Record(Call("Bash", {}), (), None, result=result))
    with JournalReader(journal.path) as reader:
        assert reader.verify() is None
    journal.close()
