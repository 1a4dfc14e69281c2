"""Build the system prompt: how to use the tools, facts about the project, and its instructions for agents."""

from __future__ import annotations

import datetime as dt
import os
import platform
import stat

from handrail.pipeline.session import Session

_MOST_CHARS = 40_000
_PROJECT = ("AGENTS.md", "CLAUDE.md")
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
    own = session.dialect.prompt
    rules = [text.format(**names) for needs, text in _GUIDANCE if all(need in names for need in needs)]
    if {"read", "grep", "bash"} <= names.keys():
        bare = {tool: name.strip("`") for tool, name in names.items()}
        rules.append(_OFFLOADED.format(**bare))
    parts = [own or _WHO, "\n".join(f"- {rule}" for rule in rules), _describe_facts(session, today)]
    parts += [_quote_file(session, name) for name in _PROJECT]
    return "\n\n".join(part for part in parts if part)


def _describe_facts(session: Session, today: dt.date | None) -> str:
    home = os.path.realpath(session.workspace.home)
    date = (today or dt.datetime.now(dt.UTC).date()).isoformat()
    repository = "a git repository" if os.path.isdir(os.path.join(home, ".git")) else "not a git repository"
    return f"The project is {home} ({repository}). The system is {platform.system()}; today is {date}."


def _quote_file(session: Session, name: str) -> str:
    """Quote the project's instructions for agents, read like any file: inside the workspace, and bounded."""
    path = os.path.join(os.path.realpath(session.workspace.home), name)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_CHARS + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""
    cut = "\n(The rest is left out.)" if len(text) > _MOST_CHARS else ""
    return f"The project's {name} says:\n\n{text[:_MOST_CHARS].strip()}{cut}" if text.strip() else ""
