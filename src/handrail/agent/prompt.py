"""Build the system prompt: how to use the tools, facts about the project, and its instructions for agents."""

from __future__ import annotations

import datetime as dt
import os

from handrail.dialects import Dialect
from handrail.pipeline.any_session import AnySession
from handrail.pipeline.project import MOST_CHARS, read_instructions
from handrail.settings.config_file import find_config
from handrail.text.display import escape

_WHO = (
    "You are a coding agent in a user's project. You can access it only with the tools below. "
    "Do the task, check your work, and report the outcome plainly, also if it failed."
)
_GUIDANCE = (
    (("edit", "write"), "Change a file with {edit}; use {write} only for a new file or a complete rewrite."),
    (
        ("read", "edit"),
        "Read a file with {read} before you change it. Copy the text to replace exactly, indentation and "
        "all, but without the line numbers and their separator.",
    ),
    (("bash", "grep"), "Search with {grep}, not with grep or rg in {bash}."),
    (("bash", "glob"), "Find files with {glob}, not with find or ls in {bash}."),
    (("bash", "read"), "Look at files with {read}, not with cat, head or tail in {bash}."),
    (
        ("bash",),
        "Use {bash} to build, test and run. A command that needs approval may be refused: then explain what "
        "you wanted to do and why, and do not try to get around it.",
    ),
    (("apply_patch",), "Give {apply_patch} patches with enough context lines to make each place unique."),
)
_OFFLOADED = (
    "When a tool result is too large, it may be offloaded into the filesystem instead of being returned inline. In "
    "those cases, use {read} to inspect the saved result in chunks, or use {grep} within /large_tool_results/ if you "
    "need to search across offloaded tool results."
)


def describe_use(dialect: Dialect) -> str:
    """How to use the tools of a dialect: the part of the system prompt that knows no project."""
    if dialect.prompt:
        return dialect.prompt
    names = {entry.id: f"`{name}`" for name, entry in reversed(dialect.entries.items()) if name in dialect.core}
    rules = [text.format(**names) for needs, text in _GUIDANCE if all(need in names for need in needs)]
    if {"read", "grep", "bash"} <= names.keys():
        bare = {tool: name.strip("`") for tool, name in names.items()}
        rules.append(_OFFLOADED.format(**bare))
    return "\n\n".join([_WHO, "\n".join(f"- {rule}" for rule in rules)])


def system_prompt(session: AnySession, today: dt.date | None = None) -> str:
    """The whole of it, in the names of the session's dialect."""
    project, fill = session.describe_project(), session.dialect.templates.fill
    parts = [describe_use(session.dialect)]
    date = (today or dt.datetime.now(dt.UTC).date()).isoformat()
    facts = {"home": project.home, "repository": project.is_repository, "system": project.system, "date": date}
    parts.append(fill("prompt.facts", **facts))
    user = read_instructions(os.path.join(os.path.dirname(find_config(os.environ)), "AGENTS.md"))
    files = [("prompt.user_file", "", user), *(("prompt.project_file", *one) for one in project.instructions.items())]
    for key, name, text in files:
        if text.strip():
            parts.append(fill(key, name=name, text=text[:MOST_CHARS].strip(), cut=len(text) > MOST_CHARS))
    if project.nested:  # the model reads these files when it works there
        parts.append(fill("prompt.nested", rows="\n".join(f"- {escape(path)}" for path in project.nested)))
    return "\n\n".join(parts)
