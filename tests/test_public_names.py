"""The public API: one list of names, imported when first used, with types."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import handrail

FOLDER = Path(handrail.__file__).parent
SOURCE = Path(handrail.__file__).read_text(encoding="utf-8")


def typed() -> dict[str, str]:
    """The imports that type checkers see, as `_HOMES` writes them."""
    (block,) = [
        node
        for node in ast.parse(SOURCE).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    collected: dict[str, str] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom) and node.module
        for name in node.names:
            home = node.module.removeprefix("handrail.")
            collected[name.asname or name.name] = f"{home}:{name.name}" if name.asname else home
    return collected


def test_type_checkers_see_the_names_that_can_be_imported() -> None:
    assert typed() == handrail._HOMES
    assert handrail.__all__ == sorted(handrail._HOMES) == dir(handrail)


@pytest.mark.parametrize("name", handrail.__all__)
def test_a_public_name_is_what_its_module_defines(name: str) -> None:
    module, _, named = handrail._HOMES[name].partition(":")
    value = getattr(handrail, name)
    assert value is getattr(sys.modules[f"handrail.{module}"], named or name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__name__ == (named or name)
        assert inspect.getdoc(value)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'handrail' has no attribute 'Workspace'"):
        handrail.Workspace  # noqa: B018 - the look-up is the test
    with pytest.raises(ImportError, match="Workspace"):
        exec("from handrail import Workspace")


def test_the_package_itself_does_not_import_from_the_public_list() -> None:
    """It would get around the layers, which import-linter cannot follow through this list."""
    collected = []
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "handrail":
                used = {name.name for name in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "handrail":
                used = {node.attr}
            else:
                continue
            collected += [f"{path.relative_to(FOLDER)}:{node.lineno} {name}" for name in used & set(handrail._HOMES)]
    assert collected == []


def test_import_handrail_imports_its_version_and_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import handrail; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=60)
    assert set(ast.literal_eval(done.stdout)) <= {"handrail", "handrail.version", "__future__"}


def test_a_star_import_brings_every_public_name() -> None:
    scope: dict[str, object] = {}
    exec("from handrail import *", scope)
    assert set(handrail.__all__) <= set(scope)
