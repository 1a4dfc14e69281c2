"""Step 1: a loop. The model asks for a tool, the program runs it and returns the result, until the model only talks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from model import Ask, Message, call, open_model, say

SCHEMAS = [
    {
        "type": "function",
        "function": {
            "name": "uppercase",
            "description": "Turns a text into capital letters.",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        },
    }
]


def run(task: str, ask: Ask, schemas: list[Any], answer: Callable[[str, str], str], turns: int = 20) -> list[Message]:
    """Work on a task; ``answer`` runs one tool call. Returns the conversation."""
    messages: list[Message] = [{"role": "user", "content": task}]
    for _ in range(turns):
        reply = ask(messages, schemas)
        messages.append(reply)
        if not reply.get("tool_calls"):
            print(f"model: {reply['content']}")
            return messages
        for one in reply["tool_calls"]:
            name, arguments = one["function"]["name"], one["function"]["arguments"]
            print(f"call:  {name} {arguments}")
            result = answer(name, arguments)
            print("\n".join(f"       {line}" for line in result.splitlines()))
            messages.append({"role": "tool", "tool_call_id": one["id"], "content": result})
    print(f"stopped after {turns} turns")
    return messages


def answer(name: str, arguments: str) -> str:
    """Run the only tool there is."""
    assert name == "uppercase"
    text: str = json.loads(arguments)["text"]
    return text.upper()


if __name__ == "__main__":
    model = open_model(call("uppercase", text="tea and coffee"), say("It is TEA AND COFFEE."))
    run("Write 'tea and coffee' in capital letters; use the tool.", model, SCHEMAS, answer)

# Exercise: a model sometimes invents a tool, forgets an argument, or sends JSON that is cut off. Here each of them ends
# the program with a traceback. Change `answer` so that the model reads what was wrong and can try again.
