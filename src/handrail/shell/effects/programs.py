"""The programs that only read. What is not here is not known.

`read_only.toml` lists the programs that only read. An option is left out there where it writes, runs something else or
is rare; a program is left out where even its everyday use runs what a project brings along (`yarn --version`,
`python -m json.tool`, `ldd`) or shows the environment with its secrets (`env`). So `rustc --version` and all of `cargo`
only look in no case: `rust-toolchain.toml` and `.cargo/config.toml` name the programs that they start. `go version`
fetches the release that `go.mod` asks for, and `npm ls` writes a log where a project's `.npmrc` says.
"""

from __future__ import annotations

import os
import tomllib

from handrail.shell.effects.rows import Program

PRIVATE_NAME = r"(?i:.*(?:key|token|secret|passw|credential|auth|cookie|session|private).*)"
"""Names of variables whose value is not to be shown."""
HARMLESS_BEFORE = (
    r"LC_[A-Z]+|LANG|LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|CLICOLOR|FORCE_COLOR|TERM|IFS|LS_COLORS|GREP_COLORS?"
)
"""Variables that may be set in front of a command: they change how it writes, and nothing else."""
QUIET_DEVICES = r"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/[0-9]+)|/proc/self/fd/[0-9]+"
"""Files that swallow what is written to them, or pass it on."""


def _load_read_only() -> dict[str, Program]:
    """The programs that only read, by name."""
    with open(os.path.join(os.path.dirname(__file__), "read_only.toml"), "rb") as file:
        rows = tomllib.load(file)["program"]
    return {name: Program(**row) for row in rows for name in row.pop("names").split()}


LOOKING = _load_read_only()
