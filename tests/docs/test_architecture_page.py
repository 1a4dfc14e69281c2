"""The page on architecture is true: the files it names exist, and its recipes work in a copy of the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, TIMEOUT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SRC = ROOT / "src" / "handrail"


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_every_module_and_package_that_the_page_names_is_there() -> None:
    named = {name for name in re.findall(r"`([\w/.-]+(?:/|\.py|\.toml|\.md))`", PAGE) if "NAME" not in name}
    made_up = {name for name in named if "discard" in name or "short" in name or name == "prompt.md"}
    places = (SRC, ROOT, ROOT / "docs", SRC / "shell")
    missing = [name for name in named - made_up if not any((place / name).exists() for place in places)]
    assert len(named) > 40 and missing == []


def test_the_layers_of_the_page_are_those_that_the_linter_enforces() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    enforced = [set(re.findall(r"\w+", layer)) for layer in contract["layers"] if layer != "__main__"]
    listed: dict[str, set[str]] = {}
    for row in section("Layers").split("|---|---|---|\n", 1)[1].split("\n\n", 1)[0].splitlines():
        _, number, modules, *_ = row.split("|")
        listed.setdefault(number.strip(), set()).update(re.findall(r"`([\w.]+?)(?:\.py|/)?`", modules))
    assert list(listed) == [str(number) for number in range(1, len(listed) + 1)]
    assert list(listed.values()) == enforced


def test_every_top_level_module_has_a_layer() -> None:
    units = {path.stem for path in SRC.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    named = set(re.findall(r"`(\w+)(?:\.py|/)`", section("Layers")))
    assert units - {"__init__", "__main__"} <= named


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, to change."""
    copy = tmp_path / "src" / "handrail"
    shutil.copytree(SRC, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def python(package: Path, code: str, *words: str) -> str:
    """Run Python with the changed copy."""
    command = [sys.executable, *(("-c", code) if code else ()), *words]
    environ = {"PYTHONPATH": str(package.parent), "HANDRAIL_STATE": str(package.parent.parent / "state")}
    environ |= {"PATH": "/usr/bin:/bin", "HOME": str(package.parent.parent)}
    done = subprocess.run(
        command, cwd=package.parent.parent, env=environ, capture_output=True, encoding="utf-8", timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def add(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text(encoding="utf-8") if path.exists() else "") + text, encoding="utf-8")


def test_the_recipe_for_a_tool_names_every_file_that_it_needs(package: Path) -> None:
    source = section("Add a tool")
    named = re.findall(r"`src/handrail/([\w/.]+)`", source)
    assert set(named) == {
        "tools/discard.py",
        "tools/trash.py",
        "tools/discard.md",
        "dialects/native/tools.toml",
        "dialects/native/messages.toml",
    }
    trash = (package / "tools" / "trash.py").read_text(encoding="utf-8")
    add(package / "tools" / "discard.py", trash.replace("trash", "discard"))
    add(package / "tools" / "discard.md", "Deletes a file or a directory of up to {entries} entries.\n")
    add(package / "dialects" / "native" / "tools.toml", '\n[tools.Discard]\nid = "discard"\n')
    add(package / "dialects" / "native" / "messages.toml", '\n[discard]\nfile = "Discarded {path}."\n')
    assert "Discard" in python(package, "", "-m", "handrail", "tools")
    (package.parent.parent / "a.txt").write_text("one\n", encoding="utf-8")
    printed = python(
        package,
        "import handrail\n"
        "with handrail.Session('.', policy=handrail.AllowAll()) as session:\n"
        "    print(session.call('Discard', {'path': 'a.txt'}).text)\n"
        "    print(session.undo().restored[0].path)\n",
    )
    assert printed.startswith("Discarded a.txt.") and printed.strip().endswith("a.txt")
    assert (package.parent.parent / "a.txt").read_text(encoding="utf-8") == "one\n"


def test_the_recipe_for_a_dialect_names_every_file_that_it_needs(package: Path) -> None:
    named = re.findall(r"`src/handrail/([\w/.]+)`", section("Add a dialect"))
    assert named == ["dialects/short/tools.toml", "dialects/short/messages.toml"]
    about = 'about = "Read, under a short name."\n\n[tools.r]\nid = "read"\n'
    add(package / "dialects" / "short" / "tools.toml", about + 'rename = { path = "file_path" }\n')
    add(package / "dialects" / "short" / "messages.toml", "")
    python(package, "", "-m", "handrail", "dialects", "check", "short")
    (package.parent.parent / "a.txt").write_text("one\n", encoding="utf-8")
    printed = python(package, "", "-m", "handrail", "call", "--dialect", "short", "r", "path=a.txt")
    assert "one" in printed
