"""Programs whose arguments are a language of their own: sed, awk, jq and find.

Only what is understood passes: a program that is not is taken for one that may write files or run commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from handrail.shell.effects.arguments import COMPUTED_NAMES, Arg, FileEffect, Ruling
from handrail.shell.effects.rows import Program, judge_by_row, parse_options

_FIND_TESTS = frozenset(
    (
        "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-type",
        "-xtype", "-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-newer", "-anewer",
        "-cnewer", "-maxdepth", "-mindepth", "-perm", "-user", "-group", "-uid", "-gid", "-links", "-inum",
        "-samefile", "-printf", "-regextype", "-used", "-fstype", "-lname", "-ilname",
    )
)  # fmt: skip
_FIND_ALONE = frozenset(
    (
        "-print", "-print0", "-ls", "-prune", "-quit", "-empty", "-depth", "-d", "-not", "-a", "-and", "-o",
        "-or", "!", "(", ")", ",", "-true", "-false", "-executable", "-readable", "-writable",
        "-mount", "-xdev", "-daystart", "-noleaf", "-nouser", "-nogroup", "-ignore_readdir_race", "-warn",
        "-nowarn", "-H", "-P",
    )
)  # fmt: skip
_JQ = Program(
    "acCeghjMnrRsS",
    "",
    "null-input raw-input slurp compact-output raw-output join-output ascii-output sort-keys color-output "
    "monochrome-output tab indent= exit-status stream seq version",
    texts=1,
    closed=False,
)
_SED = Program(
    "nErsuz",
    "el",
    "quiet silent expression= regexp-extended separate unbuffered null-data posix line-length= sandbox debug",
    texts=1,
    instead="e expression",
    closed=False,
)
_AWK = Program("", "Fv", "field-separator= assign= posix traditional re-interval csv", texts=1, closed=False)
# A delimiter inside of brackets ends the pattern for some seds and not for others, so it matches nothing here.
_SED_PATTERN = r"(?:\\[^\n]|\[\^?+\]?+(?:\[:[a-z]+:\]|(?!MARK)[^]\[\\\n])*+\]|(?!MARK)[^\\\[\n])*+"
_SED_ADDRESS = rf"(?:[0-9]+(?:~[0-9]+)?|\$|[+~][0-9]+|/{_SED_PATTERN.replace('MARK', '/')}/[IM]*)"
_SED_COMMAND = (
    r"(?:[pPdDnNgGhHxlz=]|[qQ][ \t]*[0-9]*|[btT:][ \t]*[A-Za-z0-9_]*|[sy](?P<mark>[^]\[\\\s;A-Za-z0-9])"
    rf"{_SED_PATTERN.replace('MARK', '(?P=mark)')}(?P=mark)(?:\\[^\n]|(?!(?P=mark))[^\\\n])*+(?P=mark)[gpiI0-9]*)"
)
_IN_PLACE = re.compile(r"-[nErsuz]*i|--in-place=?")
_SED_PROGRAM = re.compile(
    rf"(?:[ \t\n;}}]*+(?:{_SED_ADDRESS}(?:[ \t]*,[ \t]*{_SED_ADDRESS})?[ \t!]*)?"
    rf"(?:\{{|{_SED_COMMAND}[ \t]*(?=[;}}\n]|$)))*+[ \t\n;}}]*"
)
_AWK_ODD = re.compile(r"@|\b(?:system|getline|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|ARGV|ARGC|load|include|printf?[ \t]*\\)")
_AWK_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_JQ_ODD = re.compile(r"\$ENV|(?<![.\w$])(?:env|import|include)\b")


def _judge_language(base: str, row: Program, prints: Callable[[str], bool], args: Sequence[Arg]) -> Ruling:
    """Judge a program whose first operand, or the value of some options, is a program in a language of its own."""
    parsed = parse_options(row, args)
    programs = [value for name, value in parsed.options if name in row.instead_names] or parsed.operands[:1]
    ruling = judge_by_row(base, row, args)
    texts = [program.text if program else None for program in programs]
    if ruling.tier == "read_only" and not all(text is not None and prints(text) for text in texts):
        why = f"the program of {base} may write files or run commands"
        return Ruling(why=why, doubt=why, files=ruling.files)
    return ruling


def _judge_sed(args: Sequence[Arg]) -> Ruling:
    """Judge sed: with `-i` it writes the files that it reads, and copies beside them if a suffix is given."""
    in_place = [arg for arg in args if _IN_PLACE.match(arg.text or "")]
    # On macOS `-i` takes a separate word; an empty one can be nothing else.
    rest = [arg for arg in args if arg not in in_place and not (in_place and arg.text == "")]
    ruling = _judge_language("sed", _SED, sed_only_prints, rest)
    if not in_place:
        return ruling
    files = [replace(file, action="write") for file in ruling.files]
    suffix = _IN_PLACE.sub("", in_place[0].text or "", count=1)
    if suffix and not re.search(r"[*/]", suffix):
        files += [replace(file, path=file.path + suffix) for file in files]
    return Ruling("ordinary", ruling.why or "sed -i writes", ruling.doubt, tuple(files))


def find_starts(args: Sequence[Arg]) -> list[Arg]:
    """The directories that find begins with."""
    out: list[Arg] = []
    for arg in args:
        text = arg.text if arg.text is not None else arg.source
        if text in ("-H", "-L", "-P"):
            continue
        if text[:1] in ("-", "(", "!"):
            break
        out.append(arg)
    return out


def _judge_find(args: Sequence[Arg]) -> Ruling:
    """Judge find: it only looks with tests that are known, and neither runs a command nor deletes anything."""
    starts = find_starts(args)
    files = [file for arg in starts for file in arg.files("read", below=True)]
    files = files if starts else [FileEffect("read", ".", below=True)]
    follows = "find follows links, which may lead anywhere"
    doubt = follows if any(arg.text in ("-L", "-follow") for arg in args) else ""
    doubt = COMPUTED_NAMES if any(arg.values is None for arg in starts) else doubt
    if doubt:
        return Ruling(why=doubt, doubt=doubt)
    rest = iter(args[len(starts) :])
    for arg in rest:
        text = arg.text or ""
        if text in _FIND_TESTS or re.fullmatch(r"-newer[aBcmt]{2}", text):
            value = next(rest, None)
            if value is not None and value.values is None and value.loose:
                return Ruling(why="an argument of find is computed", files=tuple(files))
        elif text == "-delete":
            gone = [file for arg in starts for file in arg.files("delete", below=True)]
            gone = gone if starts else [FileEffect("delete", ".", below=True)]
            return Ruling(why="find deletes what it finds", files=(*files, *gone))
        elif text not in _FIND_ALONE:
            return Ruling(why=f"find with {arg.source} may do more than look", files=tuple(files))
    return Ruling("read_only", files=tuple(files))


def sed_only_prints(program: str) -> bool:
    """Whether every command of a sed program is one that only edits and prints what passes through."""
    return bool(_SED_PROGRAM.fullmatch(program))


def awk_only_prints(program: str) -> bool:
    """Whether an awk program neither runs anything nor writes or reads files of its own choice."""
    if _AWK_ODD.search(program):
        return False
    _, printing, after = program.partition("print")
    if not printing or not re.search(r"[>|]", after):
        return True
    # Strings are certain only where no slash can begin a regular expression.
    if "/" in program:
        return False
    plain = _AWK_STRING.sub("", program)
    after = plain.partition("print")[2].replace("||", "")
    return '"' not in plain and not re.search(r"[>|]", after)


def jq_only_prints(program: str) -> bool:
    """Whether a jq program leaves the environment and other files alone; it can never write."""
    return not _JQ_ODD.search(program)


LANGUAGES: dict[str, Callable[[Sequence[Arg]], Ruling]] = {
    **dict.fromkeys(("sed", "gsed"), _judge_sed),
    **dict.fromkeys(("awk", "gawk", "mawk"), lambda args: _judge_language("awk", _AWK, awk_only_prints, args)),
    "jq": lambda args: _judge_language("jq", _JQ, jq_only_prints, args),
    "find": _judge_find,
}
"""Programs that are judged by code."""
