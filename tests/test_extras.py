"""Optional packages: each extra of `pyproject.toml` is known, and whoever lacks one reads its name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pexpect
import pytest

from handrail.errors import extras
from tests.command import TIMEOUT, surroundings

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = {
    extra: sorted(re.split(r"[\[<>=~]", line)[0] for line in lines)
    for extra, lines in PROJECT["optional-dependencies"].items()
    if extra != "all"
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

OPEN = "from handrail.agent.providers import open_model; open_model('m', {{'{key}': 'k'}}, '{api}')"
RUNNABLE = "from handrail import Session; from handrail.integrations.anthropic import {name}; {name}(Session('.'))"
COMMAND = "from handrail.cli import main; raise SystemExit(main({words!r}))"
MODEL = ["--model", "m", "--api", "chat"]

USED: list[tuple[str, str, str]] = [  # the extra, the package that is hidden, what is done without it
    ("agent", "openai", OPEN.format(key="OPENAI_API_KEY", api="chat")),
    ("agent", "openai", OPEN.format(key="OPENAI_API_KEY", api="responses")),
    ("agent", "anthropic", OPEN.format(key="ANTHROPIC_API_KEY", api="anthropic")),
    ("agent", "openai", COMMAND.format(words=["chat", *MODEL])),
    ("agent", "anthropic", COMMAND.format(words=["run", "--model", "m", "--api", "anthropic", "task"])),
    ("agent", "openai", COMMAND.format(words=["demo"])),
    ("agent", "openai", COMMAND.format(words=["acp", *MODEL])),
    ("acp", "agent-client-protocol", COMMAND.format(words=["acp", *MODEL])),
    ("mcp", "mcp", COMMAND.format(words=["mcp", "--http", "127.0.0.1:0"])),
    ("mcp", "uvicorn", COMMAND.format(words=["mcp", "--http", "127.0.0.1:0"])),
    ("web", "starlette", COMMAND.format(words=["web"])),
    ("web", "jinja2", COMMAND.format(words=["web"])),
    ("anthropic", "anthropic", RUNNABLE.format(name="runnable_tools")),
    ("anthropic", "anthropic", RUNNABLE.format(name="async_runnable_tools")),
    ("outline", "tree-sitter-go", "from handrail.text.outlines.outline import list_symbols; list_symbols('x', 'a.go')"),
    ("outline", "tree-sitter", "from handrail.text.outlines.outline import list_symbols; list_symbols('x', 'a.go')"),
    ("index", "numpy", COMMAND.format(words=["index", "build"])),
    ("images", "pillow", "from handrail.media import MediaLimits, images; images.decode_image(b'', MediaLimits())"),
    ("pdf", "pypdfium2", "from handrail.media import MediaLimits, pdf; list(pdf.answers(0, 0, 1, 1, MediaLimits()))"),
    ("pdf", "pillow", "from handrail.media import MediaLimits, pdf; list(pdf.answers(0, 0, 1, 1, MediaLimits()))"),
    ("postgres", "psycopg", COMMAND.format(words=["log", "--journal", "postgresql://127.0.0.1:1/none"])),
    ("postgres", "psycopg", "from handrail import Session; Session('.', journal='postgresql://127.0.0.1:1/none')"),
    ("ray", "ray", "from handrail import Fleet; Fleet()"),
    ("notebooks", "nbformat", "from handrail.tools.notebook_edit import _list_faults; _list_faults({}, slice(None))"),
    *(
        (extra, package, f"import handrail.integrations.{extra.replace('-', '_')}")
        for extra, names in DECLARED.items()
        for package in names
        if (ROOT / f"src/handrail/integrations/{extra.replace('-', '_')}.py").exists()
        and extra not in ("openai", "anthropic")
    ),
]


def test_every_extra_is_known_and_no_other() -> None:
    assert set(extras.USES) == set(DECLARED)


def test_the_extra_all_names_every_other_extra() -> None:
    named = re.findall(r"[\w-]+", " ".join(PROJECT["optional-dependencies"]["all"]).replace("handrail[", ""))
    assert sorted(named) == sorted(DECLARED)


def test_the_metadata_of_the_package_names_the_packages_of_each_extra() -> None:
    assert extras.list_packages() == DECLARED


def test_every_extra_is_tried_here() -> None:
    # The types of `openai` are needed by type checkers alone: its integration works without the package.
    assert set(DECLARED) - {extra for extra, _, _ in USED} == {"openai"}


@pytest.mark.parametrize("extra", ["openai", "openai_hosted", "anthropic"])
def test_the_integrations_for_plain_apis_need_no_package(extra: str, tmp_path: Path) -> None:
    program = HIDE.format(hidden=["openai", "anthropic"]) + f"import handrail.integrations.{extra}"
    assert subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=TIMEOUT).returncode == 0


@pytest.mark.parametrize(("extra", "package", "use"), USED)
def test_what_lacks_an_extra_names_it_and_how_to_install_it(extra: str, package: str, use: str, tmp_path: Path) -> None:
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
    assert f"the extra {extra} is needed for {extras.USES[extra]}" in last
    assert f"({extras.get_module(package)} is not installed): {extras.install_command(extra)}" in last
    if "handrail.cli" in use:
        assert "Traceback" not in done.stderr


def test_a_chat_at_a_terminal_names_the_extra_of_its_line_editor(tmp_path: Path) -> None:
    program = HIDE.format(hidden=["prompt_toolkit"]) + COMMAND.format(words=["chat", *MODEL])
    env = surroundings({"OPENAI_API_KEY": "k"})
    child = pexpect.spawn(
        sys.executable,
        ["-c", program],
        cwd=str(tmp_path),
        env=env,
        encoding="utf-8",
        timeout=TIMEOUT,
        dimensions=(40, 200),
    )
    child.expect_exact("(prompt_toolkit is not installed): ")
    child.expect_exact("'prompt-toolkit>=3.0.50'")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2 and "Traceback" not in child.before


def test_a_package_that_is_there_and_cannot_be_imported_is_no_package_that_is_missing() -> None:
    with pytest.raises(extras.MissingExtra) as caught, extras.needs("mcp"):
        raise ImportError("cannot import name 'x' from 'mcp'", name="mcp")
    assert "cannot import name 'x'" in str(caught.value) and "is not installed" not in str(caught.value)


def test_every_place_that_needs_an_extra_names_one_that_there_is() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r'needs\("([^"]*)"\)', text)) <= set(DECLARED), path
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
    assert str(actual["extra agent"]["detail"]).endswith("not installed: anthropic")
    assert not actual["extra anthropic"]["ok"] and actual["extra openai"]["ok"]
