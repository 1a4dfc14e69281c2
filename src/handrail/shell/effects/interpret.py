"""Judge one command by the tables of programs: whether it only looks, uses the network, or destroys.

The arguments of sed, awk, jq and find are languages of their own. Only programs that we understand pass: any other
counts as one that may write files or run commands.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from handrail.shell.effects.arguments import (
    COMPUTED_NAMES,
    READ_ONLY,
    Arg,
    FileEffect,
    Program,
    Ruling,
    Value,
    Visibility,
    judge_by_row,
    parse_options,
)
from handrail.shell.effects.project_programs import HARMS, NETWORK, VERSIONS, Harm
from handrail.shell.git.verbs import find_verb, git_goes_out, shows_untracked
from handrail.shell.parser.script import Command

PRIVATE_NAME = r"(?i:.*(?:key|token|secret|passw|credential|auth|cookie|session|private).*)"
"""Names of variables whose value is not to be shown."""
HARMLESS_BEFORE = (
    r"LC_[A-Z]+|LANG|LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|CLICOLOR|FORCE_COLOR|TERM|IFS|LS_COLORS|GREP_COLORS?"
)
"""Variables that may be set in front of a command: they change how it writes, and nothing else."""
QUIET_DEVICES = r"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/[0-9]+)|/proc/self/fd/[0-9]+"
"""Files that swallow what is written to them, or pass it on."""


def _load_read_only() -> dict[str, Program]:
    """The programs that only read, by name."""
    with open(os.path.join(os.path.dirname(__file__), "read_only.toml"), "rb") as file:
        rows = tomllib.load(file)["program"]
    return {name: Program(**row) for row in rows for name in row.pop("names").split()}


LOOKING = _load_read_only()


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


_TESTS = ("test", "[", "[[")
_NAMES_ONLY = ("find", "cd")
_DATABASES = ("psql", "mysql", "mariadb", "sqlite3", "cockroach", "clickhouse-client", "mongosh", "mongo", "sqlcmd")
_DROPS = re.compile(
    r"\b(?:drop\s+(?:database|schema|table|user|role|owned)|truncate\s+(?:table\s+)?\w|dropdatabase)"
    r"|\bdelete\s+from\s+[\w.\"`]+\s*(?:;|$)",
    re.IGNORECASE,
)
_FORK_BOMB = re.compile(r":\s*\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}")
_HARMS_BY_NAME: dict[str, list[Harm]] = {}
for _harm in HARMS:
    for _program in _harm.names.split():
        _HARMS_BY_NAME.setdefault(_program, []).append(_harm)
_OPENS_HIDDEN = re.compile(r"-[^-]*[u.]|--(?:hidden|unrestricted|no-ignore)")
"""Options of ripgrep with which it looks into hidden files, and what may be one."""
PRINTERS = ("echo", "printf")
_VARIABLES_IN = re.compile(r"\$\{?[!#]?([A-Za-z_][A-Za-z0-9_]*)")
_SECRET = re.compile(PRIVATE_NAME)


def judge_program(base: str, args: Sequence[Arg]) -> Ruling:
    """Judge a command by the tables of programs that only look, and of those that change what their words name."""
    if len(args) == 1 and args[0].text is not None and args[0].text in VERSIONS.get(base, "").split():
        return READ_ONLY
    if base in PRINTERS:
        return _judge_printed(args)
    if base in _TESTS:
        return READ_ONLY
    if base in LANGUAGES:
        return LANGUAGES[base](args)
    if base in WRITERS:
        return judge_writer(base, args)
    row = LOOKING.get(base)
    if row is None:
        return Ruling(why="unknown command")
    if not row.words:
        return judge_by_row(base, row, args)
    texts = [arg.text for arg in args]
    fixed = "\n".join(text for text in texts if text is not None)
    looks = None not in texts and fixed.count("\n") == max(len(texts) - 1, 0) and re.fullmatch(row.words, fixed)
    return READ_ONLY if looks else Ruling(why=row.why)


def _judge_printed(args: Sequence[Arg]) -> Ruling:
    """Arguments that are printed: a variable among them may be a secret."""
    for arg in args:
        for name in _VARIABLES_IN.findall(arg.source):
            if arg.text is None and _SECRET.fullmatch(name):
                return Ruling(why=f"the value of {name} may be a secret")
    return READ_ONLY


# -- what a program shows


def find_visibility(base: str | None, args: Sequence[Arg]) -> Visibility:
    """How much a command shows of the files that it reads."""
    if base == "git":
        return "contents" if shows_untracked(args) else "names"
    if base == "rg":
        return "contents" if any(arg.text is None or _OPENS_HIDDEN.match(arg.text) for arg in args) else "unhidden"
    row = LOOKING.get(base or "")
    return "names" if base in _NAMES_ONLY or (row is not None and row.shows == "names") else "contents"


# -- what destroys


def find_harm(run: Command, base: str, args: Sequence[Arg]) -> str:
    """Why this command is destructive or privileged; empty if it is not known to be."""
    texts = [value.text for arg in args for value in arg.values or ()]
    rows = _HARMS_BY_NAME.get(base, [])
    if base == "git" and (verb := find_verb(args)[0]):
        rows = [*rows, *_HARMS_BY_NAME.get(f"git-{verb}", ())]
    for row in rows:
        if all(_has_any(need, texts) for need in row.needs):
            return row.why
    if base == "kill" and any(text in ("-1", "0", "1") for text in texts[1:]):
        return "it kills every process"
    if base.startswith("mkfs."):
        return "it creates a file system"
    fed = [item.target.fixed or "" for item in run.redirections if item.feeds]
    if base in _DATABASES and any(map(_DROPS.search, [*texts, *fed])):
        return "it deletes data from a database"
    return ""


_DISCARDS = re.compile(
    r"(?:reset .*--[hm]|clean(?! .*(?:-n|--dry))|stash (?:drop|clear)|checkout (?!.*(?:-[bB] |--orphan ))|restore"
    r"|filter-|reflog (?:exp|del)|gc .*--prune|prune|read-tree .*-(?:u|-reset)|update-ref .*-).*",
    re.DOTALL,
)
"""Git's words from the verb on."""
_GIVES_UP = re.compile(r"--(?:ab|sk|disc|for(?!mat)).*|-[A-Za-z]*[Df][A-Za-z]*")


