"""Optional packages: what each is for, how to install it, and the one error if it is missing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from handrail.errors.files import MissingExtra as MissingExtra

USES: Mapping[str, str] = {
    "anthropic": "models of the Anthropic API",
    "media": "images, PDF files and editing Jupyter notebooks",
    "outline": "outlines of source files, other than Python and Markdown",
    "index": "building an index for searches in large trees",
    "fleet": "fleets on Ray and a shared journal in PostgreSQL",
}
"""Purpose of each extra of `pyproject.toml`."""

FRAMEWORKS: Mapping[str, tuple[str, ...]] = {
    "acp": ("agent-client-protocol>=0.12",),
    "claude_agent_sdk": ("claude-agent-sdk>=0.2", "mcp>=2.3"),
    "deepagents": ("deepagents>=0.7",),
    "langchain": ("langchain-core>=1.5",),
    "openai_agents": ("openai-agents>=0.20",),
    "pydantic_ai": ("pydantic-ai-slim>=2",),
    "smolagents": ("smolagents>=1.26",),
}
"""Packages that a person brings along: the framework of each integration, and the protocol of `handrail acp`."""

_MODULES = {
    "agent-client-protocol": "acp",
    "openai-agents": "agents",
    "pillow": "PIL",
    "pydantic-ai-slim": "pydantic_ai",
}
"""Packages that are imported under another name."""


def install_command(name: str) -> str:
    """The command that adds an extra, or the packages of a framework, to this copy of Handrail.

    It names packages rather than the extra: that works wherever Handrail itself was installed from.
    """
    wanted = FRAMEWORKS.get(name) or _list_requirements().get(name)
    return install_packages_command(*(wanted or [f"{_find_checkout()}[{name}]"]))


def describe_use(name: str) -> str:
    """What needs an extra or the packages of a framework."""
    if name == "acp":
        return "`handrail acp`"
    return f"handrail.integrations.{name}" if name in FRAMEWORKS else USES[name]


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
def needs(name: str) -> Iterator[None]:
    """Put around the import of an optional package: if it fails, `MissingExtra` says what to install."""
    try:
        yield
    except MissingExtra:
        raise
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        missing = isinstance(error, ModuleNotFoundError) and package
        problem = f"{package} is not installed" if missing else f"{package or name} cannot be imported ({error!r})"
        raise missing_extra(name, problem) from error


def missing_extra(name: str, problem: str) -> MissingExtra:
    """The error for a package that is not installed or does not work."""
    return MissingExtra(extra=name, use=describe_use(name), problem=problem, install=install_command(name))


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
            by_extra.setdefault(extra, []).append(line.partition(";")[0].strip())
    return by_extra


def get_module(package: str) -> str:
    """The name under which a package is imported."""
    return _MODULES.get(package, package.replace("-", "_"))
