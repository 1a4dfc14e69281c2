"""Find a model where none is configured: keys in the environment, and servers that answer on this machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from handrail.cli.output import UsageError, on_terminal, warn
from handrail.frozen import frozen
from handrail.text.display import escape

SERVERS = (("Ollama", 11434), ("LM Studio", 1234), ("llama.cpp", 8080), ("vLLM", 8000))
"""Programs that serve models, and the ports that they use if nobody says otherwise."""
_BY_KEY = (("ANTHROPIC_API_KEY", "claude-sonnet-4-5"), ("OPENAI_API_KEY", "gpt-5.2"))
_SECONDS = 0.7
_MOST_BYTES = 1 << 20
_MOST_MODELS = 20


@frozen
class FoundModel:
    """A model that could be used."""

    name: str
    where: str
    base_url: str = ""
    """Of its server, if that is not the provider's."""


def choose_model(environ: Mapping[str, str], otherwise: str) -> FoundModel:
    """The model that the person picks. Raises `UsageError` if nobody can pick, or there is none."""
    models = find_models(environ)
    if not models:
        raise UsageError(
            f"{otherwise}. No key is set, and no server on this machine has a model ready; `handrail demo` needs none"
        )
    if not (on_terminal(sys.stdin) and on_terminal(sys.stderr)):
        first = models[0]
        server = f"OPENAI_BASE_URL={escape(first.base_url)} and " if first.base_url else ""
        raise UsageError(f"{otherwise}. Found: {escape(first.name)} ({first.where}); give {server}--model to use it")
    warn("No model is set. These can be used:")
    for number, one in enumerate(models, 1):
        warn(f"  {number:>2}  {escape(one.name)}  ({one.where})")
    return models[_read_number(len(models)) - 1]


def _read_number(most: int) -> int:
    while True:
        sys.stderr.write(f"Which one? 1 to {most}, Enter for 1, q to quit (`handrail demo` needs no model): ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        word = line.strip()
        if not line or word.lower() in ("q", "quit"):
            raise UsageError("no model was chosen; `handrail demo` shows an agent at work with a scripted one")
        if not word:
            return 1
        if word.isdecimal() and 1 <= int(word) <= most:
            return int(word)


def find_models(environ: Mapping[str, str], servers: Sequence[tuple[str, int]] = SERVERS) -> list[FoundModel]:
    """The models within reach: those of the named server, those of keys, those that answer on loopback."""
    if base := environ.get("OPENAI_BASE_URL"):
        return _ask_server("OPENAI_BASE_URL", base, environ.get("OPENAI_API_KEY", ""))
    models = [FoundModel(model, f"{key} is set") for key, model in _BY_KEY if environ.get(key)]
    places = [(name, f"http://127.0.0.1:{port}/v1") for name, port in servers]
    with ThreadPoolExecutor(len(places)) as threads:
        answers = threads.map(lambda place: _ask_server(place[0], place[1], ""), places)
        return [*models, *(model for answer in answers for model in answer)]


def _ask_server(name: str, base: str, key: str) -> list[FoundModel]:
    """The models that a server offers; none if it does not answer, or not in this protocol."""
    try:
        place = urlsplit(base)
        kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
        connection = kind(place.hostname or "", place.port, timeout=_SECONDS)
        try:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            connection.request("GET", f"{place.path.rstrip('/')}/models", headers=headers)
            answer = json.loads(connection.getresponse().read(_MOST_BYTES))
        finally:
            connection.close()
        names = [str(model["id"]) for model in answer["data"]]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return []
    where = f"{name}, {base}" if name != "OPENAI_BASE_URL" else escape(base)
    return [FoundModel(one, where, base) for one in names[:_MOST_MODELS] if "embed" not in one.lower()]


def use(model: FoundModel) -> str:
    """Let this process ask the server of a model; returns the name of the model."""
    if model.base_url:
        os.environ["OPENAI_BASE_URL"] = model.base_url
    return model.name
