"""Many patterns matched at once say what each of them says alone, whatever was asked before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.policy.paths import PathPattern, PathSet, escape_glob, list_globs_to_hide
from handrail.text.globs import Glob, compile_filter
from tests import sizes

ROOT, HOME = "/r", "/h"
NAME = st.sampled_from(["a", "b", ".a", "ab", "r", "h"])
PART = st.sampled_from(["a", "b", ".a", "*", "**", "a*", "?b", "{a,b}", "[!a]"])
PATHS = st.lists(
    st.lists(NAME, min_size=1, max_size=5).map(lambda names: "/" + "/".join(names)), min_size=1, max_size=6
)
PATTERN = st.builds(
    lambda start, parts, end, out: PathPattern(start + "/".join(parts) + end, out),
    st.sampled_from(["", "./", "/", "~/", "**/"]),
    st.lists(PART, min_size=1, max_size=3),
    st.sampled_from(["", "", "/"]),
    st.booleans(),
)


def _alone(patterns: list[PathPattern], path: str, deep: bool) -> bool:
    """Slow and plain: the last pattern that matches decides, and so does the first directory on the way down."""
    names = path.split("/")[1:]
    ends = range(1, len(names) + 1) if deep else [len(names)]
    for end in ends:
        way = "/".join(names[:end])
        matching = [p for p in patterns if any(Glob(g, hidden=True).match(way) for g in p.globs([ROOT], HOME, deep))]
        if matching and not matching[-1].except_:
            return True
    return False


@settings(max_examples=sizes.pick(75, 300), deadline=None)
@given(st.lists(st.lists(PATTERN, min_size=1, max_size=3), min_size=1, max_size=4), PATHS, st.booleans())
def test_a_set_says_what_its_patterns_say_one_by_one(
    lists: list[list[PathPattern]], paths: list[str], deep: bool
) -> None:
    path_set = PathSet(lists, [ROOT], HOME, deep=deep)
    for path in [*paths, *paths]:
        wanted = [number for number, patterns in enumerate(lists) if _alone(patterns, path, deep)]
        assert path_set.find(path) == wanted, path
        directory, _, name = path.rpartition("/")
        suspicious = path_set.suspects(directory)
        assert not wanted or (suspicious and suspicious(name)), path


@given(
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
        lambda t: t.strip(".")
    )
)
def test_an_escaped_name_matches_itself_alone(name: str) -> None:
    glob = Glob(escape_glob(name), hidden=True)
    assert glob.match(name)
    assert not glob.match(name + "x") and not glob.match("x" + name)


@settings(max_examples=sizes.pick(50, 200), deadline=None)
@given(st.lists(PATTERN, min_size=1, max_size=3), PATHS)
def test_a_glob_that_hides_never_hides_what_may_be_read(patterns: list[PathPattern], paths: list[str]) -> None:
    """Ripgrep is kept away by these globs: one too many, and a search would miss what is there to be found."""
    path_set = PathSet([patterns], [ROOT], HOME, deep=True)
    globs = [compile_filter(glob)[0] for glob in list_globs_to_hide(patterns, ROOT)]
    for path in paths:
        names = path.split("/")[1:]
        ways = ["/".join(names[:end]) for end in range(1, len(names) + 1)]
        if any(glob.match(way) for glob in globs for way in ways):
            assert path_set.find(f"{ROOT}{path}"), path
