"""`extends` inherits everything: a dialect plus one tool is a folder of a few lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session, dialects
from handrail import tools as handrail_tools
from handrail.dialects import DialectError
from handrail.dialects.check import check
from tests.command import handrail

Make = Callable[..., Session]

ONE_MORE = 'extends = "claude"\n[tools.Replace]\nid = "replace"\n'
GREET = '''
from dataclasses import dataclass

from handrail.tools.tool import Arguments, Outcome, Tool


class Args(Arguments):
    name: str


@dataclass(frozen=True, slots=True)
class Limits:
    """None."""


@dataclass(frozen=True, slots=True)
class Facts:
    name: str


def run(args, ctx):
    return Outcome("done", Facts(args.name))


def render(outcome, templates):
    return templates.fill("greet.done", outcome.facts)


TOOL = Tool(id="greet", args=Args, limits=Limits, facts=Facts, run=run, render=render)
'''


def write(folder: Path, tools: str, **files: str) -> str:
    """A dialect folder; `Read__md="..."` writes Read.md."""
    folder.mkdir()
    (folder / "tools.toml").write_text(tools, encoding="utf-8")
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return str(folder)


@pytest.fixture
def greet_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another package that registers a tool as an entry point."""
    package = tmp_path / "package"
    info = package / "greet-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "greet_tool.py").write_text(GREET, encoding="utf-8")
    (package / "greet_tool.md").write_text("Greets a person.\n", encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[handrail.tools]\ngreet = greet_tool:TOOL\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.delitem(sys.modules, "greet_tool", raising=False)
    handrail_tools.load.cache_clear()
    return package


def test_claude_plus_one_tool_is_three_lines(tmp_path: Path, make_session: Make) -> None:
    path = write(tmp_path / "mine", ONE_MORE)
    assert check(Path(path)) == []
    claude, mine = dialects.load("claude"), dialects.load(path)
    assert list(mine.entries) == [*claude.entries, "Replace"] == list(mine.core)
    assert [mine.spec(name) for name in claude.entries] == [claude.spec(name) for name in claude.entries]
    assert [mine.limits(name) for name in claude.entries] == [claude.limits(name) for name in claude.entries]
    assert (mine.rules, mine.about, mine.quiet, mine.data_names) == (
        claude.rules,
        claude.about,
        claude.quiet,
        claude.data_names,
    )
    assert mine.templates.messages == claude.templates.messages
    assert mine.templates.number_lines([(1, "x")]) == claude.templates.number_lines([(1, "x")])


def test_a_call_says_what_the_dialect_below_says(tmp_path: Path, make_session: Make) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    mine = make_session(root, write(tmp_path / "mine", ONE_MORE), durable=False)
    claude = make_session(root, "claude", durable=False)
    for name in ("a.txt", "missing", "."):
        arguments = {"file_path": str(root / name)}
        assert mine.call("Read", arguments).text == claude.call("Read", arguments).text
    result = mine.call("Replace", {"pattern": "two", "replacement": "2", "dry_run": True})
    assert result.error is None and "a.txt" in result.text


def test_a_tool_of_another_package_is_added_in_three_lines(
    tmp_path: Path, make_session: Make, greet_package: Path
) -> None:
    path = write(
        tmp_path / "mine",
        'extends = "claude"\n[tools.Greet]\nid = "greet"\n',
        messages__toml='[greet]\ndone = "Hello {name}!"\n',
    )
    assert check(Path(path)) == []
    session = make_session(dialect=path)
    assert session.call("Greet", {"name": "Ada"}).text == "Hello Ada!"
    assert session.specs()[-1].description == "Greets a person."
    done = handrail("dialects", "check", path, cwd=tmp_path, variables={"PYTHONPATH": str(greet_package)})
    assert (done.returncode, done.stderr) == (0, b"") and b"12 tools" in done.stdout


def test_a_message_of_a_registered_tool_may_name_the_facts_that_it_declares(
    tmp_path: Path, greet_package: Path
) -> None:
    tools = '[tools.Greet]\nid = "greet"\n'
    (problem,) = check(Path(write(tmp_path / "mine", tools, messages__toml='[greet]\ndone = "Hello {nam}!"\n')))
    assert problem.line == 2 and "did you mean name?" in problem.text
    text = (greet_package / "greet_tool.py").read_text(encoding="utf-8").replace("facts=Facts, ", "")
    (greet_package / "greet_tool.py").write_text(text, encoding="utf-8")
    sys.modules.pop("greet_tool", None)
    handrail_tools.load.cache_clear()
    assert check(Path(write(tmp_path / "undeclared", tools, messages__toml='[greet]\ndone = "Hello {nam}!"\n'))) == []


def test_a_registered_tool_that_cannot_be_loaded_is_reported(tmp_path: Path, greet_package: Path) -> None:
    (greet_package / "greet-1.0.dist-info" / "entry_points.txt").write_text(
        "[handrail.tools]\nbroken_greet = no_such_module:TOOL\n", encoding="utf-8"
    )
    (problem,) = check(Path(write(tmp_path / "mine", '[tools.Greet]\nid = "broken_greet"\n')))
    assert problem.line == 2 and "no_such_module" in problem.text


def test_a_key_of_an_inherited_tool_is_changed_and_the_others_stay(tmp_path: Path) -> None:
    path = write(tmp_path / "mine", 'extends = "claude"\n[tools.Read]\nlimits = { lines = 7 }\n')
    assert check(Path(path)) == []
    mine, claude = dialects.load(path).limits("Read"), dialects.load("claude").limits("Read")
    assert (mine.lines, mine.whole_bytes, mine.page_chars) == (7, claude.whole_bytes, claude.page_chars)


def test_another_id_starts_a_tool_from_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "mine", 'extends = "claude"\n[tools.Read]\nid = "ls"\n')
    mine = dialects.load(path)
    assert (
        mine.spec("Read").schema["properties"].keys() == dialects.load("native").spec("LS").schema["properties"].keys()
    )
    assert mine.spec("Read").description == dialects.load("native").spec("LS").description


