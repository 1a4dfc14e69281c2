"""Outlines: the symbols of a file and the lines they stand in, whatever state the file is in."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Session
from handrail.errors import MissingExtra, NoOutline, extras
from handrail.text.outlines.grammars import GRAMMARS
from handrail.text.outlines.outline import Symbol, list_symbols

pytestmark = pytest.mark.slow  # starts many processes

Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def listed(text: str, name: str = "a.py") -> list[tuple[object, ...]]:
    return [tuple(symbol) for symbol in list_symbols(text, name)]


def by_parser(body: list[ast.stmt], level: int = 0) -> Iterator[tuple[int, int, int]]:
    """What Python's own parser says of the definitions in a module and in its classes."""
    for node in body:
        if isinstance(node, Node):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield first, node.end_lineno or 0, level
            if isinstance(node, ast.ClassDef) and not level:
                yield from by_parser(node.body, 1)
        else:  # in an `if` or `try` of that level
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.stmt):
                    yield from by_parser([part], level)
                elif isinstance(part, (ast.ExceptHandler, ast.match_case)):
                    yield from by_parser(part.body, level)


def test_classes_functions_and_methods_have_their_lines_decorators_included() -> None:
    text = (
        "import os\n\n\n@first\n@second(\n    1,\n)\nclass A(B):\n    x = 1\n\n    def m(self) -> None:\n        pass\n"
        "    # not part of it\n\n    async def n(self):\n        def inner(): ...\n        return inner\n\n\n"
        "def f(\n    a,\n):\n    return '''\ndef no(): ...\n'''\n\nif os:\n    def g(): pass\n"
    )
    assert listed(text) == [
        (4, 17, "class A(B):", 0),
        (11, 12, "def m(self) -> None:", 1),
        (15, 17, "async def n(self):", 1),
        (20, 25, "def f(", 0),
        (28, 28, "def g(): pass", 0),
    ]


@pytest.mark.parametrize("module", ["argparse", "typing", "_pydecimal", "inspect", "dataclasses", "tokenize", "ast"])
def test_real_modules_have_the_lines_that_the_parser_finds(module: str) -> None:
    text = Path(sysconfig.get_paths()["stdlib"], f"{module}.py").read_text(encoding="utf-8")
    actual = [(symbol.first, symbol.last, symbol.level) for symbol in list_symbols(text, "m.py", most=10_000)]
    assert actual == sorted(by_parser(ast.parse(text).body))


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_other_line_endings_count_the_same_lines(end: str) -> None:
    text = "class A:\n    def m(self):\n        pass\n\ndef f():\n    pass\n"
    assert listed(text.replace("\n", end)) == listed(text)


def test_an_open_bracket_hides_nothing_below_it() -> None:
    text = "def a():\n    return foo((1, [2\n\nclass B:\n    def m(self): ...\n\ndef c(:\n    x = {\ndef d(): ...\n"
    assert [row[2] for row in listed(text)] == ["def a():", "class B:", "def m(self): ...", "def c(:", "def d(): ..."]


def test_an_open_quote_hides_nothing_below_it() -> None:
    text = 'def a():\n    """never closed\n\ndef b():\n    pass\n'
    assert [row[2] for row in listed(text)] == ["def a():", "def b():"]
    assert [row[2] for row in listed("x = 'open\ndef b(): ...\n")] == ["def b(): ..."]


@pytest.mark.parametrize(
    "text",
    ["(" * 1_000_000, '"""' * 400_000, "class A:\n" + " x" * 1_000_000, "\\\n" * 200_000, '"' * 1_000_000, "-" * 10**6],
    ids=["brackets", "triple-quotes", "long-line", "continued", "quotes", "operators"],
)
def test_hostile_python_comes_to_an_end(text: str) -> None:
    assert len(list_symbols(text, "a.py")) <= 1


def test_ten_thousand_nested_blocks_are_no_deeper_than_two() -> None:
    text = "".join(f"{' ' * depth}class A{depth}:\n" for depth in range(3_000))
    assert [symbol.level for symbol in list_symbols(text, "a.py")] == [0, 1]


def test_a_label_is_cut() -> None:
    assert len(list_symbols(f"def f({'a' * 500}): ...\n", "a.py")[0].label) == 120


def test_no_more_symbols_than_asked_for_and_one_that_says_there_are_more() -> None:
    text = "".join(f"def f{number}(): ...\n" for number in range(50))
    assert [symbol.first for symbol in list_symbols(text, "a.py", 1, 10)] == list(range(1, 12))
    assert [symbol.first for symbol in list_symbols(text, "a.py", 45, 10)] == list(range(45, 51))


def test_headings_last_until_the_next_one_of_their_depth() -> None:
    text = (
        "---\ntitle: x\n---\n# One\ntext\n## Two ##\n```\n# no heading\n```\n### Three\n\nUnder\n=====\n"
        "two lines\nof a paragraph\n---\n\n- a\n---\n    # code\n#none\n####### no\n~~~~\n# no\n```\n# no\n~~~~\n## \n"
    )
    assert listed(text, "README.md") == [
        (4, 11, "# One", 0),
        (6, 11, "## Two", 1),
        (10, 11, "### Three", 2),
        (12, 28, "# Under", 0),
        (14, 27, "## two lines", 1),
        (28, 28, "##", 1),
    ]


@given(
    st.text(st.sampled_from("#-=`~ ab\n\r\t\"'()[]{}\\:@def class"), max_size=300), st.sampled_from(["a.py", "a.md"])
)
def test_any_text_gives_symbols_in_order_and_inside_the_file(text: str, name: str) -> None:
    actual = list_symbols(text, name)
    total = max(1, text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1)
    assert [symbol.first for symbol in actual] == sorted(symbol.first for symbol in actual)
    assert all(1 <= symbol.first <= symbol.last <= total and symbol.label for symbol in actual)


