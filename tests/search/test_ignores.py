"""Ignore files: the same verdicts as git and ripgrep, on generated trees."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handrail.search.ignores import IgnoreFile, list_lines_above, read_lines
from handrail.search.receipt import Budget
from handrail.search.tree import SearchTree, Visibility
from handrail.search.walk import Listings
from handrail.workspace import Root, Workspace
from tests import sizes
from tests.command import TIMEOUT

GIT = shutil.which("git")
RG = shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))
DIRECTORIES = ["", "a/", "b/", "a/b/", "a/.h/", "b/a/", "a/b/a/"]
FILES = ["a", "b", "ab", "b.txt", ".h", "c d"]
PART = st.sampled_from(["a", "b", "ab", "*", "**", "a*", "?", "[ab]", ".h", "*.txt", "b.txt", "[!a]*", "c d", "\\a"])
LINE = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", "", "!", "#"]),
    st.sampled_from(["", "", "/"]),
    st.lists(PART, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "", "/", " ", "\r"]),
)
RULES = st.lists(LINE, min_size=1, max_size=5).map("\n".join)
PLACES = st.dictionaries(st.sampled_from(DIRECTORIES), RULES, min_size=1, max_size=3)


def grown(top: Path, rules: Mapping[str, Mapping[str, str]]) -> None:
    """The tree, with its ignore files: by directory, then by name."""
    for directory in DIRECTORIES:
        (top / directory).mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if not any(other.startswith(f"{directory}{name}/") for other in DIRECTORIES):
                (top / directory / name).write_bytes(b"")
    for directory, files in rules.items():
        for name, text in files.items():
            (top / directory / name).write_text(text, encoding="utf-8", newline="")


def walked(top: Path, start: str = ".", hidden: bool = True) -> list[str]:
    workspace = Workspace([Root(str(top))])
    try:
        tree = SearchTree(workspace, workspace.resolve(start), Listings(), Visibility())
        walk = tree.walk(Budget(60))
        prefix = "" if start == "." else start.rstrip("/") + "/"
        return sorted(
            prefix + here.prefix + name
            for here in walk.directories(tree.look(hidden=hidden, ignored=False))
            for name in here.files
        )
    finally:
        workspace.close()


def asked(words: list[str], top: Path) -> list[str]:
    """What another program lists, one name after the other."""
    run = subprocess.run(words, cwd=top, capture_output=True, check=False)
    assert run.returncode in (0, 1), run.stderr
    return sorted(name.decode().removeprefix("./") for name in run.stdout.split(b"\0")[:-1])


@pytest.mark.skipif(GIT is None, reason="git is not installed: the comparison with it is left out")
@settings(max_examples=sizes.pick(30, 80), deadline=None, suppress_health_check=list(HealthCheck))
@given(PLACES, st.sampled_from([".", "a", "a/b", "b"]))
def test_git_leaves_out_the_same_files(rules: Mapping[str, str], start: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder).resolve()
        subprocess.run([GIT or "git", "init", "-q", "."], cwd=top, check=True, env={"PATH": "", "HOME": folder})
        grown(top, {directory: {".gitignore": text} for directory, text in rules.items()})
        words = ["ls-files", "--others", "--exclude-standard", "-z", "--", start]
        expected = asked([GIT or "git", "-c", "core.excludesFile=", *words], top)
        visible = [name for name in expected if ".git" not in name.split("/")]
        actual = walked(top, start)
        if start != "." and not expected:  # git does not look below a directory that is ignored; here it was asked for
            return
        assert actual == visible, rules


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed: the comparison with it is left out")
@settings(max_examples=sizes.pick(30, 80), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(
        st.sampled_from(DIRECTORIES),
        st.dictionaries(st.sampled_from([".gitignore", ".ignore", ".rgignore"]), RULES, min_size=1),
        min_size=1,
        max_size=3,
    ),
    st.sets(st.sampled_from(DIRECTORIES), max_size=2),
    st.booleans(),
)
def test_ripgrep_leaves_out_the_same_files(
    rules: Mapping[str, Mapping[str, str]], repositories: set[str], hidden: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder).resolve()
        grown(top, rules)
        words = [RG or "rg", "--no-config", "--files", "--null", "--no-ignore-global"]
        if (
            repositories
        ):  # only a repository has others inside: outside of one, ripgrep must be told to obey `.gitignore`
            for directory in {"", *repositories}:
                (top / directory / ".git").mkdir()
        else:
            words.append("--no-require-git")
        expected = asked([*words, *(["--hidden", "--glob=!.git"] if hidden else []), "."], top)
        assert walked(top, hidden=hidden) == expected, rules


def test_rules_above_the_workspace_count_up_to_the_repository(tmp_path: Path) -> None:
    inner = tmp_path / "repo/src/app"
    inner.mkdir(parents=True)
    (tmp_path / "repo/.git/info").mkdir(parents=True)
    (tmp_path / "repo/.git/info/exclude").write_text("private\n", encoding="utf-8")
    (tmp_path / "repo/.gitignore").write_text("*.log\n/src/app/gen\nsrc/*/tmp/\n!keep.log\n", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("*\n", encoding="utf-8")
    for name in ("a.log", "keep.log", "gen", "private", "ok"):
        (inner / name).write_bytes(b"")
    (inner / "tmp").mkdir()
    (inner / "tmp/x").write_bytes(b"")
    assert walked(inner) == ["keep.log", "ok"]
    assert list_lines_above(str(inner), str(inner))[0] == "private"


def test_ignore_files_of_git_end_at_a_repository_inside(tmp_path: Path) -> None:
    for name in ("outer/inner/deep/a.log", "outer/a.log", "outer/inner/deep/a.tmp", "outer/inner/deep/b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    for directory, text in (("outer", "outside\n"), ("outer/inner", "b\n")):
        (tmp_path / directory / ".git/info").mkdir(parents=True)
        (tmp_path / directory / ".git/info/exclude").write_text(text, encoding="ascii")
    (tmp_path / "outer/.gitignore").write_text("*.log\n", encoding="ascii")
    (tmp_path / "outer/.ignore").write_text("*.tmp\n", encoding="ascii")
    assert walked(tmp_path / "outer") == [".gitignore", ".ignore", "inner/deep/a.log", "inner/deep/b"]
    assert walked(tmp_path / "outer", "inner/deep") == ["inner/deep/a.log"]


def test_of_several_lines_the_last_one_counts() -> None:
    rules = IgnoreFile(["*.log", "!keep.log", "keep.log/"])
    assert rules.is_ignored("a.log") is True
    assert rules.is_ignored("keep.log") is False
    assert rules.is_ignored("keep.log/") is True
    assert rules.is_ignored("other") is None


@pytest.mark.parametrize("line", ["", "#x", "!", "/", "   ", "\\", "[", "a[", "***", "!!a", "\udcff"])
def test_a_line_that_means_little_breaks_nothing(line: str) -> None:
    IgnoreFile([line, "real"]).is_ignored("x")
    assert IgnoreFile([line, "real"]).is_ignored("real") is True


def test_what_is_no_file_holds_no_rules(tmp_path: Path) -> None:
    assert read_lines(str(tmp_path)) == ()
    assert read_lines(str(tmp_path / "missing")) == ()
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbfa\n\xff\n")
    assert read_lines(str(tmp_path / "bom")) == ("a", "\udcff", "")


@pytest.mark.parametrize("line", ["*a" * 14 + "b", "**/a/" * 14 + "b", "[!b]*" * 14 + "c"])
def test_a_hostile_line_does_not_hang_a_walk(line: str) -> None:
    """In a process of its own, since what hangs in a regular expression can only be ended from outside."""
    code = (
        "import sys; from handrail.search.ignores import IgnoreFile; rules = IgnoreFile([sys.argv[1]]); "
        "print(rules.is_ignored('a' * 200), rules.is_ignored('/'.join('a' * 60)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, line], capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    assert run.stdout.split() == ["None", "None"]
