"""git: its verbs, what it reaches outside of the workspace, and where each command runs.

Git finds its settings through its directory and its environment. A looking command counts as one only where the script
leaves both as they were given to it, so that the settings can be inspected before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.frozen import frozen
from handrail.shell.effects.arguments import (
    Arg,
    FileAction,
    FileEffect,
    Places,
    Program,
    join_path,
    parse_options,
)
from handrail.shell.parser.script import Command
from handrail.shell.parser.wrappers import SHELLS

_CLONE = Program(
    "qvnls",
    "bo",
    "quiet verbose progress no-checkout bare mirror local no-local no-hardlinks shared branch= origin= depth= "
    "single-branch no-single-branch no-tags",
)
"""Options of `git clone` with which it contacts nothing but its source."""
QUIET_GLOBALS = ("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects")
_NETWORK = {
    "fetch": (),
    "pull": (),
    "push": (),
    "clone": (),
    "ls-remote": (),
    "remote": ("show", "update", "prune"),
    "submodule": ("update", "add", "sync"),
    "lfs": ("pull", "push", "fetch", "clone"),
    "send-email": (),
    "svn": (),
}
_MAKES_DIRECTORIES = ("clone", "worktree", "init", "submodule", "bundle", "archive")
_MESSAGES = Program(takes="mFcC", long="message= file=")


def find_verb(args: Sequence[Arg]) -> tuple[str | None, int, str]:
    """The verb, the index behind it, and the first word in front of it that is not known to be harmless."""
    at, odd = 0, ""
    while at < len(args):
        text = args[at].text
        if text is None:
            return None, at, odd
        at += 1
        if not text.startswith("-"):
            return text, at, odd
        if text not in QUIET_GLOBALS:
            odd = odd or text
        if text in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path"):
            at += 1
    return "", at, odd


def git_goes_out(args: Sequence[Arg]) -> bool:
    verb, at, odd = find_verb(args)
    if verb is None or verb not in _NETWORK or (verb == "clone" and not odd and _has_local_source(args[at:])):
        return False
    seconds = _NETWORK[verb]
    return not seconds or (at < len(args) and args[at].text in seconds)


def list_changed_by_git(verb: str, rest: Sequence[Arg]) -> tuple[FileEffect, ...]:
    """What the words of a verb that is not known to look tell: its settings, and places outside of the workspace."""
    goes = verb == "remote" and any(arg.text is None or ":" in arg.text.removeprefix("file:") for arg in rest)
    if verb == "config" or goes:  # what git runs next, and where the next fetch goes
        return (FileEffect("write", ".git/config"),)
    action: FileAction = "write" if verb in _MAKES_DIRECTORIES else "read"
    named = (arg for arg in parse_options(_MESSAGES, rest).operands if verb in ("add", "mv") or _is_outside(arg))
    return tuple(effect for arg in named for effect in arg.files(action, below=True))


def _is_outside(arg: Arg) -> bool:
    """Whether a word may name a file outside of the workspace."""
    return any(value.home or re.match(r"/|\.\.(?:/|$)", value.text) for value in arg.values or ())


def _has_local_source(rest: Sequence[Arg]) -> bool:
    """Whether a directory is cloned, and neither another machine nor a program may be contacted for it."""
    parsed = parse_options(_CLONE, rest)
    if parsed.unknown or parsed.loose or not 1 <= len(parsed.operands) <= 2 or not parsed.operands[0].values:
        return False
    source = parsed.operands[0].values[0]
    return not source.glob and ("file:///" in source.text[:8] or ":" not in source.text.partition("/")[0])


_SAME_PLACE = frozenset(
    (
        "command",
        "builtin",
        "exec",
        "nice",
        "ionice",
        "timeout",
        "stdbuf",
        "eval",
        "xargs",
        "time",
        "env",
        "find",
        *SHELLS,
    )
)
"""Wrappers that leave the directory and the variables alone, unless an option says otherwise."""
_VARIABLE = re.compile(r"GIT_(?!(?:PAGER=cat|OPTIONAL_LOCKS=0|TERMINAL_PROMPT=0)(?=[\s;&|]|$))[A-Z]|XDG_CONFIG_HOME")
_QUOTING = re.compile(r"[\\'\"\n]")
_CHANGES_PLACE = re.compile(
    r"(?:env|exec) (?:[^ ]*=[^ ]* )*(?:-|\0).*|find .*-(?:exec|ok)dir.*|cd .*-\w*P.*|set .*(?:P|physical|\0).*"
    r"|shopt .*(?:cd|\0).*|(?:declare|typeset|local) .*[-+]\w*n.*",
    re.DOTALL,
)
"""Commands that change where git runs, how directories are found, or its variables; a computed word is `\\0`."""


@frozen
class GitRun:
    """One git command of a script."""

    text: str
    verb: str
    """Empty where it is computed."""
    places: Places
    """The directories that it may run in, seen from where the script starts."""
    looks: bool


def follow_directory_option(args: list[Arg], places: Places) -> tuple[list[Arg], Places]:
    """The arguments without `-C directory`, and the directories that git goes to."""
    out: list[Arg] = []
    at = 0
    while at < len(args):
        text = args[at].text
        if text == "-C" and at + 1 < len(args) and (to := args[at + 1].text) is not None:
            places = frozenset(join_path(place, to) for place in places) if places is not None and to else places
            at += 2
        elif text in QUIET_GLOBALS:
            out.append(args[at])
            at += 1
        else:
            break
    return [*out, *args[at:]], places


def find_unsteadiness(run: Command, source: str, runs: Sequence[Command]) -> str:
    """Why git may get another directory or other variables than the script was given; empty if it does not."""
    if not _SAME_PLACE.issuperset(run.via):
        return f"{run.via[-1]} may change where git runs"
    for other in runs:
        words = " ".join(word.fixed if word.fixed is not None else "\0" for word in other.words[1:])
        if _CHANGES_PLACE.fullmatch(f"{other.base} {words}"):
            return f"{other.base} may change where git runs, or its variables"
    return "variables of git are named" if _VARIABLE.search(_QUOTING.sub("", source)) else ""
