"""S0-29 to S0-34: what a patch says and where it applies, in the dialect `codex`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from handrail import Session
from handrail.model import Result
from tests.seeds.golden import put, tree


def _apply(session: Session, *lines: str) -> Result:
    """A patch through the tool: the lines between its first and its last."""
    return session.call("apply_patch", {"input": "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])})


def test_s0_29_every_rule_of_the_grammar_in_one_patch(codex: Session, tmp_path: Path) -> None:
    put(tmp_path, "keep.py", "def a():\n    one\n    two\n\n\ndef b():\n    one\n    two\n")
    put(tmp_path, "old.txt", "first\nmiddle\nlast\n")
    put(tmp_path, "gone.txt", "x\n")
    result = _apply(
        codex,
        "*** Add File: new.txt",
        "+one",
        "+",
        "+  two",
        "*** Delete File: gone.txt",
        "*** Update File: keep.py",
        "@@ def b():",
        "     one",
        "-    two",
        "+    three",
        "*** Update File: old.txt",
        "*** Move to: dir/moved.txt",
        "@@",
        "-first",
        "+FIRST",
        "@@",
        " last",
        "+end",
        "*** End of File",
    )
    assert result.text == "Success. Updated the following files:\nA new.txt\nM keep.py\nM dir/moved.txt\nD gone.txt"
    assert tree(tmp_path) == {
        "new.txt": "one\n\n  two\n",
        "keep.py": "def a():\n    one\n    two\n\n\ndef b():\n    one\n    three\n",
        "dir/moved.txt": "FIRST\nmiddle\nlast\nend\n",
    }


@pytest.mark.parametrize(
    "patch",
    [
        "",
        "*** Begin Patch\n*** End Patch\n",
        "*** Begin Patch\n*** Add File: a.txt\n+x\n",
        "*** Begin Patch\n*** Add File: a.txt\nx\n*** End Patch\n",
        "*** Begin Patch\n*** Add File: \n+x\n*** End Patch\n",
        "*** Begin Patch\n*** Rename File: a.txt\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: b.txt\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: b.txt\n@@\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: b.txt\n@@\n?x\n*** End Patch\n",
        "*** Begin Patch\n*** Delete File: b.txt\n+x\n*** End Patch\n",
        "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\nmore\n",
        "*** Begin Patch\n*** Add File: /a.txt\n+x\n*** End Patch\n",
        "*** Begin Patch\n*** Add File: ../a.txt\n+x\n*** End Patch\n",
    ],
)
def test_s0_29_what_the_grammar_does_not_know_is_refused_with_its_line(
    codex: Session, tmp_path: Path, patch: str
) -> None:
    put(tmp_path, "b.txt", "x\n")
    for result in (
        codex.call("apply_patch", {"input": patch}),
        codex.call("shell", {"command": ["apply_patch", patch]}),
    ):
        assert result.status == "error" and result.error is not None
        assert result.error.code == "bad_patch"
        assert result.text.startswith("Nothing was changed: line ")
    assert tree(tmp_path) == {"b.txt": "x\n"}


def test_s0_30_add_delete_update_and_move(codex: Session, tmp_path: Path) -> None:
    assert _apply(codex, "*** Add File: deep/a.txt", "+one", "+two").text.endswith("\nA deep/a.txt")
    assert tree(tmp_path) == {"deep/a.txt": "one\ntwo\n"}
    assert _apply(codex, "*** Update File: deep/a.txt", "@@", " one", "-two", "+2").text.endswith("\nM deep/a.txt")
    assert tree(tmp_path) == {"deep/a.txt": "one\n2\n"}
    moved = _apply(codex, "*** Update File: deep/a.txt", "*** Move to: b.txt", "@@", "-one", "+1", " 2")
    assert moved.text.endswith("\nM b.txt")
    assert tree(tmp_path) == {"b.txt": "1\n2\n"}
    assert _apply(codex, "*** Delete File: b.txt").text.endswith("\nD b.txt")
    assert tree(tmp_path) == {}


def test_s0_30_a_patch_is_applied_as_a_whole_or_not_at_all(codex: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "one\n")
    result = _apply(
        codex,
        "*** Add File: new.txt",
        "+x",
        "*** Delete File: a.txt",
        "*** Update File: missing.txt",
        "@@",
        "-x",
        "+y",
    )
    assert result.status == "error"
    assert tree(tmp_path) == {"a.txt": "one\n"}


BASE = (
    "class BaseClass:\n    def method():\n        a\n        old_code\n        z\n\n    def other():\n        a\n"
    "        old_code\n        z\n\n\nclass Next:\n    def method():\n        a\n        old_code\n        z\n"
)


@pytest.mark.parametrize(
    ("headers", "occurrence"),
    [
        (["@@ class BaseClass:", "@@     def method():"], 0),
        (["@@ class BaseClass", "@@   def method():"], 0),
        (["@@ class BaseClass:", "@@     def other():"], 1),
        (["@@     def other():"], 1),
        (["@@ class Next:"], 2),
        (["@@ class Next:", "@@     def method():"], 2),
    ],
)
def test_s0_31_headers_say_where_and_may_be_stacked(
    codex: Session, tmp_path: Path, headers: list[str], occurrence: int
) -> None:
    path = put(tmp_path, "a.py", BASE)
    hunk = ["         a", "-        old_code", "+        new_code", "         z"]
    assert _apply(codex, "*** Update File: a.py", *headers, *hunk).status == "ok"
    parts = BASE.split("old_code")
    expected = "old_code".join(parts[: occurrence + 1]) + "new_code" + "old_code".join(parts[occurrence + 1 :])
    assert path.read_text(encoding="utf-8") == expected


def test_s0_31_a_place_that_nothing_decides_is_refused_with_the_lines(codex: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", BASE)
    result = _apply(codex, "*** Update File: a.py", "@@", "-        old_code", "+        new_code")
    assert result.error is not None
    assert result.error.code == "ambiguous_hunk" and "(lines 4, 9, 16)" in result.text
    assert tree(tmp_path) == {"a.py": BASE}


def test_s0_31_as_much_context_as_is_needed_is_enough(codex: Session, tmp_path: Path) -> None:
    path = put(tmp_path, "a.py", "a = 1\nb = 2\nc = 3\n")
    assert _apply(codex, "*** Update File: a.py", "@@", "-b = 2", "+b = 3").status == "ok"
    assert path.read_bytes() == b"a = 1\nb = 3\nc = 3\n"


FULL = """*** Begin Patch
*** Add File: hello.txt
+Hello world
*** Update File: src/app.py
*** Move to: src/main.py
@@ def greet():
-print("Hi")
+print("Hello, world!")
*** Delete File: obsolete.txt
*** End Patch
"""


@pytest.mark.parametrize("indent", ["", "    ", "\t"])
def test_s0_32_the_example_of_the_document_applies(codex: Session, tmp_path: Path, indent: str) -> None:
    """As printed, and where the function's body is indented, as it is in Python."""
    put(tmp_path, "src/app.py", f'def greet():\n{indent}print("Hi")\n\n\ngreet()\n')
    put(tmp_path, "obsolete.txt", "x\n")
    result = codex.call("apply_patch", {"input": FULL})
    assert result.text == "Success. Updated the following files:\nA hello.txt\nM src/main.py\nD obsolete.txt"
    assert tree(tmp_path) == {
        "hello.txt": "Hello world\n",
        "src/main.py": f'def greet():\n{indent}print("Hello, world!")\n\n\ngreet()\n',
    }


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("x = call(1)", "x = call(1)"),
        ("x = call(1)  \t", "x = call(1)"),
        ("x = call(1)", "x = call(1)   "),
        ("    x = call(1)", "x = call(1)"),
        ("\tx = call(1) ", "    x = call(1)"),
        ("# it\u2019s \u201cone\u201d \u2013 two\u00a0three", '# it\'s "one" - two three'),
        ("    # a\u2014b  ", "# a-b"),
    ],
)
def test_s0_33_a_line_is_found_on_each_of_the_four_levels(
    codex: Session, tmp_path: Path, line: str, given: str
) -> None:
    path = put(tmp_path, "a.py", f"first\n{line}\nold\nlast\n")
    assert _apply(codex, "*** Update File: a.py", "@@", f" {given}", "-old", "+new").status == "ok"
    assert path.read_text(encoding="utf-8") == f"first\n{line}\nnew\nlast\n"


