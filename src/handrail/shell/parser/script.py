"""A script read as bash would read it: the commands it comes to, or why that cannot be proven. Nothing is run.

`read` is what policy and Bash use. `checked` asks bash itself whether a text is valid at all: a text that we cannot
read is unproven, and only one that bash will not take is invalid.
"""

from __future__ import annotations

import re
import shutil
import subprocess

from handrail.shell.parser.commands import Assignment, Fault, Redirection, Script, Simple, Span
from handrail.shell.parser.expand import deep
from handrail.shell.parser.words import Part, Word

__all__ = ["Assignment", "Fault", "Part", "Redirection", "Script", "Simple", "Span", "Word", "checked", "read"]

_LINE = re.compile(r"line (\d+): (.*)")
_MOST_SECONDS = 30.0


def read(script: str) -> Script:
    """The script with every command that it comes to, wrappers and nested scripts opened."""
    return deep(script)


def checked(script: str) -> Fault | None:
    """What bash has to say against the text (`bash -n`: read, never run); None if it takes it.

    Raises FileNotFoundError without bash, and TimeoutError if bash does not answer in time.
    """
    if "\0" in script:
        return Fault(script.count("\n", 0, script.index("\0")) + 1, 0, "", "a NUL character")
    bash = shutil.which("bash")
    if bash is None:
        raise FileNotFoundError("bash")
    try:
        done = subprocess.run(  # noqa: S603
            [bash, "--norc", "--noprofile", "-n"],
            input=script.encode("utf-8", "surrogatepass"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},
            timeout=_MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise TimeoutError("bash -n") from late
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace").splitlines()
    found = next((match for row in said if (match := _LINE.search(row))), None)
    if found is None:
        return Fault(1, 0, "", said[0] if said else "bash does not take it")
    line = int(found[1])
    rows = script.split("\n")
    return Fault(line, 0, rows[line - 1][:200] if 0 < line <= len(rows) else "", found[2])
