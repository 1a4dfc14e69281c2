"""One rule: an action on a resource, the tier, and why. As a table of TOML, or in one line as Claude Code writes it.

[[rules]]                                         rules = [
action = ["write", "delete"]                          "deny Edit(migrations/**)",
path = "migrations/**"                                "ask Bash(git push:*)",
tier = "deny"                                     ]
why = "migrations are made by `make migration`"
match = ["migrations/0001.sql"]
not_match = ["src/migrations.py"]

A rule about commands, `git diff *`, is compared word by word, with one simple command at a time. Refusing is wide and
allowing is narrow. A refusal finds a command behind its wrappers, by whatever path it is called, and with options in
between (`git -C x push` is a `git push`). A flag of a refusal may stand anywhere (`npm install x -g` is an
`npm install -g`). An allowance holds for exactly the words that are written, in a command that is fixed to the last
word: no variable, no assignment in front, nothing wrapped.

The reasons of verdicts and the order of strictness are here as well. A command whose files cannot be named is never
judged easier than the same command with any name in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, cast, get_args

from handrail.frozen import frozen
from handrail.model import Access, Action, CommandAccess, Decision, NetworkAccess, Verdict
from handrail.policy.hosts import matches_host
from handrail.policy.paths import PathPattern, PathSet
from handrail.text.display import escape
from handrail.text.globs import BadGlob, Glob

if TYPE_CHECKING:
    from handrail.shell.parser.script import Command, Script

FILE_ACTIONS: tuple[Action, ...] = ("read", "write", "delete")
_KEYS = ["action", "path", "command", "host", "tool", "tier", "why", "match", "not_match", "in", "rule"]
_RESOURCES: dict[str, tuple[Sequence[Action], str]] = {
    "path": (FILE_ACTIONS, "path is for read, write and delete; use command for run, host for network"),
    "command": (("run",), "command is only for run; use path for files"),
    "host": (("network",), "host is only for network; use path for files"),
    "tool": (("call",), "a tool goes with call alone; files go with path"),
}
"""The keys that name what a rule is about, the actions they go with, and what to say otherwise."""
_LINE = re.compile(r"\s*(\w+)\s+(.*?)\s*", re.DOTALL)
_TOOL = re.compile(r"([A-Za-z_]\w*)(?:\((.*)\))?", re.DOTALL)
_READS = ("Read", "Grep", "Glob", "LS", "NotebookRead")
_WRITES = ("Edit", "Write", "MultiEdit", "NotebookEdit")
_OTHERS: dict[str, Action] = {"Delete": "delete", "Bash": "run", "Network": "network", "Call": "call"}
_TOOLS = (*_READS, *_WRITES, *_OTHERS)
_LENDS = ") for Bash("
_PLAIN = re.compile(r"[a-z][\w./-]*(?: [\w./@%+,:-]+)*", re.ASCII)
_KEYWORD = re.compile("if|then|else|elif|fi|case|esac|for|select|while|until|do|done|in|function|time|coproc")


@frozen
class CommandPattern:
    """Words that a command begins with; it must end there too, unless the pattern is open."""

    words: tuple[str, ...]
    open: bool

    def refuses(self, script: Script) -> bool:
        """Whether the script is, or runs, the command of the pattern."""
        return any(self._is(run) for run in script.runs)

    def allows(self, script: Script) -> bool:
        """Whether the script is certainly the command of the pattern."""
        words = get_plain_words(script, wrapped=not self.open)
        if words is None or words[: len(self.words)] != self.words:
            return False
        return self.open or len(words) == len(self.words)

    def _is(self, run: Command) -> bool:
        words = [word.fixed for word in run.words]
        if not words or self.words[0] not in (words[0], run.base):
            return False
        return CommandPattern(self.words[1:], self.open).begins(words[1:])

    def begins(self, words: list[str | None]) -> bool:
        """Whether these are the words of the pattern, with options anywhere among them."""
        flags = [word for word in self.words if _is_flag(word)]
        if not all(any(_holds_flag(word or "", flag) for word in words) for flag in flags):
            return False
        places = {0}
        for expected in self.words:
            if expected not in flags:
                places = {at + 1 for at in _skip_options(words, places) if words[at] == expected}
        if self.open or not places:
            return bool(places)
        return len(words) in places or (bool(flags) and len(words) == len(self.words))


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word.strip("-") != ""


def _holds_flag(word: str, flag: str) -> bool:
    """Whether a word is a flag, has it among its letters, or gives it a value."""
    if word == flag or word.startswith(flag + "="):
        return True
    short = len(flag) == 2 and word.startswith("-") and not word.startswith("--")
    return short and flag[1] in word[1:]


def _skip_options(words: list[str | None], places: set[int]) -> set[int]:
    """Return the possible positions of the next word: options are skipped, with or without a value."""
    positions: set[int] = set()
    waiting = list(places)
    while waiting:
        at = waiting.pop()
        if at >= len(words) or at in positions:
            continue
        positions.add(at)
        if (words[at] or "").startswith("-"):
            waiting += [at + 1, at + 2]
    return positions


def parse_pattern(text: str) -> CommandPattern:
    """A pattern as it is written: words, and ` *` at the end for any further ones; raises `BadRule`."""
    body, star, _ = text.rpartition("*")
    is_open = bool(star) and text.endswith(" *")
    written = (body if is_open else text).strip(" ")
    if _PLAIN.fullmatch(written) and not _KEYWORD.fullmatch(written.partition(" ")[0]):  # not worth a parser
        return CommandPattern(tuple(written.split(" ")), is_open)
    words = get_plain_words(parse_command(written), wrapped=True)
    if is_open and not body.strip():
        why = "the pattern has no command; leave it out to match all commands"
    elif words is not None:
        return CommandPattern(words, is_open)
    elif "*" in written:
        why = f"`*` must be the last word and matches any further words: `{text.partition('*')[0].strip()} *`"
    else:
        why = "it must be one command of fixed words, such as `git diff *`"
    raise BadRule(f"{escape(text)}: {why}", "command")


def get_plain_words(script: Script, *, wrapped: bool = False) -> tuple[str, ...] | None:
    """The words of a single command that is fixed and proven; None for any other.

    ``wrapped``: it may run another one, as `env` and `xargs` do.
    """
    if not script.proven or len(script.commands) != 1 or (len(script.runs) != 1 and not wrapped):
        return None
    only = script.commands[0]
    words = tuple(word.fixed for word in only.words)
    if not words or only.assignments or only.within:
        return None
    fixed = tuple(word for word in words if word is not None)
    return fixed if len(fixed) == len(words) else None


def parse_access(access: CommandAccess | NetworkAccess) -> Script:
    """The parsed command of an access; parsed here if whoever declared the access did not."""
    from handrail.shell.parser.script import Script  # slow to import, and only needed for commands

    return access.script if isinstance(access.script, Script) else parse_command(access.target)


@lru_cache(256)
def parse_command(command: str) -> Script:
    """Parse a command of a rule, or of an access without its parsed command."""
    from handrail.shell.parser.parse import parse_script  # slow to import, and only needed for commands

    return parse_script(command)


class BadRule(ValueError):
    """A rule that cannot be used; `key` is the place of what is wrong."""

    def __init__(self, what: str, *key: str | int) -> None:
        super().__init__(what)
        self.key = key


@frozen
class Rule:
    """A rule and its place."""

    actions: frozenset[Action]
    tier: Decision
    text: str
    """As it is shown: one line."""
    why: str = ""
    paths: tuple[PathPattern, ...] = ()
    """Without any it speaks of all paths."""
    command: CommandPattern | None = None
    host: str = ""
    tool: str = ""
    """A tool of the host's own, as a pattern; empty: all of them."""
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()
    source: str = ""
    """`file:line`; empty for a built-in one."""
    loosens: bool = True
    """Whether it may loosen anything: not in a project's file that nobody has trusted."""
    locked: bool = False
    """Whether it is of the system's file, which nothing loosens."""
    place: str = ""
    """Of a rule about commands: the directory that they run in; empty: any."""

    @property
    def lends(self) -> bool:
        """Whether it shows a hidden file to a command."""
        return bool(self.paths and self.command)

    @property
    def exact(self) -> bool:
        """Whether the rule has a full name; only such a rule overrides a built-in one."""
        if self.command:
            return not self.command.open
        return bool(self.paths) and all(path.spelled_out for path in self.paths if not path.except_)

    def speaks_of_command(self, command: Script, place: str = "") -> bool:
        if self.place and place != self.place:
            return False
        if self.command is None:
            return True
        return self.command.allows(command) if self.tier == "allow" else self.command.refuses(command)

    def speaks_of_tool(self, name: str) -> bool:
        return not self.tool or Glob(self.tool, hidden=True).match(name)

    def speaks_of_host(self, host: str) -> bool:
        return not self.host or matches_host(self.host, host, wide=self.tier != "allow")


