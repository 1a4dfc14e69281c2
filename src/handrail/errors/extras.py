"""Optional packages: which extra of Handrail installs them, what each is for, and the one error if it is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from handrail.errors.files import MissingExtra as MissingExtra

USES: Mapping[str, str] = {
    "mcp": "`handrail mcp --http`",
    "web": "`handrail web`",
    "notebooks": "editing Jupyter notebooks",
    "images": "showing images",
    "pdf": "showing PDF files",
    "index": "building an index for searches in large trees",
    "outline": "outlines of source files, other than Python and Markdown",
    "agent": "`handrail chat`, `handrail run`, `handrail acp` and `handrail demo`",
    "openai": "models of the OpenAI APIs",
    "anthropic": "models of the Anthropic API",
    "langchain": "handrail.integrations.langchain",
    "deepagents": "handrail.integrations.deepagents",
    "pydantic-ai": "handrail.integrations.pydantic_ai",
    "openai-agents": "handrail.integrations.openai_agents",
    "claude-agent-sdk": "handrail.integrations.claude_agent_sdk",
    "smolagents": "handrail.integrations.smolagents",
    "acp": "`handrail acp`",
    "postgres": "a shared journal in PostgreSQL",
    "ray": "fleets: handrail.Fleet and `handrail fleet`",
}
"""Purpose of each extra of `pyproject.toml`."""

_MODULES = {
    "agent-client-protocol": "acp",
    "openai-agents": "agents",
    "pillow": "PIL",
    "pydantic-ai-slim": "pydantic_ai",
}
"""Packages that are imported under another name."""


def install_command(*extras: str) -> str:
    """The command that installs one extra or several."""
    assert set(extras) <= set(USES), extras
    return f"pip install 'handrail[{','.join(extras)}]'"


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Put around the import of an optional package: if it fails, `MissingExtra` says what to install."""
    try:
        yield
    except MissingExtra:
        raise
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        missing = isinstance(error, ModuleNotFoundError) and package
        problem = f"{package} is not installed" if missing else f"it cannot be imported: {error!r}"
        raise MissingExtra(extra=extra, use=USES[extra], problem=problem, install=install_command(extra)) from error


def list_packages() -> dict[str, list[str]]:
    """The packages of each extra, by the metadata of the installed Handrail; empty if it is not installed."""
    from importlib import metadata

    by_extra: dict[str, list[str]] = {}
    try:
        requirements = metadata.requires("handrail") or []
    except metadata.PackageNotFoundError:
        return {}
    for line in requirements:
        name = re.match(r"[\w.-]+", line)
        for extra in re.findall(r"""extra\s*==\s*["']([\w.-]+)["']""", line):
            if name and extra in USES:  # `all` repeats the others
                by_extra.setdefault(extra, []).append(name[0])
    return {extra: sorted(names) for extra, names in by_extra.items()}


def get_module(package: str) -> str:
    """The name under which a package is imported."""
    return _MODULES.get(package, package.replace("-", "_"))
