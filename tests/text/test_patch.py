"""The patch language and unified diffs as operations; whatever is wrong with a text is a `BadPatch`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.errors import BadPatch
from handrail.text.patches.operations import FileOp, PatchHunk
from handrail.text.patches.patch import parse_patch

EXAMPLE = """*** Begin Patch
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
DIFF = """diff --git a/one.txt b/one.txt
index 1111111..2222222 100644
--- a/one.txt
+++ b/one.txt
@@ -1,3 +1,3 @@ heading
 a
-b
+B
 c
@@ -10 +10 @@
-x
\\ No newline at end of file
+y
diff --git a/old.txt b/new.txt
similarity index 100%
rename from old.txt
rename to new.txt
diff --git a/e.txt b/e.txt
new file mode 100644
index 0000000..e69de29
"""
PIECES = [
    *EXAMPLE.splitlines(),
    *DIFF.splitlines(),
    "",
    " ",
    "@@",
    "@@ @@",
    "***",
    "*** ",
    "*** End of File",
    "\\",
    "-- ",
]
PIECES += [
    "@@ -1,99999999999999999999 +1 @@",
    "--- /dev/null",
    "+++ /dev/null",
    '+++ "b/\\303\\244\\',
    "@@@ -1 -1 +1 @@@",
]


def update(rows: str) -> FileOp:
    (op,) = parse_patch(f"*** Begin Patch\n*** Update File: a\n{rows}*** End Patch\n")
    return op


def why(text: str) -> tuple[int, str]:
    with pytest.raises(BadPatch) as caught:
        parse_patch(text)
    return caught.value.facts["line"], caught.value.facts["why"]


def test_the_example_of_the_grammar_is_these_operations() -> None:
    add, change, delete = parse_patch(EXAMPLE)
    assert (add.kind, add.path, add.content) == ("add", "hello.txt", ("Hello world",))
    assert (change.kind, change.path, change.move_to) == ("update", "src/app.py", "src/main.py")
    assert change.hunks == (PatchHunk((("-", 'print("Hi")'), ("+", 'print("Hello, world!")')), ("def greet():",)),)
    assert (delete.kind, delete.path) == ("delete", "obsolete.txt")
    assert [op.line for op in (add, change, delete)] == [2, 4, 9]


def test_headers_are_stacked_and_keep_their_indentation() -> None:
    (hunk,) = update("@@ class BaseClass\n@@   def method():\n-a\n+b\n").hunks
    assert hunk.headers == ("class BaseClass", "  def method():")


@pytest.mark.parametrize("mark", ["@@", "@@ ", "@@ @@", "@@ ... @@"])
def test_a_mark_without_words_is_no_header(mark: str) -> None:
    assert update(f"{mark}\n-a\n+b\n").hunks[0].headers == ()


def test_numbers_in_a_mark_are_a_hint() -> None:
    (hunk,) = update("@@ -12,3 +14,4 @@ def f():\n-a\n+b\n").hunks
    assert (hunk.line, hunk.headers) == (12, ())


def test_a_line_that_looks_like_a_mark_is_text_behind_its_sign() -> None:
    (hunk,) = update("@@\n *** End Patch\n-@@ x\n+*** Add File: y\n").hunks
    assert hunk.rows == ((" ", "*** End Patch"), ("-", "@@ x"), ("+", "*** Add File: y"))


def test_an_empty_line_inside_a_hunk_is_context_and_behind_it_is_nothing() -> None:
    one, other = update("@@\n-a\n\n+b\n\n\n@@\n-c\n\n").hunks
    assert one.rows == (("-", "a"), (" ", ""), ("+", "b"))
    assert other.rows == (("-", "c"),)


def test_the_end_of_the_file_belongs_to_its_hunk() -> None:
    one, other = update("@@\n-a\n*** End of File\n\n@@\n-b\n").hunks
    assert (one.at_end, other.at_end) == (True, False)


