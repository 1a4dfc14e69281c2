"""Globs mean what they say: against a matcher that tries everything, and against ripgrep."""

from __future__ import annotations

import shutil
import string
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from handrail.text.globs import BadGlob, Glob, compile_filter, compile_glob, expand_braces, get_fixed_part
from tests import sizes

RG = shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))

# A name of a pattern is a sequence of atoms: a character, "*", "?", a set of characters, or alternatives of such.
Atom = str | frozenset[str] | tuple[str, frozenset[str]] | list[Sequence["Atom"]]
LETTER = st.sampled_from("ab.")
SIMPLE = st.one_of(
    LETTER,
    st.just("?"),
    st.frozensets(st.sampled_from("ab"), min_size=1),
    st.frozensets(st.sampled_from("ab"), min_size=1).map(lambda chars: ("not", chars)),
)
CHOICE = st.lists(st.lists(SIMPLE, max_size=2), min_size=2, max_size=3)
NAME = st.lists(st.one_of(SIMPLE, st.just("*"), CHOICE), min_size=1, max_size=4)
PATTERN = st.lists(st.one_of(NAME, st.just("**")), min_size=1, max_size=4)
NAMES = ["a", "b", "ab", "ba", "a.b", ".a", ".ab", "abb", "b.a"]
PATHS = ["/".join(names) for count in (1, 2, 3) for names in product(NAMES[:6], repeat=count)] + NAMES


def written(pattern: Sequence[Any]) -> str:
    return "/".join("**" if name == "**" else "".join(map(_atom, name)) for name in pattern)


