"""A place to run the examples of the pages in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
