"""Solution of step 8: old results become one line each; no call loses its result."""

from __future__ import annotations

import json

from model import Message, call, say

KEPT = 1  # results that stay whole
SHORT = 80  # characters: a shorter result would not get smaller


def size(messages: list[Message]) -> int:
    return len(json.dumps(messages)) // 4


def compact(messages: list[Message]) -> list[Message]:
    results = [at for at, message in enumerate(messages) if message["role"] == "tool"]
    old = {at for at in results[:-KEPT] if len(messages[at]["content"]) > SHORT}
    return [
        {**message, "content": f"({len(message['content']):,} characters left out; call again if needed)"}
        if at in old
        else message
        for at, message in enumerate(messages)
    ]


if __name__ == "__main__":
    conversation: list[Message] = [{"role": "user", "content": "Find the BAD line."}]
    for number in range(3):
        request = call("Read", file_path="report.txt", offset=number * 2000)
        conversation.append(request)
        result = {"role": "tool", "tool_call_id": request["tool_calls"][0]["id"], "content": "line ok\n" * 2000}
        conversation.append(result)
    conversation.append(say("I go on."))
    shorter = compact(conversation)
    asked = [one["id"] for message in shorter for one in message.get("tool_calls", [])]
    answered = [message["tool_call_id"] for message in shorter if message["role"] == "tool"]
    print(f"{size(conversation):,} tokens before, {size(shorter):,} after; calls with a result: {asked == answered}")
