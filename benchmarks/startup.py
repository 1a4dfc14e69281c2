"""How long it takes until the tools are there, and which imports that is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.mcp import surroundings
from benchmarks.measure import Line, Scale, contest, slower

SESSION = "from handrail import Session; Session('.')"
PROMPT = "› ".encode()
COMPOSER = b"0 in, 0 out"
"""The line of figures below the composer of a chat."""


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    variables = surroundings(folder)
    (folder / "small.txt").write_text("one\ntwo\n", encoding="utf-8")

    def python(*words: str) -> None:
        subprocess.run([sys.executable, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, env=variables)

    contestants = {
        "pass": lambda: python("-c", "pass"),
        "import": lambda: python("-c", "import handrail"),
        "session": lambda: python("-c", SESSION),
        "pydantic": lambda: python("-c", "import pydantic; pydantic.BaseModel"),
        "help": lambda: python("-m", "handrail", "--help"),
        "help of a command": lambda: python("-m", "handrail", "undo", "--help"),
        "call": lambda: python("-m", "handrail", "call", "Read", '{"file_path": "small.txt"}'),
        "chat": lambda: chat(folder, variables, PROMPT),
        "composer": lambda: chat(folder, variables, COMPOSER),
    }
    times = contest(scale.rounds, contestants)
    yield slower("`import handrail`, against `python -c pass`", times["import"], times["pass"])
    yield slower("`Session('.')`, against `python -c pass`", times["session"], times["pass"])
    yield slower("`Session('.')`, against `import pydantic`", times["session"], times["pydantic"])
    for what, name, most in (
        ("`handrail --help`", "help", 3),
        ("`handrail undo --help`", "help of a command", 3),
        ("`handrail call Read`", "call", 18),
        ("`handrail chat` to its prompt", "chat", 7),
    ):
        yield slower(f"{what}, against `python -c pass`", times[name], times["pass"], most, by_cpu=True)
    yield slower("`handrail chat` until its composer is there too", times["composer"], times["pass"])
    heaviest = ", ".join(f"{name} {share:.0%}" for name, share in imports(folder)[:8])
    yield Line("Which packages the imports of `Session('.')` spend their time in", heaviest)


def chat(folder: Path, variables: Mapping[str, str], mark: bytes) -> None:
    """A chat at a terminal, until it has written ``mark``; what is typed counts from the prompt on."""
    ours, theirs = pty.openpty()
    own = {"TERM": "xterm-256color", "OPENAI_BASE_URL": "http://127.0.0.1:9"}
    words = [sys.executable, "-m", "handrail", "chat", "--model", "none"]
    process = subprocess.Popen(
        words, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env={**variables, **own}, start_new_session=True
    )
    os.close(theirs)
    try:
        seen = b""
        while mark not in seen:
            seen += os.read(ours, 65536)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def imports(folder: Path) -> list[tuple[str, float]]:
    """The share of each top-level package in the time of all imports."""
    words = [sys.executable, "-X", "importtime", "-c", SESSION]
    completed = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, encoding="utf-8")
    spent: dict[str, float] = {}
    for row in completed.stderr.splitlines():
        own, _, name = row.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            package = name.strip().split(".")[0]
            spent[package] = spent.get(package, 0.0) + int(own)
    total = sum(spent.values())
    return sorted(((name, part / total) for name, part in spent.items()), key=lambda item: -item[1])
