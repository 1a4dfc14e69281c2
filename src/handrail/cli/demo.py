"""`handrail demo`: a whole agent at work on a throwaway project, in a story that checks itself as it goes."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from handrail.cli.common import verb_parser
from handrail.cli.output import Screen, Stop, UsageError, on_terminal
from handrail.extras import MissingExtra, needs

if TYPE_CHECKING:
    from handrail.agent.scripted import Script
    from handrail.cli.demo_telling import Telling
    from handrail.pipeline.prepared import Approve

_APIS = ("chat", "responses", "anthropic")
_DELAY = 0.015
_ABOUT = """\
Play a short true story on a project that is made for it in a temporary folder and removed afterwards: a model turns
TODO into DONE, mends an edit that failed, is refused a command, and its last change is taken back.

The model is scripted: a small server on this machine that replays lines in a model's place, over the real protocol.
With --model a real one does the work. All else is real in both cases: HTTP, streaming, loop, rules, approvals, tools,
files and journal. Every step is checked: the exit code is 0 only if all came out as told."""

_LABEL = """\
The model is SCRIPTED: a server on {} replays lines in a model's place, over the real Chat Completions protocol.
All else is real: HTTP, streaming, the loop, the rules (mode `ask`), approvals, tools, files and the journal."""

_EXAMPLES = """\
examples:
  handrail demo
  handrail demo --ask            you answer the questions, in the terminal
  handrail demo --model M        with a real model: set OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY
  handrail demo --tools          another story, of the tools alone: bytes, refusals, parallel edits
  handrail demo | less           without colours"""

_NEXT = (
    ("chat", "handrail chat --model M", "the same on your own project, with a model of yours"),
    ("demo", "handrail demo --tools", "the tools alone: bytes kept, 20 edits at once"),
    ("call", "handrail call Read file_path=README.md", "one call, on your own files"),
    ("mcp", "handrail mcp --help", "these tools in the agent you have"),
)


def parser() -> argparse.ArgumentParser:
    made = verb_parser("demo", _ABOUT, _EXAMPLES)
    made.add_argument("--model", metavar="M", help="a real model in the place of the script")
    made.add_argument("--api", choices=_APIS, help="what the model's server speaks (default: by the model's name)")
    made.add_argument("--ask", action="store_true", help="ask the person at the terminal; else the demo answers yes")
    made.add_argument("--tools", action="store_true", help="the story of the tools alone, without a model")
    return made


def run(options: argparse.Namespace) -> int:
    if options.tools and (options.model or options.api or options.ask):
        raise UsageError("--tools plays without a model and asks nobody: leave out --model, --api and --ask")
    if options.api and not options.model:
        raise UsageError("--api goes with --model: the script speaks Chat Completions")
    from handrail.cli.demo_telling import Telling

    telling = Telling(Screen(sys.stdout))
    with tempfile.TemporaryDirectory(prefix="handrail-demo-") as folder:
        if options.tools:
            from handrail.cli import demo_tools

            demo_tools.tell(Path(folder), telling)
        elif options.model:
            _for_real(Path(folder), telling, options)
        else:
            from handrail.cli.demo_script import script

            delay = _DELAY if on_terminal(sys.stdout) else 0.0
            with _person(options) as asked:
                played(Path(folder), telling, script(delay), asked)
    if not telling.end():
        return 1
    _next(telling, options.tools)
    return 0


def played(folder: Path, telling: Telling, script: Script, asked: Approve | None = None) -> None:
    """The story with a script in the model's place."""
    try:
        with needs("agent"):
            from openai import DefaultHttpxClient, OpenAI
    except MissingExtra as error:
        raise Stop(f"{error}; `handrail demo --tools` plays without it") from None
    from handrail.agent.providers.chat import ChatModel
    from handrail.agent.scripted import ScriptedServer
    from handrail.cli.demo_story import Story

    # A proxy that is set for the world outside has no way to this server.
    with ScriptedServer(script) as server, DefaultHttpxClient(trust_env=False) as http:
        client = OpenAI(api_key="none", base_url=server.url, max_retries=0, http_client=http)
        model = ChatModel("scripted", {"OPENAI_BASE_URL": server.url}, 128_000, client)
        telling.say("A whole agent at work on a throwaway project.", "bold")
        telling.say(_LABEL.format(server.url.removeprefix("http://")))
        with Story(folder, telling, model, "native", server, asked) as story:
            story.tell()


def _for_real(folder: Path, telling: Telling, options: argparse.Namespace) -> None:
    from handrail.agent.providers import ModelError, family, open_model
    from handrail.cli.demo_story import Story

    try:
        model = open_model(options.model, os.environ, options.api)
    except ModelError as error:
        raise Stop(str(error)) from None
    with _person(options) as asked:
        telling.say(f"A whole agent at work on a throwaway project; the model is {options.model}.", "bold")
        telling.say("What it says and how it goes about the tasks is its own: only what must come of them is checked.")
        with Story(folder, telling, model, family(options.model).dialect, None, asked) as story:
            story.tell()


@contextmanager
def _person(options: argparse.Namespace) -> Iterator[Approve | None]:
    """Whoever is to answer, for whom Ctrl-C ends the question too; None: the demonstration itself."""
    if not options.ask:
        yield None
        return
    import signal

    from handrail.cli.asking import Asker
    from handrail.cli.chat.approvals import StoppableTty

    tty = StoppableTty.open()
    if not isinstance(tty, StoppableTty):
        raise UsageError("--ask needs a terminal with somebody in front of it")

    def pressed(*_: object) -> None:
        tty.stop()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield Asker(tty)
    finally:
        signal.signal(signal.SIGINT, before)
        tty.close()


def _next(telling: Telling, tools: bool) -> None:
    from handrail.cli import VERBS

    telling.say("\nWhat to type next:", "bold")
    for verb, line, about in _NEXT:
        if verb in VERBS and not (tools and verb == "demo"):
            telling.say(f"  {line:<40} {about}")
