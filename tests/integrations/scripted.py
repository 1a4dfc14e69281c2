"""A model that follows a script: an HTTP server on loopback that answers each request with the next canned reply."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from PIL import Image


class Script:
    """The replies to come, and the requests that came."""

    def __init__(self, replies: Sequence[dict[str, Any]], url: str) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.url = url


@contextmanager
def scripted(*replies: dict[str, Any]) -> Iterator[Script]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            script.requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            body = script.replies.pop(0) if script.replies else {"error": {"message": "the script has ended"}}
            raw = json.dumps(body).encode("utf-8")
            self.send_response(400 if "error" in body and "output" not in body else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script = Script(replies, f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert not script.replies, "the script was not played to its end"


def chat(*calls: tuple[str, Any], text: str | None = None) -> dict[str, Any]:
    """A reply of Chat Completions; arguments that are a string are sent as they are."""
    asked = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": as_text(arguments)}}
        for n, (name, arguments) in enumerate(calls, 1)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if asked:
        message["tool_calls"] = asked
    choice = {"index": 0, "finish_reason": "tool_calls" if asked else "stop", "message": message}
    return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


def response(*items: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    """A reply of the Responses API."""
    output = list(items)
    if text is not None:
        answer = {"type": "output_text", "text": text, "annotations": []}
        output.append({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [answer]})
    whole = {"id": "r", "object": "response", "created_at": 0, "model": "m", "output": output, "error": None}
    return {**whole, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed"}


def function(name: str, arguments: Any, call: str = "call_1") -> dict[str, Any]:
    asked = {"type": "function_call", "id": f"fc_{call}", "call_id": call, "name": name}
    return {**asked, "arguments": as_text(arguments), "status": "completed"}


def message(*calls: tuple[str, dict[str, Any]], text: str | None = None, ids: str = "toolu") -> dict[str, Any]:
    """A reply of the Messages API. Its calls have ids of their own in the whole conversation."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text is not None else []
    content += [
        {"type": "tool_use", "id": f"{ids}_{n}", "name": name, "input": arguments}
        for n, (name, arguments) in enumerate(calls, 1)
    ]
    reason = "tool_use" if calls else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    whole = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content}
    return {**whole, "stop_reason": reason, "stop_sequence": None, "usage": usage}


def as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def draw(path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6), (200, 30, 30)).save(buffer, "PNG")
    path.write_bytes(buffer.getvalue())
