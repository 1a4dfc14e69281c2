"""A real browser. Only with HANDRAIL_WEB=1, which `make test-web` sets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests.chromium.browser import find_chromium, open_chromium, serve_page

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    why = "" if os.environ.get("HANDRAIL_WEB") else "a browser is large; `make test-web` drives one"
    if not why and find_chromium() is None:
        why = "needs the packages chromium and chromium-driver"
    for item in items:
        if why and _HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "app.py").write_text("".join(f"line_{number} = {number}\n" for number in range(1, 41)), encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    with open_chromium() as driver:
        yield driver


@pytest.fixture
def page(project: Path, chromium: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """The page of activity, opened by its token."""
    with serve_page(project) as (_, address):
        chromium.get(address)
        yield chromium
        chromium.get("about:blank")
