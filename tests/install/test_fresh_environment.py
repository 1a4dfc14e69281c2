"""A new home, a new environment and no compiler: install as the pages say, then README, tutorial and course.

Only with HANDRAIL_INSTALL=1, which `make test-install` sets: it downloads packages.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not os.environ.get("HANDRAIL_INSTALL"), reason="downloads packages; `make test-install` runs it"
)
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMPILERS = re.compile(r"(?:.*-)?(?:cc|c\+\+|gcc|g\+\+|cpp|c[89]9|clang|clang\+\+|rustc|cargo|ld|as)(?:-[\d.]+)?")
TESTS = (
    "tests/docs/test_shell_blocks.py::test_the_commands_of_the_readme_print_what_it_shows",
    "tests/docs/test_shell_blocks.py::test_the_commands_of_a_page_run_in_the_order_given[tutorial.md]",
    *(
        f"tests/docs/test_course.py::test_a_page_shows_parts_of_the_programs_and_what_they_print[{page}]"
        for page in ("1-loop", "2-one-tool", "3-why-not-the-shell", "4-pages")
    ),
)
_SECONDS = 1800
"""For a command; a busy machine or a slow network takes its time."""


@dataclass(frozen=True)
class Installer:
    """How a person installs Handrail, and what the test adds to the same environment."""

    needs: str
    """The package with the installer; pip is there already."""
    install: str
    python: str
    """Of the environment that it makes, below the new home."""
    add: str


INSTALLERS = {
    "pip": Installer(
        "", "python -m pip install .", "tools/bin/python", "python -m pip install pytest pytest-timeout hypothesis"
    ),
    "pipx": Installer(
        "pipx",
        "pipx install .",
        "pipx/venvs/handrail/bin/python",
        "pipx inject handrail pytest pytest-timeout hypothesis",
    ),
    "uv": Installer(
        "uv",
        "uv tool install .",
        "uv/handrail/bin/python",
        "uv tool install . --with pytest --with pytest-timeout --with hypothesis",
    ),
}


@pytest.mark.timeout(3 * _SECONDS)
@pytest.mark.parametrize("name", INSTALLERS)
def test_readme_tutorial_and_course_work_in_a_fresh_environment(tmp_path: Path, name: str) -> None:
    installer, home = INSTALLERS[name], tmp_path / "home"
    home.mkdir()
    path = os.pathsep.join([str(home / "bin"), str(home / "tools/bin"), make_path_without_compilers(tmp_path / "path")])
    environ = {
        variable: value
        for variable, value in os.environ.items()
        if not variable.startswith(("HANDRAIL_", "XDG_", "PYTHON", "PIPX_", "UV_TOOL", "VIRTUAL_ENV"))
    }
    environ |= {"HOME": str(home), "PATH": path, "PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(home / "bin")}
    environ |= {"UV_TOOL_DIR": str(home / "uv"), "UV_TOOL_BIN_DIR": str(home / "bin"), "UV_PYTHON": sys.executable}

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            encoding="utf-8",
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    run(f"{shlex.quote(sys.executable)} -m venv {home}/tools")
    if installer.needs:
        run(f"python -m pip install --quiet {installer.needs}")
    assert installer.install.removeprefix("python -m ") in README, "the README names this command"
    run(installer.install)
    assert run("handrail --version").startswith("handrail ")
    python = home / installer.python
    assert run(f"{python} -c 'import handrail; print(handrail.__file__)'").startswith(str(home)), "not the checkout"
    hint = run(
        f"{python} -c 'from handrail.errors.extras import install_command; print(install_command(\"anthropic\"))'"
    )
    run(hint)  # what a tool that lacks a package prints
    run(f"{python} -c 'import anthropic'")
    run(installer.add)  # for the run below only
    tests = " ".join(shlex.quote(test) for test in TESTS)
    printed = run(f"{python} -m pytest -p no:cacheprovider {tests}")
    assert f"{len(TESTS)} passed" in printed, printed


def make_path_without_compilers(folder: Path) -> str:
    """Links to the programs of this machine, except to what compiles and links."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in sorted(Path(directory).glob("*")) if os.path.isdir(directory) else []:
            link = folder / program.name
            is_ours = program.parent == Path(sys.executable).parent
            if not is_ours and not COMPILERS.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)
