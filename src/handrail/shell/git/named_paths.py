"""Files of the workspace by which git runs programs because the settings of its repository or its user name them.

`core.hooksPath = .githooks` makes every file there a hook, and a file that is included (`include.path`) is one of
settings. They are protected like `.git/hooks` and `.git/config`, wherever they are in the workspace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

_NAMES_PATHS = re.compile(rb"hookspath|include|worktreeconfig", re.IGNORECASE)
_INCLUDED = re.compile(r"include(?:if\..*)?\.path", re.DOTALL)
_MOST_BYTES = 1 << 20
_NO_GIT, _NO_REPOSITORY = 127, 128


def list_named_by_git(roots: Sequence[str], home: str) -> list[str]:
    """Real paths inside the roots of the hooks and settings that are named so; a root itself if git does not tell."""
    paths: list[str] = []
    untold: list[str] = []
    users = [os.path.join(home, ".gitconfig"), os.path.join(home, ".config", "git", "config")]
    for root in roots:
        git = os.path.join(root, ".git")
        own = [] if os.path.isfile(git) else [os.path.join(git, name) for name in ("config", "config.worktree")]
        # The settings of a work tree are elsewhere; only git knows where.
        if os.path.lexists(git) and (os.path.isfile(git) or any(map(_may_name_paths, (*own, *users)))):
            named = _list_paths(root)
            paths += named or ()
            untold += [root] if named is None else []
    inside = [path for path in paths if any(path.startswith(root.rstrip("/") + "/") for root in roots)]
    named_inside = [path for path in inside if not any(f"{root}/".startswith(f"{path}/") for root in roots)]
    return list(dict.fromkeys([*untold, *named_inside]))


def _may_name_paths(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return _NAMES_PATHS.search(file.read(_MOST_BYTES)) is not None
    except OSError:
        return False


def _list_paths(root: str) -> list[str] | None:
    """The paths that settings name; None if git cannot list them."""
    from handrail.shell.git.settings import run_git  # slow to import, and only needed for such repositories
    from handrail.shell.sandbox.environment import scrub_environment

    words = ["-c", "safe.directory=*", "config", "--includes", "--list", "--show-origin", "-z"]
    code, listed = run_git(words, root, scrub_environment())
    if code == _NO_GIT or (code == _NO_REPOSITORY and os.path.isfile(os.path.join(root, ".git"))):
        return []  # the file may lead nowhere
    return None if code else list(_find_paths(root, os.fsdecode(listed).split("\0")))


def _find_paths(root: str, entries: Sequence[str]) -> Iterator[str]:
    for origin, entry in zip(entries[::2], entries[1::2], strict=False):
        key, _, value = entry.partition("\n")
        named = os.path.expanduser(value)
        if key == "core.hookspath" and named:
            yield os.path.realpath(os.path.join(root, named))
        elif _INCLUDED.fullmatch(key) and named:
            file = os.path.join(root, origin.removeprefix("file:"))
            yield os.path.realpath(os.path.join(os.path.dirname(file), named))
