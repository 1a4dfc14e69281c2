"""Dialects: names, words, limits and rules as data; a folder is enough to add one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, Setup, dialects
from handrail.dialects import DialectError

Make = Callable[..., Session]

OWN = """
gutter = "{number}|"
[tools.cat]
id = "read"
rename = { path = "file_path", from = "offset" }
limits = { lines = 3, line_chars = 10 }
[tools.swap]
id = "edit"
rename = { path = "file_path", old = "old_string", new = "new_string" }
[data]
patch = "diff"
"""


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., str]:
    """`own(tools_toml, messages_toml)`: a dialect folder, to be used by its path."""

    def make(tools: str = OWN, messages: str = "") -> str:
        folder = tmp_path / f"dialect-{len(list(tmp_path.glob('dialect-*')))}"
        folder.mkdir()
        (folder / "tools.toml").write_text(tools, encoding="utf-8")
        (folder / "messages.toml").write_text(messages, encoding="utf-8")
        return str(folder)

    return make


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "a.txt").write_text("1\n2\n3\n4\n5\n", encoding="utf-8")
    return directory


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def test_both_dialects_come_along_and_native_is_the_default(root: Path) -> None:
    assert {"native", "claude"} <= set(dialects.names())
    with Session(root) as session:
        assert session.dialect.name == "native"


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DialectError, match="claude, claw, codex, deepagents, envelope"):
        dialects.load("klingon")


@pytest.mark.parametrize("name", ["native", "claude"])
def test_the_dialects_with_the_whole_set_offer_these_tools(name: str, make_session: Make) -> None:
    specs = make_session(dialect=name, setup=Setup(offer=["all"])).specs()
    assert {"Read", "Write", "Edit", "MultiEdit", "NotebookEdit"} <= {spec.name for spec in specs}
    limit = re.compile(r"\{[a-z_]+\}")  # one that was not filled in
    assert all(spec.description and not limit.search(spec.description.replace("{path}", "")) for spec in specs)


def test_rarely_used_tools_are_offered_on_request(make_session: Make) -> None:
    usual = [spec.name for spec in make_session().specs()]
    assert usual == list(dialects.load("native").core) and "Undo" not in usual
    assert [spec.name for spec in make_session(setup=Setup(offer=["Read", "Undo"])).specs()] == ["Read", "Undo"]
    assert {spec.name for spec in make_session(setup=Setup(offer=["all"])).specs()} == set(
        dialects.load("native").entries
    )
    with pytest.raises(ValueError, match=r"no tool 'Fly'; it has Read"):
        make_session(setup=Setup(offer=["Fly"]))
    assert make_session().call("Undo", {}).ok  # one that a model names all the same is there


@pytest.mark.parametrize("name", dialects.names())
def test_every_schema_is_one_plain_object(name: str, make_session: Make) -> None:
    for spec in make_session(dialect=name, setup=Setup(offer=["all"])).specs():
        json.dumps(spec.schema)
        # A document that prints its schemas without this key is reproduced as it is; unknown names are refused anyway.
        assert (spec.schema["type"], spec.schema.get("additionalProperties", False)) == ("object", False)
        assert set(spec.schema["required"]) <= set(spec.schema["properties"])
        for node in nodes(spec.schema):
            assert not {"$ref", "$defs", "title", "anyOf"} & set(node), (spec.name, node)


@pytest.mark.parametrize("name", dialects.names())
def test_every_argument_of_every_tool_is_described(name: str, make_session: Make) -> None:
    for spec in make_session(dialect=name, setup=Setup(offer=["all"])).specs():
        for argument, schema in spec.schema["properties"].items():
            if (name, spec.name, argument) == ("hello", "edit_file", "file_path"):
                continue  # its document prints this one without a description, and is followed to the letter
            assert schema.get("description"), (spec.name, argument)


def test_the_words_for_a_model_name_the_limits_in_force(own: Callable[..., str], make_session: Make) -> None:
    specs = {spec.name: spec.description for spec in make_session(dialect=own()).specs()}
    assert "up to 3 lines" in specs["cat"] and "cut at 10 characters" in specs["cat"]
    native = {spec.name: spec.description for spec in make_session().specs()}
    assert "up to 2000 lines" in native["Read"]


def test_a_dialect_has_its_own_names_limits_and_gutter(own: Callable[..., str], make_session: Make, root: Path) -> None:
    session = make_session(root, own(), durable=False)
    result = session.call("cat", {"path": "a.txt", "from": 2})
    assert result.text.startswith("2|2\n3|3\n4|4\n")
    assert result.status == "partial"
    result = session.call("swap", {"path": "a.txt", "old": "3", "new": "drei"})
    assert result.text.startswith("Edited a.txt:\n1|1\n2|2\n3|drei\n")
    assert result.data["patch"] == result.data["diff"] != ""


def test_mistakes_are_named_in_the_names_of_the_dialect(
    own: Callable[..., str], make_session: Make, root: Path
) -> None:
    session = make_session(root, own())
    result = session.call("cat", {"from": "soon"})
    assert "- path: missing" in result.text and "- from: " in result.text
    assert "file_path" not in result.text and "offset" not in result.text
    for tool, arguments in (("Read", {"file_path": "a.txt"}), ("cat", {"file_path": "a.txt"})):
        assert session.call(tool, arguments).status == "error"


def test_a_dialect_may_say_its_own_words_and_borrows_the_rest(
    own: Callable[..., str], make_session: Make, root: Path
) -> None:
    session = make_session(root, own(messages='[errors]\nnot_found = "no {path} here"\n'))
    assert session.call("cat", {"path": "b.txt"}).text == "no b.txt here"
    assert session.call("cat", {"path": "."}).text == ". is a directory. Give the path of a file."


@pytest.mark.parametrize("name", ["{tool}{0}{x!r}.txt", "[[more? {path}]].txt", "%s%(path)s", "a\\nb"])
def test_a_file_name_is_never_taken_for_a_template(make_session: Make, root: Path, name: str) -> None:
    (root / name).touch()
    session = make_session(root)
    assert session.call("Read", {"file_path": name}).text == name.replace("\\", "\\\\") + " is empty: 0 lines."


def test_text_of_a_model_is_never_taken_for_a_template(make_session: Make, root: Path) -> None:
    session = make_session(root, "claude")
    session.call("Read", {"file_path": "a.txt"})
    result = session.call("Edit", {"file_path": "a.txt", "old_string": "{path}[[x]]{", "new_string": "y"})
    assert result.text.endswith("String: {path}[[x]]{</tool_use_error>")


@pytest.mark.parametrize("key", ["[read]\npage", "[errors]\nnot_found", "[errors]\ninternal_error"])
def test_a_template_that_cannot_be_filled_is_a_failure_and_no_exception(
    own: Callable[..., str], make_session: Make, root: Path, key: str
) -> None:
    session = make_session(root, own(messages=f'{key} = "{{nonsense}}"\n'), raise_bugs=False)
    for name in ("a.txt", "missing"):
        result = session.call("cat", {"path": name})
        assert result.status in ("ok", "partial", "error")
    worded = "a.txt" if "page" in key else "missing"
    if "internal" not in key:
        result = session.call("cat", {"path": worded})
        assert result.error and result.error.code == "internal_error"


@pytest.mark.parametrize(
    "tools",
    [
        "not toml",
        "",
        "[tools.cat]\nlimits = {}",
        '[tools.cat]\nid = "fly"',
        '[rules]\nstale = "smell"\n[tools.cat]\nid = "read"',
        '[rules]\ncolour = "red"\n[tools.cat]\nid = "read"',
        'extends = "klingon"\n[tools.cat]\nid = "read"',
        '[tools.cat]\nid = "read"\n[tools.dog]\nid = "read"\ncalled = ["cat"]',
        '[tools.cat]\nid = "read"\ncalled = ["pet"]\n[tools.dog]\nid = "read"\ncalled = ["pet"]',
    ],
)
def test_a_dialect_that_cannot_work_is_refused_when_it_is_loaded(own: Callable[..., str], tools: str) -> None:
    with pytest.raises(DialectError):
        dialects.load(own(tools))


@pytest.mark.parametrize(
    "line",
    [
        "limits = { wings = 2 }",
        'limits = { lines = "many" }',
        'rename = { path = "no_such_argument" }',
        'also = { path = "no_such_argument" }',
        'filled = ["no_such_argument"]',
        'differ = ["file_path", "no_such_argument"]',
        'whole = ["no_such_argument"]',
    ],
)
def test_a_dialect_that_does_not_fit_its_tools_is_refused_when_they_are_listed(
    own: Callable[..., str], make_session: Make, line: str
) -> None:
    session = make_session(dialect=own(f'[tools.cat]\nid = "read"\n{line}'))
    with pytest.raises(DialectError):
        session.specs()


def test_claude_says_each_sentence_of_its_document(make_session: Make, root: Path) -> None:
    session = make_session(root, "claude", durable=False)
    path = str(root / "a.txt")
    result = session.call("Edit", {"file_path": path, "old_string": "1", "new_string": "one"})
    assert result.text == "File has not been read yet. Read it first before writing to it."
    assert session.call("Read", {"file_path": path}).text.startswith("     1→1\n     2→2\n")
    result = session.call("Edit", {"file_path": path, "old_string": "1", "new_string": "one"})
    assert result.text.startswith(
        f"The file {path} has been updated. Here's the result of running `cat -n` on a snippet"
    )
    assert result.data["ui_extra"] == result.data["diff"]


def test_claude_does_not_know_arguments_of_native(make_session: Make, root: Path) -> None:
    result = make_session(root, "claude").call("Read", {"file_path": str(root / "a.txt"), "column": 2})
    assert (result.error and result.error.code, "column" in result.text) == ("bad_arguments", True)


def test_a_core_that_names_no_tool_is_refused(own: Callable[..., str]) -> None:
    with pytest.raises(DialectError, match="cta"):
        dialects.load(own('core = ["cta"]\n[tools.cat]\nid = "read"\n'))
