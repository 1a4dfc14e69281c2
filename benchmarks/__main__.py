"""`python -m benchmarks`: measure and print one Markdown table. `--write` puts it into `docs/benchmarks.md`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import (
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
    shared_journal,
    shares,
    startup,
    trees,
    web,
)
from benchmarks.measure import FULL, SMALL, Line, Scale, table

PARTS = {
    "reading": reading.lines,
    "huge": huge.lines,
    "glob": globbing.lines,
    "grep": grep.lines,
    "trees": trees.lines,
    "index": index.lines,
    "bash": bash.lines,
    "drafts": drafts.lines,
    "editing": editing.lines,
    "matching": matching.lines,
    "journal": journal.lines,
    "web": web.lines,
    "shared": shared_journal.lines,
    "overhead": overhead.lines,
    "startup": startup.lines,
    "mcp": mcp.lines,
    "http": mcp_http.lines,
    "fleet": fleet.lines,
    "shares": shares.lines,
}
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def measure(scale: Scale, parts: Sequence[str] = tuple(PARTS)) -> str:
    """Everything measured, as Markdown. Works in a temporary folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="handrail-bench-") as name:
        folder = Path(name).resolve()
        collected: list[Line] = []
        for part in parts:
            for line in PARTS[part](folder, scale):
                print("  " + " | ".join(cell for cell in line.cells() if cell), file=sys.stderr, flush=True)
                collected.append(line)
        return f"{machine.facts(str(folder))}.\n\n{table(collected)}"


def written(page: str, measured: str) -> str:
    """The page with what was measured between its two marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{measured}\n{END}{after}"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the sizes, nothing installed: a quick look")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="only this part")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    asked = parser.parse_args(words)
    measured = measure(SMALL if asked.small else FULL, asked.only or tuple(PARTS))
    print(measured)
    if asked.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), measured), encoding="utf-8")


if __name__ == "__main__":
    main()
