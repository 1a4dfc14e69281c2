"""A Jupyter notebook for a reader: its cells with the names that NotebookEdit takes, their sources and their outputs.

Nothing here is strict. Broken cells are shown as far as they can be understood; only what is not a notebook at all, or
one in a format of before 2015, is left to be shown as the text that it is.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from handrail.frozen import frozen
from handrail.text import lines
from handrail.text.display import escape, replace_surrogates

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])?")
_DIGITS = 4_000
_TEXTS = ("text/plain", "text/markdown", "text/latex", "text/html", "application/json")
_PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}


@frozen
class NotebookLimits:
    output_chars: int = 10_000
    """One output; its middle gives way."""
    outputs: int = 50
    """Outputs of one cell."""
    pictures: int = 20
    """Pictures that are handed on, of the whole notebook."""
    picture_bytes: int = 20_000_000


class Image(NamedTuple):
    """A picture in an output, as it stands there: nobody has decoded it."""

    mime: str
    raw: bytes


@frozen
class Output:
    """One output of a cell: text, a value, a picture or an error."""

    kind: str
    """`stdout`, `stderr`, `result`, `display`, `error`, or `unknown`."""
    text: str
    left: int = 0
    """How many characters are left out of its middle."""
    pictures: tuple[Image, ...] = ()


@frozen
class Cell:
    """One cell."""

    index: int
    id: str
    """The `cell_id` for NotebookEdit."""
    kind: str
    """`code`, `markdown`, `raw`, ... or `broken`."""
    source: str
    run: int | None = None
    """The number of the run that made the outputs."""
    outputs: tuple[Output, ...] = ()
    more: int = 0
    """How many outputs are left out behind these."""


@frozen
class NotebookView:
    """A notebook."""

    language: str
    cells: tuple[Cell, ...]

    @property
    def pictures(self) -> list[Image]:
        return [image for cell in self.cells for output in cell.outputs for image in output.pictures]


class _CellReader:
    """Reads one notebook; knows how many pictures may still be handed on."""

    def __init__(self, limits: NotebookLimits) -> None:
        self.limits = limits
        self.pictures = limits.pictures

    def cell(self, index: int, value: object, name: str) -> Cell:
        if not isinstance(value, dict):
            return Cell(index, name, "broken", replace_surrogates(json.dumps(value, ensure_ascii=False)))
        kind = value.get("cell_type")
        source = _join_lines(value.get("source"))
        if not isinstance(kind, str) or not kind or source is None:
            return Cell(index, name, "broken", replace_surrogates(json.dumps(value, ensure_ascii=False, indent=1)))
        run = value.get("execution_count")
        raw_outputs = value.get("outputs")
        merged = list(_merge_streams(raw_outputs)) if raw_outputs and isinstance(raw_outputs, list) else []
        outputs = tuple(self.output(one) for one in merged[: self.limits.outputs])
        more = len(merged) - len(outputs)
        return Cell(index, name, kind, replace_surrogates(source), run if type(run) is int else None, outputs, more)

    def output(self, value: Any) -> Output:
        kind = value.get("output_type") if isinstance(value, dict) else None
        if kind == "stream":
            text = _drop_overdrawn(_join_lines(value.get("text")) or "")
            return self._cut("stderr" if value.get("name") == "stderr" else "stdout", text)
        if kind == "error":
            return self._cut("error", _describe_failure(value))
        if kind in ("execute_result", "display_data", "update_display_data") and isinstance(value.get("data"), dict):
            return self._render_output("result" if kind == "execute_result" else "display", value["data"])
        return self._cut("unknown", json.dumps(value, ensure_ascii=False))

    def _render_output(self, kind: str, data: Mapping[str, object]) -> Output:
        """One output in all the forms it has: the plainest text of it, the pictures, and a word on the others."""
        best = next((mime for mime in _TEXTS if mime in data), None)
        parts: list[str] = []
        if best:
            text = _join_lines(data[best])
            parts.append(json.dumps(data[best], ensure_ascii=False) if text is None else text)
        pictures: list[Image] = []
        for mime, value in data.items():
            text = _join_lines(value)
            if mime in _PICTURES:
                parts.append(self._describe_picture(mime, text or "", pictures))
            elif mime not in _TEXTS:
                size = len((text or json.dumps(value)).encode("utf-8", "surrogatepass"))
                parts.append(f"[{escape(mime[:80])}, {size} bytes]")
        output = self._cut(kind, "\n".join(part.removesuffix("\n") for part in parts))
        return Output(kind, output.text, output.left, tuple(pictures))

    def _describe_picture(self, mime: str, text: str, pictures: list[Image]) -> str:
        """A word on a picture, which is put to the others if it may be handed on."""
        packed = "".join(text.split())
        size = len(packed) * 3 // 4 - packed[-2:].count("=")
        if size > self.limits.picture_bytes or self.pictures < 1:
            return f"[{mime}, {size} bytes, not shown]"
        try:
            raw = base64.b64decode(packed, validate=True)
        except (binascii.Error, ValueError):
            return f"[{mime}, broken]"
        self.pictures -= 1
        pictures.append(Image(mime, raw))
        return f"[{mime}, {len(raw)} bytes]"

    def _cut(self, kind: str, text: str) -> Output:
        text, most = replace_surrogates(_ANSI.sub("", text)), self.limits.output_chars
        left = len(text) - most
        if left <= 0:
            return Output(kind, text)
        head, tail = text[: most - most // 2], text[len(text) - most // 2 :]
        return Output(kind, f"{head}\n[{left} characters left out]\n{tail}", left)


def view(text: str, limits: NotebookLimits | None = None) -> NotebookView | None:
    """The notebook that ``text`` is; None if it is none."""
    try:
        book = json.loads(text, parse_int=lambda digits: int(digits[:_DIGITS]))
    except (ValueError, RecursionError):
        return None
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list) or type(book.get("nbformat")) is not int:
        return None
    reader = _CellReader(limits or NotebookLimits())
    names = _name_cells(cells)
    try:
        shown_cells = tuple(reader.cell(index, cell, names[index]) for index, cell in enumerate(cells))
    except RecursionError:  # nested so deeply that it could be read, but not written
        return None
    return NotebookView(_find_language(book), shown_cells)


def iterate_rows(book: NotebookView) -> Iterator[tuple[str, str]]:
    """The notebook line by line, each behind a label, so that no source can pass for the head of a cell."""
    for cell in book.cells:
        run = "" if cell.run is None else f", run {cell.run}"
        yield f"[{cell.index}]", f"{escape(cell.id)} ({escape(cell.kind[:40])}{run})"
        for number, line in enumerate(_split_rows(cell.source), 1):
            yield str(number), line
        for output in cell.outputs:
            for line in _split_rows(output.text) or [""]:
                yield output.kind, line
        if cell.more:
            yield "...", f"[{cell.more} more outputs left out]"


def _split_rows(text: str) -> list[str]:
    return [lines.strip_ending(line) for line in lines.split(text)]


def _name_cells(cells: list[Any]) -> list[str]:
    """The name of each cell: its id if no other cell has the same, else its index."""
    ids = [cell.get("id") if isinstance(cell, dict) else None for cell in cells]
    times = Counter(one for one in ids if isinstance(one, str))
    return [
        one if isinstance(one, str) and one and times[one] == 1 else f"cell-{index}" for index, one in enumerate(ids)
    ]


def _find_language(book: Mapping[str, object]) -> str:
    metadata = book.get("metadata")
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        part = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(part, dict) and isinstance(part.get(name), str):
            return str(part[name])
    return ""


def _join_lines(value: object) -> str | None:
    """A text that may be written as a list of lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value if isinstance(value, str) else None


def _merge_streams(outputs: list[Any]) -> Iterator[Any]:
    """The outputs, with what was printed in several pieces put together again."""
    stream: str | None = None
    pieces: list[str] = []
    for output in outputs:
        text = _join_lines(output.get("text")) if isinstance(output, dict) else None
        name = None
        if text is not None and output.get("output_type") == "stream":
            name = "stderr" if output.get("name") == "stderr" else "stdout"
        if pieces and name != stream:
            yield {"output_type": "stream", "name": stream, "text": "".join(pieces)}
            pieces = []
        if name is None:
            yield output
        else:
            pieces.append(text or "")
        stream = name
    if pieces:
        yield {"output_type": "stream", "name": stream, "text": "".join(pieces)}


def _drop_overdrawn(text: str) -> str:
    """Reduce lines that were drawn over, such as progress bars, to the text that a terminal would show."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def _describe_failure(value: Mapping[str, object]) -> str:
    trace = value.get("traceback")
    if isinstance(trace, list) and trace and all(isinstance(line, str) for line in trace):
        return "\n".join(trace)
    return f"{value.get('ename', 'Error')}: {value.get('evalue', '')}"
