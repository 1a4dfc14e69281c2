"""Names of files that usually hold secrets, as rules that every policy includes. The names are in `paths.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any


@lru_cache(1)
def secret_path_rules() -> Mapping[str, Mapping[str, Any]]:
    """The rules about secret paths by name, each as a table of a rules file."""
    text = files("handrail.secrets").joinpath("paths.toml").read_text(encoding="utf-8")
    rules: Mapping[str, Mapping[str, Any]] = tomllib.loads(text)["rules"]
    return rules
