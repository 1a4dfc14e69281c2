"""`handrail run`: one task for a model, and an exit status that tells how it ended."""

from __future__ import annotations

import argparse
import sys

from handrail.agent.providers import ModelError
from handrail.cli.chat.attachments import describe_named_files, load_pictures
from handrail.cli.chat.events import JsonEvents
from handrail.cli.chat.interrupts import Leave, ended_in_order
from handrail.cli.chat.opening import Work
from handrail.cli.chat.plan import add_options, make_plan
from handrail.cli.chat.repl import answer
from handrail.cli.chat.screen import open_screen
from handrail.cli.common import MOST_INPUT, CommandParser
from handrail.cli.output import UsageError

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.cli.chat.plan import ChatPlan

_ABOUT = """\
Give a model one task in the project. Calls that need approval are asked at the terminal; without a terminal they are
refused, and the model continues.

The model's text goes to stdout, calls and figures go to stderr. With --json, stdout is one event a line: said,
reasoned, asked, began, ended, waiting, compacted, and at the end over, with how it ended and the id of the
conversation."""

_EXAMPLES = """\
examples:
  handrail run "fix the failing test" --model gpt-5.2 --mode accept-edits
  git diff | handrail run - --mode read-only
  handrail run "go on" --continue --json

exit codes: 0 done, 1 failed, 2 wrong usage, 3 stopped at a limit, 4 the model repeated itself, 130 cancelled"""

CODES = {"done": 0, "failed": 1, "steps": 3, "tokens": 3, "loop": 4, "cancelled": 130}


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("run", _ABOUT, _EXAMPLES)
    parser.add_argument("task", metavar="TASK", help="what to do; - reads it from stdin")
    parser.add_argument("--json", action="store_true", help="print only events, as JSON lines")
    add_options(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    task = _read_stdin() if options.task == "-" else options.task
    if not task.strip():
        raise UsageError("the task is empty; describe what to do")
    return _run(make_plan(options), task, options.json)


def _run(plan: ChatPlan, task: str, as_json: bool) -> int:
    events = JsonEvents() if as_json else None
    work = Work(plan, events or open_screen())
    if events:
        events.gone = work.stop
    code = CODES["cancelled"]
    try:
        with ended_in_order(work.stop):
            work.agent()  # what is missing is wrong usage, before anything was asked
            pictures = load_pictures(task, plan.workspace)
            ending = answer(work, "\n".join([task, *describe_named_files(task, plan.workspace)]), pictures)
        code = CODES[ending.how] if ending else code
    except ModelError as error:
        raise UsageError(str(error)) from None
    except (Leave, KeyboardInterrupt) as left:
        ending = None
        code = getattr(left, "code", 0) or code
    finally:
        work.close()
    if events:
        how = ending.how if ending else "cancelled"
        conversation = work.conversation.id if work.conversation else None
        text = ending.text if ending else "stopped"
        events.line({"event": "over", "how": how, "text": text, "conversation": conversation})
    return code


def _read_stdin() -> str:
    raw = sys.stdin.buffer.read(MOST_INPUT + 1)
    if len(raw) > MOST_INPUT:
        raise UsageError(f"the task is longer than {MOST_INPUT >> 20} MB")
    return raw.decode("utf-8", "replace")