def test_carriage_returns_and_a_missing_last_newline_are_no_matter() -> None:
    assert parse_patch(EXAMPLE.replace("\n", "\r\n").rstrip()) == parse_patch(EXAMPLE)
    assert [op.path for op in parse_patch("\n \n" + EXAMPLE + "\n\n")] == [op.path for op in parse_patch(EXAMPLE)]


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("", 1, "empty"),
        ("hello", 1, "begins with"),
        ("*** Update File: a\n", 1, "begins with"),
        ("*** Begin Patch\n*** End Patch", 2, "changes nothing"),
        ("*** Begin Patch\n*** Delete File: a\n", 2, "does not end"),
        ("*** Begin Patch\n*** Begin Patch\n*** End Patch", 2, "not part of a patch"),
        ("*** Begin Patch\n*** Add File:\n*** End Patch", 2, "path is missing"),
        ("*** Begin Patch\n*** Add File: /../a\n*** End Patch", 2, "'..'"),
        ("*** Begin Patch\n*** Add File: C:\\a\n*** End Patch", 2, "drive"),
        ("*** Begin Patch\n*** Add File: a/../../b\n*** End Patch", 2, "'..'"),
        ("*** Begin Patch\n*** Move to: a\n*** End Patch", 2, "directly below"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-a\n*** Move to: b\n*** End Patch", 5, "directly below"),
        ("*** Begin Patch\n*** Update File: a\n*** Move to: ./a\n*** End Patch", 2, "onto itself"),
        ("*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: ./a\n*** End Patch", 4, "twice"),
        ("*** Begin Patch\n*** Update File: a\n@@ f\n@@ g\n*** End Patch", 5, "no lines"),
        ("*** Begin Patch\n*** Update File: a\n*** End of File\n*** End Patch", 3, "below the lines"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-a\n*** End of File\n+b\n*** End Patch", 6, "begins with '@@'"),
        ("*** Begin Patch\n*** Update File: a\n@@\n\ta\n*** End Patch", 4, "' ', '-' or '+'"),
        ("--- a/x\n+++ b/x\n", 1, "no hunks"),
        ("--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+a\n", 1, "both names"),
        ("--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", 1, "'+' lines only"),
        ("diff --git a/x b/y\nrename from x\n", 1, "rename"),
        ("diff --git a/x b/x\nnew file mode 120000\n", 2, "link"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\nd\n", 7, "' ', '-' or '+'"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+d\n", 6, "twice"),
    ],
)
def test_a_bad_patch_is_refused_with_its_line(text: str, line: int, part: str) -> None:
    actual = why(text)
    assert actual[0] == line and part in actual[1], actual


def test_a_diff_of_git_is_the_same_operations() -> None:
    one, moved, empty = parse_patch(DIFF)
    assert (one.kind, one.path, one.final_newline) == ("update", "one.txt", True)
    assert [hunk.line for hunk in one.hunks] == [1, 10]
    assert (moved.path, moved.move_to, moved.hunks) == ("old.txt", "new.txt", ())
    assert (empty.kind, empty.path, empty.content) == ("add", "e.txt", ())


def test_counts_that_fit_decide_what_is_a_line_of_a_hunk() -> None:
    (op,) = parse_patch("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n x\n")
    assert op.hunks[0].rows == (("-", "-- old"), ("+", "++ new"), (" ", "x"))


def test_counts_that_do_not_fit_are_passed_over() -> None:
    ops = parse_patch("--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b\n--- a/y\n+++ b/y\n@@ -1,1 +1,1 @@\n-1\n+2\n+3\n")
    assert [(op.path, len(op.hunks[0].rows)) for op in ops] == [("x", 2), ("y", 3)]


def test_names_with_odd_characters_are_read_as_git_writes_them() -> None:
    (op,) = parse_patch('--- "a/\\303\\244 \\"b\\".txt"\n+++ "b/\\303\\244 \\"b\\".txt"\n@@ -1 +1 @@\n-a\n+b\n')
    assert op.path == 'ä "b".txt'


@pytest.mark.parametrize(
    "names", [("a/src/x", "src/x"), ("src/x", "b/src/x"), ("a//w/x", "b//w/x"), ("a//w/x", "/w/x")]
)
def test_a_prefix_of_one_name_alone_is_no_rename(names: tuple[str, str]) -> None:
    (op,) = parse_patch("--- {}\n+++ {}\n@@ -1 +1 @@\n-a\n+b\n".format(*names))
    assert (op.path, op.move_to) == ("/w/x" if "w" in names[0] else "src/x", None)


@pytest.mark.parametrize("name", ["a//w/x", "b//w/x", "`a//w/x`", "/w/x"])
def test_a_prefix_of_git_before_an_absolute_path_is_removed(name: str) -> None:
    (op,) = parse_patch(f"*** Begin Patch\n*** Update File: {name}\n@@\n-a\n+b\n*** End Patch\n")
    assert op.path == "/w/x"


def test_a_folder_called_a_is_not_taken_for_a_prefix_of_git() -> None:
    (op,) = parse_patch("--- a/x.txt\n+++ a/x.txt\n@@ -1 +1 @@\n-1\n+2\n")
    assert op.path == "a/x.txt"


def never_another_exception(text: str) -> None:
    try:
        ops = parse_patch(text)
    except BadPatch as error:
        ops, reason = [], error.facts["line"] >= 1 and error.facts["why"]
    else:
        reason = "parsed"
    assert reason and all(op.path for op in ops)


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=14))
def test_lines_in_any_order_are_a_patch_or_a_bad_patch(rows: list[str]) -> None:
    never_another_exception("\n".join(rows))
    never_another_exception("\n".join(["*** Begin Patch", *rows, "*** End Patch"]))
    never_another_exception("\n".join(["--- a/x", "+++ b/x", *rows]))