def from_table(table: Mapping[str, object]) -> Rule:
    """A rule from its table; raises `BadRule`."""
    require_known(table, _KEYS)
    if "rule" in table:
        return _parse_inline_table(table)
    actions = _get_texts(table, "action")
    if not actions or not set(actions) <= set(get_args(Action)):
        raise BadRule('must be "read", "write", "delete", "run", "network" or "call", or a list of them', "action")
    tier = table.get("tier")
    if tier not in get_args(Decision):
        raise BadRule('must be "allow", "ask" or "deny"', "tier")
    for key, (fitting, why) in _RESOURCES.items():
        if key in table and not set(actions) <= set(fitting):
            raise BadRule(why, key)
    paths = _get_texts(table, "path")
    command, host, tool = (_get_text(table, key) for key in ("command", "host", "tool"))
    named = ", ".join(paths) or command or host or tool
    text = escape(f"{tier} {' '.join(sorted(actions))}" + (f" {named}" if named else ""))
    rule = _make_rule(cast("list[Action]", actions), cast("Decision", tier), text, paths, command, host, tool)
    rule = replace(rule, match=tuple(_get_texts(table, "match")), not_match=tuple(_get_texts(table, "not_match")))
    if (rule.match or rule.not_match) and not (paths or command):
        raise BadRule("examples need a path or a command in the same rule", "match")
    return replace(rule, why=_get_text(table, "why"), place=_place(table, rule))


