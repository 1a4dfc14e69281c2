"""A model server on loopback that answers from a script, for the demo and the tests.

It is a real HTTP server for Chat Completions, Responses, Anthropic Messages and the Gemini API. It streams as real
servers do and can fail as they do: with a status, a stream that is cut off, or malformed arguments.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Line:
    """One reply of the script."""

    text: str = ""
    uses: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    """Tools and their arguments; a text is sent as it is, broken or not. In Responses `space.Tool` names a tool that
    was offered inside a namespace, and a custom tool takes a text."""
    status: int = 200
    """Anything else is a failure, with `text` as its message."""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Whether the stream ends in the middle."""
    ids: Sequence[str] = ()
    """The ids of the calls; made up if there are none."""
    tokens: int | None = None
    """The token count to report for the request; a quarter of its characters if None."""
    delay: float = 0.0
    """Seconds between two pieces."""
    reasoning: str = ""
    """Comes before the text."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request: the tool results since the last reply, the whole body, and its number."""

    number: int
    body: Mapping[str, Any]
    results: Sequence[str]
    path: str = ""


Script = Callable[[Seen], Line]
Protocol = Callable[[Seen, Line], Iterator[str]]


def in_order(lines: Sequence[Line]) -> Script:
    """A script that is read from top to bottom, whatever is asked."""

    def script(seen: Seen) -> Line:
        if seen.number >= len(lines):
            return Line("(The script is over.)")
        return lines[seen.number]

    return script


