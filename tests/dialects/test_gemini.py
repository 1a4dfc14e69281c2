"""The dialect `gemini`: the tools of Gemini CLI, under today's names and earlier ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from handrail.model import Result
from tests.command import TIMEOUT
from tests.seeds.golden import put, tree

Make = Callable[..., Session]
Call = Callable[..., Result]


@pytest.fixture
def session(make_session: Make) -> Session:
    return make_session(dialect="gemini", durable=False)


@pytest.fixture
def call(session: Session) -> Call:
    """`call("glob", pattern="*.py")`."""

    def make(tool: str, **arguments: Any) -> Result:
        return session.call(tool, arguments)

    return make


def _shown(result: Result) -> str:
    assert result.ok, result.text
    return result.text


def test_these_are_the_tools_and_models_are_told_of_no_old_name(session: Session) -> None:
    specs = {spec.name: set(spec.schema["properties"]) for spec in session.specs()}
    assert specs == {
        "read_file": {"file_path", "start_line", "end_line", "pages"},
        "write_file": {"file_path", "content"},
        "replace": {"file_path", "instruction", "old_string", "new_string", "allow_multiple"},
        "list_directory": {"dir_path", "ignore", "file_filtering_options"},
        "glob": {"pattern", "dir_path", "case_sensitive", "respect_git_ignore"},
        "grep_search": {
            "pattern",
            "dir_path",
            "include_pattern",
            "names_only",
            "case_sensitive",
            "fixed_strings",
            "context",
            "before",
            "after",
            "no_ignore",
            "total_max_matches",
        },
        "run_shell_command": {"command", "description", "dir_path", "is_background"},
    }


def test_no_answer_names_a_tool_or_an_argument_that_models_do_not_have_here(session: Session) -> None:
    words = session.dialect.templates.messages
    used = {"read", "write", "edit", "ls", "glob", "grep", "bash", "coverage"}
    used_words = {key: text for key, text in words.items() if key.partition(".")[0] in used}
    used_words |= {
        f"errors.{code}": words[f"errors.{code}"] for code in ("no_match", "many_matches", "empty_old", "past_end")
    }
    used_words |= {
        f"notes.{code}": words[f"notes.{code}"] for code in ("more_lines", "more_paths", "more_entries", "kept")
    }
    ours = ("offset=", "limit=", "replace_all", "BashOutput", "literal:", "use Read", "use Write", "include_ignored:")
    del (
        used_words["notes.kept"],
        used_words["bash.kept"],
    )  # for commands that are kept when their time is up: not offered here
    assert [(key, name) for key, text in used_words.items() for name in ours if name in text] == []


# read_file


def test_a_file_is_shown_without_line_numbers(call: Call, tmp_path: Path) -> None:
    put(tmp_path, "a.py", "def f():\n    return 1\n")
    for path in ("a.py", str(tmp_path / "a.py")):
        result = call("read_file", file_path=path)
        assert (result.text, result.status) == ("def f():\n    return 1", "ok")


def test_lines_are_counted_from_one_and_the_last_is_included(call: Call, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "one\ntwo\nthree\nfour\n")
    assert _shown(call("read_file", file_path="a.txt", start_line=2, end_line=3)) == (
        "two\nthree\n(More lines follow: start_line=4)"
    )
    assert _shown(call("read_file", file_path="a.txt", start_line=3)) == "three\nfour"
    assert _shown(call("read_file", file_path="a.txt", end_line=1)) == "one\n(More lines follow: start_line=2)"
    assert _shown(call("read_file", file_path="a.txt", start_line=4, end_line=400)) == "four"
    assert _shown(call("read_file", file_path="a.txt", start_line="2", end_line=2.0)).startswith("two\n(More")


@pytest.mark.parametrize(("first", "last"), [(3, 2), (-1, 2), (1, 0), (1, -1), (1, "x")])
def test_a_range_that_is_none_is_refused(call: Call, tmp_path: Path, first: int, last: object) -> None:
    put(tmp_path, "a.txt", "one\ntwo\nthree\n")
    result = call("read_file", file_path="a.txt", start_line=first, end_line=last)
    assert result.error and result.error.code == "bad_arguments"
    assert "offset" not in result.text and ("end_line" in result.text or "last line" in result.text)


def test_the_names_and_the_counting_of_earlier_versions_are_understood(call: Call, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "one\ntwo\nthree\n")
    assert _shown(call("read_file", absolute_path=str(tmp_path / "a.txt"), offset=0, limit=1)).startswith("one\n(More")
    assert _shown(call("read_file", path="a.txt", offset=2, limit=5)) == "three"
    assert _shown(call("read_file", path="a.txt", start_line=3, offset=0)) == "three"  # today's name counts


def test_a_long_file_comes_in_pages_that_fit_together(call: Call, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "".join(f"{number}\n" for number in range(1, 4501)))
    first = call("read_file", file_path="a.txt")
    assert first.status == "partial" and first.text.endswith(
        "\n2000\n(More lines follow; 2500 left of 4500: go on with start_line=2001)"
    )
    assert _shown(call("read_file", file_path="a.txt", start_line=4001)).endswith("\n4499\n4500")


def test_a_picture_is_shown_as_one(call: Call, tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (3, 2)).save(tmp_path / "a.png")
    result = call("read_file", file_path="a.png")
    assert [block["type"] for block in result.blocks] == ["text", "image"]


# write_file and replace


def test_a_file_is_written_with_the_directories_on_the_way(call: Call, tmp_path: Path) -> None:
    assert _shown(call("write_file", file_path="sub/a.txt", content="one\ntwo\n")) == (
        "Created the new file sub/a.txt and wrote 2 lines to it."
    )
    assert _shown(call("write_file", file_path="sub/a.txt", content="three\n")) == "Overwrote sub/a.txt with 1 line."
    assert tree(tmp_path) == {"sub/a.txt": "three\n"}


@pytest.mark.parametrize("tool", ["write_file", "replace"])
def test_a_file_must_be_read_before_it_is_changed(call: Call, tmp_path: Path, tool: str) -> None:
    put(tmp_path, "a.txt", "only one\n")
    change = {"content": "only two\n"} if tool == "write_file" else {"old_string": "one", "new_string": "two"}
    refused = call(tool, file_path="a.txt", **change).text
    assert refused.startswith("a.txt was not changed: read it first, then call again.")
    _shown(call("read_file", file_path="a.txt"))
    _shown(call(tool, file_path="a.txt", **change))
    assert tree(tmp_path) == {"a.txt": "only two\n"}


@pytest.fixture
def seen(call: Call, tmp_path: Path) -> Path:
    path = put(tmp_path, "a.txt", "one\r\ntwo\r\ntwo\r\nthree")
    _shown(call("read_file", file_path="a.txt"))
    return path


def test_one_occurrence_is_replaced_and_the_rest_keeps_its_bytes(call: Call, seen: Path) -> None:
    text = _shown(call("replace", file_path="a.txt", instruction="count", old_string="one\n", new_string="1\n"))
    assert text.startswith("Modified a.txt: 1 replacement. The text there now:\n1\ntwo")
    assert seen.read_bytes() == b"1\r\ntwo\r\ntwo\r\nthree"


def test_several_occurrences_need_a_word(call: Call, seen: Path) -> None:
    two = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}
    result = call("replace", **two)
    assert result.status == "error"
    assert result.text.startswith(
        "Failed to edit, expected 1 occurrence of old_string in a.txt but found 2 (lines 2, 3)."
    )
    assert "allow_multiple" in result.text
    assert _shown(call("replace", **two, allow_multiple=True)).startswith("Modified a.txt: 2 replacements.")
    assert seen.read_bytes() == b"one\r\n2\r\n2\r\nthree"


@pytest.mark.parametrize("wrong", [1, 3])
def test_expected_replacements_must_be_what_there_is(call: Call, seen: Path, wrong: int) -> None:
    two = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}
    result = call("replace", **two, expected_replacements=wrong)
    assert (result.status, "found 2" in result.text) == ("error", True)
    assert seen.read_bytes() == b"one\r\ntwo\r\ntwo\r\nthree"
    _shown(call("replace", **two, expected_replacements=2))
    assert seen.read_bytes() == b"one\r\n2\r\n2\r\nthree"


def test_expected_replacements_holds_with_allow_multiple_too(call: Call, seen: Path) -> None:
    result = call(
        "replace",
        file_path="a.txt",
        old_string="two",
        new_string="2",
        allow_multiple=True,
        expected_replacements=1,
    )
    assert result.error and result.error.code == "other_count"
    assert seen.read_bytes() == b"one\r\ntwo\r\ntwo\r\nthree"


def test_a_text_that_is_not_there_is_told_with_the_nearest_place(call: Call, seen: Path) -> None:
    result = call("replace", file_path="a.txt", old_string="threw", new_string="3")
    assert result.text.startswith("Failed to edit, 0 occurrences of old_string found in a.txt")
    assert seen.read_bytes() == b"one\r\ntwo\r\ntwo\r\nthree"


def test_an_empty_old_string_creates_a_file_and_never_replaces_one(call: Call, tmp_path: Path) -> None:
    new = {"file_path": "new/a.txt", "old_string": ""}
    assert _shown(call("replace", **new, new_string="one\n")) == "Created the new file new/a.txt."
    assert call("replace", **new, new_string="two\n").status == "error"
    assert tree(tmp_path) == {"new/a.txt": "one\n"}


# list_directory, glob, grep_search


@pytest.fixture
def project(tmp_path: Path) -> Path:
    put(tmp_path, ".gitignore", "*.log\n")
    put(tmp_path, "run.log", "Needle ignored\n")
    put(tmp_path, ".env.example", "NEEDLE=hidden\n")
    put(tmp_path, "src/Main.py", "# needle one\nx = 1\n# Needle two\n")
    put(tmp_path, "src/node_modules/x.py", "needle elsewhere\n")
    put(tmp_path, "README.md", "no such thing\n")
    for age, name in enumerate(["README.md", "src/Main.py", ".env.example"]):
        os.utime(tmp_path / name, (time.time() - 1000 + age, time.time() - 1000 + age))
    return tmp_path


def test_a_directory_is_listed_directories_first_hidden_files_too(call: Call, project: Path) -> None:
    assert _shown(call("list_directory", dir_path=".")) == (
        "Directory listing for .:\n[DIR] src\n.env.example\n.gitignore\nREADME.md\n\n(1 ignored)"
    )


@pytest.mark.parametrize(
    "how", [{"file_filtering_options": {"respect_git_ignore": False}}, {"respect_git_ignore": False}]
)
def test_ignored_files_are_listed_when_asked_for(call: Call, project: Path, how: dict[str, Any]) -> None:
    assert "\nrun.log" in _shown(call("list_directory", dir_path=".", **how))
    assert "run.log" not in _shown(call("list_directory", dir_path=".", file_filtering_options={}))


def test_globs_leave_names_out_of_a_listing(call: Call, project: Path) -> None:
    assert _shown(call("list_directory", path=str(project), ignore=["*.md", ".*"])) == (
        f"Directory listing for {project}:\n[DIR] src\n\n(1 ignored)"
    )


def test_filtering_options_that_are_no_object_are_refused(call: Call, project: Path) -> None:
    assert call("list_directory", dir_path=".", file_filtering_options="all").status == "error"
    result = call("list_directory", dir_path=".", file_filtering_options={"respect_everything": True})
    assert "respect_everything" in result.text and result.status == "error"


def test_glob_gives_absolute_paths_newest_first_in_either_case(call: Call, project: Path) -> None:
    result = call("glob", pattern="**/{main.PY,ReadMe.*}")
    assert result.data["paths"] == [str(project / "src/Main.py"), str(project / "README.md")]
    assert call("glob", pattern="**/main.py", case_sensitive=True).data["paths"] == []
    assert call("glob", pattern="**/Main.py", case_sensitive=True).data["paths"] == [str(project / "src/Main.py")]


@pytest.mark.parametrize(
    ("pattern", "actual"),
    [
        ("[a-m]ain.py", True),
        ("[!a-l]ain.py", True),
        ("[!a-m]ain.py", False),
        ("[-m]ain.py", True),
        ("[m-]ain.py", True),
        ("[^x]AIN.?Y", True),
        ("\\main.py", True),
        ("\\Main.py", True),
    ],
)
def test_classes_and_escapes_of_a_glob_keep_their_meaning_in_either_case(
    call: Call, project: Path, pattern: str, actual: bool
) -> None:
    assert bool(call("glob", pattern=pattern, dir_path="src").data["paths"]) == actual


def test_glob_passes_over_what_is_ignored_and_libraries(call: Call, project: Path) -> None:
    assert call("glob", pattern="**/*.log").data["paths"] == []
    assert call("glob", pattern="**/*.log", respect_git_ignore=False).data["paths"] == [str(project / "run.log")]
    assert call("glob", pattern="**/x.py", respect_gemini_ignore=True).data["paths"] == []


def test_grep_search_takes_capital_and_small_letters_as_equal(call: Call, project: Path) -> None:
    result = call("grep_search", pattern="n.edle", dir_path="src", include_pattern="M*.py")
    assert _shown(result) == "src/Main.py:L1: # needle one\nsrc/Main.py:L3: # Needle two"
    result = call("grep_search", pattern="Needle", dir_path="src/Main.py", case_sensitive=True)
    assert _shown(result) == "src/Main.py:L3: # Needle two"


def test_grep_search_has_the_switches_of_the_current_tool(call: Call, project: Path) -> None:
    names = call("grep_search", pattern="needle two", names_only=True)
    assert names.data["files"] == ["src/Main.py"]
    assert "matches" in call("grep_search", pattern="needle two", names_only=False).data
    assert call("grep_search", pattern="n.edle", fixed_strings=True).data["matches"] == []
    around = call("grep_search", pattern="x = 1", context=1)
    assert _shown(around).startswith("src/Main.py-L1- # needle one\nsrc/Main.py:L2: x = 1\nsrc/Main.py-L3- ")
    assert "run.log" in _shown(call("grep_search", pattern="ignored", no_ignore=True))
    assert ".env.example:L1: " in _shown(call("grep_search", pattern="hidden"))
    few = call("grep_search", pattern="needle", dir_path="src/Main.py", total_max_matches=1)
    assert len(few.data["matches"]) == 1 and few.text.endswith("raise total_max_matches, or narrow the search.)")


def test_search_file_content_is_grep_search(call: Call, project: Path) -> None:
    old = call("search_file_content", pattern="needle two", path="src", include="*.py")
    assert old.text == call("grep_search", pattern="needle two", dir_path="src", include_pattern="*.py").text
    assert old.tool == "search_file_content"


def test_what_the_engine_cannot_do_is_refused_and_not_ignored(call: Call, project: Path) -> None:
    for more in ({"exclude_pattern": "x"}, {"max_matches_per_file": 1}):
        assert call("grep_search", pattern="needle", **more).error is not None


# run_shell_command


def test_a_command_runs_in_the_directory_and_its_description_changes_nothing(call: Call, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for where in ("dir_path", "directory"):
        result = call("run_shell_command", command="pwd", description="Where am I?", **{where: "sub"})
        assert (result.text, result.status) == (f"Output: {tmp_path}/sub", "ok")
    assert _shown(call("run_shell_command", command="true")) == "Output: (empty)"


def test_a_command_that_fails_says_its_exit_code_or_signal(call: Call) -> None:
    assert (
        _shown(call("run_shell_command", command="echo out; echo err >&2; exit 3")) == "Output: out\nerr\nExit Code: 3"
    )
    assert "SIGTERM" in _shown(call("run_shell_command", command="kill -TERM $$"))


def test_a_command_in_the_background_writes_a_log_that_can_be_read(call: Call) -> None:
    started = call("run_shell_command", command="echo ready; sleep 60", is_background=True)
    log = started.data["log"]
    assert _shown(started).endswith(f"Its output goes to {log}: read it with read_file.")
    until = time.monotonic() + TIMEOUT
    while "ready" not in call("read_file", file_path=log).text:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_nothing_outside_the_workspace_is_reached(make_session: Make, tmp_path: Path) -> None:
    secret = put(tmp_path, "secret", "secret\n")
    (tmp_path / "project").mkdir()
    session = make_session(tmp_path / "project", "gemini", durable=False)
    for tool, arguments in [
        ("read_file", {"file_path": "../secret"}),
        ("read_file", {"absolute_path": str(secret)}),
        ("write_file", {"path": str(secret), "content": "x"}),
        ("replace", {"path": str(secret), "old_string": "secret", "new_string": "x"}),
        ("list_directory", {"path": ".."}),
        ("glob", {"pattern": "*", "path": ".."}),
        ("search_file_content", {"pattern": "secret", "path": ".."}),
        ("run_shell_command", {"command": "cat secret", "directory": ".."}),
    ]:
        result = session.call(tool, arguments)
        assert result.status == "denied", (tool, result.text)
    assert secret.read_text(encoding="utf-8") == "secret\n"
