"""Shared by both APIs of OpenAI: the client, and the translation of its failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from handrail.agent.providers import ModelError
from handrail.agent.providers.failures import translate_errors

if TYPE_CHECKING:
    from openai import OpenAI


def client(environ: Mapping[str, str]) -> OpenAI:
    """Create a client; a server of your own needs no key."""
    base, key = environ.get("OPENAI_BASE_URL"), environ.get("OPENAI_API_KEY")
    if not key and not base:
        fix = "set OPENAI_API_KEY, or OPENAI_BASE_URL for your own server (a local server needs no key)"
        raise ModelError(f"no API key for OpenAI: {fix}", "auth")
    from openai import OpenAI

    return OpenAI(api_key=key or "none", base_url=base or None, max_retries=0)


@contextmanager
def failures(model: str, environ: Mapping[str, str]) -> Iterator[None]:
    """Translate the exceptions of the SDK."""
    import openai

    where = environ.get("OPENAI_BASE_URL") or "the OpenAI API"
    with translate_errors(openai, model, where, environ):
        yield
