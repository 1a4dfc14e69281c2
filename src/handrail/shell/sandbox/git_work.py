"""Find the uncommitted work that a git command may overwrite or delete, by asking git with overridden settings."""

from __future__ import annotations

import os
from collections.abc import Mapping

from handrail.shell.effects.git_runs import Loss
from handrail.shell.sandbox.git_settings import run_git

_SAFE = ["-c", "safe.directory=*"]


def find_uncommitted(place: str, loss: Loss, env: Mapping[str, str]) -> list[str] | None:
    """Paths that hold work which is in no commit, as git names them from the top; None if they cannot be listed.

    A path of a directory is a repository of its own below this one.
    """
    code, output = run_git([*_SAFE, "rev-parse", "--show-toplevel"], place, env)
    if code in (127, 128):
        return []  # no work tree: git refuses
    top = os.fsdecode(output).removesuffix("\n")
    if code or not os.path.isdir(top):
        return None
    changed = _list_changed(place, loss, env)
    if changed is not None and loss.target:
        changed += _list_replaced(top, loss.target, env)
    if changed is None:
        return None
    return [os.path.join(top, path.rstrip("/")) for path in dict.fromkeys(changed)]


def _list_changed(place: str, loss: Loss, env: Mapping[str, str]) -> list[str] | None:
    if loss.pathspecs == ():
        return []
    specs = ["--", *(loss.pathspecs or ())]
    if loss.pathspecs is None:
        specs = ["--", ":/"]
    untracked = "all" if loss.untracked else "no"
    words = [
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--ignore-submodules=none",
        f"--untracked-files={untracked}",
    ]
    code, listed = run_git([*_SAFE, *words, *specs], place, env)
    if code:
        return None
    names = [os.fsdecode(entry[3:]) for entry in listed.split(b"\0") if len(entry) > 3]
    # `status` passes over files that are marked so; a checkout does not.
    code, listed = run_git([*_SAFE, "ls-files", "-v", "-z", "--full-name", *specs], place, env)
    if code:
        return None
    marked = [entry for entry in listed.split(b"\0") if entry[:1].islower() or entry[:1] == b"S"]
    return names + [os.fsdecode(entry[2:]) for entry in marked]


def _list_replaced(top: str, target: str, env: Mapping[str, str]) -> list[str]:
    """Files that the target has and this commit has not: what git ignores is replaced without a word."""
    words = ["diff", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "--diff-filter=A", "-z", "HEAD"]
    names: list[str] = []
    for revision in [target, *_list_remote_branches(top, target, env)]:
        code, listed = run_git([*_SAFE, *words, revision, "--"], top, env)
        if not code:
            names += [os.fsdecode(name) for name in listed.split(b"\0") if name]
    return [name for name in names if os.path.lexists(os.path.join(top, name))]


def _list_remote_branches(top: str, target: str, env: Mapping[str, str]) -> list[str]:
    """`git checkout name` makes a branch of a remote's branch of that name."""
    words = ["for-each-ref", "--count=20", "--format=%(objectname)", f"refs/remotes/*/{target}"]
    code, listed = run_git([*_SAFE, *words], top, env)
    return [] if code else os.fsdecode(listed).split()


def find_lost_branches(place: str, loss: Loss, env: Mapping[str, str]) -> list[str]:
    """Files of the references whose commits nothing else points at."""
    lost: list[str] = []
    for name in loss.branches:
        full = f"refs/{name}"
        code, tip = run_git([*_SAFE, "rev-parse", "--quiet", "--verify", full], place, env)
        if code:
            continue
        words = ["for-each-ref", "--count=2", "--format=%(refname)", f"--contains={os.fsdecode(tip).strip()}"]
        code, others = run_git([*_SAFE, *words], place, env)
        if code or not set(os.fsdecode(others).split()) - {full}:
            code, output = run_git([*_SAFE, "rev-parse", "--git-common-dir"], place, env)
            lost.append(os.path.join(place, os.fsdecode(output).removesuffix("\n"), full))
    return lost