PUNCTUATION = {
    "-": [*range(0x2010, 0x2016), 0x2212],
    "'": [0x2018, 0x2019, 0x201A, 0x201B],
    '"': [0x201C, 0x201D, 0x201E, 0x201F],
    " ": [0x00A0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000],
}


@pytest.mark.parametrize(("plain", "code"), [(plain, code) for plain, codes in PUNCTUATION.items() for code in codes])
def test_s0_33_every_character_of_the_table_counts_as_its_plain_one(
    codex: Session, tmp_path: Path, plain: str, code: int
) -> None:
    line = f"# a{chr(code)}b"
    path = put(tmp_path, "a.py", f"{line}\nold\n")
    assert _apply(codex, "*** Update File: a.py", "@@", f" # a{plain}b", "-old", "+new").status == "ok"
    assert path.read_text(encoding="utf-8") == f"{line}\nnew\n"


def test_s0_33_a_stricter_level_that_fits_wins(codex: Session, tmp_path: Path) -> None:
    path = put(tmp_path, "a.py", "    x = 1\nx = 1 \nx = 1\n")
    assert _apply(codex, "*** Update File: a.py", "@@", "-x = 1", "+x = 2").status == "ok"
    assert path.read_bytes() == b"    x = 1\nx = 1 \nx = 2\n"


def test_s0_33_no_level_forgives_another_letter(codex: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.py", "x = call(1)\n")
    for given in ("x = Call(1)", "x = call(l)", "x == call(1)"):
        result = _apply(codex, "*** Update File: a.py", "@@", f"-{given}", "+y")
        assert result.error is not None and result.error.code == "bad_hunk"
    assert tree(tmp_path) == {"a.py": "x = call(1)\n"}


def test_s0_34_hunks_that_change_the_number_of_lines_do_not_disturb_each_other(codex: Session, tmp_path: Path) -> None:
    """Places are found in the file as it was; the outcome is that of replacing from the last to the first."""
    choose = random.Random(34)
    for _ in range(40):
        lines = [f"line {number}" for number in range(60)]
        path = put(tmp_path, "a.txt", "\n".join(lines) + "\n")
        starts = sorted(choose.sample(range(0, 60, 6), choose.randint(2, 8)))
        replacements = [
            (start, choose.randint(1, 4), [f"new {start} {n}" for n in range(choose.randint(0, 7))]) for start in starts
        ]
        patch: list[str] = []
        for start, length, new in replacements:
            patch += ["@@", *(f"-{line}" for line in lines[start : start + length]), *(f"+{line}" for line in new)]
        assert _apply(codex, "*** Update File: a.txt", *patch).status == "ok"
        for start, length, new in reversed(replacements):
            lines[start : start + length] = new
        assert path.read_text(encoding="utf-8") == "\n".join(lines) + "\n"
