"""Programs that change nothing but the files which their words name: `cp`, `rm`, `touch` and their like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from handrail.shell.effects.arguments import COMPUTED_NAMES, Arg, Ruling, Value

_DEEP = re.compile(r"-[A-Za-z]*[rRa]|--(?:recursive|archive)")
_SYMBOLIC = re.compile(r"-[A-Za-z]*s|--symbolic")
_TARGET = re.compile(r"(?:-[A-Za-z]*t|--target-directory)(?:=|$)?")
_GLUED_TARGET = re.compile(r"(?:-[A-Za-z]*?t|--target-directory=)(.+)", re.DOTALL)
_REMOTE = re.compile(r"[^/]*:.*", re.DOTALL)


class _Writer(NamedTuple):
    """How a program uses its operands, and the letters of its options with a value."""

    role: Literal["write", "delete", "copy", "mode"]
    takes: str = ""


_COPIES = _Writer("copy", "gmoST")
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
    deep = base == "mv" or _has(args, _DEEP)
    operands = _list_operands(args, writer)
    if writer.role == "copy":
        # An option may name the target in front: then each operand may be changed.
        targets = operands if writer is _COPIES and _has(args, _TARGET) else operands[-1:]
        sources = () if base == "ln" and _has(args, _SYMBOLIC) else operands if len(targets) > 1 else operands[:-1]
        # By which name a file can be read afterwards is up to whoever moves or links it: so it is a read, too.
        files = [file for arg in sources for file in arg.files("read", below=deep)]
        files += [file for arg in sources if base == "mv" for file in arg.files("delete", below=True)]
        files += [file for arg in targets for file in arg.files("write", below=deep)]
        if base in ("rsync", "scp"):
            files = [file for file in files if not _REMOTE.fullmatch(file.path)]
    else:
        named = operands[1:] if writer.role == "mode" else operands
        files = [f for arg in named for f in arg.files("delete" if writer.role == "delete" else "write", below=deep)]
    doubt = COMPUTED_NAMES if any(arg.values is None for arg in operands) else ""
    return Ruling("ordinary", f"{base} writes", doubt, tuple(files))


def _has(args: Sequence[Arg], option: re.Pattern[str]) -> bool:
    return any(option.match(arg.text or "") for arg in args)


def _list_operands(args: Sequence[Arg], writer: _Writer) -> list[Arg]:
    """The operands; the directory of `-t DIRECTORY` counts as one."""
    operands: list[Arg] = []
    rest = iter(args)
    for arg in rest:
        text = arg.text
        if text == "--":
            operands += rest
        elif text is None or not text.startswith("-") or text == "-":
            operands.append(arg)
        elif writer is _COPIES and (glued := _GLUED_TARGET.fullmatch(text)):
            operands.append(Arg(glued[1], (Value(glued[1]),)))
        elif not text.startswith("--") and text[-1] in writer.takes:
            next(rest, None)
    return operands
