"""Repositories whose settings name programs: each setting in each place where git reads settings from."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CANARY = "CANARY"
_PERSON = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
}


def shell(script: str, place: Path, home: Path, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a script as nobody protects it: the environment is plain."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), **_PERSON}
    return subprocess.run(
        ["bash", "-c", script], cwd=place, env=env, capture_output=True, text=True, check=check, timeout=60
    )


_SIGNATURE = "gpgsig -----BEGIN PGP SIGNATURE-----\\n \\n x\\n -----END PGP SIGNATURE-----"
_REPOSITORY = rf"""
git init -q -b main . && echo one >f && echo one >g && git add . && git commit -qm first
git checkout -qb side && echo side >f && git commit -qam side
git checkout -q main && echo main >f && git commit -qam main
git merge -q side; echo both >f; git add f; git commit -qm merged
signed=$(git cat-file commit HEAD | sed '/^committer/a {_SIGNATURE}' | git hash-object -t commit -w --stdin)
git update-ref HEAD $signed && echo changed >f && printf '#!/bin/sh\ntrue\n' >run.sh && chmod +x run.sh
"""


def make_template(place: Path, home: Path) -> Path:
    """A repository with a merge, a signed commit and a changed file; no setting of it names a program."""
    place.mkdir(parents=True)
    shell(_REPOSITORY, place, home)
    return place


@dataclass(frozen=True)
class Payload:
    """Settings that make git run a program, the commands that do so, and what else is needed for it."""

    name: str
    settings: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    attributes: str = ""
    setup: str = ""


def payloads(canary: Path) -> list[Payload]:
    touch = f"touch {canary}"
    missing = "rm -f .git/objects/$(git rev-parse HEAD:g | sed 's,^..,&/,')"
    promised = (("extensions.partialclone", "o"), ("remote.o.promisor", "true"))
    lazy = ("git show HEAD:g", "git cat-file -p HEAD:g", "git log -p -- g")
    return [
        Payload("fsmonitor", (("core.fsmonitor", f"{touch}; false"),), ("git status", "git diff", "git ls-files -m")),
        Payload(
            "hooks",
            (("core.hooksPath", "hk"),),
            ("git diff", "git diff --stat", "git status"),
            setup=f"mkdir -p hk; printf '#!/bin/sh\\n{touch}\\n' >hk/post-index-change; chmod +x hk/*",
        ),
        Payload("external", (("diff.external", f"{touch};"),), ("git diff", "git diff f", "git diff HEAD")),
        Payload(
            "diff command",
            (("diff.x.command", f"{touch};"),),
            ("git diff", "git diff -- f", "git diff main"),
            "* diff=x",
        ),
        Payload(
            "textconv", (("diff.x.textconv", f"{touch}; cat"),), ("git diff", "git log -p", "git blame f"), "* diff=x"
        ),
        Payload("odd name", (('diff.a.B"c.textconv', f"{touch}; cat"),), ("git show", "git diff"), '* diff=a.B"c'),
        Payload(
            "clean", (("filter.x.clean", f"{touch}; cat"),), ("git status", "git diff", "git ls-files -m"), "* filter=x"
        ),
        Payload(
            "required clean",
            (("filter.X.clean", f"{touch}; cat"), ("filter.X.required", "true")),
            ("git status -s", "git diff --stat"),
            "* filter=X",
        ),
        Payload("process", (("filter.x.process", touch),), ("git diff", "git status"), "* filter=x"),
        Payload(
            "gpg",
            (("gpg.program", f"{canary.parent}/signs.sh"), ("log.showSignature", "true")),
            ("git log", "git show", "git log --pretty=%GS"),
            setup=f"printf '#!/bin/sh\\n{touch}\\n' >{canary.parent}/signs.sh; chmod +x {canary.parent}/signs.sh",
        ),
        Payload(
            "merge driver",
            (("merge.x.driver", f"{touch}; false"), ("log.diffMerges", "remerge")),
            ("git log -p -m", "git show -m"),
            "* merge=x",
        ),
        Payload(
            "ext",
            (*promised, ("remote.o.url", f"ext::sh -c touch% {canary}"), ("protocol.ext.allow", "always")),
            lazy,
            setup=missing,
        ),
        Payload(
            "vcs",
            (
                *promised,
                ("remote.o.url", f"sh -c touch% {canary}"),
                ("remote.o.vcs", "ext"),
                ("protocol.ext.allow", "always"),
            ),
            lazy,
            setup=missing,
        ),
        Payload(
            "uploadpack", (*promised, ("remote.o.url", "."), ("remote.o.uploadpack", f"{touch};")), lazy, setup=missing
        ),
        Payload(
            "ssh", (*promised, ("remote.o.url", "ssh://x/y"), ("core.sshCommand", f"{touch};")), lazy, setup=missing
        ),
    ]


def _set(payload: Payload, file: str) -> str:
    return "; ".join(f"git config --file {file} '{key}' '{value}'" for key, value in payload.settings)


def _attributes(payload: Payload) -> str:
    return f"printf '%s\\n' '{payload.attributes}' >.gitattributes" if payload.attributes else "true"


def in_config(payload: Payload) -> str:
    return _set(payload, ".git/config")


def in_worktree_config(payload: Payload) -> str:
    return f"git config extensions.worktreeConfig true; {_set(payload, '.git/config.worktree')}"


def in_include(payload: Payload) -> str:
    return f"{_set(payload, 'included.txt')}; git config include.path ../included.txt"


def in_conditional_include(payload: Payload) -> str:
    return f"{_set(payload, 'included.txt')}; git config includeIf.onbranch:main.path ../included.txt"


def in_common_directory(payload: Payload) -> str:
    """A file `commondir` sends git to the settings of another directory."""
    moved = "mkdir shared && mv .git/config .git/objects .git/refs shared/ && echo ../shared >.git/commondir"
    return f"{moved}; {_set(payload, 'shared/config')}"


def behind_gitfile(payload: Payload) -> str:
    return f"{_set(payload, '.git/config')}; mv .git real && echo 'gitdir: real' >.git"


def in_bare_layout(payload: Payload) -> str:
    """The files of a repository lie in the workspace itself, as a tool that writes files can put them there."""
    return f"mv .git/* . && rmdir .git && git config --file config core.worktree . && {_set(payload, 'config')}"


def in_linked_worktree(payload: Payload) -> str:
    """The workspace is a linked worktree; the settings are those of the repository that it belongs to."""
    return (
        f"{_set(payload, '.git/config')}; mv .git ../main && "
        "git --git-dir=../main worktree add -q -f --no-checkout ../w HEAD && mv ../w/.git . && rmdir ../w && "
        "echo $PWD/.git >../main/worktrees/w/gitdir && cp ../main/index ../main/worktrees/w/"
    )


def in_submodule(payload: Payload) -> str:
    """The workspace holds a repository as a submodule; a command in the workspace looks into it."""
    moved = "mkdir sub; mv f g run.sh .git sub/; mv .gitattributes sub/ 2>/dev/null"
    return (
        f"{_set(payload, '.git/config')}; {moved}; git init -q ."
        "; git -c advice.addEmbeddedRepo=false add sub; git commit -qm super"
    )


PLACES: dict[str, Callable[[Payload], str]] = {
    "config": in_config,
    "config.worktree": in_worktree_config,
    "include": in_include,
    "conditional include": in_conditional_include,
    "commondir": in_common_directory,
    "gitfile": behind_gitfile,
    "bare": in_bare_layout,
    "linked worktree": in_linked_worktree,
    "submodule": in_submodule,
}
IN_SUBMODULE = {
    "fsmonitor": ("git status", "git diff", "git -C sub status"),
    "clean": ("git status -s", "git diff", "cd sub && git diff"),
    "required clean": ("git diff --stat", "git -C sub status"),
    "process": ("git status", "cd sub && git status"),
    "textconv": ("git -C sub diff", "cd sub && git blame f"),
    "external": ("git -C sub diff", "cd sub; git diff"),
    "gpg": ("git -C sub log", "(cd sub && git show)"),
}
"""Commands in the workspace that run git in the submodule, or look into it."""


def prepare(payload: Payload, place: str, template: Path, workspace: Path, home: Path) -> None:
    """Make ``workspace`` a copy of the template in which the payload is set in this place."""
    shutil.copytree(template, workspace, symlinks=True)
    shell(f"{payload.setup or 'true'}\n{_attributes(payload)}\n{PLACES[place](payload)}", workspace, home)
    age(workspace)


def age(workspace: Path) -> None:
    """Give files another time, so that git compares their contents."""
    for name in ("f", "g", "sub/f", "sub/g"):
        path = workspace / name
        if path.exists():
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 5))
