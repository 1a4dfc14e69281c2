"""One value of a TOML file is set or removed, and every other byte stays."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.files.configuration import BadConfiguration
from handrail.settings.toml_file import remove_value, set_value

FILE = """\
# my settings
[settings]  # of every session
hard_links = "split"   # for the package store
keep_env = [
    "A",  # one
    "B",
]
# about the network
network = "off"

[[roots]]
path = "/srv/shared"

[agent]
model = "m"
"""


def test_the_comment_behind_an_entry_stays() -> None:
    text = set_value(FILE, ("settings", "hard_links"), "through")
    assert text == FILE.replace('"split"', '"through"')


def test_a_value_over_several_lines_is_replaced_as_a_whole() -> None:
    text = set_value(FILE, ("settings", "keep_env"), ["C"])
    assert text == FILE.replace('keep_env = [\n    "A",  # one\n    "B",\n]\n', 'keep_env = ["C"]\n')
    assert remove_value(FILE, ("settings", "keep_env")) == FILE.replace(
        'keep_env = [\n    "A",  # one\n    "B",\n]\n', ""
    )


def test_a_new_key_goes_below_the_header_of_its_table() -> None:
    text = set_value(FILE, ("settings", "durable"), False)
    assert text == FILE.replace("every session\n", "every session\ndurable = false\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[agent]\nmodel = "x"\n'),
        ("[settings]\n", '[settings]\n\n[agent]\nmodel = "x"\n'),
        ("[settings]", '[settings]\n\n[agent]\nmodel = "x"\n'),
        ("[agent]", '[agent]\nmodel = "x"\n'),
        ("[agent]\r\nwindow = 1\r\n", '[agent]\r\nmodel = "x"\r\nwindow = 1\r\n'),
    ],
)
def test_a_table_is_added_if_it_is_missing(before: str, after: str) -> None:
    assert set_value(before, ("agent", "model"), "x") == after


def test_removing_a_key_that_is_not_there_changes_nothing() -> None:
    assert remove_value(FILE, ("settings", "sandbox")) == FILE
    assert remove_value("", ("agent", "model")) == ""


@pytest.mark.parametrize(
    "text", ['agent = { model = "m", window = 1 }\n', "[x]\nwindow = 1\n[agent]\nwindow = 1\nmodel = 'a'  ]\n"]
)
def test_an_entry_that_cannot_be_changed_by_lines_is_refused(text: str) -> None:
    with pytest.raises(BadConfiguration, match=r"edit the file|not valid TOML"):
        set_value(text, ("agent", "model"), "new")


VALUES = st.one_of(
    st.booleans(), st.integers(0, 1 << 40), st.text(max_size=20), st.lists(st.text(max_size=5), max_size=3)
)
COMMENTS = st.sampled_from(["", "  # why", ' # "quoted" # twice', "\n", "\n# [agent]\n"])


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), VALUES, COMMENTS), unique_by=lambda row: row[0]), VALUES, st.data()
)
def test_any_key_of_any_file_is_set_and_removed_again(rows: list[tuple[str, Any, str]], value: Any, data: Any) -> None:
    text = "# top\n[agent]\nmodel = 'm'\n"
    for table in ("settings", "other"):
        text += f"[{table}]\n"
        for key, one, comment in rows:
            text = set_value(text, (table, key), one)
            text = text.removesuffix("\n") + comment + "\n"
    before = tomllib.loads(text)
    key = data.draw(st.sampled_from("abcdef"))
    changed = set_value(text, ("settings", key), value)
    after = tomllib.loads(changed)
    assert after == {**before, "settings": {**before["settings"], key: value}}
    gone = remove_value(changed, ("settings", key))
    rest = {name: one for name, one in before["settings"].items() if name != key}
    assert tomllib.loads(gone) == {**before, "settings": rest}
    if key not in before["settings"]:
        assert gone == text


@pytest.mark.parametrize("entry", ["[a.b.env]\nx = 1\n", 'a.b.command = "x"\n'])
def test_an_entry_without_lines_of_its_own_is_left_with_the_comments_above(entry: str) -> None:
    with pytest.raises(BadConfiguration):
        remove_value(f"# mine\n\n{entry}\n[other]\nx = 1\n", ("a", "b"), 1)
