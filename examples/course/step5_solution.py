"""Solution of step 5: forgive the spelling, never the place."""

from __future__ import annotations

from pathlib import Path

from step5_editing import CASES, judge


def indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def edit(path: Path, old: str, new: str) -> str:
    text = path.read_bytes().decode()
    ending = "\r\n" if "\r\n" in text else "\n"
    lines, given = text.split(ending), old.splitlines()
    wanted = [line.strip() for line in given]
    starts = [
        start
        for start in range(len(lines) - len(wanted) + 1)
        if [line.strip() for line in lines[start : start + len(wanted)]] == wanted
    ]
    if len(starts) != 1:
        return f"Error: the text fits {len(starts)} places. Send more lines around it."
    first = lines[starts[0]]
    lost = indentation(first).removesuffix(indentation(given[0]))
    lines[starts[0] : starts[0] + len(wanted)] = [lost + line if line else line for line in new.splitlines()]
    path.write_bytes(ending.join(lines).encode())
    return "done"


if __name__ == "__main__":
    for name, case in CASES.items():
        print(f"{name:20}{judge(edit, *case)}")
    print("\nTypographic quotes are refused: safe, but the model needs another turn. Handrail repairs them too.")
