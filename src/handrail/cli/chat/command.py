"""`handrail chat`: a conversation with a model that works in the project."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import nullcontext

from handrail.agent.store import Store
from handrail.cli.chat.first_prompt import early_prompt
from handrail.cli.chat.plan import ChatPlan, add_options, make_plan
from handrail.cli.common import CommandParser, find_state
from handrail.cli.output import escape_for_terminal, is_interactive, on_terminal, write
from handrail.text.display import escape

_ABOUT = """\
Chat with a model that uses Handrail's tools in your project. Calls that need approval are asked at the terminal.

Works with any model behind Chat Completions or Responses (OPENAI_API_KEY, or OPENAI_BASE_URL for your own server) or
Anthropic Messages (ANTHROPIC_API_KEY). Every reply is saved at once, however the program ends."""

_EXAMPLES = """\
examples:
  handrail chat --model claude-sonnet-4-5
  OPENAI_BASE_URL=http://127.0.0.1:11434/v1 handrail chat --model qwen3-coder -w path/to/project
  handrail chat --continue

in the chat: /help lists the commands; Ctrl-C stops a reply, twice quits; Ctrl-D quits
exit codes: 0 quit, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("chat", _ABOUT, _EXAMPLES)
    add_options(parser)
    parser.add_argument("--list", action="store_true", help="list the stored conversations, newest first")
    return parser


def run(options: argparse.Namespace) -> int:
    if options.list:
        return _list_conversations()
    return _chat(make_plan(options))


def _chat(plan: ChatPlan) -> int:
    """A chat, until the person leaves; returns the exit code."""
    at_terminal = is_interactive() and on_terminal(sys.stdin)
    if at_terminal:
        _print_title(plan)
    with early_prompt() if at_terminal else nullcontext():
        from handrail.cli.chat.repl import chat_at_terminal, chat_by_lines  # slow to import: the prompt comes first

        return chat_at_terminal(plan) if at_terminal else chat_by_lines(plan)


def _print_title(plan: ChatPlan) -> None:
    title = f"{escape(plan.model)} · {escape(plan.workspace)} · {plan.mode} · /help"
    print(f"\x1b[2m{title}\x1b[0m" if "NO_COLOR" not in os.environ else title, flush=True)


def _list_conversations() -> int:
    for stored in Store(find_state()).all():
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(stored.when))
        first = escape(" ".join(stored.first.split()))[:60]
        row = f"{stored.id}  {when}  {escape(stored.model)}  {escape(stored.workspace)}  {first}"
        if stored.first and not write(escape_for_terminal(row) + "\n"):
            break
    return 0
