"""What an HTTP status of a model's server means, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

from handrail.agent.providers import ModelError

_MOST_WAIT = 120.0
_TOO_LONG = ("context_length", "context length", "context window", "maximum context", "too long", "too many tokens")


def from_status(status: int, message: str, headers: Mapping[str, str], model: str, where: str) -> ModelError:
    """The failure as a sentence with the mend."""
    said = " ".join(message.split())[:500]
    if status in (401, 403):
        return ModelError(f"{where} does not accept the key ({status}): {said}; check the API key", "auth")
    if status == 404:
        return ModelError(f"{where} does not know {model} (404): {said}; check --model and the address", "refused")
    if status == 413 or (status == 400 and any(word in said.casefold() for word in _TOO_LONG)):
        return ModelError(f"the conversation is too long for {model}: {said}", "too_long")
    if status == 429:
        return ModelError(f"{where} asks us to wait (429): {said}", "rate", retry=True, after=_after(headers))
    if status >= 500 or status in (408, 409):
        return ModelError(f"{where} has trouble ({status}): {said}", "server", retry=True, after=_after(headers))
    return ModelError(f"{where} refuses the request ({status}): {said}", "refused")


def _after(headers: Mapping[str, str]) -> float | None:
    try:
        return min(max(float(headers.get("retry-after", "")), 0.0), _MOST_WAIT)
    except ValueError:
        return None
