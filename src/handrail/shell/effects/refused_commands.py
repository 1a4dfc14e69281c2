"""Commands that are refused everywhere, by meaning: `rm -rf /`, `sudo`, `shutdown`, `reboot`, writing to a device.

The commands that a script runs are judged, and not their spelling: `echo sudo` is no danger, `"su"do x` is one. Where
the line is drawn:

- Deleting: a recursive `rm` of `/`, of a top-level directory of the system or of a home directory, of everything in
  one of these, and of `/` with a name behind it that is computed. Anything below is for policy to ask.
- Devices: a write to anything in /dev but the few that only swallow or pass on what they get.
- Names: a command whose name is computed cannot be shown to be none of these. A computed directory before a fixed name
  (`"$HOME/bin/tool"`) is harmless.
- A script that could not be read to its end, or a wrapper that could not be opened, is refused if one of the names
  stands anywhere in it. A shell that reads a script from a pipe or a file is a doubt, and for policy to ask.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from handrail.errors import BadCommand, Dangerous, PatchNotAlone
from handrail.frozen import frozen
from handrail.shell.parser.parse import check_syntax, parse_script
from handrail.shell.parser.script import PLACES, Command, Script, Word
from handrail.shell.parser.wrappers import PRIVILEGED
from handrail.shell.patch_command import NAMES

_POWER = ("shutdown", "reboot", "halt", "poweroff")
_POWER_VERBS = ("poweroff", "reboot", "halt", "kexec", "soft-reboot", "exit")
_HARMLESS = re.compile(
    r"/dev/(?:null|zero|full|tty|std(?:in|out|err)|u?random|fd/[0-9]+|shm/.+)|/proc/self/fd/[0-9]+", re.DOTALL
)
_SYSTEM = frozenset(
    [
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "media",
        "mnt",
        "opt",
        "proc",
        "root",
        "run",
        "sbin",
        "srv",
        "sys",
        "usr",
        "var",
        "Applications",
        "Library",
        "System",
        "Users",
        "Volumes",
        "private",
        "nix",
    ]
)
_TO_DEVICES = ("tee", "shred", "truncate", "wipefs", "mkswap", "fdisk", "sfdisk", "parted", "blkdiscard", "badblocks")
_LAST_IS_TARGET = ("cp", "mv", "install", "rsync", "ln")
_NARROWS = re.compile(r"-(?:i?name|i?path|i?wholename|i?regex|mtime|mmin|newer.*|size|empty|user|group|inum|perm|type)")
_NAMES = re.compile(
    r"(?<![\w-])(?:sudo|sudoedit|doas|su|pkexec|runuser|gosu|shutdown|reboot|halt|poweroff|telinit|mkfs|rm)(?![\w-])|/dev/"
)

_RECURSIVE = re.compile(r"-(?!-).*[rR].*|--(?:r|re|rec|recu|recur|recurs|recursi|recursiv|recursive)", re.DOTALL)
"""A long option may be cut short."""
_NAMES_IN_WORDS = re.compile(
    r"(?<![\w-])(?:sudo|doas|su|pkexec|runuser|shutdown|reboot|poweroff|mkfs)(?![\w-])|rm\s+-\w*[rR]\w*\s+(?:-\S+\s+)*/(?![\w.])"
)
"""Names to look for where a wrapper cannot be opened: its words may be the command."""

Kind = Literal["delete", "privilege", "power", "device", "computed", "unread"]


@frozen
class Danger:
    """A refused part of a script, as it is written, and the reason."""

    kind: Kind
    text: str
    why: str


def require_harmless(command: str) -> Script:
    """The command, read. What is refused everywhere, and what is no command at all, raises."""
    if "\0" in command:
        raise BadCommand(why="it contains a NUL character", line=None, near=None)
    if not command.strip():
        raise BadCommand(why="it is empty", line=None, near=None)
    script = parse_script(command)
    if script.error is not None:
        fault = check_syntax(command)
        if fault is not None:
            raise BadCommand(why=fault.message, line=fault.line, near=fault.text or None)
    harm = find_danger(script)
    if harm:
        raise Dangerous(part=harm.text, why=harm.why)
    if any(run.name in NAMES and run.name not in script.functions for run in script.runs):
        raise PatchNotAlone
    return script


def find_danger(script: Script) -> Danger | None:
    """The first thing in the script that is refused everywhere; None if there is none that can be seen."""
    return next((danger for _, danger in find_dangers(script)), None)


def find_dangers(script: Script) -> Iterator[tuple[int, Danger]]:
    """Yield each refused part with the number of its command; -1 stands for text that was not parsed."""
    places = _find_places(script)
    moved = any(item.name in PLACES for run in script.runs for item in run.assignments)
    moved = moved or any(name in script.elsewhere for name in PLACES)
    for index, run in enumerate(script.runs):
        if danger := _judge_command(run, places, moved) or _judge_redirections(run, places):
            yield index, danger
    if script.stopped or script.error is not None:
        plain = re.sub(r"\\\n|[\\'\"]", "", script.source)
        if seen := _NAMES.search(plain):
            yield -1, Danger("unread", seen.group(), "the script cannot be read to its end, and this stands in it")


def _get_text(run: Command) -> str:
    return " ".join(word.source for word in run.words)[:200]


def _judge_command(run: Command, places: list[str], moved: bool) -> Danger | None:
    text = _get_text(run)
    base = run.base
    if base is None or (moved and run.words and run.words[0].fixed is None):
        return Danger("computed", text, "the name of a command is computed")
    words = run.words[1:]
    fixed = [word.fixed for word in words]
    operands = [item for item in fixed if item is not None and not item.startswith("-")]
    if base in PRIVILEGED:
        return Danger("privilege", text, f"{base} runs commands as another user")
    if base in _POWER or (base in ("init", "telinit") and operands[:1] and operands[0] in "06"):
        return Danger("power", text, f"{base} stops the machine")
    if base in ("systemctl", "loginctl") and any(verb in _POWER_VERBS for verb in operands[:3]):
        return Danger("power", text, f"{base} stops the machine")
    options, named = _split_options(words)
    if base == "rm" and any(map(_RECURSIVE.fullmatch, options)):
        for word in named:
            if _is_root(word, places):
                return Danger("delete", text, f"it deletes {word.source} with everything in it")
    if base == "find" and _deletes_all(fixed) and any(_is_root(word, places) for word in named):
        return Danger("delete", text, "it deletes everything found there")
    if any(isinstance(inner, Script) and inner.own_doubts for inner in run.nested):
        whole = " ".join(word.fixed if word.fixed is not None else word.source for word in words)
        if seen := _NAMES_IN_WORDS.search(re.sub(r"[\\'\"]", "", whole)):
            return Danger("unread", text, f"{base} runs unknown code, which contains {seen.group()}")
    return _to_device(base, run, text, places)


def _to_device(base: str, run: Command, text: str, places: list[str]) -> Danger | None:
    words = run.words[1:]
    targets: list[Word] = []
    if base == "dd":
        targets = [word for word in words if _begins(word).startswith("of=")]
    elif base in _TO_DEVICES or base.startswith(("mkfs", "mke2fs")):
        targets = list(words)
    elif base in _LAST_IS_TARGET:
        into = (word for before, word in pairwise(words) if before.fixed in ("-t", "--target-directory"))
        targets = [*words[-1:], *into]
    for word in targets:
        begins = _begins(word)
        if _is_device(begins.partition("=")[2] if begins.startswith(("--", "of=")) else begins, places):
            return Danger("device", text, f"{base} writes to the device {word.source.removeprefix('of=')}")
    return None


def _judge_redirections(run: Command, places: list[str]) -> Danger | None:
    for item in run.redirections:
        if item.writes and _is_device(_begins(item.target), places):
            text = f"{item.descriptor}{item.operator} {item.target.source}"
            return Danger("device", text, f"it writes to the device {item.target.source}")
    return None


def _begins(word: Word) -> str:
    """The fixed text that a word begins with; a pattern or a value behind it stands as `?`."""
    text = ""
    for part in word.parts:
        if part.kind != "text":
            return text + "?"
        text += part.text
    return text


def _locate(path: str, places: list[str]) -> list[str]:
    """The absolute paths that a path may mean."""
    whole = [path] if path.startswith("/") else [posixpath.join(place, path) for place in places if path]
    return ["/" + posixpath.normpath(one).lstrip("/") for one in whole]


def _is_device(path: str, places: list[str]) -> bool:
    located = _locate(path, places)
    return any(one == "/dev" or (one.startswith("/dev/") and not _HARMLESS.fullmatch(one)) for one in located)


def _split_options(words: Sequence[Word]) -> tuple[list[str], list[Word]]:
    """The options, and the other words; behind `--` there are no options."""
    end = next((at for at, word in enumerate(words) if word.fixed == "--"), len(words))
    options = [word.fixed for word in words[:end] if word.fixed and word.fixed.startswith("-")]
    return options, [word for word in words[:end] if (word.fixed or "") not in options] + [*words[end + 1 :]]


def _find_places(script: Script) -> list[str]:
    """The fixed directories that the script goes to: relative paths may start there."""
    paths = []
    for run in script.runs:
        if run.base in ("cd", "pushd", "chroot"):
            target = next(iter(_split_options(run.words[1:])[1]), None)
            if target is None or (target.parts and _is_home(target)):
                paths.append("/root")  # stands for the home directory
            elif target.fixed and target.fixed.startswith("/"):
                paths.append(target.fixed)
        elif run.base == "env" and any((word.fixed or "").startswith(("-C", "--chdir")) for word in run.words):
            paths.append("/")
    return paths


def _is_home(word: Word) -> bool:
    first, *rest = word.parts
    if first.kind == "text" and not first.text and rest:
        first, *rest = rest
    home = first.kind == "tilde" or first.text in ("$HOME", "${HOME}")
    return home and "".join(part.text for part in rest).strip("/.*") == ""


def _is_root(word: Word, places: list[str]) -> bool:
    """Whether this is `/`, a top-level directory of the system, a home, or everything in one of these."""
    if not word.parts:
        return False
    if _is_home(word) or word.parts[0].kind == "escape":
        return True
    path = "".join(part.text if part.kind == "text" else "*" for part in word.parts)
    if word.parts[0].kind in ("variable", "command", "arithmetic", "input", "process", "tilde"):
        return False
    for full in _locate(path, places):
        names = [name for name in full.split("/") if name]
        while names and not names[-1].strip("*.?"):  # everything in it
            names.pop()
        if not names or (len(names) == 1 and (names[0] in _SYSTEM or _may_be_system(names[0]))):
            return True
        if len(names) == 2 and names[0] in ("home", "Users"):
            return True
    return False


def _may_be_system(name: str) -> bool:
    if "*" not in name:
        return False
    pattern = re.compile(".*".join(re.escape(piece) for piece in name.split("*")))
    return any(pattern.fullmatch(known) for known in _SYSTEM)


def _deletes_all(fixed: list[str | None]) -> bool:
    deletes = "-delete" in fixed or any(text in ("rm", "/bin/rm", "/usr/bin/rm") for text in fixed)
    return deletes and not any(_NARROWS.fullmatch(text or "") for text in fixed)