def _make_rule(
    actions: Sequence[Action],
    tier: Decision,
    text: str,
    paths: Sequence[str] = (),
    command: str = "",
    host: str = "",
    tool: str = "",
) -> Rule:
    patterns = tuple(_parse_path(path) for path in paths)
    if host or tool:
        require_glob(host or tool, "host" if host else "tool")
    pattern = parse_pattern(command) if command else None
    return Rule(frozenset(actions), tier, text, paths=patterns, command=pattern, host=host, tool=tool)


def require_known(table: Mapping[str, object], known: Sequence[str], what: str = "keys") -> None:
    """Raise `BadRule` about a key that means nothing."""
    for key in table:
        if key not in known:
            raise BadRule(f"unknown {what[:-1]}; {_suggest(key, what, known)}", key)


def _parse_inline_table(table: Mapping[str, object]) -> Rule:
    """A rule in one line with more to it: `{rule = "allow Bash(make)", in = "/srv/project"}`."""
    for key in table.keys() - {"rule", "in", "why"}:
        raise BadRule("only `in` and `why` are allowed beside `rule`", key)
    rule = from_line(_get_text(table, "rule"), project=False)
    return replace(rule, why=_get_text(table, "why"), place=_place(table, rule))


def _place(table: Mapping[str, object], rule: Rule) -> str:
    place = _get_text(table, "in")
    if place and not place.startswith("/"):
        raise BadRule("must be an absolute path", "in")
    if place and rule.actions != {"run"} and not rule.lends:
        raise BadRule("only for run: the directory of the command; use path for files", "in")
    return place.rstrip("/") or place


def from_line(line: str, tier: str = "", *, project: bool = True) -> Rule:
    """A rule in one line, `deny Read(.env)`; the tier may be given apart. Raises `BadRule`.

    ``project``: the rule is in a project's file, so `/x` starts at the project.
    """
    call = line.strip()
    if not tier:
        match = _LINE.fullmatch(line)
        tier, call = (match[1], match[2]) if match else ("", call)
    if tier not in get_args(Decision):
        raise BadRule(f'"{escape(line)}" must start with allow, ask or deny, such as "deny Read(.env)"')
    match = _TOOL.fullmatch(call)
    if not match:
        raise BadRule(f'"{escape(call)}" is not of the form Tool(pattern): such as "Read(.env)"')
    tool, inner = match[1], match[2]
    if tool not in _TOOLS:
        raise BadRule(f"unknown tool {escape(tool)}; {_suggest(tool, 'names', _TOOLS)}")
    if inner is not None and not inner.strip():
        raise BadRule(f"the pattern is empty; write {tool} without parentheses to match everything")
    decision = cast("Decision", tier)
    text = escape(f"{tier} {call}")
    actions: Sequence[Action] = ("read",) if tool in _READS else (_OTHERS.get(tool, "write"),)
    if tool in _WRITES and tier != "allow":  # a refusal to edit is one to delete; leave to edit is not leave to delete
        actions = ("write", "delete")
    make = partial(_make_rule, actions, decision, text)
    if not inner:
        return make()
    if tool == "Bash":
        return make(command=_parse_claude_command(inner))
    if tool == "Network":
        return make(host=inner)
    if tool == "Call":
        return make(tool=inner)
    path, lends, command = inner.partition(_LENDS)
    if lends and (tool != "Read" or tier != "allow" or not command.strip()):
        raise BadRule(f'"{text}": only "allow Read(file) for Bash(command)" goes with a command')
    return make(paths=[_parse_claude_path(path, project)], command=_parse_claude_command(command))


