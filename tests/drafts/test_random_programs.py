"""Random programs in drafts: kept they look as inside, dropped they leave nothing, and no foreign write is lost."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail.drafts.layout import remove_tree
from tests.command import TIMEOUT
from tests.drafts.scenarios import SCENARIOS
from tests.sizes import pick

PROJECT = Path(__file__).parents[2]
NOBODY = 65533
"""The user for tests as another one; 65534 is what a namespace shows for all that it does not know."""
GROUP = 65432
"""A second group of that user: some files of random programs belong to it."""
SEEDS = {"keep_and_undo": 1_050, "drop": 250, "foreign_writer": 250, "foreign_writer_in_undo": 250}
SEEDS_ON_OVERLAY = {"keep_and_undo": 250, "drop": 50, "foreign_writer": 100, "foreign_writer_in_undo": 50}
"""For each user and file system: as root 5,200 programs, and 1,000 keeps and 1,000 undos with a foreign writer."""
AT_ONCE = 25


def run(python: str, user: int | None, *words: str) -> subprocess.CompletedProcess[str]:
    places = f"{PROJECT}/src:{PROJECT}:{sysconfig.get_path('platlib')}"  # the system's Python may lack packages
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
    how: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": (GROUP,)}
    return subprocess.run(
        [python, *words], cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=TIMEOUT, **how
    )


@functools.cache
def find_python(user: int | None) -> str:
    """A Python that this user may run; skips if there is none."""
    reasons = []
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = run(python, user, "-c", "import handrail.drafts.keep")
        except OSError as error:
            reasons.append(str(error))
        else:
            if not tried.returncode:
                return python
            reasons.append(tried.stderr.strip()[-200:])
    pytest.skip(f"this user can run no Python that imports Handrail: {reasons}")


@pytest.fixture(params=["this user", "an unprivileged user"])
def user(request: pytest.FixtureRequest) -> int | None:
    if request.param == "this user":
        return None
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user; this user is unprivileged already")
    return NOBODY


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, user: int | None) -> Iterator[str]:
    """A folder for the drafts of a user, where temporary files are, and on a tmpfs."""
    place = None if request.param == "disk" else "/dev/shm"
    if place and not os.access(place, os.W_OK):
        pytest.skip("there is no /dev/shm that can be written to")
    path = tempfile.mkdtemp(prefix="handrail-drafts-", dir=place)
    if user is not None:
        os.chown(path, user, user)
    yield path
    remove_tree(path)


def require_overlays(python: str, folder: str, user: int | None) -> None:
    """Skip, and say why, where the kernel does not let this user mount an overlay."""
    probe = os.path.join(folder, "probe")
    code = f"""
import os
from tests.drafts.scenarios import run_in_draft
from handrail.drafts.layout import DraftDirectory
os.makedirs({probe!r} + "/workspace")
run_in_draft(DraftDirectory.create({probe!r} + "/draft", {probe!r} + "/workspace"), "true")
"""
    tried = run(python, user, "-c", code)
    if tried.returncode:
        pytest.skip(f"no overlay can be mounted here: {tried.stderr.strip().splitlines()[-1]}")
    remove_tree(probe)


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_random_programs(scenario: str, folder: str, user: int | None) -> None:
    run_seeds(scenario, folder, user, pick(2, SEEDS[scenario]))


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_random_programs_in_a_workspace_on_an_overlay(scenario: str, folder: str, user: int | None) -> None:
    """As in a container: the changes are copied before they are kept."""
    run_seeds(scenario, folder, user, pick(1, SEEDS_ON_OVERLAY[scenario]), "overlay")


def run_seeds(scenario: str, folder: str, user: int | None, count: int, *place: str) -> None:
    python = find_python(user)
    require_overlays(python, folder, user)
    first = int(os.environ.get("HANDRAIL_SEED", "0"))
    for start in range(first, first + count, AT_ONCE):
        seeds = min(AT_ONCE, first + count - start)
        tried = run(python, user, "-m", "tests.drafts.scenarios", scenario, folder, str(start), str(seeds), *place)
        assert tried.returncode == 0, tried.stderr
        print(tried.stderr)  # seeds that met a race and ran again
