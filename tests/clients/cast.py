"""Each client: how it is pointed at the scripted model, how one prompt is run, and what it puts around our text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

PROMPT = "Put the second line into German."


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    prefix: str
    """What stands before the name of a tool of ours."""
    words: Callable[[str], list[str]]
    """What follows the program to run one prompt; given the address of the model."""
    environment: Callable[[str], dict[str, str]] = lambda url: {}
    settings: Callable[[Path, str], None] = lambda home, url: None
    """What its user has set besides our entry, which is there already."""
    unwrapped: Callable[[list[str]], list[str]] = lambda texts: texts
    """An answer as the client passed it on, without what it has put around it."""
    adds: Collection[str] = ()
    """Parameters of its own that it gives to every tool."""
    consent: tuple[str, ...] = ()
    """Those of its words that let our tools run without a question of its own."""
    terminal_words: Callable[[str, Path], list[str]] = lambda url, project: []
    """What follows the program to start it on a terminal; given the address of the model."""


def _codex_words(url: str) -> list[str]:
    # Codex asks before a tool that is not read-only, and nobody can be asked in `codex exec`: Handrail judges.
    settings = codex_settings(url) | {"mcp_servers.handrail.default_tools_approval_mode": "approve"}
    return ["exec", "--skip-git-repo-check", "--sandbox", "workspace-write", *codex_options(settings), PROMPT]


def _codex_terminal_words(url: str, project: Path) -> list[str]:
    return codex_options(codex_settings(url) | {f'projects."{project}".trust_level': "trusted"})


def codex_options(settings: Mapping[str, object]) -> list[str]:
    return [word for key, value in settings.items() for word in ("-c", f"{key}={json.dumps(value)}")]


def codex_settings(url: str) -> dict[str, object]:
    model = {"name": "scripted", "base_url": f"{url}/v1", "wire_api": "responses"}
    return {
        "model": "scripted",
        "model_provider": "scripted",
        **{f"model_providers.scripted.{key}": value for key, value in model.items()},
        "check_for_update_on_startup": False,
        "mcp_servers.handrail.startup_timeout_sec": 120,
        "mcp_servers.handrail.required": True,
        "analytics.enabled": False,
    }


def _codex_unwrapped(texts: list[str]) -> list[str]:
    """Codex says first, in a text of its own, how long the call took."""
    assert re.fullmatch(r"Wall time: [\d.]+ seconds\nOutput:", texts[0]), texts[0]
    return texts[1:]


def _opencode_settings(home: Path, url: str) -> None:
    path = home / ".config" / "opencode" / "opencode.json"
    model = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"scripted": {"modalities": {"input": ["text", "image"], "output": ["text"]}}},
    }
    mine = {"provider": {"scripted": model}, "model": "scripted/scripted", "autoupdate": False, "share": "disabled"}
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | mine), encoding="utf-8")


CODEX = Client(
    "codex",
    "mcp__handrail.",
    _codex_words,
    unwrapped=_codex_unwrapped,
    consent=("-c", 'mcp_servers.handrail.default_tools_approval_mode="approve"'),
    terminal_words=_codex_terminal_words,
)


def _claude_settings(home: Path, url: str) -> None:
    """The answers to the questions of its first start; which the user trusts is the project beside the home."""
    path = home / ".claude.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings |= {"hasCompletedOnboarding": True, "theme": "dark"}
    project = str(home.with_name("project"))
    settings["projects"] = {**settings.get("projects", {}), project: {"hasTrustDialogAccepted": True}}
    path.write_text(json.dumps(settings), encoding="utf-8")


CLAUDE = Client(
    "claude",
    "mcp__handrail__",
    lambda url: ["-p", "--allowedTools", "mcp__handrail", "--", PROMPT],
    lambda url: {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        # It starts without its servers if they take long, as on a busy machine.
        "MCP_CONNECTION_NONBLOCKING": "false",
        "MCP_TIMEOUT": "120000",
    },
    _claude_settings,
    consent=("--allowedTools", "mcp__handrail"),
)

OPENCODE = Client(
    "opencode",
    "handrail_",
    lambda url: ["run", PROMPT],
    lambda url: {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    },
    _opencode_settings,
)


def _gemini_settings(home: Path, url: str) -> None:
    path = home / ".gemini" / "settings.json"
    mine = {
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "disableUpdateNag": True},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | mine), encoding="utf-8")


def _without_frame(text: str) -> str:
    """Gemini CLI marks what a server of others says as not to be trusted, on lines of their own."""
    begin, end = "<untrusted_context>\n", "\n</untrusted_context>"
    assert text.startswith(begin) and text.endswith(end), text
    return text[len(begin) : -len(end)]


GEMINI = Client(
    "gemini",
    "mcp_handrail_",
    lambda url: ["--model", "scripted", "--approval-mode", "yolo", "--skip-trust", "-p", PROMPT],
    lambda url: {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url},
    _gemini_settings,
    lambda texts: [_without_frame(text) for text in texts],
    adds={"wait_for_previous"},
    consent=("--approval-mode", "yolo"),
)

COPILOT = Client(
    "copilot",
    "handrail-",
    lambda url: ["--allow-tool", "handrail", "--no-auto-update", "-p", PROMPT],
    lambda url: {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_MODEL": "scripted", "COPILOT_OFFLINE": "true"},
    consent=("--allow-tool", "handrail"),
)

CLIENTS = {client.name: client for client in (CODEX, CLAUDE, OPENCODE, GEMINI)}
"""Clients that pass our text on as it is."""
HEADLESS = {**CLIENTS, "copilot": COPILOT}
"""Clients that run one prompt. Copilot passes on composed characters (NFC), and pictures only to models it knows."""
DECLINING = ("codex", "claude", "copilot")
"""Those that support forms, and decline them by themselves where nobody is there to be asked."""
