"""Byte fidelity through the tools: what lies outside of an edit is identical afterwards, in every encoding.

The model is plain: a file is a list of lines, each with its own ending; an edit replaces characters of the text that a
model sees, where every ending is one line feed.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from handrail import Session
from handrail.text import lines
from handrail.text.document import detect_encoding
from tests import sizes

FAST = settings(
    deadline=None,
    max_examples=sizes.pick(8, 40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@dataclass(frozen=True)
class Kind:
    """An encoding, with words that make it recognisable and a character that it lacks."""

    name: str
    bom: bytes
    words: tuple[str, ...]
    lacks: str = "\ud800"

    def encode(self, text: str) -> bytes:
        return self.bom + text.encode(self.name)

    def decode(self, raw: bytes) -> str:
        assert raw.startswith(self.bom)
        return raw[len(self.bom) :].decode(self.name)


ANY = ("plain", "été", "数据", "テスト", "\U0001f600", "x\u2028y", "a\x85b", "\f", "")
KINDS = [
    Kind("utf-8", b"", ANY),
    Kind("utf-8", codecs.BOM_UTF8, ANY),
    Kind("utf-16-le", codecs.BOM_UTF16_LE, ANY),
    Kind("utf-16-be", codecs.BOM_UTF16_BE, ANY),
    Kind("utf-32-le", codecs.BOM_UTF32_LE, ANY),
    Kind("utf-32-be", codecs.BOM_UTF32_BE, ANY),
    Kind("cp1252", b"", ("plain", "Größe", "déjà vu", "don’t", "naïve", ""), "数"),
    Kind("gbk", b"", ("plain", "打开文件", "这是说明，请注意。", "返回用户的名字", "测试数据", ""), "é́"),
    Kind("big5", b"", ("plain", "開啟檔案", "這是說明，請注意。", "傳回使用者的名字", "測試資料", ""), "é"),
    Kind("cp932", b"", ("plain", "ファイルを開く", "これは説明です。", "ユーザーの名前", "テスト", ""), "é"),
    Kind("euc_jp", b"", ("plain", "ファイルを開く", "これは説明です。", "ユーザーの名前", "テスト", ""), "¥"),
]
ids = [f"{kind.name}{'-bom' if kind.bom else ''}" for kind in KINDS]


@dataclass(frozen=True)
class Made:
    """A random file: its bytes, its text, and the text that a model sees."""

    raw: bytes
    text: str
    seen: str


def files(kind: Kind) -> st.SearchStrategy[Made]:
    words = st.sampled_from(kind.words)
    body = st.lists(words, min_size=0, max_size=3).map(" ".join)
    ends = st.one_of(st.sampled_from([["\n"], ["\r\n"], ["\r"]]), st.just(["\n", "\r\n", "\r"]))
    recognised = " ".join(word for word in kind.words if word.isprintable())

    def build(rows: list[tuple[str, int]], ends: list[str], final: bool) -> Made:
        pairs = [(f"{number} {body}", ends[pick % len(ends)]) for number, (body, pick) in enumerate(rows)]
        pairs.insert(len(pairs) // 2, (recognised, ends[-1]))  # so that a short file is still known for what it is
        if not final:
            pairs[-1] = (pairs[-1][0], "")
        text = "".join(body + end for body, end in pairs)
        return Made(kind.encode(text), text, lines.to_feeds(text))

    return st.builds(build, st.lists(st.tuples(body, st.integers(0, 2)), max_size=6), ends, st.booleans())


def seen_span(data: st.DataObject, seen: str, most: int = 12) -> tuple[int, int]:
    """A stretch of the text as a model sees it, not empty."""
    start = data.draw(st.integers(0, len(seen) - 1))
    return start, data.draw(st.integers(start + 1, min(len(seen), start + most)))


def unique(text: str, old: str) -> bool:
    """Whether ``old`` is in one place, and in none that overlaps with it either."""
    return text.find(old) == text.rfind(old)


def real(text: str, position: int) -> int:
    """Where a position of the text that is seen lies in the text that is there."""
    at = 0
    for _ in range(position):
        at += 2 if text.startswith("\r\n", at) else 1
    return at


def joins(before: str, after: str) -> bool:
    """A lone "\\r" before and a "\\n" behind would read as one ending, and no byte of either is ours to change."""
    return before.endswith("\r") and after.startswith("\n")


def whole_lines(text: str, start: int, end: int) -> bool:
    """Whether a span is one or more lines from end to end; to delete these takes the last line end along."""
    return (start == 0 or text[start - 1] in "\r\n") and (end == len(text) or text[end] in "\r\n")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    from handrail import Settings

    state = str(tmp_path_factory.mktemp("state"))
    root = tmp_path_factory.mktemp("bytes")
    with Session(root, settings=Settings(raise_bugs=True, durable=False, state=state)) as result:
        yield result


@pytest.fixture
def put(session: Session) -> Callable[[bytes], Path]:
    """Put a file there and let the model see it."""

    def write(raw: bytes) -> Path:
        path = Path(session.workspace.roots[0].path) / "file.txt"
        path.write_bytes(raw)
        result = session.call("Read", {"file_path": "file.txt"})
        assert result.status == "ok", result.text
        return path

    return write


@pytest.mark.parametrize("kind", KINDS, ids=ids)
@FAST
@given(data=st.data())
def test_an_edit_changes_the_bytes_of_its_span_and_no_others(
    session: Session, put: Callable[[bytes], Path], kind: Kind, data: st.DataObject
) -> None:
    file = data.draw(files(kind))
    start, end = seen_span(data, file.seen)
    old = file.seen[start:end]
    assume(unique(file.seen, old))
    new = data.draw(st.lists(st.sampled_from([*kind.words, "\n", "new"]), max_size=4).map("".join))
    assume(new or not whole_lines(file.seen, start, end))
    assume(old == new or old not in new or new not in file.seen)  # reads as an edit that was applied before
    path = put(file.raw)
    call = {"file_path": "file.txt", "old_string": old, "new_string": new}
    result = session.call("Edit", call)
    if result.error and result.error.code == "inside_word":  # refused as it is; asked for by name it is made
        assert path.read_bytes() == file.raw
        result = session.call("Edit", {**call, "replace_all": True})
    after = path.read_bytes()
    if old == new:
        assert result.error and result.error.code == "no_change"
        assert after == file.raw
        return
    assert result.status == "ok", result.text
    head, tail = (
        kind.encode(file.text[: real(file.text, start)]),
        file.text[real(file.text, end) :].encode(kind.name),
    )
    assert after.startswith(head), "the bytes before the span"
    assert after[len(head) :].endswith(tail), "the bytes behind it"
    middle = after[len(head) : len(after) - len(tail)].decode(kind.name)
    assert lines.to_feeds(middle) == new, "what the model meant"
    if not joins(kind.decode(head), middle + tail.decode(kind.name)) and not joins(middle, tail.decode(kind.name)):
        assert lines.to_feeds(kind.decode(after)) == file.seen[:start] + new + file.seen[end:]


@pytest.mark.parametrize("kind", KINDS, ids=ids)
@FAST
@given(data=st.data())
def test_replacing_all_leaves_everything_between_the_places_alone(
    session: Session, put: Callable[[bytes], Path], kind: Kind, data: st.DataObject
) -> None:
    file = data.draw(files(kind))
    start, end = seen_span(data, file.seen, 2)
    old = file.seen[start:end]
    assume("\n" not in old)
    # An empty text would take the ends of whole lines along.
    new = data.draw(st.sampled_from([word for word in kind.words if word not in ("", old)]))
    assume(old not in new or new not in file.seen)  # reads as an edit that was applied before
    path = put(file.raw)
    call = {"file_path": "file.txt", "old_string": old, "new_string": new, "replace_all": True}
    result = session.call("Edit", call)
    assert result.status == "ok", result.text
    assert path.read_bytes() == kind.encode(file.text.replace(old, new))
    assert result.data["replaced"] == file.text.count(old)


@pytest.mark.parametrize("kind", KINDS, ids=ids)
@FAST
@given(data=st.data())
def test_several_edits_are_those_edits_one_after_the_other_and_no_more(
    session: Session, put: Callable[[bytes], Path], kind: Kind, data: st.DataObject
) -> None:
    file = data.draw(files(kind))
    text, edits = file.text, []
    for _ in range(data.draw(st.integers(1, 4))):
        start, end = seen_span(data, text, 6)
        old = text[start:end]
        new = data.draw(st.sampled_from(kind.words))
        if "\r" in old or "\n" in old or old == new or not unique(text, old):
            continue
        if not new and whole_lines(text, start, end):
            continue
        if old in new and new in text:  # reads as an edit that was applied before, and is left out
            continue
        text = text[:start] + new + text[end:]
        edits.append({"old_string": old, "new_string": new, "replace_all": True})  # it may begin inside a word
        if not text:
            break
    assume(edits)
    path = put(file.raw)
    result = session.call("MultiEdit", {"file_path": "file.txt", "edits": edits})
    if text == file.text:
        assert path.read_bytes() == file.raw
        return
    assert result.status == "ok", result.text
    assert path.read_bytes() == kind.encode(text)


@pytest.mark.parametrize("kind", KINDS, ids=ids)
@FAST
@given(data=st.data())
def test_a_write_keeps_encoding_mark_and_endings_and_the_bytes_that_both_texts_share(
    session: Session, put: Callable[[bytes], Path], kind: Kind, data: st.DataObject
) -> None:
    file, other = data.draw(files(kind)), data.draw(files(kind))
    rows = lines.split(file.seen)
    at = data.draw(st.integers(0, len(rows)))
    content = "".join([*rows[:at], *lines.split(other.seen)[:2], *rows[at:]])
    path = put(file.raw)
    result = session.call("Write", {"file_path": "file.txt", "content": content})
    assert result.status == "ok", result.text
    text = kind.decode(path.read_bytes())
    assert lines.to_feeds(text) == content
    kept = lines.split(file.text)
    assert text.startswith("".join(kept[: max(0, at - 1)])), "the lines before the new ones, with their endings"
    assert lines.split(text)[len(lines.split(text)) - max(0, len(kept) - at - 1) :] == kept[at + 1 :]


@pytest.mark.parametrize("kind", KINDS, ids=ids)
@FAST
@given(data=st.data())
def test_text_that_the_encoding_cannot_hold_is_refused_and_nothing_is_written(
    session: Session, put: Callable[[bytes], Path], kind: Kind, data: st.DataObject
) -> None:
    file = data.draw(files(kind))
    start, end = seen_span(data, file.seen)
    old = file.seen[start:end]
    bad = data.draw(st.sampled_from(["", "x\n"])) + kind.lacks + "y"
    tool = data.draw(st.sampled_from(["Edit", "MultiEdit", "Write"]))
    calls: dict[str, dict[str, object]] = {
        "Edit": {"old_string": old, "new_string": bad, "replace_all": True},
        "MultiEdit": {"edits": json.dumps([{"old_string": old, "new_string": bad, "replace_all": True}])},
        "Write": {"content": file.seen + bad},
    }
    path = put(file.raw)
    result = session.call(tool, {"file_path": "file.txt", **calls[tool]})
    assert result.error and result.error.code == "cannot_encode", result.text
    assert path.read_bytes() == file.raw
    assert [entry.name for entry in path.parent.iterdir()] == ["file.txt"]


@FAST
@given(data=st.data())
def test_stray_bytes_outlive_every_edit(session: Session, put: Callable[[bytes], Path], data: st.DataObject) -> None:
    stray = data.draw(st.sampled_from([b"\xff", b"\xe9", b"\x80\xfe", b"\xe4\xb8"]))
    ends = data.draw(st.lists(st.sampled_from([b"\n", b"\r\n"]), min_size=3, max_size=3))
    rows = ["数据 and text".encode(), b"name " + stray + b" value", "说明 old".encode()]
    raw = b"".join(row + end for row, end in zip(rows, ends, strict=True))
    path = put(raw)
    result = session.call("Edit", {"file_path": "file.txt", "old_string": "old", "new_string": "新\nline"})
    assert result.status == "ok", result.text
    assert path.read_bytes() == raw.replace(b"old", "新".encode() + ends[2] + b"line")


def test_the_kinds_of_this_test_are_read_as_what_they_are() -> None:
    """Otherwise the tests above would prove something about another encoding."""
    for kind in KINDS:
        raw = kind.encode(" ".join(kind.words) + "\n")
        assert detect_encoding(raw).decode(raw) == kind.decode(raw)
