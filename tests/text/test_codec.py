"""Encodings: which one a file is in, which bytes its characters are, and what it cannot hold."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from handrail.errors import BinaryFile, CannotEncode
from handrail.text.document import Codec, detect_bom, detect_encoding
from tests import sizes

LEGACY = ["cp1252", "latin_1", "gbk", "gb18030", "big5", "cp932", "euc_jp", "euc_kr"]
UNICODE = [
    Codec("utf-8"),
    Codec("utf-8", codecs.BOM_UTF8),
    Codec("utf-8", stray=True),
    Codec("utf-16-le", codecs.BOM_UTF16_LE),
    Codec("utf-16-be", codecs.BOM_UTF16_BE),
    Codec("utf-32-le", codecs.BOM_UTF32_LE),
    Codec("utf-32-be", codecs.BOM_UTF32_BE),
]
# The same character in two spellings: U+2252, U+222A and U+FFE2 of Shift-JIS as Windows has it.
CP932_TWICE = [b"\x81\xe0", b"\x87\x90", b"\x81\xbe", b"\x87\x9b", b"\x81\xca", b"\xee\xf9", b"\xfa\x54"]
EUC_JP_THREE_BYTES = [b"\x8f\xb0\xa1", b"\x8e\xb1", b"\xa4\xa2"]


def model_offsets(codec: Codec, raw: bytes) -> list[int]:
    """Where each character begins, found by feeding one byte at a time; and where the last one ends."""
    decoder = codecs.getincrementaldecoder(codec.name)(codec.errors)
    ends, characters = [len(codec.bom)], 0
    for at in range(len(codec.bom), len(raw)):
        result = len(decoder.decode(raw[at : at + 1], at + 1 == len(raw)))
        if result:
            # Several at once are stray bytes that were held back: each is one byte, the last one ends here.
            ends += [at + 1 - behind for behind in range(result - 1, -1, -1)]
            characters += result
    return ends


@settings(deadline=None, max_examples=sizes.pick(20, 60))
@pytest.mark.parametrize("name", LEGACY)
@given(data=st.data())
def test_offsets_in_legacy_encodings_are_those_of_a_walk_byte_by_byte(name: str, data: st.DataObject) -> None:
    codec = Codec(name)
    pieces = [st.sampled_from([b"a", b"\n", b"\r\n", b"~", b"\\"]), st.binary(min_size=1, max_size=4)]
    pieces += [st.sampled_from(CP932_TWICE)] if name == "cp932" else []
    pieces += [st.sampled_from(EUC_JP_THREE_BYTES)] if name == "euc_jp" else []
    raw = b""
    for piece in data.draw(st.lists(st.one_of(pieces), max_size=12)):
        try:
            piece.decode(name)
        except UnicodeDecodeError:
            continue
        raw += piece
    text = codec.decode(raw)
    expected = model_offsets(codec, raw)
    assert len(expected) == len(text) + 1
    positions = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    assert codec.offsets(raw, text, positions) == [expected[position] for position in positions]
    assert codec.offsets(raw, text, range(len(text) + 1)) == expected


@settings(deadline=None, max_examples=sizes.pick(20, 60))
@pytest.mark.parametrize("codec", UNICODE, ids=lambda codec: codec.label)
@given(data=st.data())
def test_offsets_in_unicode_encodings_are_the_lengths_of_what_lies_before(codec: Codec, data: st.DataObject) -> None:
    alphabet = st.one_of(st.sampled_from("a\n\ré中\U0001f600\u2028"), st.characters(exclude_categories=["Cs"]))
    if codec.unit > 1:
        alphabet = st.one_of(alphabet, st.sampled_from("\ud800\udfff"))
    raw = codec.bom + data.draw(st.text(alphabet, max_size=20)).encode(codec.name, "surrogatepass")
    if codec.stray:
        at = data.draw(st.integers(0, len(raw)))
        raw = raw[:at] + data.draw(st.binary(max_size=3)) + raw[at:]
    text = codec.decode(raw)
    expected = [len(codec.bom) + len(text[:at].encode(codec.name, codec.errors)) for at in range(len(text) + 1)]
    assert expected[-1] == len(raw)
    assert codec.offsets(raw, text, range(len(text) + 1)) == expected


def test_two_spellings_of_one_character_are_told_apart() -> None:
    raw = b"a\x87\x90b\x81\xe0c"  # both are U+2252; encoding again would give one spelling
    codec = Codec("cp932")
    assert codec.decode(raw) == "a≒b≒c"
    assert codec.offsets(raw, "a≒b≒c", range(6)) == [0, 1, 3, 4, 6, 7]


def test_a_span_that_parts_a_letter_from_its_accent_is_refused_where_the_bytes_are_one() -> None:
    raw = b"a\x88\x62b"
    text = raw.decode("big5hkscs")
    assert len(text) == 4
    codec = Codec("big5hkscs")
    assert codec.offsets(raw, text, [0, 1, 3, 4]) == [0, 1, 3, 4]
    with pytest.raises(CannotEncode):
        codec.offsets(raw, text, [2])


@pytest.mark.parametrize(
    ("name", "char"),
    [
        ("cp1252", "中"),
        ("latin_1", "€"),
        ("gbk", "\U0001f600"),
        ("big5", "é"),
        ("cp932", "é"),
        ("utf-8", "\ud800"),
        ("utf-16-le", "\udc80"),
        # These would be taken, and would come back as another character.
        ("euc_jp", "¥"),
        ("euc_jp", "‾"),
        ("cp932", "\u301c"),
        ("cp932", "\u2212"),
        ("euc_kr", "\u3164"),
    ],
)
def test_a_character_that_the_encoding_cannot_hold_is_named(name: str, char: str) -> None:
    with pytest.raises(CannotEncode) as caught:
        Codec(name).encode(f"one\r\ntwo {char} x")
    assert caught.value.facts == {"encoding": name, "char": char, "codepoint": f"U+{ord(char):04X}", "line": 2}


@settings(deadline=None)
@pytest.mark.parametrize("name", [*LEGACY, "utf-8", "utf-16-be"])
@given(text=st.text(max_size=8))
def test_what_is_encoded_comes_back_or_is_refused(name: str, text: str) -> None:
    try:
        encoded = Codec(name).encode(text)
    except CannotEncode as refused:
        bad = refused.facts["char"]
        assert bad in text
        with pytest.raises(CannotEncode):
            Codec(name).encode(bad)
    else:
        assert encoded.decode(name) == text


# Sniffing.

PADDING = b"import os\n\n\ndef main():\n    return os.getcwd()\n\n"
SAMPLES = [
    ("cp1252", "# don’t touch\n"),
    ("cp1252", "x = 'é'\n"),
    ("cp1252", "// Größe der Übersicht für Füße\n"),
    ("cp1252", "La facture a été créée à Nîmes, où il naît.\n"),
    ("cp1252", "El Señor Ibáñez vivió en Málaga.\n"),
    ("cp1252", "São Paulo: ações e corações\n"),
    ("cp1252", "price: £5 – “cheap”\n"),
    ("latin_1", "naïve café\n"),
    ("gbk", "// 打开文件\n"),
    ("gbk", "中文\n"),
    ("gbk", "// 测试\n"),
    ("gbk", "这个函数返回用户的名字，如果没有找到就返回空值。\n"),
    ("gbk", "print('你好，世界')  # 输出问候语\n"),
    ("big5", "// 開啟檔案\n"),
    ("big5", "中文\n"),
    ("big5", "這個函式傳回使用者的名字，如果找不到就傳回空值。\n"),
    ("big5", "台灣繁體中文測試資料\n"),
    ("cp932", "テスト\n"),
    ("cp932", "// ファイルを開く\n"),
    ("cp932", "日本語\n"),
    ("cp932", "エラー: ファイルが見つかりません。\n"),
    ("cp932", "この関数はユーザーの名前を返します。\n"),
    ("euc_jp", "この関数はユーザーの名前を返します。\n"),
    ("euc_kr", "이 함수는 사용자의 이름을 반환합니다.\n"),
    ("cp1251", "Эта функция возвращает имя пользователя.\n"),
    ("koi8_r", "Эта функция возвращает имя пользователя.\n"),
]


@pytest.mark.parametrize(("name", "text"), SAMPLES)
def test_a_short_legacy_text_is_read_as_it_was_written(name: str, text: str) -> None:
    raw = text.encode(name)
    for whole in (
        raw,
        PADDING * 20 + raw,
        raw + PADDING * 20,
        PADDING * 2_000 + raw,  # beyond any head that one could look at
        "".join(other for its, other in SAMPLES if its == name).encode(name) * 1_000 + raw,
        PADDING * 100 + b"-" * 9_000 + raw,  # on a line that is longer than a sample
    ):
        actual = detect_encoding(whole)
        assert actual.decode(whole) == whole.decode(name), actual


@pytest.mark.parametrize("name", ["cp1252", "gbk", "big5", "cp932", "euc_jp", "euc_kr", "cp1251"])
def test_a_part_that_ends_inside_a_character_is_read_all_the_same(name: str) -> None:
    raw = "".join(text for its, text in SAMPLES if its == name).strip().encode(name)
    for end in range(len(raw) - 6, len(raw)):
        actual = detect_encoding(raw[:end], whole=False)
        assert raw.decode(actual.name) == raw.decode(name), actual


@pytest.mark.parametrize("char", [0x92, 0xE9, 0x96, 0xDF, 0xA3])
def test_one_western_byte_in_a_source_file_makes_it_cp1252(char: int) -> None:
    for raw in (
        PADDING + b"# it" + bytes([char]) + b"s\n" + PADDING,
        b"# " + bytes([char]),
        PADDING * 50 + bytes([char]),
    ):
        assert detect_encoding(raw) == Codec("cp1252")


def test_bytes_that_cp1252_does_not_have_are_latin_1() -> None:
    assert detect_encoding(b"a \x81 b\n") == Codec("latin_1")


@pytest.mark.parametrize("text", ["中文，说明\n", "это текст\n", "ça a été créé\n", "テスト\n", "emoji \U0001f600\n"])
@pytest.mark.parametrize("stray", [b"\xff", b"\xe9", b"\x92", b"\xe4\xb8", b"\xed\xa0\x80"])
def test_utf8_with_a_stray_byte_stays_utf8_and_keeps_the_byte(text: str, stray: bytes) -> None:
    raw = PADDING + text.encode() * 3 + b"# " + stray + b" here\n" + text.encode() * 3
    actual = detect_encoding(raw)
    assert actual == Codec("utf-8", stray=True)
    assert actual.decode(raw).encode("utf-8", "surrogateescape") == raw
    assert text in actual.decode(raw)
    marked_raw = codecs.BOM_UTF8 + raw
    assert detect_encoding(marked_raw) == Codec("utf-8", codecs.BOM_UTF8, stray=True)


def test_the_encoding_that_the_host_names_is_tried_first() -> None:
    raw = "zażółć gęślą jaźń\n".encode("cp1250")
    assert detect_encoding(raw, "cp1250") == Codec("cp1250")
    assert detect_encoding("中文，说明\n".encode(), "gbk") == Codec("utf-8")
    assert detect_encoding(b"\xff\xff\xff\n", "gbk") != Codec("gbk")
    chinese = "中文说明文字".encode("utf-16-le")  # no NUL in it, and no mark
    assert detect_encoding(chinese, "utf-16").name not in ("utf-16", "utf-8")


@pytest.mark.parametrize("codec", UNICODE, ids=lambda codec: codec.label)
def test_a_mark_names_the_encoding(codec: Codec) -> None:
    if codec.bom:
        raw = codec.bom + "añb\r\n\U0001f600".encode(codec.name)
        assert detect_bom(raw) == detect_encoding(raw) == codec
        assert codec.decode(raw) == "añb\r\n\U0001f600"


@pytest.mark.parametrize(
    "raw",
    [
        b"a\0b",
        b"x" * 8191 + b"\0",
        codecs.BOM_UTF8 + b"a\0b",
        "utf-16 without a mark".encode("utf-16-le"),
        codecs.BOM_UTF16_LE + b"odd",
        codecs.BOM_UTF32_LE + b"abcd",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    ],
)
def test_what_is_not_text_is_binary(raw: bytes) -> None:
    with pytest.raises(BinaryFile):
        detect_encoding(raw)


def test_a_nul_behind_the_first_8_kilobytes_does_not_make_a_text_binary() -> None:
    assert detect_encoding(b"x" * 8192 + b"\0") == Codec("utf-8")


@settings(deadline=None, max_examples=sizes.pick(50, 200))
@given(st.binary(max_size=200))
def test_every_file_is_binary_or_comes_back_byte_for_byte(raw: bytes) -> None:
    try:
        codec = detect_encoding(raw)
    except BinaryFile:
        assume(False)
    text = codec.decode(raw)
    assert codec.offsets(raw, text, [0, len(text)]) == [len(codec.bom), len(raw)]
