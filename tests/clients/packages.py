"""The clients under test: pinned versions from npm, installed once into a cache folder outside the repository."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


class NotHere(Exception):
    """A client that cannot be installed on this machine, and why."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package, and the program in it; {platform} is such as linux-arm64."""

    name: str
    version: str
    program: str


PACKAGES = {
    "codex": Package("@openai/codex", "0.166.0", "@openai/codex/bin/codex.js"),
    "claude": Package("@anthropic-ai/claude-code", "2.1.325", "@anthropic-ai/claude-code-{platform}/claude"),
    "opencode": Package("opencode-ai", "1.18.18", "opencode-{platform}/bin/opencode"),
    "gemini": Package("@google/gemini-cli", "0.61.0", ".bin/gemini"),
    "qwen": Package("@qwen-code/qwen-code", "0.24.4", ".bin/qwen"),
    "copilot": Package("@github/copilot", "1.0.102", "@github/copilot-{platform}/copilot"),
    "inspector": Package("@modelcontextprotocol/inspector", "2.12.0", ".bin/mcp-inspector"),
}
_INSTALL = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--loglevel", "error"]
_READY = "ready"


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handrail-clients"


def installed(name: str) -> list[str]:
    """The words that start a client; it is installed if it is not there yet. Raises `NotHere`."""
    package = PACKAGES[name]
    folder = cache() / f"{name}-{package.version}"
    if not (folder / _READY).exists():
        _install(package, folder)
    machine = {"aarch64": "arm64", "x86_64": "x64"}.get(platform.machine(), platform.machine())
    program = folder / "node_modules" / package.program.format(platform=f"{sys.platform}-{machine}")
    if not program.exists():
        raise NotHere(f"{package.name}@{package.version} has no program for {sys.platform}-{machine}")
    return [str(program)]


def _install(package: Package, folder: Path) -> None:
    npm = shutil.which("npm")
    if not npm:
        raise NotHere("there is no npm")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    # No scripts of packages are run: the programs are in packages for each platform, and need none.
    done = subprocess.run(
        [npm, *_INSTALL, f"{package.name}@{package.version}"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotHere(f"npm cannot install {package.name}@{package.version}: {done.stderr.strip()[-400:]}")
    (folder / _READY).touch()
