"""The address of a shared journal: a PostgreSQL URL with a tenant, whose password is never shown."""

from __future__ import annotations

import hashlib
import re
from dataclasses import field
from urllib.parse import unquote

from handrail.frozen import frozen

_SCHEMES = ("postgresql://", "postgres://")
_TENANT = "handrail"
_TENANT_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_PARAMETER = re.compile(r"([?&](?:ssl)?password=)([^&#]*)", re.IGNORECASE)
_LONGEST_MESSAGE = 400


@frozen
class JournalAddress:
    """Where a shared journal is."""

    url: str = field(repr=False)
    """For libpq; may contain a password."""
    tenant: str
    shown: str
    """The URL as it may be shown."""
    key: str
    """A name for database and tenant, the same whoever connects."""

    @classmethod
    def parse(cls, url: str) -> JournalAddress:
        """Split off `?tenant=NAME`, which libpq does not know; raises `ValueError`, without the password."""
        if not is_database_url(url):
            shown = hide_password(url)[:80]
            raise ValueError(f"journal must be a URL such as postgresql://user@host/database, not {shown!r}")
        place, _, query = url.partition("?")
        pairs = [pair for pair in query.split("&") if pair]
        tenants = [unquote(pair.partition("=")[2]) for pair in pairs if pair.startswith("tenant=")]
        tenant = tenants[-1] if tenants else _TENANT
        if not _TENANT_NAME.fullmatch(tenant):
            valid = "the name of a schema, of small letters, digits and _, and not beginning with a digit or pg_"
            raise ValueError(f"journal: tenant must be {valid}, not {tenant[:80]!r}")
        others = "&".join(pair for pair in pairs if not pair.startswith("tenant="))
        base = place.partition("://")[2].rpartition("@")[2]
        key = hashlib.sha256(f"{base}\n{tenant}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return cls(place + (f"?{others}" if others else ""), tenant, hide_password(url), key)

    def hide(self, message: str) -> str:
        """A message of the database in one line, without the password."""
        for secret in list_passwords(self.url):
            message = message.replace(secret, "***")
        return " ".join(message.split())[:_LONGEST_MESSAGE]


def is_database_url(text: object) -> bool:
    """Whether this is the URL of a PostgreSQL database, and not a path or a word."""
    return isinstance(text, str) and text.startswith(_SCHEMES)


def hide_password(url: str) -> str:
    """The URL with `***` for its password. If its characters are not escaped, rather too much is hidden."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    user, at, place = rest.rpartition("@")
    if at:
        name, colon, _ = user.partition(":")
        rest = f"{name}{colon}{'***' if colon else ''}@{place}"
    return _PARAMETER.sub(r"\1***", f"{scheme}://{rest}")


def list_passwords(url: str) -> list[str]:
    """The passwords in a URL, as they are written there and as they are meant; the longest first."""
    user = url.partition("://")[2].rpartition("@")[0]
    written = [user.partition(":")[2], *(match[2] for match in _PARAMETER.finditer(url))]
    return sorted({*written, *map(unquote, written)} - {""}, key=len, reverse=True)
