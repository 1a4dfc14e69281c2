"""`handrail web` as a process, and the distribution's Chromium in front of it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from tests.command import HANDRAIL, TIMEOUT, surroundings

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,1000",
)


def find_chromium() -> tuple[str, str] | None:
    """The programs; None if one of them is missing."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None


@contextlib.contextmanager
def open_chromium() -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own."""
    programs = find_chromium()
    assert programs, "needs the packages chromium and chromium-driver"
    with tempfile.TemporaryDirectory() as profile:
        options = Options()
        options.binary_location = programs[0]
        for option in (*_OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(programs[1]))
        driver.set_page_load_timeout(TIMEOUT)
        try:
            yield driver
        finally:
            driver.quit()


@contextlib.contextmanager
def serve_page(cwd: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server, and the address that it prints."""
    process = subprocess.Popen(
        [*HANDRAIL, "web", "--no-open", *words], cwd=cwd, stdout=subprocess.PIPE, env=surroundings(), encoding="utf-8"
    )
    try:
        assert process.stdout
        yield process, process.stdout.readline().split()[1]
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT)


def open_page(page: webdriver.Chrome, address: str) -> None:
    """Open a page and wait until its style is there: on a busy machine the driver returns before."""
    page.get(address)
    is_complete = "return document.readyState === 'complete'"
    WebDriverWait(page, TIMEOUT).until(lambda driver: driver.execute_script(is_complete))


def set_width(page: webdriver.Chrome, width: int) -> None:
    """Show the page as on a telephone (390), or on a screen."""
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
