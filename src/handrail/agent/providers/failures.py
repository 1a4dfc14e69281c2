"""Translate failures of a model's server into errors that say what to do. No error text ever contains a key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from json import JSONDecodeError
from types import ModuleType

from handrail.agent.providers import ModelError

_MOST_WAIT = 120.0
_TOO_LONG = ("context_length", "context length", "context window", "maximum context", "too long", "too many tokens")
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_SHORTEST_KEY = 6


def from_status(status: int, message: str, headers: Mapping[str, str], model: str, where: str) -> ModelError:
    """Describe an HTTP failure, with the fix where there is one."""
    detail = " ".join(message.split())[:500]
    if status in (401, 403):
        return ModelError(f"{where} rejected the API key ({status}): {detail}; check the key", "auth")
    if status == 404:
        return ModelError(
            f"{where} does not know the model {model} (404): {detail}; check --model and the base URL", "refused"
        )
    if status == 413 or (status == 400 and any(word in detail.casefold() for word in _TOO_LONG)):
        fix = "make it shorter, or set --window to the context window of the model"
        return ModelError(f"the conversation is too long for {model}: {detail}; {fix}", "too_long")
    if status < 400:  # it had begun to answer
        return ModelError(f"{where} closed the connection: {detail}", "server", retry=True, after=_retry_after(headers))
    if status == 429:
        return ModelError(f"{where} is rate-limiting (429): {detail}", "rate", retry=True, after=_retry_after(headers))
    if status >= 500 or status in (408, 409):
        return ModelError(f"{where} failed ({status}): {detail}", "server", retry=True, after=_retry_after(headers))
    return ModelError(f"{where} rejected the request ({status}): {detail}", "refused")


@contextmanager
def translate_errors(sdk: ModuleType, model: str, where: str, environ: Mapping[str, str]) -> Iterator[None]:
    """Translate the exceptions of an SDK; both SDKs come from one generator and use the same names."""
    import httpx2

    where = without_keys(where, environ)
    try:
        yield
    except sdk.APIStatusError as error:
        detail = without_keys(str(error.message), environ)
        raise from_status(error.status_code, detail, error.response.headers, model, where) from None
    except sdk.APITimeoutError:
        raise ModelError(f"{where} timed out", "connection", retry=True) from None
    except sdk.APIConnectionError as error:
        why = without_keys(str(error.__cause__ or error), environ)
        raise ModelError(f"{where} cannot be reached: {why}", "connection", retry=True) from None
    except sdk.APIError as error:
        detail = without_keys(str(error.message), environ)
        raise ModelError(f"{where} closed the connection: {detail}", "cut", retry=True) from None
    except httpx2.HTTPError as error:
        raise ModelError(f"the response of {where} was cut off: {error}", "cut", retry=True) from None
    except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:  # a line of the stream that is no JSON
        raise ModelError(f"the response of {where} cannot be read: {error}", "cut", retry=True) from None


def without_keys(text: str, environ: Mapping[str, str]) -> str:
    """Remove keys and logins from a text of a server or an address, which is shown and may be logged."""
    for name in _KEYS:
        if len(key := environ.get(name, "")) >= _SHORTEST_KEY:
            text = text.replace(key, "***")
    return _LOGIN.sub("***@", text)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return min(seconds, _MOST_WAIT) if seconds >= 0 else None  # which also keeps away what is not a number