class ScriptedServer:
    """The server; a context manager. `url` is its address, `requests` has all requests.

    ``protocols`` adds further APIs: the end of a path, and the function that streams its replies.
    """

    def __init__(self, script: Script, protocols: Mapping[str, Protocol] | None = None) -> None:
        self.requests: list[Seen] = []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with outer._lock:
                    seen = Seen(len(outer.requests), body, _results(body), self.path)
                    outer.requests.append(seen)
                self._answer(seen, script(seen))

            def _answer(self, seen: Seen, line: Line) -> None:
                if line.status != 200:
                    kind = {"type": "error", "error": {"type": "scripted", "message": line.text, "code": line.text}}
                    raw = json.dumps(kind).encode("utf-8")
                    self.send_response(line.status)
                    for name, value in line.headers.items():
                        self.send_header(name, value)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                pieces = list(_protocol(self.path, protocols or {})(seen, line))
                pieces = pieces[: len(pieces) // 2] if line.cut else pieces
                try:
                    for piece in pieces:
                        self.wfile.write(piece.encode("utf-8"))
                        self.wfile.flush()
                        time.sleep(line.delay)
                except OSError:  # the asking process has ended
                    pass
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _results(body: Mapping[str, object]) -> list[str]:
    """The results of calls since the model's last words, in any of the three protocols."""
    texts: list[str] = []
    items = body.get("messages", body.get("input", []))
    for item in reversed(items if isinstance(items, list) else []):
        if item.get("role") == "tool":
            texts.append(str(item["content"]))
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            texts.append(_text(item["output"]))
        elif item.get("role") == "user" and isinstance(item.get("content"), list):
            results = [part for part in item["content"] if part.get("type") == "tool_result"]
            texts += [_text(part["content"]) for part in reversed(results)]
        elif item.get("role") == "assistant" or item.get("type") in ("function_call", "custom_tool_call"):
            break
    return texts[::-1]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def _protocol(path: str, more: Mapping[str, Protocol]) -> Protocol:
    path = path.partition("?")[0]
    for end, protocol in more.items():
        if path.endswith(end):
            return protocol
    if path.endswith("/messages"):
        return _messages
    if path.endswith("enerateContent"):
        return _stream_gemini if path.endswith(":streamGenerateContent") else _reply_gemini
    return _responses if path.endswith("/responses") else _chat


def _words(text: str) -> list[str]:
    """A text in the pieces of a stream."""
    return [text[at : at + 12] for at in range(0, len(text), 12)]


def _calls(seen: Seen, line: Line) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call."""
    default_ids = [f"call_{seen.number}_{number}" for number in range(len(line.uses))]
    ids = list(line.ids) or default_ids
    return [
        (own, name, value if isinstance(value, str) else json.dumps(value))
        for own, (name, value) in zip(ids, line.uses, strict=True)
    ]


def _tokens(seen: Seen, line: Line) -> tuple[int, int]:
    tokens_in = len(json.dumps(seen.body)) // 4 if line.tokens is None else line.tokens
    return tokens_in, 1 + len(line.text) // 4


def _data(value: Mapping[str, object], event: str = "") -> str:
    return (f"event: {event}\n" if event else "") + f"data: {json.dumps(value)}\n\n"


def _chat(seen: Seen, line: Line) -> Iterator[str]:
    def chunk(delta: Mapping[str, object], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({**head, "choices": [choice]})

    head = {"id": f"r{seen.number}", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    yield chunk({"role": "assistant", "content": ""})
    for word in _words(line.reasoning):
        yield chunk({"reasoning_content": word})
    for word in _words(line.text):
        yield chunk({"content": word})
    for index, (own, name, arguments) in enumerate(_calls(seen, line)):
        function = {"name": name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": own, "type": "function", "function": function}]})
        for word in _words(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": word}}]})
    yield chunk({}, "tool_calls" if line.uses else "stop")
    tokens_in, tokens_out = _tokens(seen, line)
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    yield _data({**head, "choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


def _responses(seen: Seen, line: Line) -> Iterator[str]:
    output: list[dict[str, Any]] = []
    number = iter(range(1_000_000))

    def event(kind: str, **value: object) -> str:
        return _data({"type": kind, "sequence_number": next(number), **value}, kind)

    tokens_in, tokens_out = _tokens(seen, line)
    response: dict[str, Any] = {
        "id": f"resp_{seen.number}",
        "object": "response",
        "created_at": 0,
        "model": "scripted",
        "output": [],
        "status": "in_progress",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    yield event("response.created", response=response)
    if line.reasoning:
        summary = {"type": "summary_text", "text": line.reasoning}
        output.append({"type": "reasoning", "id": "r", "summary": [summary]})
        for word in _words(line.reasoning):
            place = {"item_id": "r", "output_index": 0, "summary_index": 0}
            yield event("response.reasoning_summary_text.delta", delta=word, **place)
        yield event("response.output_item.done", output_index=0, item=output[-1])
    if line.text:
        part = {"type": "output_text", "text": line.text, "annotations": []}
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
        output.append(message)
        begun = {**message, "status": "in_progress", "content": []}
        yield event("response.output_item.added", output_index=len(output) - 1, item=begun)
        for word in _words(line.text):
            yield event(
                "response.output_text.delta",
                item_id="m",
                output_index=len(output) - 1,
                content_index=0,
                delta=word,
                logprobs=[],
            )
        yield event("response.output_item.done", output_index=len(output) - 1, item=message)
    custom = {tool.get("name") for tool in seen.body.get("tools", ()) if tool.get("type") == "custom"}
    for own, name, arguments in _calls(seen, line):
        space, _, bare = name.rpartition(".")
        call = {"type": "function_call", "id": f"f{own}", "call_id": own, "name": bare, "arguments": arguments}
        if name in custom:
            call = {"type": "custom_tool_call", "id": f"f{own}", "call_id": own, "name": name, "input": arguments}
        output.append({**call, **({"namespace": space} if space else {}), "status": "completed"})
        yield event("response.output_item.done", output_index=len(output) - 1, item=output[-1])
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out, "total_tokens": tokens_in + tokens_out, **details}
    yield event("response.completed", response={**response, "status": "completed", "output": output, "usage": usage})


def _messages(seen: Seen, line: Line) -> Iterator[str]:
    tokens_in, tokens_out = _tokens(seen, line)

    def event(kind: str, **value: object) -> str:
        return _data({"type": kind, **value}, kind)

    message = {"id": f"msg_{seen.number}", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    usage = {"input_tokens": tokens_in, "output_tokens": 1}
    yield event("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage})
    index = 0
    if line.reasoning:
        thinking = {"type": "thinking", "thinking": "", "signature": ""}
        yield event("content_block_start", index=index, content_block=thinking)
        for word in _words(line.reasoning):
            yield event("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": word})
        yield event("content_block_delta", index=index, delta={"type": "signature_delta", "signature": "signed"})
        yield event("content_block_stop", index=index)
        index += 1
    if line.text:
        yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        for word in _words(line.text):
            yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": word})
        yield event("content_block_stop", index=index)
        index += 1
    for own, name, arguments in _calls(seen, line):
        block = {"type": "tool_use", "id": own, "name": name, "input": {}}
        yield event("content_block_start", index=index, content_block=block)
        for word in _words(arguments):
            yield event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": word})
        yield event("content_block_stop", index=index)
        index += 1
    reason = "tool_use" if line.uses else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield event("message_delta", delta=delta, usage={"output_tokens": tokens_out})
    yield event("message_stop")


def _stream_gemini(seen: Seen, line: Line) -> Iterator[str]:
    parts = _list_gemini_parts(seen, line)
    for part in parts[:-1]:
        yield f"data: {json.dumps(_make_gemini([part]))}\n\n"
    yield f"data: {json.dumps(_make_gemini(parts[-1:], finish='STOP'))}\n\n"


def _reply_gemini(seen: Seen, line: Line) -> Iterator[str]:
    yield json.dumps(_make_gemini(_list_gemini_parts(seen, line), finish="STOP"))


def _list_gemini_parts(seen: Seen, line: Line) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": line.text}] if line.text else []
    calls = zip(_calls(seen, line), line.uses, strict=True)
    return parts + [{"functionCall": {"id": one, "name": name, "args": use[1]}} for (one, name, _), use in calls]


def _make_gemini(parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate = {
        "index": 0,
        "content": {"role": "model", "parts": parts},
        **({"finishReason": finish} if finish else {}),
    }
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
