"""`handrail chat`: a conversation with a model that works in the project."""

from __future__ import annotations

import argparse

from handrail.cli.chat.plan import add_options, make_plan
from handrail.cli.common import CommandParser, open_config
from handrail.cli.output import safe, write

_ABOUT = """\
Talk to a model that works in the project with Handrail's tools. What the rules ask about is asked at the terminal.

The model is any that speaks Chat Completions, Responses (OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own)
or Anthropic Messages (ANTHROPIC_API_KEY). Everything that was answered is kept, whatever ends the program."""

_EXAMPLES = """\
examples:
  handrail chat --model claude-sonnet-4-5
  OPENAI_BASE_URL=http://127.0.0.1:11434/v1 handrail chat --model qwen3-coder -w path/to/project
  handrail chat --continue

in the chat: /help lists the commands; Ctrl-C stops an answer, twice leaves; Ctrl-D leaves
exit codes: 0 left, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    made = CommandParser("chat", _ABOUT, _EXAMPLES)
    add_options(made)
    made.add_argument("--list", action="store_true", help="list the conversations that are kept, the newest first")
    return made


def run(options: argparse.Namespace) -> int:
    if options.list:
        return _listed()
    plan = make_plan(options)
    from handrail.cli.chat.repl import chat

    return chat(plan)


def _listed() -> int:
    import time

    from handrail.agent.store import Store
    from handrail.files.locks import state_directory
    from handrail.text.display import escape

    for kept in Store(state_directory(open_config().settings.state)).all():
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.when))
        first = escape(" ".join(kept.first.split()))[:60]
        row = f"{kept.id}  {when}  {escape(kept.model)}  {escape(kept.workspace)}  {first}"
        if kept.first and not write(safe(row) + "\n"):
            break
    return 0
