"""Replay real edits by line tags: on the same file, and on files that have changed since their tags were shown.

    python -m benchmarks.anchored EDITS.jsonl.gz

Each line of the input is an edit that worked: `{name, before, after, arguments: {old_string, new_string}}`; others are
left out. The lines that differ are sent as tags and new text in the dialect `anchored`, in four ways: on the same file;
after another edit of the same model by tags; after another program has added or removed lines elsewhere; after another
program has changed the lines themselves, or lines between them. A result is right, refused or wrong. The characters of
both forms of the arguments are counted.
"""

from __future__ import annotations

import collections
import gzip
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handrail import Session, Settings
from handrail.model import Result
from handrail.text import lines
from handrail.text.line_tags import label_line

Change = tuple[int, int, list[str]]
"""The lines from one number (from 0) up to another one, which is not among them, and what replaces them."""


def find_changes(before: list[str], after: list[str]) -> list[Change]:
    """The lines that differ, as whole lines."""
    return [(i1, i2, after[j1:j2]) for code, i1, i2, j1, j2 in lines.get_opcodes(before, after) if code != "equal"]


def as_tags(rows: list[str], changes: list[Change]) -> list[dict[str, str]]:
    """The same changes by tags."""
    labels = [label_line(number, lines.strip_ending(row)) for number, row in enumerate(rows, start=1)]
    edits: list[dict[str, str]] = []
    for start, end, new in changes:
        text = "".join(lines.strip_ending(row) + "\n" for row in new)
        text = text if text in ("", "\n") else text.removesuffix("\n") if not text.endswith("\n\n") else text
        if start == end:
            edits.append({"after": labels[start - 1] if start else "0", "text": text})
        elif end == start + 1:
            edits.append({"from": labels[start], "text": text})
        else:
            edits.append({"from": labels[start], "to": labels[end - 1], "text": text})
    return edits


def apply(rows: list[str], changes: list[Change]) -> str:
    """The text after the changes."""
    changed = list(rows)
    for start, end, new in reversed(changes):
        changed[start:end] = new
    return "".join(changed)


def shift_changes(changes: list[Change], at: int, removed: int, added: int) -> list[Change]:
    """The same changes after lines were removed and added at another place, which none of them touches."""
    return [
        (i1 + added - removed, i2 + added - removed, new) if i1 >= at + removed else (i1, i2, new)
        for i1, i2, new in changes
    ]


def pick_place(rows: list[str], changes: list[Change], rng: random.Random) -> int | None:
    """A line that no change touches, nor the lines beside it."""
    touched = {at for i1, i2, _ in changes for at in range(i1 - 1, i2 + 1)}
    free = [at for at in range(len(rows)) if at not in touched]
    return rng.choice(free) if free else None


