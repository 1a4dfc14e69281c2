"""Solution of step 7: the smallest draft. It copies, so it is slow, and it hides nothing outside."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path


def read_all(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run_in_draft(workspace: Path, command: str, agree: Callable[[str, str], bool]) -> list[str]:
    """Run a command in a copy; keep its changes, all or none. ``agree`` judges one change: its kind and its path."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "draft")
        shutil.copytree(workspace, draft, symlinks=True)
        subprocess.run(["bash", "-c", command], cwd=draft, timeout=60, check=False)
        before, after = read_all(workspace), read_all(draft)
        changes = [("delete", name) for name in before.keys() - after.keys()]
        changes += [("write", name) for name in after if before.get(name) != after[name]]
        refused = [f"{kind} {name}" for kind, name in changes if not agree(kind, name)]
        for kind, name in changes if not refused else ():
            if kind == "delete":
                (workspace / name).unlink()
            else:
                (workspace / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(draft / name, workspace / name)
    return refused


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        (workspace / "notes.md").write_text("keep me\n", encoding="utf-8")
        for command in ("echo one > list.txt", "echo two >> list.txt; rm notes.md"):
            refused = run_in_draft(workspace, command, lambda kind, _: kind != "delete")
            print(f"{command}: {'refused: ' + ', '.join(refused) if refused else 'kept'}")
        print("files:", sorted(read_all(workspace)), "list.txt:", (workspace / "list.txt").read_text().split())
