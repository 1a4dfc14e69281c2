"""Splices in bytes, and several edits in a row, against plain string replacement."""

from __future__ import annotations

import codecs
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.errors import BinaryFile, CannotEncode
from handrail.text.document import Codec, Document, Edited, Splice, apply_splices, decode_document, detect_encoding
from tests import sizes

CODECS = [
    Codec("utf-8"),
    Codec("utf-8", codecs.BOM_UTF8),
    Codec("utf-16-le", codecs.BOM_UTF16_LE),
    Codec("utf-32-be", codecs.BOM_UTF32_BE),
    Codec("gbk"),
    Codec("cp932"),
    Codec("latin_1"),
]


def cut(data: st.DataObject, text: str, alphabet: str, most: int = 4) -> list[Splice]:
    """Some splices of ``text``, in order and apart."""
    marks = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=2 * most)))
    pairs = list(zip(marks[::2], marks[1::2], strict=False))
    return [Splice(start, end, data.draw(st.text(st.sampled_from(alphabet), max_size=4))) for start, end in pairs]


def naive(text: str, splices: list[Splice]) -> str:
    for splice in reversed(splices):
        text = text[: splice.start] + splice.new + text[splice.end :]
    return text


@settings(deadline=None)
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
@given(data=st.data())
def test_splices_change_the_bytes_of_their_spans_and_no_others(codec: Codec, data: st.DataObject) -> None:
    alphabet = "ab\r\n" + {"latin_1": "éÿ", "gbk": "中文"}.get(codec.name, "中のテ")
    text = data.draw(st.text(st.sampled_from(alphabet), max_size=20))
    raw = codec.bom + text.encode(codec.name)
    splices = cut(data, text, alphabet)
    after = Document(raw, codec).splice(splices)
    assert after == codec.bom + naive(text, splices).encode(codec.name)
    assert apply_splices(text, splices) == naive(text, splices)


@settings(deadline=None, max_examples=sizes.pick(75, 300))
@given(data=st.data())
def test_edits_in_a_row_are_splices_of_the_original(data: st.DataObject) -> None:
    text = data.draw(st.text(st.sampled_from("abc\n"), max_size=16))
    edited, expected = Edited(text), text
    for _ in range(data.draw(st.integers(0, 5))):
        splices = cut(data, expected, "xyz\n")
        edited.apply(splices)
        expected = naive(expected, splices)
        assert edited.text == expected
        actual = edited.splices()
        assert apply_splices(text, actual) == expected
        assert all(one.end < other.start for one, other in itertools.pairwise(actual)), "in order and apart"
        assert all(splice.new or splice.end > splice.start for splice in actual)


def test_what_no_edit_touched_is_never_inside_a_splice() -> None:
    edited = Edited("one two three four")
    edited.apply([Splice(4, 7, "2")])
    edited.apply([Splice(12, 16, "4")])
    edited.apply([Splice(4, 5, "II")])
    assert edited.splices() == [Splice(4, 7, "II"), Splice(14, 18, "4")]


@settings(deadline=None, max_examples=sizes.pick(50, 200))
@given(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode)))
def test_a_document_is_in_the_encoding_that_sniffing_finds(raw: bytes) -> None:
    try:
        codec = detect_encoding(raw)
    except BinaryFile:
        with pytest.raises(BinaryFile):
            decode_document(raw)
    else:
        assert decode_document(raw) == Document(raw, codec)
        assert decode_document(raw).text == codec.decode(raw)


def test_an_insertion_that_is_taken_back_leaves_nothing() -> None:
    edited = Edited("ab")
    edited.apply([Splice(1, 1, "x")])
    edited.apply([Splice(1, 2, "")])
    assert edited.splices() == []


def test_stray_bytes_around_a_splice_stay() -> None:
    raw = "中文 ".encode() + b"\xff\xe4 old \xfe" + " 中文\n".encode()
    read = decode_document(raw)
    at = read.text.index("old")
    assert read.splice([Splice(at, at + 3, "新")]) == raw.replace(b"old", "新".encode())
    with pytest.raises(CannotEncode):
        read.splice([Splice(at, at + 3, "\udcff")])


def test_other_spellings_of_a_character_stay_outside_the_span() -> None:
    raw = b"\x87\x90 old \x87\x90 old \x87\x90"
    after = Document(raw, Codec("cp932")).splice([Splice(2, 5, "≒"), Splice(8, 11, "")])
    assert after == b"\x87\x90 \x81\xe0 \x87\x90  \x87\x90"


def test_twenty_thousand_splices_in_a_row_are_one_pass() -> None:
    class Counted(str):
        """Counts the characters that are cut out of it."""

        cut = 0

        def __getitem__(self, key: object) -> str:
            piece = super().__getitem__(key)  # type: ignore[index]
            Counted.cut += len(piece)
            return piece

    text = Counted("ab" * 20_000)
    edited = Edited(text)
    edited.apply([Splice(at, at + 1, "x") for at in range(0, 40_000, 2)])
    assert Counted.cut <= len(text)
    new = Counted("cd" * 20_000)
    edited = Edited("")
    edited.apply([Splice(0, 0, new)])
    Counted.cut = 0
    edited.apply([Splice(at, at + 1, "x") for at in range(0, 40_000, 2)])
    assert edited.splices() == [Splice(0, 0, "xd" * 20_000)]
    assert Counted.cut <= 2 * len(new)
