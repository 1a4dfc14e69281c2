"""`dialects.check`: everything wrong with a dialect folder at once, with file, line and mend."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import dialects
from handrail.cli.common import list_dialects
from handrail.dialects import check as checking
from handrail.dialects import folder
from handrail.dialects.check import check

SOUND = '[tools.cat]\nid = "read"\nrename = { path = "file_path" }\n'

Made = Callable[..., list[tuple[str, int, str]]]


@pytest.fixture
def check_files(tmp_path: Path) -> Made:
    """`check_files(tools, messages, **files)`: what is wrong, as (file name, line, text)."""

    def look(tools: str = SOUND, messages: str = "", **files: str) -> list[tuple[str, int, str]]:
        mine = tmp_path / "mine"
        mine.mkdir()
        (mine / "tools.toml").write_text(tools, encoding="utf-8")
        (mine / "messages.toml").write_text(messages, encoding="utf-8")
        for name, text in files.items():
            (mine / name.replace("__", ".")).write_text(text, encoding="utf-8")
        return [(problem.file.name, problem.line, problem.text) for problem in check(mine)]

    return look


@pytest.mark.parametrize("name", dialects.names())
def test_every_dialect_that_comes_along_is_sound(name: str) -> None:
    assert [str(problem) for problem in check(dialects.HERE / name)] == []


def test_a_sound_folder_has_no_problem(check_files: Made) -> None:
    assert check_files(messages='[errors]\nnot_found = "no {path} here[[, perhaps {nearest}]]"\n') == []


def test_all_mistakes_are_told_at_once_each_with_its_line_and_mend(check_files: Made) -> None:
    tools = """\
about = "wrong"
colour = "red"
core = ["cat", "dgo"]
quiet_notes = ["more_line"]
renderer = "envelop"
gutter = "{line} "

[rules]
stale = "never"
read_befor_write = true

[codes]
not_fond = "X"

[limits]
lins = 3

[tools.cat]
id = "read"
rename = { path = "file_pth" }
preset = { offst = 3 }
limits = { lines = "many", line_char = 3 }
add = { ofset = 1 }
nickname = "kitty"

[tools.dog]
id = "reed"
"""
    problems = check_files(tools)
    wanted = [
        (2, "colour", "core"),
        (3, "dgo", "dog"),
        (4, "more_line", "more_lines"),
        (5, "envelop", "envelope"),
        (6, "gutter", "number"),
        (9, "never", "'content' or 'mtime'"),
        (10, "read_befor_write", "read_before_write"),
        (13, "not_fond", "not_found"),
        (16, "lins", "lines"),
        (20, "file_pth", "file_path"),
        (21, "offst", "offset"),
        (22, "line_char", "line_chars"),
        (22, "'many'", "int"),
        (23, "ofset", "offset"),
        (24, "nickname", "rename"),
        (27, "reed", "read"),
    ]
    assert {file for file, _, _ in problems} == {"tools.toml"}
    assert sorted(line for _, line, _ in problems) == sorted(line for line, _, _ in wanted)
    for line, wrong, mend in wanted:
        assert any(at == line and wrong in text and mend in text for _, at, text in problems), (line, wrong, problems)


def test_messages_may_only_say_what_there_is_and_name_what_is_told(check_files: Made) -> None:
    messages = """\
[errors]
not_found = "no {pth} here"
not_fond = "x"
no_match = "[[{path}"
past_end = "{total:zz} lines"
is_directory = 3

[read]
pge = "{rows}"
page = "{rowss}"