class Replay:
    """A session on a folder, and the tally of its results."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tally: collections.Counter[tuple[str, str]] = collections.Counter()
        self.sent = self.sent_by_tags = 0

    def run(self, number: int, edit: dict[str, Any]) -> None:
        rows = lines.split(edit["before"])
        changes = find_changes(rows, lines.split(edit["after"]))
        if not changes:
            return
        by_tags = as_tags(rows, changes)
        native = {name: edit["arguments"][name] for name in ("old_string", "new_string")}
        self.sent += len(json.dumps(native, ensure_ascii=False))
        self.sent_by_tags += len(json.dumps({"edits": by_tags}, ensure_ascii=False))
        for way, play in (
            ("same file", self._same),
            ("own edit first", self._own),
            ("moved", self._moved),
            ("stale", self._stale),
        ):
            path = self.root / f"{number}-{way.replace(' ', '-')}{Path(edit['name']).suffix}"
            path.write_bytes(edit["before"].encode("utf-8", "surrogatepass"))
            with Session(self.root, dialect="anchored", settings=Settings(durable=False)) as session:
                read = session.call("Read", {"file_path": path.name, "limit": 100_000})
                offset = 1
                while read.ok and read.data.get("next_offset"):
                    offset = int(read.data["next_offset"])
                    read = session.call("Read", {"file_path": path.name, "limit": 100_000, "offset": offset})
                wanted = play(session, path, rows, changes, random.Random(number))
                if wanted is None:
                    continue
                before = path.read_bytes()
                result = session.call("Edit", {"file_path": path.name, "edits": by_tags})
            self._judge(way, path, before, wanted, result)
            path.unlink()

    def _judge(self, way: str, path: Path, before: bytes, wanted: set[str], result: Result) -> None:
        now = path.read_bytes()
        if result.error:
            verdict = "refused" if now == before else "WRONG: changed and refused"
        else:
            verdict = "right" if now.decode("utf-8", "surrogatepass") in wanted else "WRONG"
        if verdict.startswith("WRONG"):
            print(f"--- {path.name} {way}: {result.text[:2000]}")
        self.tally[way, verdict] += 1

    def _same(self, _: Session, __: Path, rows: list[str], changes: list[Change], ___: random.Random) -> set[str]:
        return {apply(rows, changes)}

    def _own(
        self, session: Session, path: Path, rows: list[str], changes: list[Change], rng: random.Random
    ) -> set[str] | None:
        at = pick_place(rows, changes, rng)
        if at is None:
            return None
        end = lines.get_ending(rows[at]) or "\n"
        new = [rows[rng.randrange(len(rows))].rstrip("\r\n") + end for _ in range(rng.randint(0, 6))]
        if not rows[at].endswith(("\n", "\r")):
            return None
        first = session.call("Edit", {"file_path": path.name, "edits": as_tags(rows, [(at, at + 1, new)])})
        if first.error or path.read_bytes().decode("utf-8", "surrogatepass") != apply(rows, [(at, at + 1, new)]):
            return None
        shifted = apply(rows, [(at, at + 1, new)])
        return {apply(lines.split(shifted), shift_changes(changes, at, 1, len(new)))}

    def _moved(
        self, _: Session, path: Path, rows: list[str], changes: list[Change], rng: random.Random
    ) -> set[str] | None:
        at = pick_place(rows, changes, rng)
        if at is None:
            return None
        new = [rows[rng.randrange(len(rows))].rstrip("\r\n") + "\n" for _ in range(rng.randint(0, 6))]
        shifted = apply(rows, [(at, at + 1, new)])
        path.write_bytes(shifted.encode("utf-8", "surrogatepass"))
        return {apply(lines.split(shifted), shift_changes(changes, at, 1, len(new)))}

    def _stale(self, _: Session, path: Path, rows: list[str], changes: list[Change], rng: random.Random) -> set[str]:
        named = [change for change in changes if change[1] > 0]
        if not named:  # an insertion at the top, which names no line
            return {apply(rows, changes)}
        start, end, _new = rng.choice(named)
        at = min(rng.randrange(start, end) if end > start else max(0, start - 1), len(rows) - 1)
        other = [*rows]
        how = rng.randrange(3)
        if how == 0:
            other[at] = "changed by another program\n"
        elif how == 1:
            del other[at]
        else:
            other[at] = rows[rng.randrange(len(rows))]
        text = "".join(other)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return {apply(rows, changes)} if text == "".join(rows) else set()


def load(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(name, "rt", encoding="utf-8") as file:
        for line in file:
            edit = json.loads(line)
            if edit.get("kind", "ok") == "ok" and "after" in edit and edit["before"]:
                yield edit


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        replay = Replay(Path(folder))
        for number, edit in enumerate(load(sys.argv[1])):
            replay.run(number, edit)
    for (way, verdict), count in sorted(replay.tally.items()):
        print(f"{way:16} {verdict:10} {count}")
    saved = 1 - replay.sent_by_tags / replay.sent
    print(f"characters: {replay.sent} as texts, {replay.sent_by_tags} by tags: {saved:.1%} saved")


if __name__ == "__main__":
    main()
