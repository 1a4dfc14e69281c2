"""Make the pictures of docs/web.md: `python -m tests.chromium.screenshots`, in a temporary project with real calls."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

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
        path = str(project / "greet.py")
        session.call("Read", {"file_path": path})
        old, new = '    return "Hello, " + name\n', '    return f"Good morning, {name}!"\n'
        session.call("Edit", {"file_path": path, "old_string": old, "new_string": new})
        session.call("Bash", {"command": "printf '\\033[32m3 passed\\033[0m in 0.02s\\n'"})
        session.call("Read", {"file_path": "/etc/shadow"})
        session.call("Bash", {"command": "rm -rf /"})
        session.call("Grep", {"pattern": "greet", "path": str(project)})
    with (
        serve_page(project) as (_, address),
        open_chromium() as page,
        RawClient(str(project), "--mode", "ask", cwd=project) as client,
    ):
        page.get(address)
        start = page.current_url
        _save(page, "activity")
        page.get(start + "calls/2?view=split")
        _save(page, "call")
        page.get(start + "statistics")
        _save(page, "statistics")
        _create_draft(project)
        page.get(start + f"drafts/faster?workspace={project}")
        _save(page, "draft")
        page.get(start + "calls/2/undo")
        _save(page, "undo")
        client.shake()
        client.call("Read", file_path="greet.py")
        text = (project / "greet.py").read_text(encoding="utf-8")
        content = text.replace('"""Greetings."""', '"""Greetings for the morning."""').replace(
            '["world"]', '["early birds"]'
        )
        client.begin("tools/call", name="Write", arguments={"file_path": "greet.py", "content": content})
        page.get(start + "approvals")
        WebDriverWait(page, 60).until(lambda p: p.find_elements(By.CLASS_NAME, "question"))
        page.find_element(By.ID, "theme").click()
        _save(page, "approvals")


def _create_draft(project: Path) -> None:
    """A draft in which two places of a file were changed and a file was created."""
    from handrail.drafts.store import DraftStore

    draft = DraftStore.open(os.environ["HANDRAIL_STATE"], str(project)).create("faster")
    text = (project / "greet.py").read_text(encoding="utf-8")
    changed = text.replace('"""Greetings."""', '"""Greetings for everybody."""').replace('["world"]', '["all of you"]')
    Path(draft.directory.upper, "greet.py").write_text(changed, encoding="utf-8")
    Path(draft.directory.upper, "README.md").write_text("# Greetings\n\nRun `python greet.py`.\n", encoding="utf-8")
    draft.close()


def _save(page: Chrome, name: str) -> None:
    page.save_screenshot(str(FOLDER / f"web-{name}.png"))


if __name__ == "__main__":
    main()
