"""Build the system prompt: how to use the tools, facts about the project, and its instructions for agents."""

from __future__ import annotations

import datetime as dt
import os

from handrail.pipeline.project import MOST_CHARS, ProjectFacts, read_instructions
from handrail.pipeline.session import Session
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


def system_prompt(session: Session, today: dt.date | None = None) -> str:
    """The whole of it, in the names of the session's dialect."""
    names = {entry.id: f"`{name}`" for name, entry in reversed(session.dialect.entries.items())}
    own, project = session.dialect.prompt, session.describe_project()
    rules = [text.format(**names) for needs, text in _GUIDANCE if all(need in names for need in needs)]
    if {"read", "grep", "bash"} <= names.keys():
        bare = {tool: name.strip("`") for tool, name in names.items()}
        rules.append(_OFFLOADED.format(**bare))
    parts = [own or _WHO, "\n".join(f"- {rule}" for rule in rules), _describe_facts(project, today)]
    user = read_instructions(os.path.join(os.path.dirname(find_config(os.environ)), "AGENTS.md"))
    parts.append(_quote_file("The user's AGENTS.md for all projects", user))
    parts += [_quote_file(f"The project's {name}", text) for name, text in project.instructions.items()]
    parts.append(_list_nested(project))
    return "\n\n".join(part for part in parts if part)


def _describe_facts(project: ProjectFacts, today: dt.date | None) -> str:
    date = (today or dt.datetime.now(dt.UTC).date()).isoformat()
    repository = "a git repository" if project.is_repository else "not a git repository"
    return f"The project is {project.home} ({repository}). The system is {project.system}; today is {date}."


def _quote_file(title: str, text: str) -> str:
    cut = "\n(The rest is left out.)" if len(text) > MOST_CHARS else ""
    return f"{title} says:\n\n{text[:MOST_CHARS].strip()}{cut}" if text.strip() else ""


def _list_nested(project: ProjectFacts) -> str:
    """Name the AGENTS.md files of directories: the model reads them when it works there."""
    if not project.nested:
        return ""
    rows = "\n".join(f"- {escape(path)}" for path in project.nested)
    return (
        "These directories have instructions of their own. Read the file before you change anything in its directory "
        f"or below; the nearest file counts most.\n{rows}"
    )
