"""Programs that change nothing but the files which their words name: `cp`, `rm`, `touch` and their like."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from handrail.shell.effects.arguments import Arg, FileAction, FileEffect, Ruling, Value, mark_moved

_DEEP = re.compile(r"-[A-Za-z]*[rRa][A-Za-z]*|--(?:recursive|archive)")
_REMOTE = re.compile(r"[^/]*:.*", re.DOTALL)


class _Writer(NamedTuple):
    """How a program uses its operands, and the letters of its options with a value."""

    role: Literal["write", "delete", "copy", "mode"]
    takes: str = ""


_COPIES = _Writer("copy", "gmotST")
WRITERS = {
    **dict.fromkeys(("cp", "mv", "ln", "install"), _COPIES),
    "rsync": _Writer("copy", "eBfM"),
    "scp": _Writer("copy", "cDFiJloPSX"),
    **dict.fromkeys(("rm", "rmdir", "unlink"), _Writer("delete")),
    "mkdir": _Writer("write", "m"),
    "touch": _Writer("write", "drt"),
    "tee": _Writer("write"),
    "truncate": _Writer("write", "rs"),
    **dict.fromkeys(("chmod", "chown", "chgrp"), _Writer("mode")),
}


def judge_writer(base: str, args: Sequence[Arg]) -> Ruling:
    """Judge a program of `WRITERS`: the files that its operands name."""
    writer = WRITERS[base]
    deep = any(_DEEP.fullmatch(arg.text or "") for arg in args)
    symbolic = any(re.fullmatch(r"-[A-Za-z]*s[A-Za-z]*|--symbolic", arg.text or "") for arg in args)
    operands, target = _sort(args, writer)
    if writer.role == "copy":
        files = _copy(base, operands, target, deep, symbolic)
    else:
        action: FileAction = "delete" if writer.role == "delete" else "write"
        operands = operands[1:] if writer.role == "mode" else operands
        files = [effect for arg in operands for effect in arg.files(action, below=deep)]
    doubt = "file names come from variables or substitutions" if any(arg.values is None for arg in operands) else ""
    return Ruling("ordinary", f"{base} writes", doubt, tuple(files))


def _sort(args: Sequence[Arg], writer: _Writer) -> tuple[list[Arg], Arg | None]:
    """The operands, and the directory that an option names as the target."""
    operands: list[Arg] = []
    target: Arg | None = None
    rest = iter(args)
    for arg in rest:
        text = arg.text
        if text == "--":
            operands += rest
        elif text is None or not text.startswith("-") or text == "-":
            operands.append(arg)
        elif writer.role == "copy" and (named := re.fullmatch(r"(?:-[A-Za-z]*t|--target-directory(?:=|$))(.*)", text)):
            target = Arg(named[1], (Value(named[1]),)) if named[1] else next(rest, None)
        elif not text.startswith("--") and text[-1] in writer.takes:
            next(rest, None)
    return operands, target


def _copy(base: str, operands: list[Arg], target: Arg | None, deep: bool, symbolic: bool) -> list[FileEffect]:
    """Sources, and a target behind them or in an option."""
    sources = list(operands)
    if target is None and len(sources) > 1:
        target = sources.pop()
    out: list[FileEffect] = []
    if base != "ln" or not symbolic:
        # By which name a file can be read afterwards is up to whoever moves or links it: so it is a read, too.
        out += [effect for arg in sources for effect in arg.files("read", below=deep or base == "mv")]
    if base == "mv":
        out += mark_moved([effect for arg in sources for effect in arg.files("delete", below=True)], target)
    if target is not None:
        whole = deep or base == "mv" or len(sources) > 1
        out += [effect for arg in sources for effect in _find_targets(target, arg, whole)] or target.files("write")
    elif base in ("ln", "install"):
        out += [FileEffect("write", _name(value), value.glob) for arg in sources for value in arg.values or ()]
    return [effect for effect in out if not (base in ("rsync", "scp") and _REMOTE.fullmatch(effect.path))]


def _find_targets(target: Arg, source: Arg, whole: bool) -> Iterator[FileEffect]:
    for value in source.values or (Value("", glob=True),):
        many = value.glob or value.below
        yield from target.files("write", below=many or whole, into="" if many else _name(value))


def _name(value: Value) -> str:
    """The last name of a path."""
    return posixpath.basename(value.text.rstrip("/")) or "."
