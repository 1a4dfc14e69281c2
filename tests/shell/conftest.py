"""Fixtures for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail.shell.sandbox.choose import Boundary
from tests.shell.boundaries import LAYERS, MakeBoundary, World, boundary_or_skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(params=LAYERS)
def make_boundary(request: pytest.FixtureRequest, world: World) -> Iterator[MakeBoundary]:
    """`make_boundary(hidden=..., network=...)`: a boundary of each layer around `world.work`."""
    collected: list[Boundary] = []

    def boundary(**rest: Any) -> Boundary:
        collected.append(boundary_or_skip(request.param, world.confinement(**rest)))
        return collected[-1]

    yield boundary
    for each in collected:
        each.close()
