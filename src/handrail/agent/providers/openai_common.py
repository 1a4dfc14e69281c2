"""What both APIs of OpenAI share: the client, and what its failures mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from handrail.agent.providers import ModelError
from handrail.agent.providers.failures import from_status

if TYPE_CHECKING:
    from openai import OpenAI


def client(environ: Mapping[str, str]) -> OpenAI:
    """A client; a server of one's own needs no key."""
    try:
        from openai import OpenAI
    except ImportError:
        raise ModelError("the openai package is not installed: pip install 'handrail[agent]'", "missing") from None
    base, key = environ.get("OPENAI_BASE_URL"), environ.get("OPENAI_API_KEY")
    if not key and not base:
        mend = "set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own (a local one needs no key)"
        raise ModelError(f"there is no key for OpenAI: {mend}", "auth")
    return OpenAI(api_key=key or "none", base_url=base or None, max_retries=0)


@contextmanager
def failures(model: str, environ: Mapping[str, str]) -> Iterator[None]:
    """The SDK's exceptions as ours."""
    import httpx2
    import openai

    where = environ.get("OPENAI_BASE_URL") or "the OpenAI API"
    try:
        yield
    except openai.APIStatusError as error:
        raise from_status(error.status_code, str(error.message), error.response.headers, model, where) from None
    except openai.APITimeoutError:
        raise ModelError(f"{where} did not answer in time", "connection", retry=True) from None
    except openai.APIConnectionError as error:
        why = error.__cause__ or error
        raise ModelError(f"{where} cannot be reached: {why}", "connection", retry=True) from None
    except openai.APIError as error:
        raise ModelError(f"{where} broke off: {error.message}", "cut", retry=True) from None
    except httpx2.HTTPError as error:
        raise ModelError(f"the answer of {where} was cut off: {error}", "cut", retry=True) from None
