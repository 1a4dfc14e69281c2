"""The git commands of a script: where each runs, whether it only looks, and which files and branches it may lose.

Git finds its settings through its directory and its environment. A looking command counts as one only where the script
leaves both as they were given to it, so that the settings can be inspected before it runs.

Git refuses to lose uncommitted work in most commands; those that do not are listed here. The words of a command tell
which files it may overwrite or delete; which of them hold uncommitted work only the repository knows
(`shell/sandbox/git_work.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.frozen import frozen
from handrail.shell.effects.arguments import Arg, Places, join_path
from handrail.shell.effects.git import QUIET_GLOBALS
from handrail.shell.parser.script import Command
from handrail.shell.parser.wrappers import SHELLS

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
_VARIABLE = re.compile(r"GIT_[A-Z]|XDG_CONFIG_HOME")
_QUOTING = re.compile(r"[\\'\"\n]")
_DECLARES = ("declare", "typeset", "local")
_SETS = frozenset(
    ("read", "mapfile", "readarray", "getopts", "printf", "export", "readonly", "let", "unset", *_DECLARES)
)
_SHOWS_TEXT = ("echo", "grep", "egrep", "fgrep", "rg", "ag", "cat", "ls", "head", "tail", "wc", "git")
_PLAIN = ("GIT_PAGER", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT")
"""Variables that may be set in front of git: which values, `_PLAIN_BEFORE` of the effects says."""


@frozen
class Loss:
    """Uncommitted work that a git command may overwrite or delete."""

    pathspecs: tuple[str, ...] | None = None
    """Patterns for files, as git reads them; None is every file."""
    untracked: bool = False
    """Files that git does not track may be lost, too."""
    target: str = ""
    """A revision that is checked out: its files replace those that git ignores."""
    branches: tuple[str, ...] = ()
    """Names below `refs` that are deleted."""
    elsewhere: bool = False
    """Options send git to another repository, or to files in another place."""


EVERYTHING = Loss(untracked=True)
_UNDOES = ("merge", "rebase", "cherry-pick", "revert", "am")
_CHANGES_FILES = (
    *("checkout", "restore", "switch", "reset", "clean", "stash", "read-tree", "checkout-index", "apply", "rm", "mv"),
    *("worktree", "submodule", "sparse-checkout", "bisect", "filter-branch", "pull", "branch", "update-ref", *_UNDOES),
)
_CHECKOUT_TAKES = ("-b", "-B", "--orphan", "--conflict")


def find_loss(verb: str | None, before: Sequence[Arg], rest: Sequence[Arg]) -> Loss | None:
    """The work that a git command may lose, by its verb, the options before and the words behind it; None for none."""
    if verb is None:
        return EVERYTHING
    if verb not in _CHANGES_FILES:
        return None
    if _is_sent_elsewhere(before):
        return Loss(elsewhere=True)
    if _is_computed(rest):
        return EVERYTHING
    words, paths = _split(rest)
    if verb in ("checkout", "switch"):
        return _find_loss_of_checkout(words, paths)
    if verb == "restore":
        staged = _has(words, "S", "--staged") and not _has(words, "W", "--worktree")
        return None if staged else Loss(pathspecs=_get_specs(words, paths, ("-s", "--source", "--conflict")))
    if verb == "stash":
        first = next((word for word in words if not word.startswith("-")), "push")
        everything = _has(words, "ua", "--include-untracked", "--all")
        return Loss(untracked=everything) if first in ("push", "save") else None
    if verb in _UNDOES:
        return Loss() if _has(words, "", "--abort", "--skip") else None
    if verb == "read-tree":
        named = [word for word in words if not word.startswith("-")]
        return Loss(untracked=True, target=named[-1] if named else "") if _has(words, "u", "--reset") else None
    if verb == "checkout-index":
        if not _has(words, "f", "--force"):
            return None
        return Loss(elsewhere=_has(words, "", "--prefix"))
    if verb == "apply":
        only_looks = _has(words, "", "--stat", "--numstat", "--summary", "--check", "--cached")
        return None if only_looks and not _has(words, "", "--apply") else Loss(untracked=True)
    if verb == "rm":
        return None if _has(words, "n", "--cached", "--dry-run") else Loss(_get_specs(words, paths, ()))
    if verb == "submodule":
        return EVERYTHING if _has(words, "f", "--force") else None
    if verb == "branch":
        branches = tuple(f"heads/{word}" for word in (*words, *(paths or ())) if not word.startswith("-"))
        forced = _has(words, "D") or (_has(words, "d", "--delete") and _has(words, "f", "--force"))
        return Loss(branches=branches) if forced else None
    return None


def _is_sent_elsewhere(before: Sequence[Arg]) -> bool:
    """Whether options in front of the verb may name another repository or working tree."""
    words = [arg.text for arg in before]
    for at, word in enumerate(words):
        if word is None or word == "-C" or word.startswith(("--git-dir", "--work-tree", "--config-env", "--exec-path")):
            return True
        if word == "-c" and (
            at + 1 == len(words) or re.match(r"(?i)core\.(?!editor|pager)|inc|al", words[at + 1] or "")
        ):
            return True
    return False


def _find_loss_of_checkout(words: Sequence[str], paths: Sequence[str] | None) -> Loss | None:
    specs = _get_specs(words, paths, _CHECKOUT_TAKES)
    target = specs[0] if paths is None and specs else ""
    return Loss(pathspecs=None if _has(words, "m", "--merge") else specs, target=target)


def _get_specs(words: Sequence[str], paths: Sequence[str] | None, takes: Sequence[str]) -> tuple[str, ...] | None:
    """The operands. A revision among them matches no file; where paths come from a file, all are meant."""
    if _has(words, "", "--pathspec-from-file"):
        return None
    if paths is not None:
        return tuple(paths)
    return tuple(
        word for at, word in enumerate(words) if not word.startswith("-") and (not at or words[at - 1] not in takes)
    )


def _is_computed(rest: Sequence[Arg]) -> bool:
    """Whether a word is not known, or may turn out to be an option."""
    for at, arg in enumerate(rest):
        if arg.text == "--":
            return any(arg.values is None for arg in rest[at:])
        if arg.values is None or arg.loose or any(value.below or value.home for value in arg.values):
            return True
    return False


def _split(rest: Sequence[Arg]) -> tuple[list[str], list[str] | None]:
    """The words in front of `--`, and those behind it. A pattern of the shell is one for git, which matches more."""
    texts = [value.text for arg in rest for value in arg.values or ()]
    if "--" in texts:
        at = texts.index("--")
        return texts[:at], texts[at + 1 :]
    return texts, None


def _has(words: Sequence[str], letters: str, *options: str) -> bool:
    """Whether an option is given: a letter alone or among others, or a long name, which git lets be cut short."""
    for word in words:
        if word.startswith("--"):
            name = word.partition("=")[0]
            if len(name) > 2 and any(option.startswith(name) for option in options):
                return True
        elif word.startswith("-") and any(letter in word[1:] for letter in letters):
            return True
    return False


@frozen
class GitRun:
    """One git command of a script."""

    text: str
    verb: str
    """Empty where it is computed."""
    places: Places
    """The directories that it may run in, seen from where the script starts."""
    looks: bool
    loss: Loss | None = None


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
        base, words = other.base, [word.fixed for word in other.words[1:]]
        if (base in ("env", "exec") and _has_option(words)) or (
            base == "find" and ("-execdir" in words or "-okdir" in words)
        ):
            return f"{base} changes where git runs, or its variables"
        if (base == "cd" and any(re.match(r"-\w*P", word or "") for word in words)) or (
            base == "set" and any(word is None or "P" in word or word == "physical" for word in words)
        ):
            return f"{base} changes how directories are found"
        if base == "shopt" and any(word is None or word.startswith(("cd", "autocd")) for word in words):
            return "shopt changes how directories are found"
        if base in _DECLARES and any(re.match(r"[-+]\w*n", word or "") for word in words):
            return "a variable refers to another one"
        if base in _SETS and any(word is not None and _VARIABLE.search(word) for word in words):
            return f"{base} changes variables of git"
    return "" if _count_variables(source) <= _count_harmless(runs) else "variables of git are named"


def _has_option(words: Sequence[str | None]) -> bool:
    """Whether an option precedes the command that is run."""
    for word in words:
        if word is None or word.startswith("-"):
            return True
        if "=" not in word:
            return False
    return False


def _count_variables(source: str) -> int:
    """How often variables of git are named, quotes taken off."""
    return len(_VARIABLE.findall(_QUOTING.sub("", source)))


def _count_harmless(runs: Sequence[Command]) -> int:
    """How often they are named where that changes nothing: as text for a program that evaluates none."""
    count = 0
    for run in runs:
        count += sum(1 for item in run.assignments if item.name in _PLAIN and run.words)
        if run.base not in _SHOWS_TEXT:
            continue
        count += sum(len(_VARIABLE.findall(word.fixed)) for word in run.words if word.fixed is not None)
    return count
