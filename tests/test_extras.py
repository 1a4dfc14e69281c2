"""Optional packages: each extra of `pyproject.toml` is known, and whoever lacks one reads its name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from handrail.errors import extras
from tests.command import TIMEOUT, surroundings

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = {
    extra: sorted(re.split(r"[\[<>=~]", line)[0] for line in lines)
    for extra, lines in PROJECT["optional-dependencies"].items()
}

# What is hidden is found neither by an import nor by whoever asks whether it could be imported.
HIDE = """
import sys
hidden = set({hidden!r})
class Without:
    def __init__(self, finder): self.finder = finder
    def find_spec(self, name, *rest):
        return None if name.partition(".")[0] in hidden else self.finder.find_spec(name, *rest)
    def __getattr__(self, name): return getattr(self.finder, name)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""

OPEN = "from handrail.agent.providers import open_model; open_model('m', {'ANTHROPIC_API_KEY': 'k'}, 'anthropic')"
RUNNABLE = "from handrail import Session; from handrail.integrations.anthropic import {name}; {name}(Session('.'))"
COMMAND = "from handrail.cli import main; raise SystemExit(main({words!r}))"
MODEL = ["--model", "m", "--api", "chat"]

USED: list[tuple[str, str, str]] = [  # the extra or framework, the package that is hidden, what is done without it
    ("anthropic", "anthropic", OPEN),
    ("anthropic", "anthropic", COMMAND.format(words=["run", "--model", "m", "--api", "anthropic", "task"])),
    ("anthropic", "anthropic", RUNNABLE.format(name="runnable_tools")),
    ("anthropic", "anthropic", RUNNABLE.format(name="async_runnable_tools")),
    ("outline", "tree-sitter-go", "from handrail.text.outlines.outline import list_symbols; list_symbols('x', 'a.go')"),
    ("outline", "tree-sitter", "from handrail.text.outlines.outline import list_symbols; list_symbols('x', 'a.go')"),
    ("index", "numpy", COMMAND.format(words=["index", "build"])),
    ("media", "pillow", "from handrail.media import image_decoder"),
    ("media", "pypdfium2", "from handrail.media import pdf_renderer"),
    ("media", "pillow", "from handrail.media import pdf_renderer"),
    ("media", "nbformat", "from handrail.tools.notebook_edit import _list_faults; _list_faults({}, slice(None))"),
    ("fleet", "psycopg", COMMAND.format(words=["log", "--journal", "postgresql://127.0.0.1:1/none"])),
    ("fleet", "psycopg", "from handrail import Session; Session('.', journal='postgresql://127.0.0.1:1/none')"),
    ("fleet", "ray", "from handrail import Fleet; Fleet()"),
    ("acp", "agent-client-protocol", COMMAND.format(words=["acp", *MODEL])),
    *(
        (name, re.split(r"[<>=]", line)[0], f"import handrail.integrations.{name}")
        for name, lines in extras.FRAMEWORKS.items()
        for line in lines
        if name != "acp"
    ),
]


def test_every_extra_is_known_and_no_other() -> None:
    assert set(extras.USES) == set(DECLARED)
    assert len(DECLARED) <= 6


def test_the_metadata_of_the_package_names_the_packages_of_each_extra() -> None:
    assert extras.list_packages() == DECLARED


def test_every_extra_and_framework_is_tried_here() -> None:
    assert {name for name, _, _ in USED} == DECLARED.keys() | extras.FRAMEWORKS.keys()


def test_every_integration_with_a_framework_names_it() -> None:
    modules = {
        path.stem for path in (ROOT / "src/handrail/integrations").glob("*.py") if "needs(" in path.read_text("utf-8")
    }
    assert modules - {"anthropic"} == extras.FRAMEWORKS.keys() - {"acp"}


@pytest.mark.parametrize("extra", ["openai", "openai_hosted", "anthropic"])
def test_the_integrations_for_plain_apis_need_no_package(extra: str, tmp_path: Path) -> None:
    program = HIDE.format(hidden=["openai", "anthropic"]) + f"import handrail.integrations.{extra}"
    assert subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=TIMEOUT).returncode == 0


@pytest.mark.parametrize(("name", "package", "use"), USED)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    name: str, package: str, use: str, tmp_path: Path
) -> None:
    program = HIDE.format(hidden=[extras.get_module(package)]) + use
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=surroundings(keys),
        input="",
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode != 0
    assert f"{extras.get_module(package)} is not installed; it is needed for {extras.describe_use(name)}. " in last
    assert f"Install it with: {extras.install_command(name)}" in last
    if "handrail.cli" in use:
        assert "Traceback" not in done.stderr


def test_a_package_that_is_there_and_cannot_be_imported_is_no_package_that_is_missing() -> None:
    with pytest.raises(extras.MissingExtra) as caught, extras.needs("media"):
        raise ImportError("cannot import name 'x' from 'PIL'", name="PIL")
    assert "cannot import name 'x'" in str(caught.value) and "is not installed" not in str(caught.value)


def test_every_place_that_needs_an_extra_names_one_that_there_is() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r'needs\("([^"]*)"\)', text)) <= DECLARED.keys() | extras.FRAMEWORKS.keys(), path
        assert path.name == "extras.py" or not re.search(r"""["'\s]pip install""", text), path


def doctor(cwd: Path, hidden: list[str]) -> dict[str, dict[str, object]]:
    program = HIDE.format(hidden=hidden) + COMMAND.format(words=["doctor", "--json"])
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, env=surroundings(), capture_output=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_doctor_says_what_each_extra_is_for_and_how_to_install_it(tmp_path: Path) -> None:
    every = [extras.get_module(package) for names in DECLARED.values() for package in names]
    without = doctor(tmp_path, every)
    for extra, names in DECLARED.items():
        check = without[f"extra {extra}"]
        assert (check["ok"], check["needed"], check["fix"]) == (False, False, extras.install_command(extra))
        assert extras.USES[extra] in str(check["detail"])
        assert f"not installed: {', '.join(names)}" in str(check["detail"])


def test_doctor_names_the_one_package_that_is_missing(tmp_path: Path) -> None:
    actual = doctor(tmp_path, ["anthropic"])
    assert str(actual["extra anthropic"]["detail"]).endswith("not installed: anthropic")
    assert not actual["extra anthropic"]["ok"] and actual["extra media"]["ok"]
