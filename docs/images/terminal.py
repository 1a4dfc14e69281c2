"""Make docs/images/undo.svg from a real run: `python docs/images/terminal.py`.

The commands run in a pseudo-terminal on a temporary project; their output is drawn as it came, with its colours.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from pathlib import Path

import pexpect
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

COLUMNS = 92
COMMANDS = (
    "handrail call Edit --read-first --diff file_path=notes.txt old_string=two new_string=2",
    "handrail try --keep -- sh -c 'rm notes.txt; sed -i s/hello/goodbye/ app.py'",
    "handrail undo",
)


def run(command: str, folder: Path, env: dict[str, str]) -> str:
    """What a terminal shows after a command."""
    child = pexpect.spawn(
        "bash", ["-c", command], cwd=str(folder), env=env, encoding="utf-8", dimensions=(60, COLUMNS), timeout=120
    )
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    text: str = child.before
    return text.replace("\r\n", "\n").replace(f"{folder}/", "")


def main() -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "project")
        folder.mkdir()
        (folder / "notes.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
        (folder / "app.py").write_text("print('hello')\n", encoding="utf-8")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {"PATH": path, "HOME": place, "HANDRAIL_STATE": f"{place}/state", "TERM": "xterm-256color"}
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            console.print(Text.from_ansi(run(command, folder, env)))
    # The fonts of the reader's own machine: a picture must not ask another server for one.
    form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")
    picture = console.export_svg(title="handrail", code_format=form, unique_id="handrail")
    Path(__file__).with_name("undo.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
