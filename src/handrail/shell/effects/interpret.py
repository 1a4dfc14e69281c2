"""Judge one command by the tables of programs: whether it only looks, uses the network, or destroys.

Only programs in the table of read-only programs pass: any other counts as one that may write files or run commands.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal

from handrail.shell.effects.arguments import (
    COMPUTED_NAMES,
    READ_ONLY,
    Arg,
    Program,
    Ruling,
    Visibility,
    judge_by_row,
    judge_writer,
    parse_options,
)
from handrail.shell.effects.project_programs import HARMS, NETWORK, VERSIONS, Harm
from handrail.shell.git.verbs import find_verb, git_goes_out, list_changed_by_git
from handrail.shell.parser.script import Command, Script
from handrail.shell.parser.wrappers import FOREIGN_SHELLS, NAMES, RUNS_A_FILE, SHELLS

PRIVATE_NAME = r"(?i:.*(?:key|token|secret|passw|credential|auth|cookie|session|private).*)"
"""Names of variables whose value is not to be shown."""
HARMLESS_BEFORE = (
    r"LC_[A-Z]+|LANG|LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|CLICOLOR|FORCE_COLOR|TERM|IFS|LS_COLORS|GREP_COLORS?"
)
"""Variables that may be set in front of a command: they change how it writes, and nothing else."""
QUIET_DEVICES = r"/dev/(?:null|zero|full|tty|stdin|stdout|stderr|fd/[0-9]+)|/proc/self/fd/[0-9]+"
"""Files that swallow what is written to them, or pass it on."""


def _load_programs() -> tuple[dict[str, Program], dict[str, Program]]:
    """The programs that only read, and those that change the files they name, by name; verbs of git as `git log`."""
    with open(os.path.join(os.path.dirname(__file__), "programs.toml"), "rb") as file:
        tables = tomllib.load(file)
    verbs = [(f"git {verb.replace('_', ' ')}", row) for row in tables["program"] for verb in row.pop("git", "").split()]
    looking = [(name, row) for row in tables["program"] for name in row.pop("names", "").split()]
    writers = [(name.replace("_", " "), row) for row in tables["writer"] for name in row.pop("names").split()]
    return {name: Program(**row) for name, row in (*looking, *verbs)}, {name: Program(**row) for name, row in writers}


LOOKING, WRITERS = _load_programs()


_IN_PLACE = re.compile(r"-[nErsuz]*i|--in-place")
_TESTS = ("test", "[", "[[")
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
    in_place = base in ("sed", "gsed") and any(_IN_PLACE.match(arg.text or "") for arg in args)
    if row := WRITERS.get("sed -i" if in_place else base):
        return judge_writer(base, row, args)
    row = LOOKING.get(base)
    return judge_looking(base, row, args) if row else Ruling(why="unknown command")


def judge_looking(base: str, row: Program, args: Sequence[Arg]) -> Ruling:
    """Judge a program that only reads by its options, or by all its words where it has no usual options."""
    if not row.words:
        return judge_by_row(base, row, args)
    texts = [arg.text for arg in args]
    fixed = "\n".join(text for text in texts if text is not None)
    looks = None not in texts and fixed.count("\n") == max(len(texts) - 1, 0) and re.fullmatch(row.words, fixed)
    return READ_ONLY if looks else Ruling(why=row.why)


def judge_git(args: Sequence[Arg]) -> Ruling:
    """Judge a git command. What else it changes is known when it has ended."""
    verb, at, odd = find_verb(args)
    if verb is None:
        return Ruling(doubt="what git is to do is computed")
    if not verb:
        alone = len(args) == 1 and args[0].text in ("--version", "--exec-path", "--help")
        return READ_ONLY if alone else Ruling(why="git without a verb")
    name, rest = f"git {verb}", args[at:]
    if rest and (longer := f"{name} {rest[0].text}") in LOOKING:
        name, rest = longer, rest[1:]
    if name not in LOOKING or odd:
        doubt = f"git with {odd} works elsewhere or with other settings" if odd and name in LOOKING else ""
        return Ruling(why=f"{odd or name} may change something", doubt=doubt, files=list_changed_by_git(verb, rest))
    ruling = judge_looking(name, LOOKING[name], rest)
    return ruling if ruling.tier == "read_only" else replace(ruling, files=list_changed_by_git(verb, rest))


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
    if base == "git":  # of two paths, git shows what is outside of the repository as well
        words = [arg.text or arg.source for arg in args]
        two = "diff" in words and sum(not word.startswith("-") for word in words) > 2
        return "contents" if two or "--no-index" in words or "--untracked" in words else "tracked"
    if base == "rg":
        return "contents" if any(arg.text is None or _OPENS_HIDDEN.match(arg.text) for arg in args) else "unhidden"
    row = LOOKING.get(base or "")
    return "names" if base == "cd" or (row is not None and row.shows == "names") else "contents"


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


def discards_files(base: str, args: Sequence[Arg]) -> bool:
    """Whether a command may discard files or commits, which an undo of its draft restores."""
    words = [arg.text or arg.source for arg in args]
    if base != "git":
        return base == "find" and "-delete" in words
    verb, at, _ = find_verb(args)
    computed = verb in ("reset", "stash", "clean") and any(arg.values is None for arg in args[at:])
    return computed or bool(_DISCARDS.fullmatch(" ".join(words[at - 1 :]))) or any(map(_GIVES_UP.fullmatch, words[at:]))


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


# -- wrappers themselves; the commands that they run are judged apart

JUDGED = frozenset((*NAMES, "alias", "unalias", "source", ".", "trap")) - {"git"}
"""The commands that `judge_wrapper` judges."""
_HARMLESS = ("command", "builtin", "exec", "nice", "ionice", "timeout", "stdbuf", *SHELLS, "eval", "xargs", "find")
_XARGS = Program("0rtpxo", "adEILnPs", "arg-file=")
_INTERPRETERS = ("python", "python3", "perl", "ruby", "node", "php", "lua", "deno", "bun", "osascript")


def runs_input(run: Command) -> bool:
    """Whether a command runs its input."""
    words = [word.fixed for word in run.words[1:]]
    if run.base in (*SHELLS, *FOREIGN_SHELLS):
        return not any(re.match(r"-\w*c", word or "") for word in words)
    return run.base in _INTERPRETERS and words in ([], ["-"])


def runs_words(run: Command) -> bool:
    """Whether a command with a substitution among its words runs the output of that."""
    if run.base in _INTERPRETERS:
        return any(word.fixed in ("-c", "-e", "-r") for word in run.words)
    return run.base in (*SHELLS, *FOREIGN_SHELLS, "eval", "source", ".")


def judge_wrapper(run: Command, base: str, args: Sequence[Arg]) -> Ruling:
    """Judge one of `JUDGED` itself. One that cannot be opened is a doubt of the script."""
    if base in ("alias", "unalias", "source", ".", "trap"):
        sourced = args[0].files("read") if base in ("source", ".") and args else ()
        return Ruling(why=f"{base} changes what the rest does", files=tuple(sourced))
    inner = run.nested
    doubt = next((why for item in inner if isinstance(item, Script) and not item.source for why in item.doubts), "")
    if doubt:
        script = next((arg for arg in args if not (arg.text or "-").startswith(("-", "+"))), None)
        files = script.files("read") if base in SHELLS and script is not None and "script file" in doubt else ()
        return Ruling(why=doubt, doubt="" if doubt.endswith(RUNS_A_FILE) else doubt, files=tuple(files))
    texts = [arg.text or "" for arg in args]
    if base == "env":
        return _judge_env(texts, bool(inner))
    if not inner and args and base not in ("xargs", "find"):  # without a command they tell something, or do nothing
        tells = base == "command" and not set("".join(texts[:1])) - set("-vVp")
        return READ_ONLY if tells or texts in (["--version"], ["-V"]) else Ruling(why=f"unknown arguments of {base}")
    if base == "xargs":
        named = [value for name, value in parse_options(_XARGS, args).options if name in ("a", "arg-file") and value]
        if any(arg.values is None for arg in named):
            return Ruling(why=COMPUTED_NAMES, doubt=COMPUTED_NAMES)
        return Ruling("read_only", files=tuple(file for arg in named for file in arg.files("read")))
    if base in _HARMLESS or (base == "time" and not any(text.startswith(("-o", "--output")) for text in texts)):
        return READ_ONLY
    return Ruling(why=f"{base} changes how a command runs")


def _judge_env(texts: Sequence[str], runs: bool) -> Ruling:
    if not runs:
        return READ_ONLY if texts in (["--version"], ["--help"]) else Ruling(why="it shows the environment")
    options = takewhile(lambda text: text.startswith("-") or "=" in text, texts)
    doubt = "env goes to another directory" if any(re.match(r"-[i0v]*C|--chdir", text) for text in options) else ""
    return Ruling(why=doubt, doubt=doubt) if doubt else READ_ONLY
