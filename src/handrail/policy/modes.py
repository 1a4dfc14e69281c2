"""The modes of a session, and the tier that each gives to an access where no rule speaks. Read from `defaults.toml`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

Mode = Literal["read-only", "ask", "accept-edits", "full", "deny-asks"]
MODES: tuple[Mode, ...] = get_args(Mode)
DEFAULT_MODE: Mode = "accept-edits"


class Defaults(NamedTuple):
    """The tiers of a mode, for accesses of which no rule speaks."""

    tiers: Mapping[str, str]
    fixed: bool
    """Whether no rule loosens them."""


@lru_cache(1)
def load_defaults() -> dict[str, Any]:
    """The tables of `defaults.toml`: `modes`, and the built-in `rules`."""
    import tomllib

    with open(os.path.join(os.path.dirname(__file__), "defaults.toml"), "rb") as file:
        return tomllib.load(file)


def get_defaults(mode: Mode) -> Defaults:
    """The defaults of a mode; raises `ValueError` for one that does not exist."""
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; the modes are {', '.join(MODES)}")
    table = dict(load_defaults()["modes"][mode])
    return Defaults(tiers=table, fixed=bool(table.pop("fixed", False)))
