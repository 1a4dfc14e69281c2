"""`python -m benchmarks`: measure and print a Markdown table a part. `--write` puts them into `docs/measured.md`."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import (
    attach,
    bash,
    drafts,
    editing,
    fleet,
    globbing,
    grep,
    huge,
    index,
    journal,
    machine,
    matching,
    mcp,
    mcp_http,
    overhead,
    reading,
    real,
    shared_journal,
    shares,
    startup,
    trees,
    web,
)
from benchmarks.measure import FULL, SMALL, Line, Scale, table


class Part(NamedTuple):
    """A part of the benchmarks: the title of its section of the page, and what measures it."""

    title: str
    lines: Callable[[Path, Scale], Iterable[Line]]


PARTS = {
    "reading": Part("Reading ten million lines", reading.lines),
    "huge": Part("Reading 2 GB", huge.lines),
    "glob": Part("Glob", globbing.lines),
    "grep": Part("Grep", grep.lines),
    "trees": Part("Trees like real projects", trees.lines),
    "index": Part("Grep with an index", index.lines),
    "bash": Part("Commands", bash.lines),
    "drafts": Part("Drafts", drafts.lines),
    "editing": Part("Editing", editing.lines),
    "matching": Part("Matching", matching.lines),
    "journal": Part("Journal", journal.lines),
    "web": Part("Browser page", web.lines),
    "shared": Part("Shared journal", shared_journal.lines),
    "overhead": Part("A small call", overhead.lines),
    "startup": Part("Start-up", startup.lines),
    "attach": Part("Attached agents", attach.lines),
    "mcp": Part("MCP over stdio", mcp.lines),
    "http": Part("MCP over HTTP", mcp_http.lines),
    "fleet": Part("Remote sessions and fleets", fleet.lines),
    "shares": Part("Parts of an Edit", shares.lines),
    "real": Part("A real tree", real.lines),
}
PAGE = Path(__file__).parent.parent / "docs" / "measured.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def measure(scale: Scale, names: Iterable[str] = tuple(PARTS)) -> Iterator[tuple[str, str]]:
    """The title of each part and what was measured, as Markdown. Works in a temporary folder, removed at the end."""
    for name in names:
        title, run = PARTS[name]
        busy = os.getloadavg()[0]
        with tempfile.TemporaryDirectory(prefix="handrail-bench-") as place:
            folder = Path(place).resolve()
            collected: list[Line] = []
            for line in run(folder, scale):
                print("  " + " | ".join(cell for cell in line.cells() if cell), file=sys.stderr, flush=True)
                collected.append(line)
            about = f"{dt.date.today()}: {machine.facts(str(folder))}; {busy:.1f} processes were running before."
        yield title, f"{about}\n\n{table(collected)}"


def put_into(page: str, title: str, measured: str) -> str:
    """The page with what was measured in the section of that title, between its two marks; in the order of `PARTS`."""
    before, begin, rest = page.partition(BEGIN)
    middle, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} needs the lines {BEGIN} and {END}")
    sections = dict(re.findall(r"^### (.*)\n\n((?:(?!### ).*\n)*)", middle, re.MULTILINE))
    sections[title] = measured + "\n\n"
    ordered = (f"### {part.title}\n\n{sections[part.title]}" for part in PARTS.values() if part.title in sections)
    return f"{before}{BEGIN}\n{''.join(ordered)}{END}{after}"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the sizes, nothing installed: a quick look")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="only this part; repeatable")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/measured.md")
    asked = parser.parse_args(words)
    for title, measured in measure(SMALL if asked.small else FULL, asked.only or tuple(PARTS)):
        print(f"### {title}\n\n{measured}\n", flush=True)
        if asked.write:
            PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), title, measured), encoding="utf-8")


if __name__ == "__main__":
    main()
