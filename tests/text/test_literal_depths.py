"""A line quoted without its indentation, or with a part of it: what is made is the file that was meant, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from handrail.errors import InsideWord, ManyMatches, ToolError, UnsureIndent
from handrail.text.matching.find import plan_edit
from tests.text.mangle import spliced
from tests.text.trees import LANGUAGES, UNITS, Grower, Node, Tree

SEEDS = range(40)
KINDS = [(language, unit) for language, unit in product(LANGUAGES, UNITS) if (language, unit) != ("yaml", "\t")]
each_kind = pytest.mark.parametrize(("language", "unit"), KINDS)


def edited(text: str, old: str, new: str, replace_all: bool = False) -> str | None:
    """The file after the edit; None if it was refused."""
    try:
        return spliced(text, plan_edit(text, old, new, replace_all))
    except ToolError:
        return None


def trees(language: str, unit: str) -> Iterator[tuple[Random, Grower, Tree]]:
    for seed in SEEDS:
        rng = Random(f"{language} {unit!r} {seed}")
        grower = Grower(rng, language)
        yield rng, grower, grower.tree(unit)


def leaves(nodes: list[Node], depth: int = 0) -> Iterator[tuple[list[Node], int, int]]:
    """Every line without lines of its own: the lines beside it, where it is among them, and its depth."""
    for at, node in enumerate(nodes):
        if node.children:
            yield from leaves(node.children, depth + 1)
        else:
            yield nodes, at, depth


def pick(rng: Random, tree: Tree) -> tuple[list[Node], int, int]:
    return rng.choice([actual for actual in leaves(list(tree.nodes)) if actual[2]])


def lines_of(tree: Tree, nodes: list[Node], depth: int) -> str:
    return tree.text(nodes, depth).removesuffix("\n")


@each_kind
def test_further_lines_at_the_depths_of_the_file_are_literal(language: str, unit: str) -> None:
    for rng, grower, tree in trees(language, unit):
        beside, at, depth = pick(rng, tree)
        old = beside[at].text
        before = tree.text()
        added = [grower.leaf(), *([grower.block(0)] if rng.random() < 0.5 else []), grower.leaf()]
        new = old + "\n" + lines_of(tree, added, depth)
        beside[at + 1 : at + 1] = added
        assert edited(before, old, new) == tree.text(), (before, new)
        assert plan_edit(before, old, new).variants == ()


@each_kind
def test_further_lines_that_go_on_in_an_outer_block_are_literal(language: str, unit: str) -> None:
    for _, grower, tree in trees(language, unit):
        inner = next((node for top in tree.nodes for node in top.children if node.children), None)
        if inner is None:
            continue
        outer = next(top.children for top in tree.nodes if inner in top.children)
        while inner.children[-1].children:
            inner.children.append(grower.leaf())
        old, before = inner.children[-1].text, tree.text()
        added = grower.leaf()
        rest = [tree.unit + inner.closing] if inner.closing else []
        if rest:  # the block is closed, another one opened, and the file closes that
            added = Node("if (other) {", [grower.leaf()], "}")
        new = "\n".join([old, *rest, lines_of(tree, [added], 1)])
        new = new.removesuffix("\n" + tree.unit + "}") if rest else new
        outer.insert(outer.index(inner) + 1, added)
        assert edited(before, old, new) in ((tree.text(),) if language != "markdown" else (tree.text(), None)), new


@pytest.mark.parametrize("unit", UNITS)
def test_an_edit_of_prose_is_literal_at_any_depth(unit: str) -> None:
    for rng, grower, tree in trees("markdown", unit):
        beside, at, depth = pick(rng, tree)
        text, old = tree.text(), beside[at].text
        rows = [unit * rng.randrange(depth + 2) + grower.leaf().text for _ in range(rng.randint(1, 3))]
        new = "\n".join([old, *rows])
        assert spliced(text, plan_edit(text, old, new, prose=True)) == text.replace(old, new)


@each_kind
def test_what_starts_at_the_top_level_is_literal_at_the_end_of_a_part(language: str, unit: str) -> None:
    for _, grower, tree in trees(language, unit):
        last = tree.nodes[0].children
        while last[-1].children:
            last.append(grower.leaf())
        if tree.nodes[0].closing:
            continue  # the brace of the part is below
        old, before = last[-1].text, tree.text()
        part = grower.block(2)
        new = old + "\n" + lines_of(tree, [part], 0)
        result = edited(before, old, new)
        nodes = list(tree.nodes)
        assert result in (Tree(language, unit, [nodes[0], part, *nodes[1:]]).text(), None)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("further", ["def d():\n{}return 3", "# a note\ne = 4", "print(5)"])
def test_only_below_a_blank_line_a_new_part_begins_at_the_top_level(unit: str, further: str) -> None:
    text = f"def a():\n{unit}b = 1\n{unit}return b\nc = 2\n"
    further = further.format(unit)
    assert edited(text, "return b", f"return b\n\n\n{further}") == text.replace("return b", f"return b\n\n\n{further}")
    assert edited(text, "return b", f"return b\n{further}") is None


@each_kind
def test_lines_without_indentation_are_indented_where_the_block_goes_on(language: str, unit: str) -> None:
    for rng, grower, tree in trees(language, unit):
        beside, at, depth = pick(rng, tree)
        beside.insert(at + 1, grower.leaf())  # as deep as the quoted line: column 0 is impossible
        before, old = tree.text(), beside[at].text
        added = [grower.leaf() for _ in range(rng.randint(1, 3))]
        ends = rng.choice(["", "\n"])
        new = "\n".join([old, *(node.text for node in added)])
        beside[at + 1 : at + 1] = added
        plan = plan_edit(before, old + ends, new + ends)
        line = before[: before.index(unit * depth + old + "\n")].count("\n") + 1
        assert (spliced(before, plan), plan.variants) == (tree.text(), (f"new lines indented like line {line}",))


@pytest.mark.parametrize("unit", UNITS)
def test_lines_without_indentation_are_indented_before_a_closing_brace(unit: str) -> None:
    for rng, grower, tree in trees("braces", unit):
        beside = rng.choice([top.children for top in tree.nodes])
        if beside[-1].children:
            beside.append(grower.leaf())
        before, old, added = tree.text(), beside[-1].text, grower.leaf()
        beside.append(added)
        assert edited(before, old, f"{old}\n{added.text}") == tree.text()


@pytest.mark.parametrize(("language", "unit"), [kind for kind in KINDS if kind[0] != "braces"])  # a brace would tell
@pytest.mark.parametrize("last", [True, False])
def test_lines_without_indentation_that_may_be_meant_so_are_refused(language: str, unit: str, last: bool) -> None:
    for _, grower, tree in trees(language, unit):
        beside = tree.nodes[-1 if last else 0].children
        if beside[-1].children:
            beside.append(grower.leaf())
        old, added = beside[-1].text, grower.leaf()
        with pytest.raises(UnsureIndent) as error:
            plan_edit(tree.text(), old, f"{old}\n{added.text}")
        assert error.value.facts["cut"]


@each_kind
def test_a_part_of_the_indentation_is_right_or_refused(language: str, unit: str) -> None:
    right = 0
    for rng, grower, tree in trees(language, unit):
        beside, at, depth = pick(rng, tree)
        lead = unit * depth
        if len(lead) < 2:
            continue
        cut = rng.randrange(1, len(lead))
        before = tree.text()
        old = lead[cut:] + beside[at].text
        added = [grower.leaf(), *([grower.block(0)] if rng.random() < 0.4 else [])]
        ends = rng.choice(["", "\n"])
        rows = lines_of(tree, [beside[at], *added], depth).split("\n")
        beside[at + 1 : at + 1] = added
        result = edited(before, old + ends, "\n".join(row[cut:] for row in rows) + ends)
        assert result in (tree.text(), None), (before, old, rows)
        right += result is not None
        assert edited(before, old, "\n".join(rows)) in (tree.text(), None)
        first_only = edited(before, old, "\n".join([rows[0][cut:], *rows[1:]]))
        assert first_only is None or all(row.strip() in first_only for row in rows)
    assert right


@each_kind
def test_one_line_for_one_is_right_whatever_is_left_of_its_indentation(language: str, unit: str) -> None:
    for rng, grower, tree in trees(language, unit):
        beside, at, depth = pick(rng, tree)
        lead, before, old, leaf = unit * depth, tree.text(), beside[at].text, grower.leaf()
        beside[at] = leaf
        for cut in range(len(lead) + 1):
            assert edited(before, lead[cut:] + old, lead[cut:] + leaf.text) == tree.text()
        del beside[at]
        for cut in range(len(lead)):
            assert edited(before, lead[cut:] + old, "") == tree.text()
            assert edited(before, lead[cut:] + old + "\n", "") == tree.text()


@each_kind
def test_a_first_line_that_alone_is_cut_keeps_its_place(language: str, unit: str) -> None:
    for rng, grower, tree in trees(language, unit):
        beside, at, depth = pick(rng, tree)
        beside[at + 1 : at + 1] = [grower.leaf()]
        before, lead = tree.text(), unit * depth
        cut = rng.randrange(len(lead) + 1)
        rows = lines_of(tree, beside[at : at + 2], depth).split("\n")
        leaf = grower.leaf()
        new = [*rows, lead + leaf.text]
        beside.insert(at + 2, leaf)
        old = "\n".join([rows[0][cut:], *rows[1:]])
        assert edited(before, old, "\n".join([new[0][cut:], *new[1:]])) == tree.text()
        if 0 < cut < len(lead):
            assert edited(before, old, "\n".join(new)) == tree.text()


@each_kind
def test_a_piece_of_a_word_is_not_replaced(language: str, unit: str) -> None:
    for rng, _, tree in trees(language, unit):
        text = tree.text()
        words = [word for row in text.split() for word in [row.strip("(){};:=+,\"'")] if word.isidentifier()]
        word = rng.choice([word for word in words if len(word) > 3])
        piece = rng.choice([word[:-1], word[1:], word[1:-1], word[:2]])
        with pytest.raises((InsideWord, ManyMatches)):
            plan_edit(text, piece, "other")
        assert edited(text, piece, "other", replace_all=True) == text.replace(piece, "other")
        assert spliced(text, plan_edit(text, piece, "other", True, "exact")) == text.replace(piece, "other")


@pytest.mark.parametrize("sign", [" = ", ": ", "(", ""])
@pytest.mark.parametrize("others", [("50",), ("51", "5_000"), ("5x", "55")])
def test_a_text_inside_a_longer_word_is_another_text(sign: str, others: tuple[str, ...]) -> None:
    for at in range(len(others) + 1):
        rows = [f"    limit{sign}{value}" for value in (*others[:at], "5", *others[at:])]
        text = "\n".join([*rows, ""])
        rows[at] = f"    limit{sign}6"
        assert edited(text, f"limit{sign}5", f"limit{sign}6") == "\n".join([*rows, ""])
        assert edited(text + text, f"limit{sign}5", f"limit{sign}6") is None


@pytest.mark.parametrize("matching", ["exact", "trimmed"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = prettyF", "x = prettyG"),
        ("  x = prettyForm", "  y = 1\n  x = prettyForm"),
        ("return x", "return x\nprint(x)"),
        ("        return x", ""),
    ],
)
def test_dialects_that_follow_a_document_replace_the_very_text(matching: str, old: str, new: str) -> None:
    text = "def f():\n    if a:\n        x = prettyForm(1)\n        return x\n"
    assert spliced(text, plan_edit(text, old, new, matching=matching)) == text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        # A script without capitals has no blanks between words: any piece of it may be replaced.
        ("你好世界\n", "好世", "们", "你们界\n"),
        # A letter and its accent are not parted.
        ("cafe\u0301 = 1\n", "cafe", "bar", None),
        ("width: 10px\n", "width: 1", "width: 2", None),
        ("version = 1.5\n", "version = 1", "version = 2", "version = 2.5\n"),
        # Blanks alone name themselves, and may be a part of the indentation.
        ("a:\n    b\n", "    ", "\t", "a:\n\tb\n"),
        ("a\n    b = 1\nc\n  b = 1\n", "   b = 1", "   b = 2", None),
        # The rest of the line stays behind the last new line.
        ("f(\n    a, b\n    c)\n", "a,", "x,\n    a,", "f(\n    x,\n    a, b\n    c)\n"),
        ("if a:\r\n    b()\r\n    c()\r\n", "b()", "b()\nd()", "if a:\r\n    b()\r\n    d()\r\n    c()\r\n"),
        ("a\r\nb\r\nc\r\n", "b", "", "a\r\nc\r\n"),
        ("a\nb", "b", "", "a\n"),
        ("#define A\nint f() {\n  a();\n  b();\n}\n", "a();", "a();\n#ifdef A\n  c();\n#endif", None),
    ],
)
def test_edges(text: str, old: str, new: str, expected: str | None) -> None:
    assert edited(text, old, new) == expected


def test_every_occurrence_with_a_part_of_its_indentation_keeps_its_own_depth() -> None:
    text = "a\n    go()\nb\n        go()\n"
    assert edited(text, "  go()", "  stop()", replace_all=True) == text.replace("go", "stop")


def test_occurrences_of_which_one_is_no_whole_line_are_not_replaced_in_part() -> None:
    assert edited('a\n    go()\nb = "  go()"\n', "  go()", "  stop()", replace_all=True) is None


OPENINGS = ["<<EOF", "<<'EOF'", '<<"EOF"', "<< EOF", "<<-EOF", "<<~EOF", "<<<EOF"]
STRINGS = [
    *((f"cat {opening} > made", "text", "EOF") for opening in OPENINGS),
    ('git commit -m "title', "", 'text"'),
    ("python -c '", "print(1)", "'"),
    ("python -c 'import os", "print(os.name)'"),
    ('say("first', 'second");'),
]


@pytest.mark.parametrize("unit", ["  ", "\t"])
@pytest.mark.parametrize("rows", STRINGS, ids=lambda rows: rows[0])
def test_a_text_over_several_lines_is_never_shifted(rows: tuple[str, ...], unit: str) -> None:
    """Blanks inside of it are part of the text, and a last line such as `EOF` with blanks before it ends nothing."""
    before = f"run() {{\n{unit}first\n{unit}last\n}}\n"
    for new in (
        "\n".join(["first", *rows]),
        "\n".join([*rows, "first"]),
        "\n".join(["first", unit + rows[0], *rows[1:]]),
    ):
        assert edited(before, "first", new) in (None, before.replace("first", new)), new
    whole = "\n".join([f"{unit}first", unit + rows[0], *rows[1:]])
    assert edited(before, f"{unit}first", whole) == before.replace(f"{unit}first", whole)


@pytest.mark.parametrize(
    "row",
    [
        "it isn't here",
        "c = '\"'",
        'd = "\'"',
        'say("a \\" b")',
        "total = 1 << BITS",
        "f::<'a, 'b>()",
        "stream << name;",
    ],
)
def test_marks_that_begin_no_text_do_not_refuse_an_edit(row: str) -> None:
    before = "run() {\n  first;\n  last;\n}\n"
    assert edited(before, "first;", f"first;\n{row}") == before.replace("first;", f"first;\n  {row}")
