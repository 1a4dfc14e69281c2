"""S0-29 to S0-34: what a patch says and where it applies, in the dialect `codex`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from handrail.model import Result
from tests.seeds.golden import put, run_batch, tree


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


def test_s0_29_an_absolute_path_is_one_of_the_workspace_or_refused(codex: Session, tmp_path: Path) -> None:
    refused = _apply(codex, f"*** Add File: {tmp_path.parent}/a.txt", "+x")
    assert refused.error is not None and refused.error.code == "outside_workspace"
    assert not (tmp_path.parent / "a.txt").exists()
    assert _apply(codex, f"*** Add File: {tmp_path}/a.txt", "+x").ok
    assert tree(tmp_path) == {"a.txt": "x\n"}


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


LEVELS = {
    "exact": [("x = call(1)", "x = call(1)"), ("\tif a:  ", "\tif a:  ")],
    "trailing white space": [("x = call(1)  \t", "x = call(1)"), ("x = call(1)", "x = call(1)   ")],
    "white space on both sides": [("    x = call(1)", "x = call(1)"), ("\tx = call(1) ", "    x = call(1)")],
    "punctuation": [
        ("# it\u2019s \u201cone\u201d \u2013 two\u00a0three", '# it\'s "one" - two three'),
        ("    # a\u2014b  ", "# a-b"),
    ],
}
PUNCTUATION = {
    "-": [*range(0x2010, 0x2016), 0x2212],
    "'": [0x2018, 0x2019, 0x201A, 0x201B],
    '"': [0x201C, 0x201D, 0x201E, 0x201F],
    " ": [0x00A0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000],
}
NO_LEVEL_FORGIVES = {"-": [0x00AD, 0x2016, 0x2043], "'": [0x0060], '"': [0x00AB], " ": [0x200B]}


def _patch(name: str, *lines: str) -> dict[str, Any]:
    """A call of apply_patch that updates one file."""
    patch = "\n".join(["*** Begin Patch", f"*** Update File: {name}", "@@", *lines, "*** End Patch", ""])
    return {"id": name, "tool": "apply_patch", "arguments": {"input": patch}}


def _patched(folder: Path, files: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, tuple[str, str]]:
    """What one `handrail batch` makes of these files, each with the lines of a patch: the status and the new text."""
    for name, (text, _) in files.items():
        put(folder, name, text)
    answers = run_batch(folder, "codex", [_patch(name, *lines) for name, (_, lines) in files.items()])
    return {answer["id"]: (answer["status"], tree(folder)[answer["id"]]) for answer in answers}


@pytest.mark.parametrize("level", LEVELS)
def test_s0_33_a_line_is_found_on_each_of_the_four_levels_and_stays_as_it_is(tmp_path: Path, level: str) -> None:
    files = {
        f"{number}.py": (f"first\n{line}\nold\nlast\n", [f" {given}", "-old", "+new"])
        for number, (line, given) in enumerate(LEVELS[level])
    }
    assert _patched(tmp_path, files) == {
        f"{number}.py": ("ok", f"first\n{line}\nnew\nlast\n") for number, (line, _) in enumerate(LEVELS[level])
    }


@pytest.mark.parametrize("plain", PUNCTUATION)
def test_s0_33_every_character_of_the_table_counts_as_its_plain_one(tmp_path: Path, plain: str) -> None:
    files = {
        f"{code:04x}.py": (f"# a{chr(code)}b\nold{chr(code)}x\n", [f" # a{plain}b", f"-old{plain}x", "+new"])
        for code in PUNCTUATION[plain]
    }
    assert _patched(tmp_path, files) == {
        f"{code:04x}.py": ("ok", f"# a{chr(code)}b\nnew\n") for code in PUNCTUATION[plain]
    }


@pytest.mark.parametrize("plain", NO_LEVEL_FORGIVES)
def test_s0_33_characters_that_only_look_alike_are_not_taken_for_the_plain_one(tmp_path: Path, plain: str) -> None:
    texts = {f"{code:04x}.py": f"# a{chr(code)}b\nold\n" for code in NO_LEVEL_FORGIVES[plain]}
    files = {name: (text, [f" # a{plain}b", "-old", "+new"]) for name, text in texts.items()}
    assert _patched(tmp_path, files) == {name: ("error", text) for name, text in texts.items()}


STRICTEST_FIRST = [("x = 'a'", "y"), ("x = 'a' ", "y"), ("  x = 'a'", "  y"), ("x = \u2018a\u2019", "y")]
"""For each level a line that is found there by `x = 'a'`, and the line that takes its place."""


@pytest.mark.parametrize("wins", range(4), ids=list(LEVELS))
def test_s0_33_the_strictest_level_that_fits_wins_over_looser_lines_before_it(tmp_path: Path, wins: int) -> None:
    looser = [line for line, _ in reversed(STRICTEST_FIRST[wins + 1 :])]
    line, replaced = STRICTEST_FIRST[wins]
    text, changed = ("".join(f"{one}\n" for one in [*looser, last]) for last in (line, replaced))
    assert _patched(tmp_path, {"a.py": (text, ["-x = 'a'", "+y"])}) == {"a.py": ("ok", changed)}


def test_s0_33_no_level_forgives_another_letter(tmp_path: Path) -> None:
    text = "x = call(1)\n"
    files = {
        f"{number}.py": (text, [f"-{given}", "+y"])
        for number, given in enumerate(("x = Call(1)", "x = call(l)", "x == call(1)", "x =  call(1)"))
    }
    assert _patched(tmp_path, files) == dict.fromkeys(files, ("error", text))


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
