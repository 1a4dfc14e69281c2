"""Both engines, one answer: generated trees are searched with ripgrep and without it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

from handrail import Session, Settings
from handrail.search.ripgrep import find_program
from tests import sizes

NAMES = ["a", "b.py", "c.txt", ".hid", "d", "é.txt", "new\nline", "build", "x.log", "E", "a-b", "[x]", "sp ace.py"]
LINES = [
    "needle",
    "hay",
    "a needle and NEEDLE",
    "",
    "needle\r",
    "éneedle",
    "b\tneedle",
    "x" * 700 + "needle",
    "nee dle",
]
RULES = [
    "build/", "*.log", "!x.log", "/a", "a/", "d/*", "!d/c.txt", "**/b.py", "*.txt", "!c.txt", "d/**", "# note", "",
    "a/**/b.py", "\\[x\\]", "[ab]*", "?", "/d/a", "!.hid", "E", "!a/", "*", "!*.py", "sp*", "é.txt", "b.py ", "/*/a",
]  # fmt: skip
PATTERNS = [
    "needle",
    "^needle$",
    "n.e",
    r"\bneedle\b",
    "NEEDLE",
    "e+d",
    r"^\s*$",
    "(hay|nee)",
    "[^h]ay",
    "é",
    r"\w+\s\w+",
]

names = st.sampled_from(NAMES)
content = st.one_of(
    st.lists(st.sampled_from(LINES), max_size=4).map(lambda lines: "\n".join(lines).rstrip("\r").encode()),
    st.lists(st.sampled_from(LINES), min_size=1, max_size=4).map(lambda lines: ("\n".join(lines) + "\n").encode()),
    st.just(b"needle\n\0binary"),
    st.just("\ufeffneedle in UTF-16\n".encode("utf-16-le")),
    st.just("\ufeffneedle\n".encode()),
    st.just(b"n\xe9edle needle\n"),
)
rules = st.lists(st.sampled_from(RULES), min_size=1, max_size=4).map(lambda lines: ("\n".join(lines) + "\n").encode())
entries = st.recursive(
    content,
    lambda below: st.dictionaries(
        names, st.one_of(below, st.sampled_from(["@a", "@d/c.txt", "@..", "@missing"])), max_size=5
    ).flatmap(
        lambda files: st.fixed_dictionaries(
            {}, optional={".gitignore": rules, ".ignore": rules}
        ).map(lambda own: {**files, **own})
    ),
    max_leaves=14,
)  # fmt: skip
trees = st.dictionaries(names, entries, min_size=1, max_size=6).flatmap(
    lambda files: st.fixed_dictionaries({}, optional={".gitignore": rules, ".ignore": rules}).map(
        lambda own: {**files, **own}
    )
)
queries = st.fixed_dictionaries(
    {"pattern": st.sampled_from(PATTERNS), "output_mode": st.sampled_from(["files_with_matches", "content", "count"])},
    optional={
        "ignore_case": st.booleans(),
        "literal": st.booleans(),
        "multiline": st.booleans(),
        "include_hidden": st.booleans(),
        "include_ignored": st.booleans(),
        "sort": st.sampled_from(["newest", "path"]),
        "context": st.sampled_from([0, 1, 2]),
        "head_limit": st.integers(1, 6),
        "offset": st.integers(0, 4),
        "glob": st.sampled_from(["*.py", "*.txt", "d/*", "!*.py", "!d", "**/a/*", "{a,b}*", "[ab]*", "a/**", "*"]),
        "type": st.sampled_from(["py", "txt", "log"]),
    },
)


def grow(root: Path, tree: Mapping[str, Any], moment: list[int]) -> None:
    for name, entry in tree.items():
        path = root / name
        if isinstance(entry, Mapping):
            path.mkdir()
            grow(path, entry, moment)
        elif isinstance(entry, str):
            path.symlink_to(entry[1:])
        else:
            path.write_bytes(entry)
            moment[0] += 1
            os.utime(path, ns=(10**18 + moment[0] % 3 * 10**9,) * 2)  # some are of one age


def answers(root: Path, query: Mapping[str, Any], state: str) -> tuple[Any, Any]:
    collected: list[Any] = []
    for program in (None, ""):
        with pytest.MonkeyPatch.context() as patch:
            if program is not None:
                patch.setenv("HANDRAIL_RG", program)
            with Session(root, settings=Settings(raise_bugs=True, state=state, durable=False)) as session:
                result = session.call("Grep", query)
        if result.error:
            collected.append(result.error.code)
            continue
        data = dict(result.data)
        assert data.pop("fallback_used") is (program == "")
        data.pop("fallback_reason")
        receipt = data.pop("receipt")
        # Where the page was full, how far each engine had come by then is its own affair.
        data["complete"] = receipt["complete"] if not data["truncated"] else None
        data["aborted_reason"] = bool(data["aborted_reason"])
        collected.append((result.status, data))
    return collected[0], collected[1]


@pytest.mark.skipif(find_program() is None, reason="ripgrep is not there")
@settings(
    max_examples=sizes.pick(35, 400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(tree=trees, query=queries, below=st.sampled_from([".", "a", "d", "d/a"]))
@example(tree={"a": {"b.py": b"needle\n"}, ".gitignore": b"/a/b.py\n"}, query={"pattern": "needle"}, below="a")
def test_both_engines_give_the_same_answer(
    tmp_path: Path, tree: Mapping[str, Any], query: Mapping[str, Any], below: str
) -> None:
    note(f"{tree!r}")
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        root = Path(folder) / "work"
        root.mkdir()
        grow(root, tree, [0])
        path = below if (root / below).exists() else "."
        with_rg, without = answers(root, {**query, "path": path}, str(tmp_path / "state"))
        assert with_rg == without
