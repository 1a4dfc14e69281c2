"""Make docs/images/undo.svg from a real run: `python docs/images/terminal.py`.

An agent with a scripted model deletes the wrong files, and `handrail undo` restores them. The commands run in a
pseudo-terminal on a temporary project. The picture shows their output as it came, line by line.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from pathlib import Path

import pexpect
import pyte
from chat import draw
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from handrail_demo.scripted_server import Line, ScriptedServer, in_order

COLUMNS = 100
SCRIPT = [
    Line("", [("Bash", {"command": "rm -rf build*"})]),
    Line("The build output is gone."),
]
COMMANDS = (
    "ls",
    "handrail run --model scripted --mode accept-edits 'remove the build output'",
    "ls",
    "handrail undo",
    "ls",
)
PAUSE = 1.6
"""Seconds before the output of the next command appears."""


def run(command: str, folder: Path, env: dict[str, str]) -> Text:
    """The screen of a terminal after a command."""
    child = pexpect.spawn(
        "bash", ["-c", command], cwd=str(folder), env=env, encoding="utf-8", dimensions=(60, COLUMNS), timeout=120
    )
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    screen = pyte.Screen(COLUMNS, 40)
    pyte.Stream(screen).feed(child.before.replace(f"{folder}/", ""))
    return draw(screen)


def animate(picture: str, starts: list[int]) -> str:
    """Let the lines of each command appear after those of the one before. A still shows all of them."""
    rules = "@keyframes appear { from { opacity: 0 } to { opacity: 1 } }\n"
    for step, (first, end) in enumerate(zip(starts, [*starts[1:], 1000], strict=True)):
        rules += f".step{step} {{ animation: appear 0.2s {step * PAUSE:.1f}s both }}\n"
        for line in range(first, end):
            picture = picture.replace(
                f'clip-path="url(#handrail-line-{line})"', f'clip-path="url(#handrail-line-{line})" data-step="{step}"'
            )
    picture = re.sub(r'<text class="([^"]*)"([^>]*) data-step="(\d+)"', r'<text class="\1 step\3"\2', picture)
    rules += "@media (prefers-reduced-motion: reduce) { text { animation: none !important } }\n"
    return picture.replace("</style>", f"{rules}    </style>", 1)


def main() -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    starts: list[int] = []
    lines = 0
    with tempfile.TemporaryDirectory() as place, ScriptedServer(in_order(SCRIPT)) as server:
        folder = Path(place, "project")
        (folder / "build").mkdir(parents=True)
        (folder / "build" / "app.o").write_bytes(b"\x7fELF")
        (folder / "builder.py").write_text("def build():\n    return 'app'\n", encoding="utf-8")
        (folder / "app.py").write_text("from builder import build\nprint(build())\n", encoding="utf-8")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {"PATH": path, "HOME": place, "HANDRAIL_STATE": f"{place}/state", "TERM": "xterm-256color"}
        env["OPENAI_BASE_URL"] = server.url
        for command in COMMANDS:
            shown = Text.assemble(("$ ", "bold green"), (command, "bold"), "\n", run(command, folder, env))
            starts.append(lines)
            lines += len(shown.wrap(console, COLUMNS))
            console.print(shown)
    # The fonts of the reader's own machine: a picture must not ask another server for one.
    form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")
    picture = console.export_svg(title="handrail", code_format=form, unique_id="handrail")
    Path(__file__).with_name("undo.svg").write_text(animate(picture, starts), encoding="utf-8")


if __name__ == "__main__":
    main()