@given(st.sampled_from([EXAMPLE, DIFF]), st.data())
def test_a_mutated_patch_is_a_patch_or_a_bad_patch(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(st.text(max_size=4) | st.sampled_from(PIECES)) + text[at + cut :]
    never_another_exception(text)


HUNK = "@@\n one\n-two\n+2\n three"
PLAIN = f"*** Begin Patch\n*** Update File: a/b.txt\n{HUNK}\n*** End Patch\n"
UNIFIED = "--- a/a/b.txt\n+++ b/a/b.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
BLOCK = "<<<<<<< SEARCH\none\ntwo\nthree\n=======\none\n2\nthree\n>>>>>>> REPLACE"
FRAMES = {
    "markers with stars": PLAIN.replace("Patch\n", "Patch ***\n"),
    "no beginning": PLAIN.replace("*** Begin Patch\n", ""),
    "a here-document without a command": f"<<'EOF'\n{PLAIN}EOF\n",
    "padded markers": PLAIN.replace("***", "  ***"),
    "padded sections": PLAIN.replace("*** Update", "  *** Update"),
    "a padded section and end": PLAIN.replace("*** Update", "\t*** Update").replace("*** End", "\t*** End"),
    "indented": "".join(f"    {row}\n" for row in PLAIN.splitlines()),
    "stars behind a path": PLAIN.replace("b.txt", "b.txt ***"),
    "no blank in a marker": PLAIN.replace("*** Update File: ", "***Update File:"),
    "small letters": PLAIN.replace("Begin Patch", "begin patch").replace("End Patch", "end patch"),
    "a fence": f"```diff\n{PLAIN}```\n",
    "a here-document": f"apply_patch <<'EOF'\n{PLAIN}EOF\n",
    "both": f"```bash\napply_patch <<EOF\n{PLAIN}EOF\n```",
    "JSON": json.dumps(PLAIN),
    "JSON without quotes": json.dumps(PLAIN)[1:-1],
    "a path in backticks": PLAIN.replace("a/b.txt", "`a/b.txt`"),
    "a path in quotes": PLAIN.replace("a/b.txt", '"a/b.txt"'),
    "a header of git": PLAIN.replace("@@", "diff --git a/a/b.txt b/a/b.txt\nindex 1234567..89abcde 100644\n@@", 1),
    "names of git": PLAIN.replace("@@", "--- a/a/b.txt\n+++ b/a/b.txt\n@@", 1),
    "a unified diff inside": f"*** Begin Patch\n{UNIFIED}\n*** End Patch\n",
    "half a header": UNIFIED.split("\n", 1)[1],
    "a block inside": f"*** Begin Patch\n*** Update File: a/b.txt\n{BLOCK}\n*** End Patch",
}


@pytest.mark.parametrize("text", FRAMES.values(), ids=FRAMES)
def test_frames_that_models_add_are_undone(text: str) -> None:
    (plain,), (op,) = parse_patch(PLAIN), parse_patch(text)
    assert (op.kind, op.path) == (plain.kind, plain.path)
    assert [hunk.rows for hunk in op.hunks] == [hunk.rows for hunk in plain.hunks]


@pytest.mark.parametrize(
    "text",
    [
        BLOCK,  # of which file?
        f"a.txt\n{BLOCK}\n",  # a name is no marker
        "*** Begin Patch\n*** Add File: a\n+one\n",  # it may have been cut
        "*** Begin Patch\n*** Update File: a\n@@\n-a\n+b\n*** Add File: b\n+one\n",
        "*** Delete File: a\n",
        f"```\n{PLAIN}",
        json.dumps(PLAIN)[:-9],
        f"*** Begin Patch\n*** Update File: a.txt\n{BLOCK[:-10]}\n*** End Patch\n",
    ],
)
def test_a_frame_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(BadPatch):
        parse_patch(text)


def test_a_padded_mark_below_a_plain_one_is_a_line_of_its_hunk() -> None:
    (op,) = parse_patch(PLAIN.replace(" three", "  *** Update File: other\n three"))
    assert (" ", " *** Update File: other") in op.hunks[0].rows


def test_lines_of_hunks_that_look_like_frames_are_kept() -> None:
    rows = ["-```", "+~~~", " --- a", "+*** begin patch", " <<<<<<< SEARCH", "-=======", '+"\\n"']
    text = "\n".join(["*** Begin Patch", "*** Update File: a", "@@", *rows, "*** End Patch", ""])
    (op,) = parse_patch(text)
    assert [sign + row for sign, row in op.hunks[0].rows] == rows


def test_several_blocks_of_one_file_are_one_operation() -> None:
    other = BLOCK.replace("two", "four").replace("2", "4")
    section = "*** Update File: a.txt\n"
    (op,) = parse_patch(f"*** Begin Patch\n{section}{BLOCK}\n{section}{other}\n{BLOCK}\n*** End Patch\n")
    assert op.path == "a.txt" and len(op.hunks) == 3


@pytest.mark.parametrize(
    "text",
    [
        "*** Begin Patch\n*** Update File: a\n" + "<<<<<<< SEARCH\n" * 20_000 + "=======\n*** End Patch",
        "*** Begin Patch\n*** Update File: a" + " " * 100_000 + "b\n@@\n-a\n+b\n*** End Patch" + " " * 100_000 + "x",
    ],
    ids=["blocks without end", "blanks"],
)
def test_frames_are_read_in_one_pass(text: str) -> None:
    with pytest.raises(BadPatch):
        parse_patch(text)
