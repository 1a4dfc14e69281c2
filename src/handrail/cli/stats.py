"""`handrail log stats`: figures over the calls in the journal."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from handrail.cli.common import CommandParser
from handrail.cli.log import add_journal, add_project, get_project, open_reader
from handrail.cli.output import Screen, as_document, write

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.journal.queries import StorageUse, ToolStats

_ABOUT = """\
Count calls, failures, refusals, characters and tokens for each tool in this project (--all: in all of them), failures
by code, and the size of the journal.

`chars sent` are those of the answers. `chars saved` estimates what the model did not have to read: output and lines
that an answer leaves out, and the answers that a script got. Tokens are estimated as characters divided by four. `in`
counts the arguments, `out` the results."""

_EXAMPLES = """\
examples:
  handrail log stats
  handrail log stats --session 3f9a1c20 --json"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("log stats", _ABOUT, _EXAMPLES)
    parser.add_argument("--session", metavar="S", default="", help="only the calls of this session")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    add_project(parser)
    add_journal(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    with open_reader(options) as reader:
        tools, codes = reader.compute_stats(session=options.session, project=get_project(options))
        use, size = reader.measure_use(), reader.measure_journal()
    if options.json:
        listed = [{**asdict(one), "tokens_in": one.chars_in // 4, "tokens_out": one.chars_out // 4} for one in tools]
        write(as_document({"tools": listed, "failures": codes, "images": asdict(use), "journal_bytes": size}))
    else:
        write(_format_table(tools, codes, use, size))
    return 0


def _format_table(tools: list[ToolStats], codes: dict[str, int], use: StorageUse, size: int) -> str:
    screen = Screen(sys.stdout)
    head = ("tool", "calls", "failed", "refused", "chars sent", "chars saved", "tokens in", "tokens out", "mean ms")
    parts = [screen.render((f"{head[0]:16}" + "".join(f"{name:>12}" for name in head[1:]), "bold"))]
    for one in tools:
        counts = (one.calls, one.failures, one.refusals, one.chars_out, one.chars_saved)
        figures = (*counts, one.chars_in // 4, one.chars_out // 4)
        mean = one.milliseconds / one.calls
        row = "".join(f"{figure:>12}" for figure in figures)
        parts.append(screen.render((f"{one.tool:16}", "cyan"), (f"{row}{mean:>12.1f}", "")))
    names = ("calls", "failures", "refusals", "chars_out", "chars_saved", "chars_in", "chars_out")
    totals = [sum(getattr(one, name) for one in tools) for name in names]
    totals[-2:] = [total // 4 for total in totals[-2:]]
    parts.append(screen.render((f"{'all':16}" + "".join(f"{figure:>12}" for figure in totals), "bold")))
    if codes:
        parts.append(screen.render(("\nfailures and refusals by code", "bold")))
        parts += [screen.render((f"{count:>6}  ", ""), (code, "red")) for code, count in codes.items()]
    parts.append(
        screen.render(
            ("\njournal ", "bold"),
            (f"{size:,} bytes, of which {use.size:,} keep {use.count} old contents", ""),
        )
    )
    return "".join(parts)