def test_rules_messages_and_files_of_ones_own_win(tmp_path: Path, make_session: Make) -> None:
    path = write(
        tmp_path / "mine",
        'extends = "claude"\ngutter = "{number}|"\n[rules]\nstale = "content"\n',
        messages__toml='[errors]\nnot_found = "no {path}"\n',
        Read__md="Shows a file.\n",
    )
    assert check(Path(path)) == []
    session = make_session(dialect=path)
    assert session.call("Read", {"file_path": "missing"}).text == "no missing"
    assert session.specs()[0].description == "Shows a file."
    assert (session.dialect.rules.read_before_write, session.dialect.rules.stale) == (True, "content")


def test_a_dialect_may_extend_the_folder_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "first", 'extends = "hello"\n[tools.ls]\nid = "ls"\n', prompt__md="Be brief.\n")
    second = dialects.load(write(tmp_path / "second", 'extends = "../first"\n[tools.glob]\nid = "glob"\n'))
    assert list(second.entries) == ["bash", "uppercase", "read_file", "write_file", "edit_file", "ls", "glob"]
    assert second.prompt == "Be brief."


def test_a_core_that_is_inherited_grows_by_the_tools_that_are_added(tmp_path: Path) -> None:
    mine = dialects.load(write(tmp_path / "mine", 'extends = "native"\n[tools.Look]\nid = "read"\n'))
    assert list(mine.core) == [*dialects.load("native").core, "Look"]
    chosen = write(tmp_path / "chosen", 'extends = "native"\ncore = ["Look"]\n[tools.Look]\nid = "read"\n')
    assert list(dialects.load(chosen).core) == ["Look"]


def test_words_inherits_the_sentences_alone(tmp_path: Path, make_session: Make) -> None:
    path = write(tmp_path / "mine", 'words = "claude"\n[tools.cat]\nid = "read"\n')
    session = make_session(dialect=path)
    assert [spec.name for spec in session.specs()] == ["cat"]
    assert session.call("cat", {"file_path": "x"}).text == "<tool_use_error>File does not exist.</tool_use_error>"


@pytest.mark.parametrize("key", ["extends", "words"])
def test_a_dialect_that_extends_itself_is_refused(tmp_path: Path, key: str) -> None:
    first = write(tmp_path / "first", f'{key} = "../second"\n[tools.cat]\nid = "read"\n')
    write(tmp_path / "second", f'{key} = "../first"\n')
    with pytest.raises(DialectError, match="extends itself"):
        dialects.load(first)
    assert any("extends itself" in problem.text for problem in check(Path(first)))
