"""Step 4: reading in pages. A cut must say that it is one, and how to go on."""

from __future__ import annotations

import tempfile
from pathlib import Path

from model import call, open_model, say
from step1_loop import run

from handrail import Session
from handrail.integrations.openai import chat_tools

LINES = 100_000
ERROR_AT = 61_803


def write_log(path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for n in range(1, LINES + 1):
            file.write("ERROR the disk is full\n" if n == ERROR_AT else f"INFO request {n} done\n")


def cut_silently(path: Path, most: int = 8000) -> str:
    """What many first tools do. The model cannot know that there is more, or how to get it."""
    return path.read_text(encoding="utf-8")[:most]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        write_log(workspace / "server.log")
        print(f"A silent cut ends with: {cut_silently(workspace / 'server.log')[-20:]!r}")
        with Session(workspace) as session:
            page = session.call("Read", {"file_path": "server.log", "limit": 3})
            print(f"A page ends with:       {page.text.splitlines()[-1]}\n")
            model = open_model(
                call("Grep", pattern="ERROR", path="server.log", output_mode="content"),  # where?
                call("Read", file_path="server.log", offset=ERROR_AT - 2, limit=4),  # what is around it?
                say("Request 61802 was the last one before the disk was full."),
            )
            messages = run("Which request came right before the ERROR in server.log?", model,
                           list(chat_tools(session)), lambda name, text: session.call(name, text).text)  # fmt: skip
        read = sum(len(str(message["content"])) for message in messages if message["role"] == "tool")
        size = (workspace / "server.log").stat().st_size
        print(f"\nThe model read {read:,} characters of {size:,}.")

# Exercise: a line may be a megabyte (minified JavaScript, JSON lines), so a page of three lines may still fill the
# context. Write `number_lines(text, most)`, which splits line 5, if it has more than `most` characters, into parts
# numbered 5, 5.1, 5.2 (the first part keeps the number of the line), and yields each part as a line.
