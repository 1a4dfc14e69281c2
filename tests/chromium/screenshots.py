"""Make the pictures of docs/web.md: `python -m tests.chromium.screenshots`, in a temporary project with real calls."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.chromium.browser import set_width

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
APP = '''"""Greetings."""

import sys


def greet(name: str) -> str:
    # The same for everybody.
    return "Hello, " + name


def main() -> None:
    for name in sys.argv[1:] or ["world"]:
        print(greet(name))


if __name__ == "__main__":
    main()
'''


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="shop-") as folder:
        for variable in ("HANDRAIL_STATE", "XDG_CONFIG_HOME"):
            os.environ[variable] = str(Path(folder, variable.lower()))
        project = Path(folder, "shop")
        project.mkdir()
        (project / "greet.py").write_text(APP, encoding="utf-8")
        _take(project)


def _take(project: Path) -> None:
    from handrail import Session
    from tests.chromium.browser import open_chromium, serve_page
    from tests.mcp.stdio_client import RawClient

    with Session(project, mode="accept-edits", dialect="claude") as session:
        session.name_source("claude-code", "claude-sonnet-5")
        path = str(project / "greet.py")
        session.record_prompt("Greet people in the morning, and check that it works.")
        session.call("Read", {"file_path": path})
        old, new = '    return "Hello, " + name\n', '    return f"Good morning, {name}!"\n'
        session.call("Edit", {"file_path": path, "old_string": old, "new_string": new})
        session.call("Bash", {"command": "python3 greet.py Ada"})
        session.record_prompt("Clean up the old modules.")
        session.call("Bash", {"command": "rm *.py"})
        session.undo()
        session.call("Bash", {"command": "echo 'alias ll=ls' > .bashrc"})
        session.call("Bash", {"command": "rm -rf /"})
    with (
        serve_page(project) as (_, address),
        open_chromium() as page,
        RawClient(str(project), "--mode", "ask", cwd=project) as client,
    ):
        page.get(address)
        start = page.current_url
        time.sleep(1)  # until the page listens: questions are only asked where somebody sees them
        client.shake()
        client.call("Read", file_path="greet.py")
        text = (project / "greet.py").read_text(encoding="utf-8")
        content = text.replace('"""Greetings."""', '"""Greetings for the morning."""').replace(
            '["world"]', '["early birds"]'
        )
        client.begin("tools/call", name="Write", arguments={"file_path": "greet.py", "content": content})
        _shoot(page, start, "timeline", "#call-3 .changes summary")
        _shoot(page, start + "approvals", "questions", ".question")


def _shoot(page: Chrome, address: str, name: str, ready: str) -> None:
    """A picture of a page on a telephone, light, beside one on a screen, dark."""
    shots = []
    for width, theme in ((390, "light"), (1000, "dark")):
        set_width(page, width)
        page.execute_script("localStorage.setItem('theme', arguments[0])", theme)
        page.get(address)
        (first, *_) = WebDriverWait(page, 60).until(lambda p: p.find_elements(By.CSS_SELECTOR, ready))
        if first.tag_name == "summary":
            first.click()
            WebDriverWait(page, 60).until(lambda p: p.find_elements(By.CSS_SELECTOR, "#call-3 .diff"))
            page.execute_script("scrollTo(0, 0)")
        shots.append(page.get_screenshot_as_png())
    _join(shots, FOLDER / f"web-{name}.png")


def _join(shots: list[bytes], target: Path) -> None:
    """Put pictures side by side."""
    import io

    from PIL import Image

    pictures = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in shots]
    whole = Image.new("RGB", (sum(one.width for one in pictures) + 20, max(one.height for one in pictures)), "#808890")
    place = 0
    for one in pictures:
        whole.paste(one, (place, 0))
        place += one.width + 20
    whole.quantize(256, Image.Quantize.MAXCOVERAGE).save(target, optimize=True)


if __name__ == "__main__":
    main()
