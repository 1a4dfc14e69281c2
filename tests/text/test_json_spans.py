"""JSON with positions: the same values as the standard library, and spans that hold exactly the value's text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.text.json_spans import JsonItem, read_document, read_document_with_comments, read_items

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
COMMENTS = st.sampled_from(["", " ", "\n", "// one\n", "/* two */", "/* a\n// b */ "])


def check_spans(text: str, item: JsonItem) -> None:
    for inner in item.inside:
        assert item.at < inner.start <= inner.at < inner.end <= item.end
        if inner.key:
            assert json.loads(text[inner.start : inner.key_end]) == inner.key
        if inner.comma >= 0:
            assert text[inner.comma] == "," and inner.comma >= inner.end
        check_spans(text, inner)


@given(VALUES, st.sampled_from([None, 2]), st.integers(0, 4))
def test_a_document_is_read_as_the_standard_library_reads_it(value: Any, indent: int | None, levels: int) -> None:
    text = f"\n {json.dumps(value, indent=indent)} \n"
    item = read_document(text, levels)
    assert item.value == value
    assert json.loads(text[item.at : item.end]) == value
    for inner in item.inside:
        assert json.loads(text[inner.at : inner.end]) == inner.value
    check_spans(text, item)


@given(st.data(), VALUES)
def test_comments_and_trailing_commas_change_no_value(data: st.DataObject, value: Any) -> None:
    def write(value: Any) -> str:
        space = data.draw(COMMENTS)
        if not isinstance(value, list | dict) or not value:
            return space + json.dumps(value)
        if isinstance(value, list):
            parts, brackets = [write(item) for item in value], "[]"
        else:
            parts = [f"{space}{json.dumps(key)}{space}:{write(item)}" for key, item in value.items()]
            brackets = "{}"
        trailing = data.draw(st.sampled_from(["", ","]))
        return space + brackets[0] + f"{space},".join(parts) + space + trailing + space + brackets[1]

    text = write(value) + data.draw(COMMENTS)
    item = read_document_with_comments(text)
    assert item and item.value == value
    check_spans(text, item)


@given(st.text(alphabet='{}[]:," 1a\\/*\n', max_size=12))
def test_plain_json_refuses_the_same_texts_as_the_standard_library(text: str) -> None:
    try:
        expected = json.loads(text)
    except json.JSONDecodeError:
        with pytest.raises(json.JSONDecodeError):
            read_document(text, 3)
    else:
        assert read_document(text, 3).value == expected


def test_a_number_too_long_for_python_stays_a_number() -> None:
    (item,) = read_items('{"a": ' + "1" * 5000 + "}", 0)
    assert isinstance(item.value, int) and item.end - item.at == 5000


@pytest.mark.parametrize("text", ["", " \n", "// nothing\n", "\ufeff/* nothing */"])
def test_a_text_without_a_value_is_none(text: str) -> None:
    assert read_document_with_comments(text) is None


def test_a_document_with_comments_is_read_to_a_bounded_depth() -> None:
    with pytest.raises(json.JSONDecodeError, match="Nested too deeply"):
        read_document_with_comments("[" * 100_000)
