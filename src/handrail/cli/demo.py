"""`handrail demo`: show an agent at work on a temporary project and check every step."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from handrail.agent.providers import ModelError, family, open_model
from handrail.agent.providers.chat import ChatModel
from handrail.approval.terminal import TerminalAsker
from handrail.cli.chat.approvals import StoppableTty
from handrail.cli.common import CommandParser
from handrail.cli.output import Screen, Stop, UsageError, on_terminal
from handrail.programs import find_on_path
from handrail_demo import draft_story, tools_story
from handrail_demo.agent_story import Story
from handrail_demo.report import DemoReport
from handrail_demo.script import script
from handrail_demo.scripted_server import ScriptedServer

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.model import Approve
    from handrail_demo.scripted_server import Script

_APIS = ("chat", "responses", "anthropic")
_DELAY = 0.015
_ABOUT = """\
Show an agent at work on a small project in a temporary folder, which is removed afterwards. The model replaces TODO
with DONE, corrects a failed edit and tries two commands that are refused. Then its last change is undone. At the end a
script deletes and rewrites files in a draft; you see its changes, and they are taken back.

The model is scripted: a small server on this machine replays prepared replies over the real protocol. With --model a
real model does the work. Everything else is real in both cases: HTTP, streaming, agent loop, rules, approvals, tools,
files and journal. Every step is checked; the exit code is 0 only if all checks pass."""

_LABEL = """\
The model is SCRIPTED: a server on {} replays prepared replies over the real Chat Completions protocol.
Everything else is real: HTTP, streaming, the loop, the rules (mode `ask`), approvals, tools, files and the journal."""

_EXAMPLES = """\
examples:
  handrail demo
  handrail demo --ask            you answer the questions, in the terminal
  handrail demo --model M        with a real model: set OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY
  handrail demo --tools          the tools alone: exact bytes, refusals, parallel edits
  handrail demo | less           without colours"""

_NEXT = (
    ("attach claude", "rules, a record and undo inside Claude Code; also codex and opencode"),
    ("doctor", "what works on this machine, and how to get the rest"),
    ("demo --tools", "the tools alone: exact bytes, 20 edits at once"),
    ("call LS path=.", "one call, on your own files"),
    ("chat --help", "the agent in your terminal"),
)


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("demo", _ABOUT, _EXAMPLES)
    parser.add_argument("--model", metavar="M", help="use this real model instead of the script")
    parser.add_argument("--api", choices=_APIS, help="the API of the model (default: by its name)")
    parser.add_argument("--ask", action="store_true", help="ask you at the terminal; otherwise the demo answers yes")
    parser.add_argument("--tools", action="store_true", help="show the tools alone, without a model")
    return parser


def run(options: argparse.Namespace) -> int:
    if options.tools and (options.model or options.api or options.ask):
        raise UsageError("--tools uses no model: leave out --model, --api and --ask")
    if options.api and not options.model:
        raise UsageError("--api needs --model: the script always uses Chat Completions")

    report = DemoReport(Screen(sys.stdout))
    with tempfile.TemporaryDirectory(prefix="handrail-demo-") as folder:
        if options.tools:
            tools_story.run(Path(folder), report)
        elif options.model:
            _run_real(Path(folder), report, options)
        else:
            delay = _DELAY if on_terminal(sys.stdout) else 0.0
            with _open_person(options) as approve:
                play(Path(folder), report, script(delay), approve)
            (Path(folder) / "draft").mkdir()
            draft_story.run(Path(folder) / "draft", report)
    if not report.finish():
        return 1
    _print_next(report, options.tools)
    return 0


def play(folder: Path, report: DemoReport, script: Script, approve: Approve | None = None) -> None:
    """Run the story with a scripted model."""
    from openai import DefaultHttpxClient, OpenAI

    # A configured proxy cannot reach this server.
    with ScriptedServer(script) as server, DefaultHttpxClient(trust_env=False) as http:
        client = OpenAI(api_key="none", base_url=server.url, max_retries=0, http_client=http)
        model = ChatModel("scripted", {"OPENAI_BASE_URL": server.url}, 128_000, client)
        report.say("An agent at work on a temporary project.", "bold")
        report.say(_LABEL.format(server.url.removeprefix("http://")))
        with Story(folder, report, model, "native", server, approve) as story:
            story.run()


def _run_real(folder: Path, report: DemoReport, options: argparse.Namespace) -> None:
    try:
        model = open_model(options.model, os.environ, options.api)
    except ModelError as error:
        raise Stop(str(error)) from None
    with _open_person(options) as approve:
        report.say(f"An agent at work on a temporary project; the model is {options.model}.", "bold")
        report.say("The model decides how to do the tasks: only the outcome is checked.")
        with Story(folder, report, model, family(options.model).dialect, None, approve) as story:
            story.run()


@contextmanager
def _open_person(options: argparse.Namespace) -> Iterator[Approve | None]:
    """The person at the terminal, with Ctrl-C ending a question; None if the demo answers by itself."""
    if not options.ask:
        yield None
        return

    tty = StoppableTty.open()
    if not isinstance(tty, StoppableTty):
        raise UsageError("--ask needs a terminal")

    def pressed(*_: object) -> None:
        tty.stop()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield TerminalAsker(tty)
    finally:
        signal.signal(signal.SIGINT, before)
        tty.close()


def _print_next(report: DemoReport, tools: bool) -> None:
    """What to type next, in words that work as they stand there."""
    program = find_own_program()
    report.say("\nNext steps:", "bold")
    for words, about in _NEXT:
        if not (tools and words == "demo --tools"):
            report.say(f"  {f'{program} {words}':<{len(program) + 30}} {about}")


def find_own_program() -> str:
    """How this program is called here: by its name if the shell finds it, else by its path."""
    beside = os.path.join(os.path.dirname(sys.executable), "handrail")
    on_path = find_on_path("handrail")
    if on_path and os.path.realpath(on_path) == os.path.realpath(beside):
        return "handrail"
    if not os.access(beside, os.X_OK):
        return f"{shlex.quote(sys.executable)} -m handrail"
    near = os.path.relpath(beside)
    return shlex.quote(beside if near.startswith("..") else near)
