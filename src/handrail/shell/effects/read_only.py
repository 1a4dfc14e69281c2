"""Commands that only look, judged: by their row, or by a rule of their own where a row does not say enough."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from handrail.shell.effects.arguments import Arg
from handrail.shell.effects.options import Syntax, parse_options
from handrail.shell.effects.programs import awk_only_prints, jq_only_prints, sed_only_prints
from handrail.shell.effects.read_only_table import PRIVATE_NAME, ROWS, VERSIONS
from handrail.shell.effects.ruling import READ_ONLY, FileEffect, Ruling
from handrail.shell.effects.tput_yq import tput, yq
from handrail.shell.parser.parse import STEERING

_SECRET = re.compile(PRIVATE_NAME)
_STEERS = re.compile(STEERING)
_NAMES_IN = re.compile(r"\$\{?[!#]?([A-Za-z_][A-Za-z0-9_]*)")
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
_XXD_FLAG = re.compile(r"-[abeEiupr].*[clgso]")
_RUNS_COMMAND = ("-exec", "-execdir", "-ok", "-okdir")
_JQ = Syntax(
    "acCeghjMnrRsS",
    "",
    "null-input raw-input slurp compact-output raw-output join-output ascii-output sort-keys color-output "
    "monochrome-output tab indent= exit-status stream seq arg= argjson= version",
    texts=1,
    closed=False,
)
_SED = Syntax(
    "nErsuz",
    "el",
    "quiet silent expression= regexp-extended separate unbuffered null-data posix line-length= sandbox debug",
)
_AWK = Syntax("", "Fv", "field-separator= assign= posix traditional re-interval csv")
_PS = re.compile(r"(?!-)[aAfhjlmrsStTuUvwxX]+|-[AacdefFjlLMnNTuUvwwxyZ]+|--forest|--no-headers|--sort=\S+|[0-9,]+")


def looker(base: str, args: Sequence[Arg]) -> Ruling | None:
    """What is told of a command that looks; None if it is not known as one."""
    if len(args) == 1 and args[0].text is not None and args[0].text in VERSIONS.get(base, "").split():
        return READ_ONLY
    special = _SPECIAL.get(base)
    if special is not None:
        return special(args)
    row = ROWS.get(base)
    return by_row(base, row, args) if row is not None else None


def by_row(base: str, row: Syntax, args: Sequence[Arg]) -> Ruling:
    """A command that is described by its row alone."""
    found = parse_options(row, args)
    operands = found.operands
    texts = 0 if found.has(*row.instead_names) else row.texts
    named = operands[texts:] if row.operands == "files" else []
    deep = "*" in row.below_names or found.has(*row.below_names)
    files = [
        effect
        for arg in named
        for effect in arg.files("read", below=deep)
        if not (effect.path == "-" and not effect.glob)
    ]
    for name, value in found.options:
        if name in row.read_names and value is not None:
            files += value.files("read")
        elif name in row.write_names and value is not None:
            files += value.files("write", below=name == "T")
    if not named and (row.here or (deep and row.operands == "files")):
        files.append(FileEffect("read", ".", below=deep))
    why = doubt = ""
    if found.unknown:
        why = f"the option {found.unknown} of {base} is not known"
    elif found.has(*row.write_names):
        why = f"{base} writes to a file"
    elif found.loose and not row.closed:
        why = f"an argument of {base} may turn out to be an option"
    elif row.operands == "none" and operands:
        why = f"{base} is not known to take an argument"
    elif len(operands) > row.most:
        why = f"{base} writes to its second file"
        files = [*operands[0].files("read"), *(effect for arg in operands[1:] for effect in arg.files("write"))]
    elif base in ("less", "more") and any((arg.text or "").startswith("+") for arg in operands):
        why = f"{base} runs the command that it is given"
    elif base == "xxd" and any(_XXD_FLAG.match(arg.text or "") for arg in args):
        why = "xxd ignores what is behind the letter of an option, so that its files are not known"
    elif base in ("bat", "batcat") and operands and operands[0].text == "cache":
        why = "it changes the cache of bat"
    elif base == "man" and any("/" in (arg.text or "/") for arg in operands):
        why = "man reads a file"
    unknown = any(arg.values is None for arg in named) or any(
        value is not None and value.values is None
        for name, value in found.options
        if name in row.read_names | row.write_names
    )
    if unknown:
        doubt = f"it cannot be told which files {base} comes to"
    return Ruling("ordinary" if why or doubt else "read_only", why or doubt, doubt, tuple(files))


def _shown(args: Sequence[Arg]) -> str:
    """Why these arguments should not be shown: a variable among them may be a secret."""
    for arg in args:
        for name in _NAMES_IN.findall(arg.source):
            if arg.text is None and _SECRET.fullmatch(name):
                return f"the value of {name} may be a secret"
    return ""


def _echo(args: Sequence[Arg]) -> Ruling:
    why = _shown(args)
    return Ruling(why=why) if why else READ_ONLY


def _test(args: Sequence[Arg]) -> Ruling:
    files: list[FileEffect] = []
    for index, arg in enumerate(args):
        if _FILE_TESTS.fullmatch(arg.text or "") and index + 1 < len(args):
            files += args[index + 1].files("read")
        elif arg.text in _TWO_FILES and 0 < index < len(args) - 1:
            files += args[index - 1].files("read") + args[index + 1].files("read")
    return Ruling("read_only", files=tuple(files))


def _set(args: Sequence[Arg]) -> Ruling:
    texts = [arg.text or "?" for arg in args]
    if texts and all(re.fullmatch(r"[-+][euxvfCEoTn]+|pipefail|nounset|errexit|xtrace|noglob", text) for text in texts):
        return READ_ONLY
    return Ruling(why="set shows or changes the variables of the shell")


def _declare(args: Sequence[Arg]) -> Ruling:
    texts = [arg.text or arg.source for arg in args]
    names = [text.partition("=")[0] for text in texts if not text.startswith("-")]
    if not names or any(not re.fullmatch(r"-[airlu]+", text) for text in texts if text.startswith("-")):
        return Ruling(why="it shows or exports variables")
    if any(
        not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*\+?", name) or _STEERS.fullmatch(name.rstrip("+")) for name in names
    ):
        return Ruling(why="it changes a variable that steers other commands")
    return READ_ONLY


def _printenv(args: Sequence[Arg]) -> Ruling:
    texts = [arg.text for arg in args]
    if texts and all(
        text and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) and not _SECRET.fullmatch(text) for text in texts
    ):
        return READ_ONLY
    return Ruling(why="it shows the environment with its secrets")


def _date(args: Sequence[Arg]) -> Ruling:
    row = Syntax(
        "uRI", "dr", "date= utc universal iso-8601? rfc-3339= rfc-email reference= debug", "texts", closed=False
    )
    found = parse_options(row, args)
    why = f"the option {found.unknown} of date is not known" if found.unknown else ""
    if found.loose or any(not (arg.text or arg.source.strip("\"'")).startswith("+") for arg in found.operands):
        why = why or "date with an argument sets the clock"
    reference = found.value("r", "reference")
    return Ruling("ordinary" if why else "read_only", why, files=tuple(reference.files("read") if reference else ()))


def _ps(args: Sequence[Arg]) -> Ruling:
    texts = [arg.text or "?" for arg in args]
    skip = False
    for text in texts:
        if skip:
            skip = False
        elif text in ("-o", "-p", "-u", "-C", "-U", "--ppid", "--pid", "--user", "-t", "o", "--format"):
            skip = True
        elif not _PS.fullmatch(text):
            return Ruling(why=f"ps with {text} is not known, or shows the environment of others")
    return READ_ONLY


def _ip(args: Sequence[Arg]) -> Ruling:
    words = [
        arg.text or "?" for arg in args if (arg.text or "?") not in ("-4", "-6", "-br", "-brief", "-c", "-j", "-s")
    ]
    looks = words[:1] and re.fullmatch(r"a|addr|address|r|route|l|link|n|neigh", words[0])
    if looks and (len(words) == 1 or words[1] in ("show", "list", "ls")) and "?" not in words:
        return READ_ONLY
    return Ruling(why="ip may change the network")


def _pip(args: Sequence[Arg]) -> Ruling:
    texts = [arg.text or "-?" for arg in args]
    if texts[:1] in (["list"], ["show"], ["freeze"]) and all(
        not text.startswith("-") or text.startswith("--format=") or text in ("-f", "-v", "--local", "--user")
        for text in texts[1:]
    ):
        return READ_ONLY
    return Ruling(why="pip may install something")


def _sed(args: Sequence[Arg]) -> Ruling:
    in_place = [arg for arg in args if re.match(r"-[nErsuz]*i|--in-place", arg.text or "")]
    # On macOS `-i` takes a separate word; an empty one can be nothing else.
    rest = [arg for arg in args if arg not in in_place and arg.text != ""]
    found = parse_options(_SED, rest)
    scripts = [value for name, value in found.options if name in ("e", "expression")]
    operands = found.operands
    if not scripts and operands and not found.has("f", "file"):
        scripts, operands = [operands[0]], operands[1:]
    files: list[FileEffect] = [effect for arg in operands for effect in arg.files("write" if in_place else "read")]
    why = doubt = ""
    if found.unknown:
        why = f"the option {found.unknown} of sed is not known"
        doubt = "a file says what sed does" if found.has("f", "file") else ""
    elif not all(script is not None and script.text is not None and sed_only_prints(script.text) for script in scripts):
        why = doubt = "the program of sed may write files or run commands"
        if all(script is not None and _only_inserts(script.text or "w") for script in scripts):
            doubt = ""
    if found.loose:
        why = why or "an argument of sed may turn out to be an option"
    if any(arg.values is None for arg in operands):
        why = doubt = doubt or "it cannot be told which files sed comes to"
    if in_place:
        why = why or "sed -i writes"
        suffix = re.sub(r"-[nErsuz]*i|--in-place=?", "", in_place[0].text or "", count=1)
        if suffix and not re.search(r"[*/]", suffix):
            files += [replace(file, path=file.path + suffix) for file in files]
    return Ruling("ordinary" if why else "read_only", why, doubt, tuple(files))


def _only_inserts(program: str) -> bool:
    """`3i text` and its like: text that is put in, up to the end."""
    return bool(re.fullmatch(r"(?:[0-9]+|\$|/[^/\\\n]*/)?[ \t]*[aic]\\?[^\n]*", program))


def _awk(args: Sequence[Arg]) -> Ruling:
    found = parse_options(_AWK, args)
    operands = found.operands
    program = operands[0].text if operands else None
    named = [arg for arg in operands[1:] if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", arg.text or "")]
    files = tuple(effect for arg in named for effect in arg.files("read"))
    if found.unknown:
        doubt = "a file says what awk does" if found.has("f", "file") else ""
        return Ruling(why=f"the option {found.unknown} of awk is not known", doubt=doubt, files=files)
    if program is None or not awk_only_prints(program):
        why = "the program of awk may write files or run commands"
        return Ruling(why=why, doubt=why, files=files)
    before = next(at for at, arg in enumerate(args) if arg is operands[0])
    if any(arg.loose and arg.text is None for arg in args[:before]):
        return Ruling(why="an option of awk is computed", files=files)
    if any(arg.values is None for arg in named):
        doubt = "it cannot be told which files awk comes to"
        return Ruling(why=doubt, doubt=doubt, files=files)
    # Behind its program awk takes no more options, so that names there cannot turn into one.
    return Ruling("read_only", files=files)


def _jq(args: Sequence[Arg]) -> Ruling:
    # `--arg name value` takes two words.
    kept = _without_named(args)
    found = parse_options(_JQ, kept)
    program = found.operands[0].text if found.operands else "."
    ruling = by_row("jq", _JQ, kept)
    if ruling.tier == "read_only" and (program is None or not jq_only_prints(program)):
        return Ruling(why="the program of jq may show the environment or read other files", files=ruling.files)
    return ruling


def _without_named(args: Sequence[Arg]) -> list[Arg]:
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
    why = "find deletes what it finds" if deletes else ""
    doubt = "it cannot be told where find looks" if any(arg.values is None for arg in starts) else ""
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
            why = why or f"the argument {rest[at - 1].source} of find is not known"
    return Ruling("ordinary" if why or doubt else "read_only", why or doubt, doubt, tuple(files))


_SPECIAL: dict[str, Callable[[Sequence[Arg]], Ruling]] = {
    "echo": _echo,
    "printf": _echo,
    "test": _test,
    "[": _test,
    "[[": _test,
    "set": _set,
    "declare": _declare,
    "typeset": _declare,
    "local": _declare,
    "readonly": _declare,
    "printenv": _printenv,
    "date": _date,
    "ps": _ps,
    "ip": _ip,
    "pip": _pip,
    "pip3": _pip,
    "sed": _sed,
    "gsed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "jq": _jq,
    "yq": yq,
    "tput": tput,
    "find": _find,
}