[read.errors]
not_found = "{error}"
nope = "x"
"""
    problems = check_files(messages=messages)
    wanted = [
        (2, "{pth}", "path"),
        (3, "errors.not_fond", "errors.not_found"),
        (4, "[[", "pairs"),
        (5, "{total:zz}", "format"),
        (6, "is_directory", "string"),
        (9, "read.pge", "read.page"),
        (10, "{rowss}", "rows"),
        (14, "read.errors.nope", "?"),
    ]
    assert {file for file, _, _ in problems} == {"messages.toml"}
    assert [line for _, line, _ in problems] == [line for line, _, _ in wanted]
    for (_, _, text), (_, wrong, mend) in zip(problems, wanted, strict=True):
        assert wrong in text and mend in text


@pytest.mark.parametrize(
    ("messages", "fact"),
    [
        ('[errors]\nnot_found = "{exit_code}"\n', "exit_code"),  # of a command
        ('[errors]\nnot_found = "{total}"\n', "total"),  # of another failure
        ('[read.errors]\nnot_found = "{error} {total}"\n', "total"),
        ('[errors]\nnot_found = "{error}"\n', "error"),  # only around the sentence itself
        ('[read]\npage = "{rows}[[{cut}]]"\n', "cut"),  # of an adapter that this dialect does not have
        ('[read]\ncut_line = "{rows}"\n', "rows"),  # of the page and not of a line
        ('[read]\npage = "{rows}[[{total_lines}]]"\n', "total_lines"),  # data is for summaries
        ('[notes]\nmore_lines = "{column}"\n', "column"),
    ],
)
def test_a_message_may_name_only_the_facts_that_its_class_declares(check_files: Made, messages: str, fact: str) -> None:
    ((file, line, text),) = check_files(messages=messages)
    assert (file, line) == ("messages.toml", 2) and f"unknown fact {{{fact}}}" in text


def test_a_message_may_name_the_facts_of_an_inherited_adapter(check_files: Made) -> None:
    messages = '[read]\npage = "{rows}[[{cut}]]"\nsummary = "[[{total_lines} of ]]{path}"\n'
    assert check_files('extends = "claw"\n', messages) == []


def test_one_passage_inside_another_is_a_mistake(check_files: Made) -> None:
    ((_, line, text),) = check_files(messages='[errors]\nnot_found = "[[!nearest?no [[{path}]] here]]"\n')
    assert line == 2 and "inside another" in text


@pytest.mark.parametrize("fact", ["old", "near", "theirs", "unmatched"])
def test_a_fact_that_only_some_dialects_say_may_be_said(check_files: Made, fact: str) -> None:
    assert check_files(messages=f'[errors]\nno_match = "[[{{{fact}}}]]"\n') == []


def test_broken_toml_and_json_are_told_with_their_line(check_files: Made) -> None:
    problems = check_files(messages='[errors]\nnot_found = "x\n', cat__json='{\n "properties": {,}\n}')
    assert [(file, line) for file, line, _ in problems] == [("cat.json", 2), ("messages.toml", 2)]


def test_a_schema_may_only_show_parameters_that_the_tool_has(check_files: Made) -> None:
    schema = '{\n "type": "object",\n "properties": {\n  "path": {},\n  "pth": {}\n },\n "required": ["wher"]\n}\n'
    problems = check_files(cat__json=schema)
    assert [(file, line) for file, line, _ in problems] == [("cat.json", 5), ("cat.json", 7)]
    assert "did you mean path?" in problems[0][2] and "required" in problems[1][2]


@pytest.mark.parametrize("text", ["[]", "3", '{"type": "object"}', '{"properties": 3}'])
def test_what_is_no_schema_is_told(check_files: Made, text: str) -> None:
    ((file, line, message),) = check_files(cat__json=text)
    assert (file, line) == ("cat.json", 1) and "properties" in message


def test_words_for_a_tool_that_does_not_exist_are_told(check_files: Made) -> None:
    ((file, _, text),) = check_files(cta__md="Reads.\n", README__md="About this dialect.\n", specs__json="{}")
    assert file == "cta.md" and "did you mean cat?" in text


def test_messages_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "tools.toml").write_text(SOUND, encoding="utf-8")
    assert check(tmp_path) == []


@pytest.mark.parametrize(
    ("tools", "line"),
    [
        ('about = "empty"\n', 1),
        ('about = "three"\ntools = 3\n', 2),
        ("[tools]\ncat = 3\n", 2),
        ("[tools.cat]\nlimits = {}\n", 1),
        ('[tools.cat]\nid = "read"\nrename = ["path"]\n', 3),
        ('[tools.cat]\nid = "read"\ninvert = "outline"\n', 3),
        ('extends = "nativ"\n[tools.cat]\nid = "read"\n', 1),
        ('words = "nativ"\n[tools.cat]\nid = "read"\n', 1),
        ('extends = "native"\n[tools.Read]\nlimits = { lins = 3 }\n', 3),
    ],
)
def test_values_of_the_wrong_kind_are_told_and_never_a_crash(check_files: Made, tools: str, line: int) -> None:
    problems = check_files(tools)
    assert problems and all(file == "tools.toml" for file, _, _ in problems)
    assert line in [at for _, at, _ in problems]


def test_a_folder_without_tools_toml_is_reported(tmp_path: Path) -> None:
    (problem,) = check(tmp_path)
    assert problem.file.name == "tools.toml" and "No such file" in problem.text


def test_the_checker_knows_every_key_that_a_dialect_reads() -> None:
    read = set()
    for module, table in ((dialects, "table"), (folder, "own")):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) == f"{table}.get"
                and isinstance(node.args[0], ast.Constant)
            ):
                read.add(node.args[0].value)
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == table:
                read.add(ast.literal_eval(node.slice))
    assert "unlisted" not in read  # the lists of the command line read it, without importing dialects
    assert read | {"unlisted"} == set(checking.KEYS)


def test_the_lists_of_the_command_line_leave_out_the_dialects_that_say_so() -> None:
    unlisted = {
        name for name in dialects.names() if folder.read_toml(folder.HERE / name / "tools.toml").get("unlisted")
    }
    assert unlisted and set(list_dialects()) == set(dialects.names()) - unlisted