def discards_files(args: Sequence[Arg]) -> bool:
    """Whether a git command may discard files or commits, which an undo of its draft restores."""
    verb, at, _ = find_verb(args)
    words = [arg.text or arg.source for arg in args[at:]]
    return bool(_DISCARDS.fullmatch(" ".join([verb or "", *words]))) or any(map(_GIVES_UP.fullmatch, words))


def fork_bomb(source: str) -> bool:
    return bool(_FORK_BOMB.search(source))


def _has_any(need: str, texts: Sequence[str]) -> bool:
    return any(_is_there(spelling, texts) for spelling in need.split(" "))


def _is_there(spelling: str, texts: Sequence[str]) -> bool:
    if spelling.startswith("~"):
        return any(re.search(spelling[1:], text) for text in texts)
    if spelling.startswith("--"):
        return any(text == spelling or text.startswith(spelling + "=") for text in texts)
    if len(spelling) == 2 and spelling[0] == "-" and spelling[1].isalpha():
        letter = spelling[1]
        return any(text[:1] == "-" and text[:2] != "--" and letter in text[1:] for text in texts)
    return spelling in texts


# -- the network

_SOCKET = re.compile(r"/dev/(?:tcp|udp)/.*")
_PYTHON = re.compile(r"python[23]?|pypy3")
_MODULE = re.compile(r"-[bBdEhiIOPqsSuvVx]*m(.*)", re.DOTALL)
_QUIET_TOOL = ("--no-install", "--no", "--offline", "--bun", "-q", "--quiet", "--silent", "--")

NetworkUse = Literal["", "certain", "possible"]
"""Whether a command uses the network: by nature, or perhaps, to fetch what is missing."""


def is_socket(path: str) -> bool:
    """Whether bash opens a connection for a redirection to this name."""
    return bool(_SOCKET.fullmatch(path))


def judge_network(base: str, args: Sequence[Arg]) -> NetworkUse:
    """Whether a command uses the network, as far as its name and words tell."""
    texts = [arg.text or "" for arg in args]
    if len(texts) == 1 and texts[0] in ("--version", "-V", "--help", "-h"):
        return ""
    if base == "git":
        return "certain" if git_goes_out(args) or find_verb(args)[0] is None else ""
    if _PYTHON.fullmatch(base):
        return _judge_module(args)
    row = NETWORK.get(base)
    if row is None:
        return "certain" if any(map(is_socket, texts)) else ""
    if row.network.startswith("~"):
        return "certain" if any(re.fullmatch(row.network[1:], text) for text in texts) else ""
    if row.network == "*":
        return "certain"
    if row.tools == "-":
        return _judge_tool(args)
    network, fetches, tools = (verbs.split() for verbs in (row.network, row.fetches, row.tools))
    uses: set[NetworkUse] = {"certain"} if "-" in network and not any(map(_is_word, args)) else set()
    for verb, second, rest in _find_verbs(args):
        if verb is None or verb in network or f"{verb}/{second}" in network:
            uses.add("certain")
        elif verb in tools or (verb, second) == ("tool", "run"):
            uses.add(_judge_tool(rest[1:] if verb == "tool" else rest))
        elif verb in fetches:
            uses.add("possible")
    return "certain" if "certain" in uses else "possible" if "possible" in uses else ""


def _is_word(arg: Arg) -> bool:
    return arg.text is None or not arg.text.startswith("-")


def _find_verbs(args: Sequence[Arg]) -> Iterator[tuple[str | None, str | None, Sequence[Arg]]]:
    """The word that may be the verb, the word behind it, and all behind the verb; two where an option is in front.

    The option may have the first word as its value.
    """
    words = [at for at, arg in enumerate(args) if _is_word(arg)]
    for at in words[: 1 if words[:1] == [0] else 2]:
        second = next((args[other].text for other in words if other > at), None)
        yield args[at].text, second, args[at + 1 :]


def _judge_module(args: Sequence[Arg]) -> NetworkUse:
    """`python -m module`."""
    for at, arg in enumerate(args):
        match = _MODULE.fullmatch(arg.text or "")
        if match:
            module, rest = (match[1], args[at + 1 :]) if match[1] else ((*args, None)[at + 1], args[at + 2 :])
            name = module if isinstance(module, str) else module.text if module else None
            return "certain" if name is None or (name == "pip" and not rest) else judge_network(name, rest)
        if not (arg.text or "").startswith("-"):
            break
    return ""


def _judge_tool(args: Sequence[Arg]) -> NetworkUse:
    """`npx tool`: a tool that is not installed is fetched. Options may name another one."""
    texts = [arg.text for arg in args if arg.text not in _QUIET_TOOL]
    if not texts:
        return ""
    return "possible" if re.fullmatch(r"\w[\w.-]*", texts[0] or "") else "certain"
