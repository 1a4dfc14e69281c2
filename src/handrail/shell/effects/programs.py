"""The table of programs: which only read, which change files, and which use the network. What is not here is not known.

`read_only.toml` lists the programs that only read. An option is left out there where it writes, runs something else or
is rare; a program is left out where even its everyday use runs what a project brings along (`yarn --version`,
`python -m json.tool`, `ldd`) or shows the environment with its secrets (`env`). So `rustc --version` and all of `cargo`
only look in no case: `rust-toolchain.toml` and `.cargo/config.toml` name the programs that they start. `go version`
fetches the release that `go.mod` asks for, and `npm ls` writes a log where a project's `.npmrc` says.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace

from handrail.shell.effects.project_programs import CURL, PROJECT, VERSIONS, WGET
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

_COPY = Program(
    "adfilLnpPrRsTuvxHZD",
    "tgmo",
    "archive attributes-only copy-contents force interactive link dereference no-clobber no-dereference "
    "preserve? no-preserve= recursive reflink? remove-destination sparse= strip-trailing-slashes symbolic-link "
    "target-directory= no-target-directory update? verbose one-file-system mode= owner= group= "
    "directory compare relative logical physical debug exchange no-copy symbolic",
    does="writes",
    role="copy",
)
WRITING: dict[str, Program] = {
    "cp": _COPY,
    "mv": replace(_COPY, role="move"),
    "ln": replace(_COPY, role="link"),
    "install": replace(_COPY, role="install"),
    "rm": Program(
        "dfiIrRvPWx",
        "",
        "force interactive? one-file-system no-preserve-root preserve-root? recursive dir verbose",
        below="r R recursive",
        does="writes",
        role="delete",
    ),
    "rmdir": Program("pv", "", "parents verbose ignore-fail-on-non-empty", does="writes", role="remove_directories"),
    "unlink": Program(does="writes", role="delete"),
    "mkdir": Program("pvZ", "m", "mode= parents verbose context?", does="writes", role="write"),
    "touch": Program(
        "acfhm",
        "drt",
        "no-create date= no-dereference reference= time=",
        reads="r reference",
        does="writes",
        role="write",
    ),
    "tee": Program("aip", "", "append ignore-interrupts output-error?", does="writes", role="write"),
    "truncate": Program(
        "co", "rs", "no-create io-blocks reference= size=", reads="r reference", does="writes", role="write"
    ),
    "chmod": Program(
        "cfvRwxrXst",
        "",
        "changes quiet silent verbose recursive reference= preserve-root no-preserve-root",
        texts=1,
        below="R recursive",
        does="writes",
        role="mode",
    ),
    "chown": Program(
        "cfvRhHLP",
        "",
        "changes quiet verbose recursive reference= from= no-dereference dereference",
        texts=1,
        below="R recursive",
        does="writes",
        role="mode",
    ),
    "chgrp": Program(
        "cfvRhHLP",
        "",
        "changes quiet verbose recursive reference= no-dereference dereference",
        texts=1,
        below="R recursive",
        does="writes",
        role="mode",
    ),
    "rsync": Program(
        "avzhrlptgoDnPuxcHAXSWEiqmRdkKLCFb46",
        "eTBfM",
        "archive verbose compress human-readable delete dry-run exclude= include= exclude-from= progress partial "
        "inplace stats checksum recursive update links perms times rsh= rsync-path= info= out-format= chmod= "
        "ignore-existing existing size-only delete-after max-size= files-from= log-file= backup-dir= partial-dir= "
        "temp-dir=",
        reads="exclude-from files-from",
        writes="log-file backup-dir partial-dir temp-dir T",
        runs="e rsh rsync-path",
        does="writes",
        role="sync",
        network=r"~(?:[\w.-]+@)?[\w.-]+:(?!\\).*|rsync://.*",
    ),
    "scp": Program(
        "346BCpqrTvOR", "cDFiJloPSX", reads="i", runs="S F o D", does="writes", role="remote_copy", network="*"
    ),
    "curl": CURL,
    "wget": WGET,
}

PROGRAMS: dict[str, Program] = {**PROJECT, **LOOKING, **WRITING}
"""Every program that is known, by its name."""
for _name in ("pip", "pip3"):
    PROGRAMS[_name] = replace(PROJECT[_name], words=LOOKING[_name].words, why=LOOKING[_name].why)
for _name, _options in VERSIONS.items():
    PROGRAMS[_name] = replace(PROGRAMS.get(_name, Program(does="")), versions=_options)
