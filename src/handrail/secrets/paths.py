"""Names of files that usually hold secrets, as rules that every policy includes. The names are in `paths.toml`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import lru_cache

from handrail.json_types import JsonMapping


@lru_cache(1)
def secret_path_rules() -> Mapping[str, JsonMapping]:
    """The rules about secret paths by name, each as a table of a rules file."""
    with open(os.path.join(os.path.dirname(__file__), "paths.toml"), "rb") as file:
        rules: Mapping[str, JsonMapping] = tomllib.load(file)["rules"]
    return rules
