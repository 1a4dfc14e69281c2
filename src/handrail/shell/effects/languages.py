"""Programs whose arguments are a language of their own: sed, awk, jq, find, test and date.

Only what is understood passes: a program that is not is taken for one that may write files or run commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from handrail.shell.effects.arguments import Arg, FileEffect, Ruling
from handrail.shell.effects.rows import Program, judge_by_row, parse_options

_FILE_TESTS = re.compile(r"-[abcdefghkLNOGprsStuwx]")
_TWO_FILES = ("-nt", "-ot", "-ef")
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
        "-or", "!", "(", ")", ",", "-true", "-false", "-executable", "-readable", "-writable", "-follow",
        "-mount", "-xdev", "-daystart", "-noleaf", "-nouser", "-nogroup", "-ignore_readdir_race", "-warn",
        "-nowarn", "-H", "-L", "-P",
    )
)  # fmt: skip
_RUNS_COMMAND = ("-exec", "-execdir", "-ok", "-okdir")
_JQ = Program(
    "acCeghjMnrRsS",
    "",
    "null-input raw-input slurp compact-output raw-output join-output ascii-output sort-keys color-output "
    "monochrome-output tab indent= exit-status stream seq arg= argjson= version",
    texts=1,
    closed=False,
)
_SED = Program(
    "nErsuz",
    "el",
    "quiet silent expression= regexp-extended separate unbuffered null-data posix line-length= sandbox debug",
)
_AWK = Program("", "Fvi", "field-separator= assign= include= posix traditional re-interval csv")
# A delimiter inside of brackets ends the pattern for some seds and not for others, so it matches nothing here.
_SED_PATTERN = r"(?:\\[^\n]|\[\^?+\]?+(?:\[:[a-z]+:\]|(?!MARK)[^]\[\\\n])*+\]|(?!MARK)[^\\\[\n])*+"
_SED_ADDRESS = rf"(?:[0-9]+(?:~[0-9]+)?|\$|[+~][0-9]+|/{_SED_PATTERN.replace('MARK', '/')}/[IM]*)"
_SED_COMMAND = (
    r"(?:[pPdDnNgGhHxlz=]|[qQ][ \t]*[0-9]*|[btT:][ \t]*[A-Za-z0-9_]*|[sy](?P<mark>[^]\[\\\s;A-Za-z0-9])"
    rf"{_SED_PATTERN.replace('MARK', '(?P=mark)')}(?P=mark)(?:\\[^\n]|(?!(?P=mark))[^\\\n])*+(?P=mark)[gpiI0-9]*)"
)
_SED_PROGRAM = re.compile(
    rf"(?:[ \t\n;}}]*+(?:{_SED_ADDRESS}(?:[ \t]*,[ \t]*{_SED_ADDRESS})?[ \t!]*)?"
    rf"(?:\{{|{_SED_COMMAND}[ \t]*(?=[;}}\n]|$)))*+[ \t\n;}}]*"
)
_AWK_ODD = re.compile(r"@|\b(?:system|getline|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|ARGV|ARGC|load|include|printf?[ \t]*\\)")
_AWK_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_JQ_ODD = re.compile(r"\$ENV|(?<![.\w$])(?:env|import|include)\b")


def _test(args: Sequence[Arg]) -> Ruling:
    files: list[FileEffect] = []
    for index, arg in enumerate(args):
        if _FILE_TESTS.fullmatch(arg.text or "") and index + 1 < len(args):
            files += args[index + 1].files("read")
        elif arg.text in _TWO_FILES and 0 < index < len(args) - 1:
            files += args[index - 1].files("read") + args[index + 1].files("read")
    return Ruling("read_only", files=tuple(files))


def _judge_date(args: Sequence[Arg]) -> Ruling:
    row = Program(
        "uRI", "dr", "date= utc universal iso-8601? rfc-3339= rfc-email reference= debug", "texts", closed=False
    )
    parsed = parse_options(row, args)
    why = f"unknown option {parsed.unknown} of date" if parsed.unknown else ""
    if parsed.loose or any(not (arg.text or arg.source.strip("\"'")).startswith("+") for arg in parsed.operands):
        why = why or "date with an argument sets the clock"
    reference = parsed.value("r", "reference")
    return Ruling("ordinary" if why else "read_only", why, files=tuple(reference.files("read") if reference else ()))


def _judge_sed(args: Sequence[Arg]) -> Ruling:
    in_place = [arg for arg in args if re.match(r"-[nErsuz]*i|--in-place", arg.text or "")]
    # On macOS `-i` takes a separate word; an empty one can be nothing else.
    rest = [arg for arg in args if arg not in in_place and arg.text != ""]
    parsed = parse_options(_SED, rest)
    scripts = [value for name, value in parsed.options if name in ("e", "expression")]
    operands = parsed.operands
    if not scripts and operands and not parsed.has("f", "file"):
        scripts, operands = [operands[0]], operands[1:]
    files: list[FileEffect] = [effect for arg in operands for effect in arg.files("write" if in_place else "read")]
    why = doubt = ""
    if parsed.unknown:
        why = f"unknown option {parsed.unknown} of sed"
        doubt = "a file says what sed does" if parsed.has("f", "file") else ""
    elif not all(script is not None and script.text is not None and sed_only_prints(script.text) for script in scripts):
        why = doubt = "the program of sed may write files or run commands"
        if all(script is not None and _inserts_only(script.text or "w") for script in scripts):
            doubt = ""
    if parsed.loose:
        why = why or "an argument of sed may turn out to be an option"
    if any(arg.values is None for arg in operands):
        why = doubt = doubt or "file names come from variables or substitutions"
    if in_place:
        why = why or "sed -i writes"
        suffix = re.sub(r"-[nErsuz]*i|--in-place=?", "", in_place[0].text or "", count=1)
        if suffix and not re.search(r"[*/]", suffix):
            files += [replace(file, path=file.path + suffix) for file in files]
    return Ruling("ordinary" if why else "read_only", why, doubt, tuple(files))


def _inserts_only(program: str) -> bool:
    """`3i text` and its like: text that is put in, up to the end."""
    return bool(re.fullmatch(r"(?:[0-9]+|\$|/[^/\\\n]*/)?[ \t]*[aic]\\?[^\n]*", program))


def _judge_awk(args: Sequence[Arg]) -> Ruling:
    parsed = parse_options(_AWK, args)
    operands = parsed.operands
    program = operands[0].text if operands else None
    named = [arg for arg in operands[1:] if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", arg.text or "")]
    files = tuple(effect for arg in named for effect in arg.files("read"))
    if parsed.has("i", "include"):
        doubt = "awk runs a library, which may be one of the project"
        return Ruling(why=doubt, doubt=doubt, files=(*files, *(e for arg in named for e in arg.files("write"))))
    if parsed.unknown:
        doubt = "a file says what awk does" if parsed.has("f", "file") else ""
        return Ruling(why=f"unknown option {parsed.unknown} of awk", doubt=doubt, files=files)
    if program is None or not awk_only_prints(program):
        why = "the program of awk may write files or run commands"
        return Ruling(why=why, doubt=why, files=files)
    before = next(at for at, arg in enumerate(args) if arg is operands[0])
    if any(arg.loose and arg.text is None for arg in args[:before]):
        return Ruling(why="an option of awk is computed", files=files)
    if any(arg.values is None for arg in named):
        doubt = "file names come from variables or substitutions"
        return Ruling(why=doubt, doubt=doubt, files=files)
    # Behind its program awk takes no more options, so that names there cannot turn into one.
    return Ruling("read_only", files=files)


def _judge_jq(args: Sequence[Arg]) -> Ruling:
    # `--arg name value` takes two words.
    kept = _drop_named(args)
    parsed = parse_options(_JQ, kept)
    program = parsed.operands[0].text if parsed.operands else "."
    ruling = judge_by_row("jq", _JQ, kept)
    if ruling.tier == "read_only" and (program is None or not jq_only_prints(program)):
        return Ruling(why="the program of jq may show the environment or read other files", files=ruling.files)
    return ruling


def _drop_named(args: Sequence[Arg]) -> list[Arg]:
    out: list[Arg] = []
    at = 0
    while at < len(args):
        if args[at].text in ("--arg", "--argjson"):
            at += 3
            continue
        out.append(args[at])
        at += 1
    return out


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


def find_follows(args: Sequence[Arg]) -> bool:
    """Whether find follows links; an argument that is computed may make it."""
    return any(arg.text in ("-L", "-follow") or (arg.text is None and arg.loose) for arg in args)


def _find(args: Sequence[Arg]) -> Ruling:
    starts = find_starts(args)
    deletes = any(arg.text == "-delete" for arg in args)
    action = ("delete",) if deletes else ()
    files: list[FileEffect] = []
    for kind in ("read", *action):
        for arg in starts:
            files += arg.files("delete" if kind == "delete" else "read", below=True)
        if not starts:
            files.append(FileEffect("delete" if kind == "delete" else "read", ".", below=True))
    if find_follows(args):
        files = [replace(effect, links="all") for effect in files]
    why = "find deletes what it finds" if deletes else ""
    doubt = (
        "the directories to search come from variables or substitutions"
        if any(arg.values is None for arg in starts)
        else ""
    )
    rest = list(args[len(starts) :])
    at = 0
    while at < len(rest):
        text = rest[at].text
        at += 1
        if text in _RUNS_COMMAND:
            if text in ("-execdir", "-okdir"):
                why = doubt = "find runs a command in other directories"
            while at < len(rest) and rest[at].text not in (";", "+"):
                at += 1
            at += 1
        elif text in _FIND_TESTS or re.fullmatch(r"-newer[aBcmt]{2}", text or ""):
            if at < len(rest) and rest[at].values is None and rest[at].loose:
                why = why or "an argument of find is computed"
            at += 1
        elif text in ("-fprint", "-fprint0", "-fls", "-fprintf"):
            files += rest[at].files("write") if at < len(rest) else []
            why, at = f"find with {text} writes", at + (2 if text == "-fprintf" else 1)
        elif text not in _FIND_ALONE and text != "-delete":
            why = why or f"unknown argument {rest[at - 1].source} of find"
    return Ruling("ordinary" if why or doubt else "read_only", why or doubt, doubt, tuple(files))


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
    **dict.fromkeys(("test", "[", "[["), _test),
    "date": _judge_date,
    **dict.fromkeys(("sed", "gsed"), _judge_sed),
    **dict.fromkeys(("awk", "gawk", "mawk"), _judge_awk),
    "jq": _judge_jq,
    "find": _find,
}
"""Programs that are judged by code."""
