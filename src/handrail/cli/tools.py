"""`handrail tools`: show the tool definitions, as a list or in the format of an API."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict

from handrail.agent.prompt import describe_use
from handrail.cli.common import CommandParser, add_dialect, list_dialects, open_dialect
from handrail.cli.output import Screen, UsageError, as_document, write
from handrail.text.display import escape
from handrail.wire.anthropic import build_tool
from handrail.wire.mcp import convert_hints
from handrail.wire.openai import build_chat_tool

TYPE_CHECKING = False  # type checkers know this name; importing `typing` would be slow
if TYPE_CHECKING:
    from handrail.dialects import Spec

_ABOUT = """\
Show the tool definitions for a model: a list for people, or with --format a JSON array.

  json       {name, description, schema}
  openai     {type: "function", function: {name, description, parameters}}
  anthropic  {name, description, input_schema}
  mcp        {name, description, inputSchema, annotations: {readOnlyHint, destructiveHint, ...}}"""

_EXAMPLES = """\
examples:
  handrail tools
  handrail tools --tokens                               the size of each dialect
  handrail tools --tokens --dialect claude              the size of each of its tools
  handrail tools --dialect codex --prompt               a system prompt for an agent of your own
  handrail tools --dialect claude --format anthropic > tools.json"""


def _to_json(spec: Spec) -> dict[str, object]:
    return {"name": spec.name, "description": spec.description, "schema": spec.schema}


def _to_mcp(spec: Spec) -> dict[str, object]:
    hints = convert_hints(asdict(spec.hints))
    return {"name": spec.name, "description": spec.description, "inputSchema": spec.schema, "annotations": hints}


_FORMATS: dict[str, Callable[[Spec], dict[str, object]]] = {
    "json": _to_json,
    "openai": build_chat_tool,
    "anthropic": build_tool,
    "mcp": _to_mcp,
}


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("tools", _ABOUT, _EXAMPLES)
    add_dialect(parser)
    parser.set_defaults(dialect=None)  # so that --tokens knows whether a dialect was named
    parser.add_argument(
        "--tokens", action="store_true", help="the size of each dialect in tokens, or with --dialect of each tool"
    )
    parser.add_argument("--prompt", action="store_true", help="print a system prompt that says how to use the tools")
    parser.add_argument("--format", choices=list(_FORMATS), help="print JSON in this format instead of a list")
    return parser


def run(options: argparse.Namespace) -> int:
    if options.tokens + options.prompt + bool(options.format) > 1:
        raise UsageError("give one of --tokens, --prompt and --format")
    if options.tokens:
        return _print_tokens(options.dialect)
    dialect = open_dialect(options.dialect or "native")
    specs = [dialect.spec(name) for name in dialect.entries]
    if options.prompt:
        write(describe_use(dialect) + "\n")
        return 0
    if options.format:
        write(as_document([_FORMATS[options.format](spec) for spec in specs]))
        return 0
    rows = [(escape(spec.name), estimate_tokens(spec), get_first_sentence(spec.description)) for spec in specs]
    wide = max((len(name) for name, _, _ in rows), default=0)
    head = f"Dialect {escape(dialect.name)}: {len(rows)} tools, about {sum(row[1] for row in rows)} tokens"
    lines = [(f"{name:<{wide}}", f"  {tokens:>5} tokens  {sentence}") for name, tokens, sentence in rows]
    screen = Screen(sys.stdout)
    write(screen.render((head, "bold")) + "".join(screen.render((name, "green"), (rest, "")) for name, rest in lines))
    return 0


def _print_tokens(name: str | None) -> int:
    """Print the size of the definitions in tokens: per tool of a dialect, or per dialect."""
    rows: list[tuple[str, int, str]] = []
    for one in [name] if name else list_dialects():
        dialect = open_dialect(one)
        weights = {tool: estimate_tokens(dialect.spec(tool)) for tool in dialect.entries}
        core = sum(weights[tool] for tool in dialect.core)
        if name:
            rows += [
                (escape(tool), tokens, "" if tool in dialect.core else "on request") for tool, tokens in weights.items()
            ]
        more = len(weights) - len(dialect.core)
        extra = f", all {len(weights)} of them {sum(weights.values())}" if more else ""
        rows.append((escape(dialect.name), core, f"{len(dialect.core)} tools{extra}"))
    wide = max(len(label) for label, _, _ in rows)
    write("".join(f"{label:<{wide}}  {tokens:>5} tokens  {rest}".rstrip() + "\n" for label, tokens, rest in rows))
    return 0


def estimate_tokens(spec: Spec) -> int:
    """Estimate the tokens of a tool's definition, at four characters per token."""
    return (len(json.dumps(spec.schema, ensure_ascii=False)) + len(spec.description)) // 4


def get_first_sentence(description: str) -> str:
    """The start of a description, on one line."""
    text = " ".join(description.split())
    match = re.match(r".*?[.!?](?=\s|$)", text)
    sentence = match[0] if match else text
    return sentence if len(sentence) <= 120 else sentence[:117] + "..."
