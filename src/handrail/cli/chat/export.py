"""Write a conversation as Markdown, or as a page of HTML that needs nothing else."""

from __future__ import annotations

import html as html_escapes
import re
from collections.abc import Sequence

from handrail.agent.messages import Turn
from handrail.text.display import replace_surrogates

_MOST_CHARS = 20_000
"""Characters of one result that are written."""
_PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
pre {{ background: #f4f4f4; color: #222; padding: .7rem; overflow-x: auto; white-space: pre-wrap; }}
h2 {{ font-size: 1rem; margin-top: 2rem; }}
</style>
<h1>{title}</h1>
{body}
</html>
"""


def export_conversation(turns: Sequence[Turn], model: str, *, html: bool = False) -> str:
    """The whole conversation: messages, replies, calls and results."""
    title = f"Conversation with {model}"
    parts = [part for turn in turns for part in _list_parts(turn)]
    if html:
        body = "\n".join(_write_html(*part) for part in parts)
        return replace_surrogates(_PAGE.format(title=html_escapes.escape(title), body=body))
    return replace_surrogates("\n".join([f"# {title}\n", *(_write_markdown(*part) for part in parts)]))


def _list_parts(turn: Turn) -> list[tuple[str, str, bool]]:
    """Heading, text, and whether the text is shown as it is."""
    if turn.role == "tools":
        return [
            (f"Result of {result.name}{'' if result.ok else ' (failed)'}", _shorten(result.text), True)
            for result in turn.results
        ]
    who = "You" if turn.role == "user" else "Model"
    pictures = f"\n\n({len(turn.blocks)} pictures)" if turn.blocks else ""
    parts = [(who, turn.text + pictures, False)] if turn.text or pictures else []
    return parts + [(f"Call of {call.name}", call.arguments, True) for call in turn.calls]


def _shorten(text: str) -> str:
    left = len(text) - _MOST_CHARS
    return f"{text[:_MOST_CHARS]}\n... {left:,} more characters" if left > 0 else text


def _write_markdown(heading: str, text: str, raw: bool) -> str:
    if not raw:
        return f"## {heading}\n\n{text}\n"
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"### {heading}\n\n{fence}\n{text}\n{fence}\n"


def _write_html(heading: str, text: str, raw: bool) -> str:
    body = html_escapes.escape(text)
    shown = f"<pre>{body}</pre>" if raw else f'<div style="white-space: pre-wrap">{body}</div>'
    return f"<h2>{html_escapes.escape(heading)}</h2>\n{shown}"