def _suggest(name: str, what: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches  # slow to import, and only needed for mistakes

    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"the {what} are {', '.join(known)}"


def _parse_claude_path(text: str, project: bool) -> str:
    """Parse `//x` as absolute and `/x` as relative to the file's directory, which is allowed only in a project."""
    if text.startswith("//"):
        return text[1:]
    if text.startswith("/") and not project:
        raise BadRule(
            f"{escape(text)}: write /{escape(text)} for the absolute path, or .{escape(text)} for a workspace's"
        )
    return "./" + text[1:] if text.startswith("/") else text


def _parse_claude_command(text: str) -> str:
    return text[:-2] + " *" if text.endswith(":*") else text


def _parse_path(text: str) -> PathPattern:
    except_ = text.startswith("!")
    body = text.removeprefix("!")
    if body == "~":
        body = "~/"
    if body.startswith("~") and not body.startswith("~/"):
        raise BadRule(f"{escape(text)}: `~` means your own home, as in ~/{escape(body[1:])}", "path")
    if body.startswith("../") or "/../" in body or body.endswith("/.."):
        raise BadRule(f"{escape(text)}: `..` is not allowed; write the absolute path", "path")
    pattern = PathPattern(body, except_)
    if body.strip("/~.") == "":
        raise BadRule(f"{escape(text)} matches nothing; write ** for everything in the workspace", "path")
    require_glob(body, "path")
    return pattern


def require_glob(text: str, key: str) -> None:
    try:
        Glob(text.removeprefix("~"), hidden=True)
    except BadGlob as error:
        raise BadRule(f"{escape(text)}: {error}", key) from None


def _get_text(table: Mapping[str, object], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or (key in table and not value.strip()):
        raise BadRule("must be a non-empty string", key)
    return value


def _get_texts(table: Mapping[str, object], key: str) -> list[str]:
    value = table.get(key, [])
    values = [value] if isinstance(value, str) else value
    good = isinstance(values, list) and all(isinstance(one, str) and one.strip() for one in values)
    if not good or (key in table and not values):
        raise BadRule("must be a non-empty string, or a list of them", key)
    return cast("list[str]", values)


def require_examples(rule: Rule, root: str, home: str) -> None:
    """Raise `BadRule` about the first example that fails."""
    paths = PathSet([rule.paths], [root], home, deep=rule.tier != "allow") if rule.paths else None
    for key, examples, expected in (("match", rule.match, True), ("not_match", rule.not_match, False)):
        for example in examples:
            if paths:
                spoken = bool(paths.find(_resolve_example(example, root, home)))
            else:
                spoken = rule.speaks_of_command(parse_command(example), rule.place)
            if spoken != expected:
                negation = "" if spoken else "not "
                raise BadRule(f"{escape(example)} is {negation}matched; fix the rule or the example", key)


def _resolve_example(example: str, root: str, home: str) -> str:
    if example.startswith("~/"):
        return f"{home}/{example[2:]}"
    return example if example.startswith("/") else f"{root.rstrip('/')}/{example.removeprefix('./')}"


STRICT = {"allow": 0, "ask": 1, "deny": 2}
WHY = {
    "read": "{target} would be read",
    "outside_read": "{target} is outside the workspace, and a command would read it",
    "write": "{target} would be changed",
    "delete": "{target} would be deleted",
    "outside": "{target} is outside the workspace, and a command would change it",
    "read_only": "`{target}` would be run",
    "ordinary": "`{target}` would be run",
    "destructive": "`{target}` destroys data for good or raises its privileges",
    "discard": "`{target}` may discard files, and no draft can restore them",
    "doubt": "the effects of `{target}` are not known: {doubt}",
    "network": "`{target}` would use the network{hosts}",
    "fetch": "`{target}` would read from the network{hosts}",
    "address": "{target} would be contacted over the network",
    "call": "the tool {target} would be called",
}


def take_stricter(one: Verdict, other: Verdict | None) -> Verdict:
    """The first, unless the second is stricter."""
    return other if other and STRICT[other.decision] > STRICT[one.decision] else one


def describe_rule(rule: Rule, access: Access) -> Verdict:
    why = rule.why or f"{escape(access.target)}: matches the rule {rule.text}"
    return Verdict(rule.tier, rule.text, why, rule.source)
