"""`handrail eval`: small tasks for models and tools, each with a check of the resulting files."""

from __future__ import annotations

import argparse
from pathlib import Path

from handrail.agent.evaluation.tasks import TASKS, BadTask, load_tasks
from handrail.agent.evaluation.workers import SCRIPTED, BadWorker, OurAgent, do_task, open_agent
from handrail.agent.providers import ModelError
from handrail.cli.common import CommandParser, list_dialects, list_later, list_modes, open_dialect
from handrail.cli.output import UsageError, as_line, warn, write
from handrail.text.display import escape

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from handrail.agent.evaluation.tasks import EvalTask
    from handrail.agent.evaluation.workers import TaskResult, TaskWorker

_ABOUT = """\
Have a model do 20 small tasks, each in a temporary project, and check the files it leaves.

Without --model a scripted model does them, in the same way every time: what differs is then due to the tools. It makes
the mistakes that models make, and tries again when an edit fails.

  passed   tasks whose files are all as they should be
  turns    requests to the model
  tokens   of all requests, in and out; for the scripted model a quarter of the characters
  wrong    files that were changed and should not have been, or not so

Another agent does the same tasks with its own tools: one that is installed and known by name (claude, codex, opencode),
or a command line with {prompt}. With the scripted model it gets a home directory of its own; with any other --model it
uses its own model, account and settings, and --model is for our agent only."""

_EXAMPLES = """\
examples:
  handrail eval
  handrail eval --dialect native --dialect codex --details
  handrail eval --model gpt-5.2 --task fix-failing-test
  handrail eval --agent claude --agent 'my-agent --yes --url {model} {prompt}'
  handrail eval --list

exit codes: 0 all tasks passed, 1 some did not, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("eval", _ABOUT, _EXAMPLES)
    option = parser.add_argument(
        "--dialect", metavar="D", action="append", default=[], help="the tools of our agent; repeatable"
    )
    list_later(option, list_dialects)
    parser.add_argument(
        "--agent", metavar="A", action="append", default=[], help="another agent, or its command line; repeatable"
    )
    parser.add_argument("--model", metavar="M", default="scripted", help="the model (default: the scripted one)")
    parser.add_argument("--api", metavar="A", help="chat, responses or anthropic (default: by the model's name)")
    parser.add_argument("--task", metavar="T", action="append", default=[], help="only this task; repeatable")
    parser.add_argument("--tasks", metavar="DIR", help="a directory of tasks of your own (docs/evaluation.md)")
    parser.add_argument("--list", action="store_true", help="list the tasks")
    parser.add_argument("--details", action="store_true", help="a row for each task, too")
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each task, instead of tables")
    parser.add_argument("--keep", metavar="DIR", help="a new directory for the trees as the agents left them")
    about = "the approval mode of our agent; nobody can be asked (default: full)"
    parser.add_argument("--mode", choices=list_modes(), default="full", help=about)
    return parser


def run(options: argparse.Namespace) -> int:
    outcomes = []
    try:
        tasks = load_tasks(Path(options.tasks) if options.tasks else TASKS, options.task)
        if options.list:
            write("".join(f"{escape(task.id)}: {escape(task.prompt)}\n" for task in tasks))
            return 0
        workers = _open_workers(options)
        keep = Path(options.keep) if options.keep else None
        if keep:
            keep.mkdir(parents=True)
        for worker in workers:
            for task in tasks:
                outcome = do_task(worker, task, keep)
                outcomes.append(outcome)
                _report(outcome, as_json=options.json)
    except (BadTask, BadWorker, ModelError, FileExistsError) as error:
        raise UsageError(str(error)) from None
    if not options.json:
        write(_draw_table(workers, tasks, outcomes, options.details))
    return 0 if all(one.judgement.passed for one in outcomes) else 1


def _open_workers(options: argparse.Namespace) -> list[TaskWorker]:
    scripted = options.model == SCRIPTED
    dialects = options.dialect or ([] if options.agent else ["native"])
    ours: list[TaskWorker] = [
        OurAgent(options.model, open_dialect(name), options.mode, options.api) for name in dialects
    ]
    return [*ours, *(open_agent(text, scripted=scripted) for text in options.agent)]


def _report(outcome: TaskResult, *, as_json: bool) -> None:
    work, judgement = outcome.work, outcome.judgement
    if as_json:
        values: dict[str, object] = {"worker": outcome.worker, "task": outcome.task, "passed": judgement.passed}
        values |= {"turns": work.turns, "tokens": work.tokens, "wrong": list(judgement.wrong)}
        values |= {"seconds": round(outcome.seconds, 3), "why": judgement.why, "ending": work.ending}
        write(as_line(values) + "\n")
    elif not judgement.passed:
        why = "; ".join(filter(None, (judgement.why, work.ending)))
        warn(f"{escape(outcome.worker)}: {escape(outcome.task)}: {escape(why)}")


def _draw_table(
    workers: Sequence[TaskWorker], tasks: Sequence[EvalTask], outcomes: Sequence[TaskResult], details: bool
) -> str:
    rows = [("tools", "passed", "turns", "tokens", "wrong", "seconds")]
    for number, worker in enumerate(workers):
        mine = outcomes[number * len(tasks) : (number + 1) * len(tasks)]
        rows.append((worker.name, f"{sum(one.judgement.passed for one in mine)} of {len(tasks)}", *_add_up(mine)))
    if details:
        rows += [
            (f"{one.worker}: {one.task}", "yes" if one.judgement.passed else "no", *_add_up([one])) for one in outcomes
        ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for name, *figures in rows:
        cells = [figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True)]
        lines.append("  ".join([escape(name).ljust(widths[0]), *cells]) + "\n")
    return "".join(lines)


def _add_up(outcomes: Sequence[TaskResult]) -> tuple[str, str, str, str]:
    wrong = sum(len(one.judgement.wrong) for one in outcomes)
    seconds = sum(one.seconds for one in outcomes)
    turns, tokens = (
        _total(figures) for figures in zip(*((one.work.turns, one.work.tokens) for one in outcomes), strict=True)
    )
    return turns, tokens, str(wrong), f"{seconds:.1f}"


def _total(figures: Iterable[int | None]) -> str:
    known = [one for one in figures if one is not None]
    return f"{sum(known):,}" if known else "-"
