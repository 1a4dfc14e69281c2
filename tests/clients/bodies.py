"""What a client sent to its model, whichever protocol it speaks: the tools it offers, and what they answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


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
    """Every answer of a tool in the conversation so far, each as its texts."""
    return list(_answers(body))


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
