"""The pages of the site that are made from the code can be made, and have every command, dialect, error and name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import handrail
from handrail import dialects
from handrail.cli import COMMANDS
from handrail.errors import calls, changes, commands, extras, files, iterate_failures

HOOKS = Path(__file__).parents[2] / "docs" / "site_hooks.py"


@pytest.fixture(scope="module")
def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("site_hooks", HOOKS)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands(hooks: Any) -> None:
    page = hooks.describe_commands()
    assert all(f"## handrail {name}\n" in page for name in COMMANDS)


def test_the_page_of_tools(hooks: Any) -> None:
    page = hooks.describe_tools()
    assert all(f"## {name}\n" in page for name in dialects.names())


def test_the_page_of_errors(hooks: Any) -> None:
    page = hooks.describe_errors()
    for module in (calls, changes, commands, extras, files):
        codes = {kind.code for kind in iterate_failures() if kind.__module__ == module.__name__}
        assert codes or module is extras
        assert all(f"| `{code}` |" in page for code in codes)


def test_the_page_of_python_names(hooks: Any) -> None:
    page = hooks.describe_names()
    assert all(f"## {name}\n" in page for name in handrail.__all__)
