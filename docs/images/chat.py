"""Make docs/images/chat.svg from a real run: `python docs/images/chat.py`.

`handrail chat` runs in a pseudo-terminal on a temporary project, with a scripted model on loopback. The screen is drawn
as a terminal shows it at the end.
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
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from handrail_demo.scripted_server import Line, ScriptedServer, in_order

COLUMNS, ROWS = 92, 30
LINES = [
    Line("I read the file first.", [("Read", {"file_path": "app.py"})]),
    Line("", [("Edit", {"file_path": "app.py", "old_string": "range(10)", "new_string": "range(1, 11)"})]),
    Line("", [("Bash", {"command": "python3 app.py"})]),
    Line("It counts from **1 to 10** now, and the program prints the right sum."),
]
COLOURS = {"brown": "yellow", "default": ""}


def name_colour(colour: str) -> str:
    """A colour of the screen as rich names it; empty for the usual one."""
    if re.fullmatch("[0-9a-f]{6}", colour):
        return f"#{colour}"
    return COLOURS.get(colour, colour.replace("bright", "bright_") if re.fullmatch("[a-z]+", colour) else "")


def draw(screen: pyte.Screen) -> Text:
    """The screen as text with its colours, without empty lines at its end."""
    text = Text()
    for row in range(screen.lines):
        for column in range(screen.columns):
            char = screen.buffer[row][column]
            ground = name_colour(char.bg)
            words = [name_colour(char.fg), "bold" if char.bold else "", "reverse" if char.reverse else ""]
            words += ["on", ground] if ground else []
            text.append(char.data, " ".join(word for word in words if word))
        text.append("\n")
    text.rstrip()
    return text


def main() -> None:
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    with tempfile.TemporaryDirectory() as place, ScriptedServer(in_order(LINES)) as server:
        folder = Path(place, "project")
        folder.mkdir()
        (folder / "app.py").write_text(
            "total = 0\nfor n in range(10):\n    total += n\nprint(total)\n", encoding="utf-8"
        )
        env = {
            "PATH": os.environ["PATH"],
            "HOME": place,
            "HANDRAIL_STATE": f"{place}/state",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }
        child = pexpect.spawn(
            sys.executable,
            ["-m", "handrail", "chat", "--model", "scripted", "--mode", "full"],
            cwd=str(folder),
            env={**env, "OPENAI_BASE_URL": server.url},
            encoding="utf-8",
            dimensions=(ROWS, COLUMNS),
            timeout=120,
        )
        steps = [
            ("", ["128,000"]),
            ("Count from 1 to 10, and run it.\r", ["right sum", "128,000"]),
            ("!!echo done\r", ["the model will see it", "128,000"]),
        ]
        for typed, texts in steps:
            child.send(typed)
            for text in texts:
                child.expect_exact(text)
                stream.feed(f"{child.before}{child.after}")
        child.ptyproc.delayafterterminate = 5
        child.close(force=True)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(draw(screen), soft_wrap=True)
    # The fonts of the reader's own machine: a picture must not ask another server for one.
    form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")
    picture = console.export_svg(title="handrail chat", code_format=form, unique_id="chat")
    Path(__file__).with_name("chat.svg").write_text(picture.replace(str(folder), "~/project"), encoding="utf-8")


if __name__ == "__main__":
    main()
