"""What a client sent to its model, whichever protocol it speaks: the tools it offers, and what they answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_RUNNING = re.compile(r"Process running with session ID (\d+)")
"""Codex's answer about a command that has not ended within ten seconds."""


def offered(body: Mapping[str, Any]) -> list[str]:
    """The names of the tools, as the model has to call them; `space.Tool` inside a namespace of Responses."""
    names: list[str] = []
    for tool in body.get("tools", []):
        if tool.get("type") == "namespace":
            names += [f"{tool['name']}.{inner['name']}" for inner in tool["tools"]]
        elif "functionDeclarations" in tool:
            names += [one["name"] for one in tool["functionDeclarations"]]
        else:
            names.append(tool.get("name") or tool.get("function", {}).get("name") or tool["type"])
    return names


def schema(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The parameters of a tool, as the model is told of them."""
    for tool in body["tools"]:
        for one in [tool, *tool.get("tools", []), *tool.get("functionDeclarations", [])]:
            one = one.get("function", one)
            if one.get("name") == name.rpartition(".")[2] and (one is not tool or "." not in name):
                parameters = one.get("parameters") or one.get("input_schema") or one.get("parametersJsonSchema")
                assert isinstance(parameters, dict)
                return parameters
    raise AssertionError(f"{name} is not offered")


def answers(body: Mapping[str, Any]) -> list[list[str]]:
    """Every answer of a tool in the conversation so far, each as its texts; of one command they are one answer."""
    joined: list[list[str]] = []
    runs_on = False
    for texts in _answers(body):
        if runs_on:
            joined[-1] += texts
        else:
            joined.append(texts)
        runs_on = bool(_RUNNING.search("".join(texts)))
    return joined


def wait_for_command(body: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The call that waits for the last command, if Codex has gone on without its end."""
    last = [text for texts in [*_answers(body)][-1:] for text in texts]
    running = _RUNNING.search("".join(last))
    return ("write_stdin", {"session_id": int(running[1]), "yield_time_ms": 300_000}) if running else None


def _answers(body: Mapping[str, Any]) -> Iterator[list[str]]:
    items = body.get("messages") or body.get("input") or body.get("contents") or []
    for item in items:
        if item.get("role") == "tool":  # Chat Completions
            yield _texts(item["content"])
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):  # Responses
            yield _texts(item["output"])
        elif isinstance(item.get("content"), list):  # Messages
            for part in item["content"]:
                if part.get("type") == "tool_result":
                    yield _texts(part["content"])
        for part in item.get("parts", []):  # Gemini
            if "functionResponse" in part:
                yield [str(one) for one in part["functionResponse"]["response"].values()]


def _texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [part["text"] for part in content if "text" in part]
