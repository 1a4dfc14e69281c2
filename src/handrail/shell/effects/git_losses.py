"""Which files of the working tree, and which branches, a git command may overwrite or delete.

Git refuses to lose uncommitted work in most commands; the ones here do not. The words of a command say which files it
may come to; which of them hold uncommitted work only the repository knows (`shell/fencing/git_work.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from handrail.shell.effects.arguments import Arg


@dataclass(frozen=True, slots=True)
class Loss:
    """Uncommitted work that a git command may overwrite or delete."""

    action: Literal["write", "delete"] = "write"
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


EVERYTHING = Loss("delete", untracked=True)
_UNDOES = ("merge", "rebase", "cherry-pick", "revert", "am")
_CHANGES_FILES = (
    *("checkout", "restore", "switch", "reset", "clean", "stash", "read-tree", "checkout-index", "apply", "rm", "mv"),
    *("worktree", "submodule", "sparse-checkout", "bisect", "filter-branch", "pull", "branch", "update-ref", *_UNDOES),
)
_CHECKOUT_TAKES = ("-b", "-B", "--orphan", "--conflict")


def loss_of(verb: str | None, before: Sequence[Arg], rest: Sequence[Arg]) -> Loss | None:
    """What a git command with this verb, options before it and words behind it may lose; None if it loses nothing."""
    if verb is None:
        return EVERYTHING
    if verb not in _CHANGES_FILES:
        return None
    if _sent_elsewhere(before):
        return Loss("delete", elsewhere=True)
    if _is_computed(rest):
        return EVERYTHING
    words, paths = _split(rest)
    if verb in ("checkout", "switch"):
        return _checked_out(words, paths)
    if verb == "restore":
        staged = _has(words, "S", "--staged") and not _has(words, "W", "--worktree")
        return None if staged else Loss(pathspecs=_specs(words, paths, ("-s", "--source", "--conflict")))
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
        elsewhere = _has(words, "", "--prefix")
        return Loss("delete" if elsewhere else "write", elsewhere=elsewhere)
    if verb == "apply":
        only_looks = _has(words, "", "--stat", "--numstat", "--summary", "--check", "--cached")
        return None if only_looks and not _has(words, "", "--apply") else Loss(untracked=True)
    if verb == "rm":
        return None if _has(words, "n", "--cached", "--dry-run") else Loss("delete", _specs(words, paths, ()))
    if verb == "submodule":
        return EVERYTHING if _has(words, "f", "--force") else None
    if verb == "branch":
        branches = tuple(f"heads/{word}" for word in (*words, *(paths or ())) if not word.startswith("-"))
        forced = _has(words, "D") or (_has(words, "d", "--delete") and _has(words, "f", "--force"))
        return Loss(branches=branches) if forced else None
    return None


def _sent_elsewhere(before: Sequence[Arg]) -> bool:
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


def _checked_out(words: Sequence[str], paths: Sequence[str] | None) -> Loss | None:
    specs = _specs(words, paths, _CHECKOUT_TAKES)
    target = specs[0] if paths is None and specs else ""
    return Loss(pathspecs=None if _has(words, "m", "--merge") else specs, target=target)


def _specs(words: Sequence[str], paths: Sequence[str] | None, takes: Sequence[str]) -> tuple[str, ...] | None:
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
