"""Judge one command by the tables of programs: whether it only looks, uses the network, or destroys."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from handrail.shell.effects.arguments import READ_ONLY, Arg, Ruling, Visibility
from handrail.shell.effects.languages import LANGUAGES, find_starts
from handrail.shell.effects.programs import LOOKING, PRIVATE_NAME
from handrail.shell.effects.project_programs import HARMS, NETWORK, VERSIONS, Harm
from handrail.shell.effects.rows import judge_by_row
from handrail.shell.effects.writers import WRITERS, judge_writer
from handrail.shell.git.verbs import find_verb, git_goes_out, shows_untracked
from handrail.shell.parser.script import Command

_TESTS = ("test", "[", "[[")
_NAMES_ONLY = ("find", "cd")
_DATABASES = ("psql", "mysql", "mariadb", "sqlite3", "cockroach", "clickhouse-client", "mongosh", "mongo", "sqlcmd")
_DROPS = re.compile(
    r"\b(?:drop\s+(?:database|schema|table|user|role|owned)|truncate\s+(?:table\s+)?\w|dropdatabase)"
    r"|\bdelete\s+from\s+[\w.\"`]+\s*(?:;|$)",
    re.IGNORECASE,
)
_FORK_BOMB = re.compile(r":\s*\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}")
_NARROWS = re.compile(r"-(?:i?name|i?path|i?wholename|i?regex|[acm]time|[acm]min|newer.*|size|empty|user|inum|perm)")
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


def find_harm(run: Command, base: str, args: Sequence[Arg], places: frozenset[str] | None) -> str:
    """Why this command is destructive or privileged; empty if it is not known to be."""
    texts = [value.text for arg in args for value in arg.values or ()]
    if base == "git" and (verb := find_verb(args)[0]):
        rest = [value.text for arg in args[find_verb(args)[1] :] for value in arg.values or ()]
        return next((row.why for row in _HARMS_BY_NAME["git"] if _is_verb(row, verb, rest)), "")
    for row in _HARMS_BY_NAME.get(base, ()):
        if all(_has_any(need, texts) for need in row.needs):
            return row.why
    if base == "kill" and any(text == "-1" or text in ("0", "1") for text in texts[1:]):
        return "it kills every process"
    if base.startswith("mkfs."):
        return "it creates a file system"
    if base in _DATABASES and any(_DROPS.search(text) for text in texts):
        return "it deletes data from a database"
    if base in _DATABASES and any(_DROPS.search(item.target.fixed or "") for item in run.redirections if item.feeds):
        return "it deletes data from a database"
    if base == "rm" and _has_any("-r -R --recursive", texts):
        for arg in args:
            for value in arg.values or ():
                if any(_is_everything(place, value.text, value.glob) for place in places or (".",)):
                    return f"it deletes everything here ({arg.source})"
    if base == "find" and not any(_NARROWS.fullmatch(text) for text in texts):
        starts = [value.text for arg in find_starts(args) for value in arg.values or ()] or ["."]
        deletes = "-delete" in texts or any(posixpath.basename(text) == "rm" for text in texts)
        if deletes and any(_is_everything(".", text, False) for text in starts):
            return "it deletes everything here"
    return ""


_DISCARDING = (
    "reset",
    "clean",
    "stash",
    "filter-branch",
    "filter-repo",
    "reflog",
    "gc",
    "prune",
    "update-ref",
    "checkout",
    "switch",
    "restore",
    "read-tree",
    "checkout-index",
    "merge",
    "rebase",
    "cherry-pick",
    "revert",
    "am",
    "rm",
    "submodule",
    "branch",
)
_RUNS_ARGUMENT = re.compile(r"--upload-pack|--receive-pack|ext::")


def discards_files(base: str, args: Sequence[Arg]) -> bool:
    """Whether the harm of a command is to files of the workspace alone, which an undo of its draft restores."""
    texts = [value.text for arg in args for value in arg.values or ()]
    if base == "git":
        return find_verb(args)[0] in _DISCARDING and not any(map(_RUNS_ARGUMENT.match, texts))
    if base == "rm" and any(posixpath.normpath(text) in (".", "..") for text in texts):
        return False  # the workspace itself
    return base in ("rm", "find") and not any(text.startswith(("/", "~", "..")) for text in texts)


def _is_verb(row: Harm, verb: str, rest: Sequence[str]) -> bool:
    """A verb of git counts only where the verb stands; `git clean -n` shows what would be lost."""
    if verb == "clean" and _has_any("-n --dry-run", rest):
        return False
    if (
        verb == "checkout"
        and _has_any("-b -B --orphan", rest)
        and "--" not in rest
        and not _has_any("-f --force", rest)
    ):
        return False  # a new branch
    first, *others = row.needs
    if first.startswith("~"):
        return _has_any(first, rest)
    long = [option for need in others for option in need.split(" ") if option.startswith("--")]
    texts = [*rest, *(option for option in long if any(_abbreviates(text, option) for text in rest))]
    return verb in first.split(" ") and all(_has_any(need, texts) for need in others)


def _abbreviates(text: str, option: str) -> bool:
    """Whether git takes a text for this option: names may be cut short."""
    name = text.partition("=")[0]
    return len(name) > 2 and option.startswith(name)


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


def _is_everything(place: str, text: str, glob: bool) -> bool:
    """Whether this is the directory that the work is in, one above it, or all that is in one of these."""
    if not text or text.startswith(("/", "~", "-")):
        return text in ("~", "~/")
    if place.startswith(("/", "~")):
        return False
    names = [name for name in posixpath.normpath(posixpath.join(place, text)).split("/") if name]
    if glob:
        while names and not names[-1].strip("*.?[]!^"):
            names.pop()
    return all(name in (".", "..") for name in names)


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
