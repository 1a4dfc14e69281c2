"""Commands that look only with few of their arguments: tput and yq."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.shell.effects.arguments import Arg
from handrail.shell.effects.options import Syntax, parse_options
from handrail.shell.effects.ruling import READ_ONLY, Ruling

_TPUT = re.compile("cols|lines|colors|longname|bold|dim|rev|smul|rmul|smso|rmso|sgr0?|op|seta[fb]|el1?|ed|civis|cnorm")
_YQ = Syntax(
    "PCMoNrje",
    "pI",
    "prettyPrint colors no-colors output-format= input-format= no-doc unwrapScalar? indent= exit-status tojson "
    "null-input version",
    closed=False,
)
_YQ_WORDS = re.compile(
    "keys|length|type|tag|has|select|map|(?:to|from)_entries|sort|sort_by|unique|first|last|contains|path|any|all|true|false"
    "|null|and|or|not"
)
_YQ_FILE = re.compile(r"-|[\w./+-]+\.(?:ya?ml|json|toml|xml|csv|tsv|properties)")


def tput(args: Sequence[Arg]) -> Ruling:
    """Not `init` and `reset`, which may run a program that the description of the terminal names."""
    texts = [arg.text or "?" for arg in args]
    known = bool(texts) and _TPUT.fullmatch(texts[0]) and all(text.isdigit() for text in texts[1:])
    return READ_ONLY if known else Ruling(why="tput with these arguments is not known")


def yq(args: Sequence[Arg]) -> Ruling:
    """Of the two programs of that name, what means the same to both."""
    found = parse_options(_YQ, args)
    operands = found.operands[1:] if found.operands and found.operands[0].text in ("e", "eval") else found.operands
    program = None
    if operands and not _YQ_FILE.fullmatch(operands[0].text or ""):
        program, operands = operands[0].text or "load", operands[1:]
    files = tuple(effect for arg in operands for effect in arg.files("read") if effect.path != "-")
    if found.unknown or found.loose or any(arg.values is None for arg in operands):
        return Ruling(why="yq with these arguments is not known", files=files)
    words = re.findall(r"(?<![\w.$])[A-Za-z_]\w*", re.sub(r'"[^"\\]*"', '""', program or ""))
    if program and (not all(map(_YQ_WORDS.fullmatch, words)) or re.search(r"[=$@\\`]|\.\.\.", program)):
        return Ruling(why="the program of yq may change or read other things", files=files)
    return Ruling("read_only", files=files)
