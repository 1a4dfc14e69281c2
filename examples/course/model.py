"""The model of the course: a script, or a real one.

By default a program plays its script, so it costs nothing and does the same every time. With COURSE_MODEL=gpt-5.2 and
OPENAI_API_KEY (or OPENAI_BASE_URL for a local server) the same program talks to that model.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from typing import Any

import openai

Message = dict[str, Any]
Ask = Callable[[list[Message], list[Any]], Message]
_numbers = itertools.count(1)


def call(name: str, **arguments: object) -> Message:
    """A scripted reply: the model asks for a tool."""
    return call_raw(name, json.dumps(arguments))


def call_raw(name: str, arguments: str) -> Message:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": f"c{next(_numbers)}", "type": "function", "function": function}]}


def say(text: str) -> Message:
    """A scripted reply: the model is done."""
    return {"role": "assistant", "content": text}


def open_model(*script: Message) -> Ask:
    """A function from a conversation and tools to the model's reply."""
    name = os.environ.get("COURSE_MODEL")
    if not name:
        replies = iter(script)
        return lambda *_: next(replies, say("(The script is over.)"))
    client = openai.OpenAI(api_key=os.environ.get("OPENAI_API_KEY", "none"))

    def ask(messages: list[Any], tools: list[Any]) -> Message:
        answer = client.chat.completions.create(model=name, messages=messages, tools=tools)
        return answer.choices[0].message.model_dump(exclude_none=True)

    return ask
