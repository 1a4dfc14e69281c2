"""A model is found where none is configured: by keys, and by servers that answer on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from handrail.cli.chat import discovery
from handrail.cli.chat.discovery import FoundModel, choose_model, find_models
from handrail.cli.output import UsageError


class ModelsServer(BaseHTTPRequestHandler):
    body = b'{"object": "list", "data": [{"id": "qwen3-coder"}, {"id": "nomic-embed-text"}, {"id": "llama3"}]}'

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ModelsServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_a_server_on_this_machine_is_found_with_its_models(port: int) -> None:
    base = f"http://127.0.0.1:{port}/v1"
    models = find_models({}, [("Ollama", port), ("nobody", 9)])
    assert models == [FoundModel(name, f"Ollama, {base}", base) for name in ("qwen3-coder", "llama3")]
    assert [one.name for one in find_models({"OPENAI_BASE_URL": base})] == ["qwen3-coder", "llama3"]


def test_keys_come_first(port: int) -> None:
    models = find_models({"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "y"}, [("Ollama", port)])
    assert [one.where.split(",")[0] for one in models[:3]] == [
        "ANTHROPIC_API_KEY is set",
        "OPENAI_API_KEY is set",
        "Ollama",
    ]
    assert models[0].base_url == "" and models[2].name == "qwen3-coder"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"data": [1]}', b"\xff", b'{"data": null}', b"<html>"])
def test_a_server_that_says_something_else_is_none(port: int, monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr(ModelsServer, "body", body)
    assert find_models({}, [("Ollama", port)]) == []
    assert find_models({"OPENAI_BASE_URL": "not a url"}) == []


def test_where_nobody_can_pick_the_error_says_how(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "SERVERS", ())
    with pytest.raises(UsageError, match=r"no model\. Found: claude"):
        choose_model({"ANTHROPIC_API_KEY": "x"}, "no model")
    with pytest.raises(UsageError, match=rf"OPENAI_BASE_URL=http://127.0.0.1:{port}/v1 and --model"):
        choose_model({"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"}, "no model")
    with pytest.raises(UsageError, match="no server on this machine has a model ready; `handrail demo`"):
        choose_model({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "no model")
