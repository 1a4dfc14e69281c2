"""A new home, a new environment and no compiler: install as the pages say, then README and tutorial top to bottom.

Only with HANDRAIL_INSTALL=1, which `make test-install` sets: it downloads packages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not os.environ.get("HANDRAIL_INSTALL"), reason="downloads packages; `make test-install` runs it"
)
ROOT = Path(__file__).parents[2]
COMPILERS = re.compile(r"(?:.*-)?(?:cc|c\+\+|gcc|g\+\+|cpp|c[89]9|clang|clang\+\+|rustc|cargo|ld|as)(?:-[\d.]+)?")
TESTS = (
    "test_the_commands_of_the_readme_print_what_it_shows",
    "test_the_commands_of_a_page_run_in_the_order_given[tutorial.md]",
)
_SECONDS = 1800


def test_readme_and_tutorial_work_in_a_fresh_environment(tmp_path: Path) -> None:
    python = str(tmp_path / "venv" / "bin" / "python")
    environ = {**os.environ, "HOME": str(tmp_path / "home"), "PATH": make_path_without_compilers(tmp_path / "bin")}
    environ = {name: value for name, value in environ.items() if not name.startswith(("HANDRAIL_", "XDG_", "PYTHON"))}
    (tmp_path / "home").mkdir()

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=ROOT, env=environ, capture_output=True, encoding="utf-8", timeout=_SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    run(python, "-m", "pip", "install", "--quiet", ".")
    place = run(python, "-c", "import handrail; print(handrail.__file__)").strip()
    assert place.startswith(str(tmp_path)), "the checkout must not be used"
    run(python, "-m", "pip", "install", "--quiet", "pytest", "hypothesis")  # for the run below only
    tests = [f"tests/docs/test_shell_blocks.py::{name}" for name in TESTS]
    printed = run(python, "-m", "pytest", *tests)
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