def test_a_file_of_no_known_language_is_refused_with_a_way_to_go_on() -> None:
    for name in ("data.csv", "Makefile", "py", ".py/x"):
        with pytest.raises(NoOutline) as caught:
            list_symbols("x", name)
        assert "Grep" in caught.value.facts["why"]


def test_without_its_grammar_a_language_is_refused_with_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GRAMMARS, "js", ("tree_sitter_there_is_none", "language"))
    with pytest.raises(MissingExtra) as caught:
        list_symbols("x", "a.js")
    assert extras.install_command("outline") in str(caught.value) and "Grep" in caught.value.facts["instead"]


SOURCES = {
    "a.js": ("class A {\n  m() {\n  }\n}\nconst f = (a) => {\n  return a\n}\nconst n = 1\n", "1-4 2-3 5-7"),
    "a.ts": ("@D()\nexport class A {\n  m(): void {}\n}\nexport type T = 1;\nenum E { A }\n", "1-4 3-3 5-5 6-6"),
    "a.tsx": ("export function F() {\n  return <p>x</p>;\n}\ninterface P {\n  a: 1;\n  m(): void;\n}\n", "1-3 4-7 6-6"),
    "a.go": (
        "package m\n\ntype T struct {\n}\n\nfunc (t *T) M() {\n}\n\ntype (\n\tA int\n\tB int\n)\n",
        "3-4 6-7 10-10 11-11",
    ),
    "a.rs": ("struct S;\nimpl S {\n    #[x]\n    fn n() {}\n}\nmod m {\n    fn i() {}\n}\n", "1-1 2-5 4-4 6-8 7-7"),
    "A.java": ("class A {\n  @Override\n  void m() {\n  }\n  A() {}\n}\nrecord R(int a) {}\n", "1-6 2-4 5-5 7-7"),
    "a.c": ("#include <x.h>\nstatic int\nf(int a)\n{\n}\nstruct s {\n  int a;\n};\nint p(void);\n", "2-5 6-8"),
    "a.cpp": ("namespace n {\ntemplate <class T>\nclass X {\n  int g() {\n  }\n};\n}\nint f() {}\n", "1-7 2-6 4-5 8-8"),
    "a.rb": ("module M\n  class A\n    def f\n    end\n  end\nend\ndef g\nend\n", "1-6 2-5 3-4 7-8"),
    "a.cs": ("namespace N {\n  class A {\n    [Fact]\n    void M() {\n    }\n  }\n}\n", "1-7 2-6 3-5"),
    "a.php": ("<?php\nclass A {\n  function f() {\n  }\n}\nfunction g() {\n}\n", "2-5 3-4 6-7"),
    "a.kt": ("class A {\n    fun f() {\n    }\n}\nfun g() {\n}\n", "1-4 2-3 5-6"),
    "a.swift": ("struct S {\n  func f() {\n  }\n}\nfunc g() {\n}\n", "1-4 2-3 5-6"),
    "a.scala": ("object O {\n  def f = {\n    1\n  }\n}\ntrait T\n", "1-5 2-4 6-6"),
    "a.lua": ("local function a()\nend\nfunction M.b()\nend\n", "1-2 3-4"),
}


def require(name: str) -> None:
    module = GRAMMARS[name.rpartition(".")[2]][0]
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed: {extras.install_command('outline')}")


@pytest.mark.parametrize("name", SOURCES)
def test_each_grammar_finds_symbols_and_methods(name: str) -> None:
    require(name)
    text, lines = SOURCES[name]
    assert " ".join(f"{symbol.first}-{symbol.last}" for symbol in list_symbols(text, name)) == lines


def test_every_ending_has_a_sample_of_its_grammar() -> None:
    assert {GRAMMARS[name.rpartition(".")[2]] for name in SOURCES} == set(GRAMMARS.values())


def test_the_line_with_the_name_is_the_label_not_the_annotation() -> None:
    require("A.java")
    assert [symbol.label for symbol in list_symbols(SOURCES["A.java"][0], "A.java")][:2] == ["class A", "void m()"]


def test_thousands_of_symbols_come_through_a_process_of_its_own(make_session: Callable[..., Session]) -> None:
    require("a.ts")
    session = make_session()
    body = "".join(f"function f{number}(a: number) {{\n  return a;\n}}\n" for number in range(7_000))
    Path(session.workspace.home, "big.ts").write_text(body, encoding="utf-8")
    first = session.call("Read", {"file_path": "big.ts", "outline": True})
    assert first.status == "partial"
    assert first.data["symbols"][-1] == Symbol(5998, 6000, "function f1999(a: number)")._asdict()
    assert "offset=6001" in first.text
    rest = session.call("Read", {"file_path": "big.ts", "outline": True, "offset": -6, "limit": 5})
    assert [symbol["first"] for symbol in rest.data["symbols"]] == [20995, 20998]
    assert rest.status == "ok"


@pytest.mark.parametrize(
    "text", ["(" * 1_000_000, "{" * 200_000, "class A {" * 20_000], ids=["round", "curly", "class"]
)
def test_hostile_text_for_a_grammar_ends_in_an_answer(text: str, make_session: Callable[..., Session]) -> None:
    require("a.rs")
    session = make_session()
    Path(session.workspace.home, "a.rs").write_text(text, encoding="utf-8")
    result = session.call("Read", {"file_path": "a.rs", "outline": True})
    assert result.error is None or result.error.code == "no_outline"


def test_a_function_above_the_broken_part_is_still_found() -> None:
    require("a.js")
    assert list_symbols("function a() {\n}\nfunction b( {\n  return }} (\nfunction c() {\n}\n", "a.js")[0].last == 2
