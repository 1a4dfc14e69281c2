"""Judge one command by the table of programs: the files that it touches, and whether it destroys."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from handrail.shell.effects.arguments import (
    READ_ONLY,
    Arg,
    FileAction,
    FileEffect,
    Ruling,
    Value,
    Visibility,
    join_path,
    mark_moved,
)
from handrail.shell.effects.git import find_verb, git_goes_out, shows_untracked
from handrail.shell.effects.languages import LANGUAGES, find_starts
from handrail.shell.effects.programs import PRIVATE_NAME, PROGRAMS
from handrail.shell.effects.project_programs import HARMS, Harm
from handrail.shell.effects.rows import (
    ParsedOptions,
    Program,
    goes_below,
    has_unknown_file,
    judge_by_row,
    parse_options,
)
from handrail.shell.parser.script import Command

_UNRESTRICTED = ("--hidden", "--unrestricted", "--no-ignore")
_NAMES_ONLY = ("find", "test", "[", "cd")
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?[^/?#]*([^?#]*).*", re.DOTALL)
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
PRINTERS = ("echo", "printf")
_VARIABLES_IN = re.compile(r"\$\{?[!#]?([A-Za-z_][A-Za-z0-9_]*)")
_SECRET = re.compile(PRIVATE_NAME)


def judge_program(base: str, args: Sequence[Arg]) -> Ruling | None:
    """Judge a command by its row; None if the table says nothing about its files."""
    row = PROGRAMS.get(base)
    if row is not None and len(args) == 1 and args[0].text is not None and args[0].text in row.versions.split():
        return READ_ONLY
    if base in PRINTERS:
        return _judge_printed(args)
    language = LANGUAGES.get(base)
    if language is not None:
        return language(args)
    if row is None:
        return None
    if row.words:
        texts = [arg.text for arg in args]
        fixed = "\n".join(text for text in texts if text is not None)
        looks = None not in texts and fixed.count("\n") == max(len(texts) - 1, 0) and re.fullmatch(row.words, fixed)
        return READ_ONLY if looks else Ruling(why=row.why)
    if row.does == "looks":
        return judge_by_row(base, row, args)
    role = _ROLES.get(row.role)
    return _judge_by_role(base, row, role, args) if role is not None else None


def _judge_printed(args: Sequence[Arg]) -> Ruling:
    """Arguments that are printed: a variable among them may be a secret."""
    for arg in args:
        for name in _VARIABLES_IN.findall(arg.source):
            if arg.text is None and _SECRET.fullmatch(name):
                return Ruling(why=f"the value of {name} may be a secret")
    return READ_ONLY


def is_writer(base: str) -> bool:
    """Whether a program changes nothing but files that its words name."""
    row = PROGRAMS.get(base)
    return row is not None and (row.does == "writes" or row.role in _ROLES)


def describe_unknown(base: str, args: Sequence[Arg]) -> Ruling:
    """The ruling on a program that is not known to leave files alone."""
    row = PROGRAMS.get(base)
    if row is None or not row.run_names:
        return Ruling(why="unknown command")
    names = {(arg.text or "").lstrip("-").partition("=")[0] for arg in args if (arg.text or "-").startswith("-")}
    doubt = f"{base} runs the program that an option names" if names & row.run_names else ""
    return Ruling(why="it runs code of the project", doubt=doubt)


# -- files that a program changes


def _judge_by_role(base: str, row: Program, role: _Role, args: Sequence[Arg]) -> Ruling:
    parsed = parse_options(row, args)
    files = role(_Use(base, row, parsed))
    for name, value in parsed.options:
        if value is not None and name in row.read_names:
            files += value.files("read")
        if value is not None and name in row.write_names and value.text != "-":
            files += value.files("write")
        if value is not None and name in row.send_names:
            files += _find_sent_file(value.text or "")
    has_computed_operand = any(arg.values is None for arg in parsed.operands[row.texts :])
    doubt = ""
    if parsed.unknown:
        doubt = f"unknown option {parsed.unknown} of {base}"
    elif parsed.has(*row.run_names):
        doubt = f"{base} does what an option tells it"
    elif has_unknown_file(row, parsed) or (row.operands == "files" and has_computed_operand):
        doubt = "file names come from variables or substitutions"
    if row.does == "connects":
        return Ruling(why="it uses the network", doubt=doubt, files=tuple(files))
    return Ruling("ordinary", f"{base} writes", doubt, tuple(files))


class _Use(NamedTuple):
    """A program with its arguments."""

    base: str
    row: Program
    parsed: ParsedOptions


_Role = Callable[[_Use], list[FileEffect]]


def _touch_each(args: Sequence[Arg], action: FileAction, *, below: bool = False) -> list[FileEffect]:
    return [effect for arg in args for effect in arg.files(action, below=below)]


def _write(use: _Use) -> list[FileEffect]:
    return _touch_each(use.parsed.operands, "write")


def _delete(use: _Use) -> list[FileEffect]:
    return _touch_each(use.parsed.operands, "delete", below=goes_below(use.row, use.parsed))


def _remove_directories(use: _Use) -> list[FileEffect]:
    """`rmdir`; with `-p` the directories above as well."""
    out = _touch_each(use.parsed.operands, "delete")
    if use.parsed.has("p", "parents"):
        for value in (value for arg in use.parsed.operands for value in arg.values or ()):
            path = posixpath.dirname(value.text.rstrip("/"))
            while path.strip("/~"):
                out.append(FileEffect("delete", path, value.glob))
                path = posixpath.dirname(path)
    return out


def _interpret_mode(use: _Use) -> list[FileEffect]:
    operands = use.parsed.operands if use.parsed.has("reference") else use.parsed.operands[1:]
    out = _touch_each(operands, "write", below=goes_below(use.row, use.parsed))
    return [replace(effect, how="modes") for effect in out] if use.base == "chmod" else out


def _copy(use: _Use) -> list[FileEffect]:
    """`cp`, `mv`, `ln`, `install`, `rsync` and `scp`: sources, and a target behind them or in an option."""
    deep = use.base == "mv" or use.parsed.has("r", "R", "a", "recursive", "archive")
    target = use.parsed.value("t", "target-directory")
    sources = list(use.parsed.operands)
    if use.base == "install" and use.parsed.has("d", "directory"):
        return _touch_each(sources, "write")
    if target is None and len(sources) > 1:
        target = sources.pop()
    if use.base == "ln" and target is None:
        named = [] if use.parsed.has("s", "symbolic") else _touch_each(sources, "read")
        return [
            *named,
            *(FileEffect("write", _name(value), value.glob) for arg in sources for value in arg.values or ()),
        ]
    out: list[FileEffect] = []
    if use.base == "mv":  # by which name a file can be read afterwards is up to whoever moves it: so it is a read, too
        gone = _touch_each(sources, "delete", below=True)
        out += [*_touch_each(sources, "read", below=True), *mark_moved(gone, target)]
    elif use.base != "ln" or not use.parsed.has("s", "symbolic"):  # the same with a second name for a file
        out += _touch_each(sources, "read", below=deep)
    if target is not None:
        exact = use.parsed.has("T", "no-target-directory")
        for arg in sources:
            for value in arg.values or ():
                if use.base == "rsync" or value.glob or value.below:
                    out += target.files("write", below=True)
                else:
                    out += target.files("write", below=deep, into="" if exact else _name(value))
        if not sources or any(arg.values is None for arg in sources):
            out += target.files("write", below=True)
    if use.base == "rsync" and target is not None and use.parsed.has("delete", "delete-after"):
        out += _touch_each([target], "delete", below=True)
    return [effect for effect in out if ":" not in effect.path] if use.base in ("rsync", "scp") else out


def _name(value: Value) -> str:
    """The last name of a path."""
    return posixpath.basename(value.text.rstrip("/")) or "."


def _find_sent_file(value: str) -> list[FileEffect]:
    """The file that a value with `@` in it names: `@file`, `name=@file;type=text`."""
    _, at, name = value.rpartition("@")
    name = name.partition(";")[0]
    return [Value(name).file("read")] if at and name else []


def _download(use: _Use) -> list[FileEffect]:
    """Files that curl and wget name after an address, and local files that are read by one."""
    out: list[FileEffect] = []
    directory = use.parsed.value("output-dir") if use.base == "curl" else use.parsed.value("P", "directory-prefix")
    place = (directory.text or ".") if directory else "."
    if use.base == "wget" and use.parsed.has(
        "r", "recursive", "m", "mirror", "p", "page-requisites", "i", "input-file"
    ):
        out.append(FileEffect("write", place, below=True))
    named = (
        use.parsed.has("O", "remote-name", "remote-name-all")
        if use.base == "curl"
        else not _wget_names_output(use.parsed)
    )
    for url in (value.text for arg in use.parsed.operands for value in arg.values or ()):
        if url.lower().startswith("file://"):
            out.append(FileEffect("read", "/" + url[7:].partition("/")[2]))
        if named:
            match = _URL.fullmatch(url)
            name = posixpath.basename(match[1]) if match else ""
            out.append(FileEffect("write", join_path(place, name or "index.html")))
    return out


def _wget_names_output(parsed: ParsedOptions) -> bool:
    return parsed.has("O", "output-document", "spider")


_ROLES: dict[str, _Role] = {
    "write": _write,
    "delete": _delete,
    "remove_directories": _remove_directories,
    **dict.fromkeys(("copy", "move", "link", "install", "sync", "remote_copy"), _copy),
    "mode": _interpret_mode,
    "download": _download,
}


# -- what a program shows


def find_visibility(base: str | None, args: Sequence[Arg]) -> Visibility:
    """How much a command shows of the files that it reads."""
    if base == "git":
        return "contents" if shows_untracked(args) else "names"
    row = PROGRAMS.get(base or "")
    if base in _NAMES_ONLY or (row is not None and row.shows == "names"):
        # A list of names is repeated line by line where there is no such file.
        return "contents" if row is not None and any(_reads_by_option(row, arg.text) for arg in args) else "names"
    if base == "rg":
        texts = [arg.text for arg in args]
        if all(text is not None and not _opens_hidden_files(text) for text in texts):
            return "unhidden"
    return "contents"


def _reads_by_option(row: Program, text: str | None) -> bool:
    """Whether a word may be an option whose value is a file that is read; a shortened name counts."""
    if text is None or not text.startswith("-"):
        return False
    names = row.reads.split()
    if text.startswith("--"):
        given = text[2:].partition("=")[0]
        return bool(given) and any(name.startswith(given) for name in names)
    return any(name in text for name in names if len(name) == 1)


def _opens_hidden_files(text: str) -> bool:
    """Whether an option of ripgrep lets it look into hidden files; one that may, counts."""
    short = text.startswith("-") and not text.startswith("--") and any(letter in text for letter in "u.")
    return short or text.startswith(_UNRESTRICTED)


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
                if not value.below and any(_is_everything(place, value.text, value.glob) for place in places or (".",)):
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


_SOCKET = re.compile(r"/dev/(?:tcp|udp)/.*")
_PYTHON_FLAGS = re.compile(r"-[bBdEhiIOPqsSuvVx]*")


NetworkUse = Literal["", "certain", "possible"]
"""Whether a command uses the network: by nature, or perhaps, to fetch what is missing."""
_STARTS_TOOL = {"npm": ("exec", "x"), "bun": ("x",), "uv": ("tool/run",)}
"""Verbs with which a package manager runs a tool of the project, and fetches one that is not installed."""


def judge_network(base: str, args: Sequence[Arg]) -> NetworkUse:
    """Whether a command uses the network, as far as its name and words tell."""
    texts = [arg.text or "" for arg in args]
    if len(texts) == 1 and texts[0] in ("--version", "-V", "--help", "-h"):
        return ""
    if base == "git":
        return "certain" if git_goes_out(args) or find_verb(args)[0] is None else ""
    row = PROGRAMS.get(base)
    if row is None:
        return "certain" if any(map(is_socket, texts)) else ""
    if row.network.startswith("~"):
        return "certain" if any(re.fullmatch(row.network[1:], text) for text in texts) else ""
    if row.network == "*":
        return "certain"
    if row.role == "module":
        return _judge_module(args)
    if row.role == "tool" and not row.network:
        return _judge_tool(args)
    if not row.network and not row.fetches:
        return "certain" if any(map(is_socket, texts)) else ""
    return _judge_verb(base, row, args)


def is_socket(path: str) -> bool:
    """Whether bash opens a connection for a redirection to this name."""
    return bool(_SOCKET.fullmatch(path))


def _judge_verb(base: str, row: Program, args: Sequence[Arg]) -> NetworkUse:
    use: NetworkUse = ""
    for verb, rest in _find_verbs(row, args):
        if verb is None:
            return "certain"
        second = next((arg.text for arg in rest if not (arg.text or "").startswith("-")), None)
        if verb in row.network_verbs or any(_is_second(f"{verb}/", arg, row) for arg in rest):
            return "certain"
        if verb in _STARTS_TOOL.get(base, ()):
            use = _judge_tool(rest)
        elif f"{verb}/{second}" in _STARTS_TOOL.get(base, ()):
            use = _judge_tool(rest[1:])
        elif verb in row.fetch_verbs:
            use = "possible"
    return use


def _is_second(start: str, arg: Arg, row: Program) -> bool:
    """Whether a word may be the second one of a verb that uses the network: options before it may have values."""
    if arg.text is None:
        return any(name.startswith(start) for name in row.network_verbs)
    return start + arg.text in row.network_verbs


def _find_verbs(row: Program, args: Sequence[Arg]) -> Iterator[tuple[str | None, Sequence[Arg]]]:
    """The words that may be the verb, each with the arguments behind it: behind an option that is not known, any."""
    at = 0
    sure = True
    verbs = 0
    while at < len(args) and (sure or at < len(args)):
        text = args[at].text
        at += 1
        if text is None:
            verbs += 1
            yield None, args[at:]
        elif text.startswith("-") and text != "-":
            name, sign, _ = text.lstrip("-").partition("=")
            kind = row.names.get(name) if text.startswith("--") else None
            if kind == "=" or (not text.startswith("--") and len(text) == 2 and name in row.takes):
                at += 0 if sign else 1
            elif kind is None and not (not text.startswith("--") and set(name) <= {*row.flags, *row.takes}):
                sure = False
            continue
        else:
            verbs += 1
            yield text, args[at:]
        if sure:
            return
    if not verbs:
        yield "-", ()


def _judge_module(args: Sequence[Arg]) -> NetworkUse:
    """`python -m module`."""
    for at, arg in enumerate(args):
        text = arg.text
        if text is None:
            return ""
        flags = _PYTHON_FLAGS.match(text)
        rest = text[flags.end() :] if flags else ""
        if rest.startswith("m"):
            module = rest[1:] or (args[at + 1].text if at + 1 < len(args) else "")
            behind = args[at + 1 :] if rest[1:] else args[at + 2 :]
            if module is None or (module in ("pip", "ensurepip") and not behind):
                return "certain"
            return judge_network(module, behind) if module in PROGRAMS else ""
        if not flags or not text.startswith("-") or rest:
            return ""
    return ""


def _judge_tool(args: Sequence[Arg]) -> NetworkUse:
    """`npx tool`: a tool that is not installed is fetched. Options may name another one."""
    for arg in args:
        text = arg.text
        if text is None:
            return "certain"
        if text in ("--no-install", "--no", "--offline", "--bun", "-q", "--quiet", "--silent", "--"):
            continue
        if text.startswith("-"):
            return "certain"
        return "possible" if re.fullmatch(r"[\w.-]+", text) else "certain"
    return ""