def _atom(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    if isinstance(atom, frozenset):
        return f"[{''.join(sorted(atom))}]"
    if isinstance(atom, tuple):
        return f"[!{''.join(sorted(atom[1]))}]"
    return "{" + ",".join("".join(map(_atom, part)) for part in atom) + "}"


def spelled_out(atoms: Sequence[Atom]) -> Iterator[list[Atom]]:
    """The sequences without alternatives that a name stands for."""
    if not atoms:
        yield []
        return
    first, rest = atoms[0], atoms[1:]
    for tail in spelled_out(rest):
        for head in first if isinstance(first, list) else [[first]]:
            yield [*head, *tail]


def tried(atoms: Sequence[Atom], name: str, hidden: bool) -> bool:
    if not hidden and name.startswith(".") and atoms and atoms[0] != ".":
        return False
    return _tried(atoms, name)


def _tried(atoms: Sequence[Atom], name: str) -> bool:
    if not atoms:
        return not name
    first = atoms[0]
    if first == "*":
        return any(_tried(atoms[1:], name[at:]) for at in range(len(name) + 1))
    if not name:
        return False
    if isinstance(first, str):
        fits = first in ("?", name[0])
    elif isinstance(first, frozenset):
        fits = name[0] in first
    else:
        fits = name[0] not in first[1]
    return fits and _tried(atoms[1:], name[1:])


def by_force(pattern: Sequence[Any], names: Sequence[str], hidden: bool) -> bool:
    if not pattern:
        return not names
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(names) and all(hidden or not name.startswith(".") for name in names)
        if by_force(pattern[1:], names, hidden):
            return True
        return bool(names) and (hidden or names[0][0] != ".") and by_force(pattern, names[1:], hidden)
    return bool(names) and tried(pattern[0], names[0], hidden) and by_force(pattern[1:], names[1:], hidden)


def alternatives(pattern: Sequence[Any]) -> Iterator[list[object]]:
    choices = [["**"] if name == "**" else [_squeezed(atoms) for atoms in spelled_out(name)] for name in pattern]
    for actual in product(*choices):
        yield [name for name in actual if name not in ([], ["."])]  # as in `a//b` and `a/./b`


def _squeezed(atoms: list[Atom]) -> list[Atom] | str:
    return "**" if len(atoms) == 2 and atoms == ["*", "*"] else atoms


@settings(max_examples=sizes.pick(100, 400), deadline=None)
@given(PATTERN, st.booleans())
def test_a_glob_matches_what_trying_everything_matches(pattern: Sequence[Any], hidden: bool) -> None:
    text = written(pattern)
    meant = list(alternatives(pattern))
    assume(len(meant) < 500)  # more of them are refused
    if any(not names or [".", "."] in names for names in meant):
        with pytest.raises(BadGlob):
            Glob(text, hidden=hidden)
        return
    glob = Glob(text, hidden=hidden)
    for path in PATHS:
        expected = any(by_force(names, path.split("/"), hidden) for names in meant)
        assert glob.match(path) == expected, (text, path)


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed: the comparison with it is left out")
@settings(max_examples=sizes.pick(25, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PATTERN)
def test_ripgrep_finds_the_same_files(tmp_path: Path, pattern: Sequence[Any]) -> None:
    if any(not names or [".", "."] in names for names in alternatives(pattern)) or "//" in (text := written(pattern)):
        return
    if "/./" in f"/{text}/" or "{," in text or ",," in text or ",}" in text or "[!" in text:
        return  # ripgrep passes over no such names, knows no empty alternatives, and lets `[!a]` stand for a slash
    if not (tmp_path / "a").exists():
        for path in [*(f"a/{name}" for name in NAMES), "a.b/ab/a", ".a/b", "b/ba/.ab", "ba", "abb"]:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(b"")
    run = subprocess.run(
        [RG or "rg", "--no-config", "--files", "--hidden", "--no-ignore", "--null", "-g", "/" + text],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        check=False,
    )
    assert run.returncode in (0, 1)
    listed = sorted(path.decode() for path in run.stdout.split(b"\0")[:-1])
    glob = Glob(text, hidden=True)
    files = (str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert sorted(path for path in files if glob.match(path)) == listed, text


def test_a_star_stays_in_its_directory_and_two_cross_them() -> None:
    assert Glob("agents/*.py").match("agents/a.py")
    assert not Glob("agents/*.py").match("agents/deep/a.py")
    assert Glob("agents/**/*.py").match("agents/a.py")
    assert Glob("agents/**/*.py").match("agents/x/y/a.py")
    assert not Glob("agents/**").match("agents")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("[]a]", "]", "b"),
        ("[!]a]", "b", "]"),
        ("[^a]", "b", "a"),
        ("[a-]", "-", "b"),
        ("[b-a]x", "bx", "ax"),
        ("[", "[", "a"),
        ("a{", "a{", "a"),
        ("{a", "{a", "a"),
        ("{a}", "a", "{a}"),
        ("[[:alpha:]]", "x", "1"),
        ("[![:digit:]_]", "x", "_"),
        ("[[:nothing:]]", "", "n"),
        ("[[:]x", ":x", "x"),
        ("[\\]]", "]", "\\"),
        ("[\\\\-^]", "]", "["),
        ("[a-\\c]", "b", "-"),
        ("{a,{b,c}d}", "cd", "c"),
        (r"\*", "*", "a"),
        (r"a\{b,c}", "a{b,c}", "ab"),
        ("a\\", "a\\", "a"),
        ("*\n?", "x\ny", "x\n"),
        ("[!a]", "\udcff", "a"),
        ("a***b", "axb", "a/b"),
    ],
)
def test_odd_patterns_have_one_meaning(pattern: str, yes: str, no: str) -> None:
    assert not yes or Glob(pattern).match(yes)
    assert not Glob(pattern).match(no)


@pytest.mark.parametrize(
    "pattern", ["[", "x[a", "[z-a]", "[!z-a]", "{a,b", "a,b}", "{a,{b}", "a\\", "[[:nothing:]]", "[a/b]"]
)
def test_a_pattern_of_a_caller_must_be_well_formed(pattern: str) -> None:
    with pytest.raises(BadGlob):
        compile_glob(pattern)
    with pytest.raises(BadGlob):
        compile_filter(pattern)


def test_letters_of_either_case_match_also_in_classes() -> None:
    for pattern in ("[a-c]x", "[[:upper:]]x", "Bx", "[!D]X"):
        glob = compile_glob(pattern, ignore_case=True)
        assert glob.match("bx") and glob.match("BX") and not glob.match("dy"), pattern
    assert not compile_glob("[!b]", ignore_case=True).match("B")


CLASS_MEMBERS = [
    "a",
    "b-d",
    "[:alpha:]",
    "[:digit:]",
    "[:upper:]",
    "[:punct:]",
    r"\]",
    r"\\",
    "-",
    "x",
    r"\b-\d",
    "[",
    "0-9",
]


@settings(max_examples=sizes.pick(60, 400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), st.lists(st.sampled_from(CLASS_MEMBERS), min_size=1, max_size=4))
def test_classes_mean_what_they_mean_to_git(tmp_path: Path, negated: bool, members: list[str]) -> None:
    pattern = f"f[{'!' if negated else ''}{''.join(members)}]g"
    names = [f"f{char}{end}g" for end in ("", "]") for char in string.printable if char not in "/\n\r\t\x0b\x0c"]
    if not (tmp_path / ".git").exists():
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(pattern + "\n", encoding="ascii")
    run = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(names).encode(),
        stdout=subprocess.PIPE,
        check=False,
    )
    glob = Glob(pattern, hidden=True)
    assert sorted(name for name in names if glob.match(name)) == sorted(run.stdout.decode().split("\0")[:-1]), pattern


