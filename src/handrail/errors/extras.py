"""Optional packages: which extra of Handrail installs them, what each is for, and the one error if it is missing."""

from __future__ import annotations

import os
import re
import sys
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
    """The command that adds one extra or several to this copy of Handrail.

    It names the packages of the extras: that works wherever Handrail itself was installed from.
    """
    assert set(extras) <= set(USES), extras
    known = _list_requirements()
    wanted = [line for extra in extras for line in known.get(extra, ())]
    return install_packages_command(*dict.fromkeys(wanted or [f"{_find_checkout()}[{','.join(extras)}]"]))


def install_packages_command(*requirements: str) -> str:
    """The command that installs packages into the environment of this copy, by the installer that made it."""
    import shlex

    return shlex.join([*_find_installer(), *requirements])


def _find_installer() -> list[str]:
    from importlib.util import find_spec

    prefix, python = sys.prefix, sys.executable or "python3"
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return ["pipx", "inject", os.path.basename(prefix)]
    if find_spec("pip"):
        return [python, "-m", "pip", "install"]
    return ["uv", "pip", "install", "--python", python] if _is_of_uv(prefix) else ["pip", "--python", python, "install"]


def _is_of_uv(prefix: str) -> bool:
    """Whether uv made this environment, for a tool or in a project."""
    try:
        with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8") as file:
            return any(line.startswith("uv =") for line in file)
    except (OSError, ValueError):
        return False


def _find_checkout() -> str:
    """The source that this copy runs from without being installed; the name of the package if there is none."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return top if os.path.exists(os.path.join(top, "pyproject.toml")) else "handrail"


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
    known = _list_requirements().items()
    return {extra: sorted(re.match(r"[\w.-]*", line)[0] for line in lines) for extra, lines in known}  # type: ignore[index]


def _list_requirements() -> dict[str, list[str]]:
    """What each extra requires, with versions."""
    from importlib import metadata

    by_extra: dict[str, list[str]] = {}
    try:
        requirements = metadata.requires("handrail") or []
    except metadata.PackageNotFoundError:
        return {}
    for line in requirements:
        for extra in re.findall(r"""extra\s*==\s*["']([\w.-]+)["']""", line):
            if extra in USES:  # `all` repeats the others
                by_extra.setdefault(extra, []).append(line.partition(";")[0].strip())
    return by_extra


def get_module(package: str) -> str:
    """The name under which a package is imported."""
    return _MODULES.get(package, package.replace("-", "_"))