_SHAPES = ["{}", "{}*", "*{}", "*{}*", "?{}", "{}/*", "*/{}", "**/{}", "{}/**", "**/{}/*", "**/{}/**/*", "*/{}/**"]
_PARTS = [
    "ab",
    "a*b",
    "a?",
    "[ab]b",
    "[!a]b",
    "[^a]*",
    "[A-Z]?",
    "[[:upper:]]*",
    "\\a*",
    "a\\*",
    "[]-]",
    "[a-]b",
    "**b",
]
_NAMES = ["ab", "aB", "Ab", "b", "a*", "aab", "axb", "]", "-", "-b", "xb", ".ab", "a b"]
_PATHS = [
    *_NAMES,
    *(f"d/{name}" for name in _NAMES),
    *(f"x/{name}/y" for name in _NAMES),
    *(f"x/{name}/y/z" for name in ["b", "cd"]),
]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: the comparison with it is left out")
@pytest.mark.parametrize(("shape", "part"), sizes.spread([(shape, part) for shape in _SHAPES for part in _PARTS], 16))
def test_paths_match_as_they_do_for_git(tmp_path: Path, shape: str, part: str) -> None:
    pattern = shape.format(part)
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    paths = [path for path in _PATHS if not any(other.startswith(path + "/") for other in _PATHS)]
    entries = "".join(f"100644 {'1' * 40}\t{path}\0" for path in paths)
    subprocess.run([*git, "update-index", "-z", "--index-info"], input=entries.encode(), check=True)
    for ignore_case in (False, True):
        options = ["--glob-pathspecs", *(["--icase-pathspecs"] if ignore_case else [])]
        listed = subprocess.run([*git, *options, "ls-files", "-z", "--", pattern], capture_output=True, check=True)
        glob = Glob(pattern, hidden=True, ignore_case=ignore_case)
        expected = set(listed.stdout.decode().split("\0")) - {""}
        assert {path for path in paths if glob.match(path)} == expected


@pytest.mark.parametrize("pattern", ["..", "a/../b", "{..,a}/b", "/", ".", "a\0b", "", "//"])
def test_patterns_that_lead_out_or_say_nothing_are_refused(pattern: str) -> None:
    with pytest.raises(BadGlob):
        Glob(pattern)


def test_a_pattern_that_stands_for_too_many_is_refused() -> None:
    with pytest.raises(BadGlob):
        Glob("{a,b}" * 20)
    assert len(expand_braces("{a,b}" * 9)) == 512


@pytest.mark.parametrize("pattern", ["*a" * 2000, "{" * 4096, "[" * 4096, "**/" * 1300 + "a", "{a," * 1365, "?" * 4096])
def test_enormous_patterns_come_to_an_end(pattern: str) -> None:
    try:
        glob = Glob(pattern)
    except BadGlob:
        return
    assert not glob.match("b" * 200)


def test_many_stars_do_not_blow_up() -> None:
    assert not Glob("*a" * 12 + "b").match("a" * 255)
    assert not Glob("/".join(["**", "a*"] * 30)).match("/".join(["b"] * 200))


def test_a_filter_without_a_slash_speaks_of_names_anywhere() -> None:
    glob, out = compile_filter("!*.py")
    assert out and glob.match("a/b/.c.py")
    glob, out = compile_filter("/src/*.py")
    assert not out and glob.match("src/a.py") and not glob.match("x/src/a.py")
    assert compile_filter("build/")[0].match("x/build")


def test_the_fixed_part_ends_before_the_first_sign() -> None:
    assert get_fixed_part("src/app/*.py") == "src/app"
    assert get_fixed_part("src/{a,b}/c") == "src"
    assert get_fixed_part("*.py") == get_fixed_part("a.py") == ""
    assert get_fixed_part("src/./a") == "src"
