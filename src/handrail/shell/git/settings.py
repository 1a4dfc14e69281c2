"""Keep git from running the programs that a repository names in its settings.

A repository says in its own files which programs git runs even for `git status`: a file system monitor, filters,
text converters, hooks, signature checkers. Settings of the system and of the user are trusted; those of a repository
are not. `find_program` asks git for the settings (`git config --list` runs nothing) and names the first that makes git
run a program; `with_plain_settings` switches off the file system monitor and hooks, which many repositories have.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence

from handrail.programs import get_program, make_search_path
from handrail.shell.sandbox.confinement import find_repository
from handrail.shell.sandbox.environment import scrub_environment

_SECONDS = 20
_MOST_BYTES = 64 << 20
_MOST_SUBMODULES = 200
_GITLINK = b"\0\0\xe0\0"
"""The mode of a submodule as it is written in every version of the index."""
_LAYOUT = ("--absolute-git-dir", "--git-common-dir", "--git-path", "index", "--is-inside-work-tree", "--show-toplevel")
SAFE = ("--no-replace-objects", "-c", "safe.directory=*")
"""Options with which git reads any repository as it is."""
TRUSTED = ("system", "global")
_ALWAYS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "diff.submodule": "short",  # one of an older commit has settings that nobody has inspected
    "protocol.ext.allow": "never",
    "safe.bareRepository": "explicit",
}
_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # git before 2.45 has no GIT_NO_LAZY_FETCH
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
}
_OVERRIDDEN = re.compile(
    r"core\.(?:fsmonitor|hookspath|usebuiltinfsmonitor)|diff\.submodule|extensions\.partialclone|.*\.promisor"
)
"""Settings of a repository that count for nothing where git gets `_ALWAYS` and `_VARIABLES`."""
_NOT_FOR_LOOKING = re.compile(
    r"(?:credential|remote|url|https?|submodule|difftool|mergetool|guitool|gui|browser|man|web|help|instaweb|sendemail"
    r"|imap|trailer|tar|receive|receivepack|uploadpack|uploadarchive|sequence|interactive|svn|svn-remote|gitcvs|rebase"
    r"|add|commit|fetch|push|pull|protocol|pager)\..*"
    r"|core\.(?:editor|pager|askpass|sshcommand|gitproxy|alternaterefscommand)|(?:merge|diff)\.(?:gui)?tool",
    re.DOTALL,
)
"""Read by commands that write, go to the network or have a terminal, which git does not do while it looks."""
_RUNS = re.compile(
    r"hook\..*|diff\.submodule|extensions\.partialclone|.*\.promisor|lfs\.(?:extension|customtransfer)\..*|lfs\.standalonetransferagent|.*\.standalonetransferagent"
    r"|.*(?:command|cmd|program|textconv|driver|clean|smudge|process|editor|pager|helper|hook|hookspath|askpass|proxy"
    r"|external|fsmonitor|vcs|filter|tool|browser|viewer|tunnel|virtualfilesystem)",
    re.DOTALL,
)
"""Names of settings that hold a program, in git and its extensions, or make git look into other repositories."""
_OFF = ("", "false", "no", "off", "0")
_ALIAS = re.compile(r"alias\.(.*?)(?:\.command)?", re.DOTALL)


def with_plain_settings(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` with settings for git that stand above those of any repository, and switch off what runs programs."""
    out = {**base, **_VARIABLES}
    home = base.get("HOME", "")
    own = os.path.join(home, ".gitconfig")
    other = os.path.join(base.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config")
    there = [path for path in (own, other) if os.path.isfile(path)]
    if home and len(there) < 2:  # a script that changes HOME must not bring a configuration of its own
        out["GIT_CONFIG_GLOBAL"] = there[0] if there else own
    return add_settings(_ALWAYS, out)


def add_settings(settings: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """``base`` with further settings for git."""
    out = dict(base)
    count = base.get("GIT_CONFIG_COUNT", "")
    at = int(count) if count.isdecimal() else 0
    for key, value in settings.items():
        out[f"GIT_CONFIG_KEY_{at}"], out[f"GIT_CONFIG_VALUE_{at}"] = key, value
        at += 1
    return {**out, "GIT_CONFIG_COUNT": str(at)}


def find_program(places: Iterable[str], verbs: Collection[str], *, plain: bool) -> str:
    """Why git, which only looks in these directories, may run a program that a repository names; empty if it does not.

    ``plain``: it runs with `with_plain_settings`.
    """
    real = dict.fromkeys(map(os.path.realpath, places))
    return next((why for place in real if os.path.isdir(place) and (why := _look(place, verbs, plain))), "")


def run_git(words: list[str], place: str, env: Mapping[str, str]) -> tuple[int, bytes]:
    """Run a git command that changes nothing. The code is -1 where its output is not to be used."""
    from handrail.shell.sandbox.landlock_process import start_helper  # slow to import, and only needed in repositories

    try:
        with start_helper(
            [get_program("git"), *words],
            cwd=place,
            env={**env, "PATH": make_search_path()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                output, _ = process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                return -1, b""
    except FileNotFoundError:  # no git: no command of the line can run it either
        return 127, b""
    except OSError:
        return -1, b""
    return (process.returncode, output) if len(output) <= _MOST_BYTES else (-1, b"")


def ask_git(words: Sequence[str], place: str, env: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """Run a git command that changes nothing, in any repository, and no program that the repository names."""
    return run_git([*SAFE, *words], place, make_git_environment() if env is None else env)


def make_git_environment() -> dict[str, str]:
    """The environment of our own git: no program of a repository runs."""
    return with_plain_settings(scrub_environment())


def list_settings(place: str, env: Mapping[str, str] | None = None) -> tuple[int, list[tuple[str, str, str]]]:
    """The exit code of git, and the scope, name and value of each setting that it finds in a directory."""
    code, listed = ask_git(["config", "--list", "-z", "--show-scope"], place, env)
    parts = os.fsdecode(listed).split("\0") if not code else []
    entries = ((scope, entry.partition("\n")) for scope, entry in zip(parts[::2], parts[1::2], strict=False))
    return code, [(scope, key, value) for scope, (key, _, value) in entries]


def parse_settings(raw: bytes) -> list[tuple[str, str]]:
    """The settings in a file of git's. A file that git cannot read has one with the name `unreadable`."""
    if not raw.strip():
        return []
    import tempfile  # slow to import, and rarely needed

    with tempfile.NamedTemporaryFile(prefix="handrail-config-") as file:
        file.write(raw)
        file.flush()
        code, listed = ask_git(["config", "--file", file.name, "--no-includes", "--list", "-z"], "/")
    entries = (entry.partition("\n") for entry in os.fsdecode(listed).split("\0") if entry)
    return [("unreadable", "")] if code else [(key, value) for key, _, value in entries]


def _look(place: str, verbs: Collection[str], plain: bool) -> str:
    """Look at the settings of one repository, and those of its submodules."""
    code, entries = list_settings(place)
    if code == 127:
        return ""
    if code:
        return "git cannot list the settings of the repository"
    trusted = {key: value for scope, key, value in entries if scope in TRUSTED}
    own = [(key, value) for scope, key, value in entries if scope not in (*TRUSTED, "command")]
    if not own and ask_git(["rev-parse", "--git-dir"], place)[0]:
        return ""  # no repository, or none that git accepts
    obeys = any(scope == "command" for scope, _, _ in entries)  # an old git takes no settings from its environment
    for key, value in own:
        if trusted.get(key) != value and value.lower() not in _OFF and _runs(key, verbs, plain and obeys):
            return f"the repository makes git run a program: {key}"
    return _look_at_layout(place, verbs, plain and obeys)


def _runs(key: str, verbs: Collection[str], plain: bool) -> bool:
    """Whether git may run a program because of this setting."""
    if alias := _ALIAS.fullmatch(key):
        return alias[1] in verbs  # later versions of git let an alias take the place of a deprecated command
    if _OVERRIDDEN.fullmatch(key):
        return not plain
    return bool(_RUNS.fullmatch(key)) and not _NOT_FOR_LOOKING.fullmatch(key)


def _look_at_layout(place: str, verbs: Collection[str], plain: bool) -> str:
    """Look at the files of a repository: its work tree must be where its `.git` is, and submodules are followed."""
    _, output = ask_git(["rev-parse", *_LAYOUT], place)
    lines = os.fsdecode(output).splitlines()
    if len(lines) not in (4, 5):
        return "git does not say where the repository is"
    directory, common, index = (os.path.join(place, line) for line in lines[:3])
    if not plain and os.access(os.path.join(common, "hooks", "post-index-change"), os.X_OK):
        return "the repository makes git run a program: the hook post-index-change"
    if not lines[4:]:
        return ""
    top = os.path.realpath(lines[4])
    if os.path.realpath(find_repository(place)) != top:
        return "the repository says that its files are in another directory"
    if not _has_gitlinks(directory, index):
        return ""
    code, listed = ask_git(["ls-files", "--stage", "-z"], top)
    links = [entry.partition(b"\t")[2] for entry in listed.split(b"\0") if entry.startswith(b"160000 ")]
    if code or len(links) > _MOST_SUBMODULES:
        return "the submodules of the repository cannot be listed"
    modules = (os.path.join(top, os.fsdecode(link)) for link in links)
    return find_program([path for path in modules if os.path.lexists(os.path.join(path, ".git"))], verbs, plain=plain)


def _has_gitlinks(directory: str, index: str) -> bool:
    """Whether the index may name a submodule. A file that cannot be read counts as one that does."""
    try:
        shared = [os.path.join(directory, name) for name in os.listdir(directory) if name.startswith("sharedindex.")]
        for path in (index, *shared):
            if not os.path.exists(path):
                continue
            with open(path, "rb") as file:
                if _GITLINK in file.read():
                    return True
    except OSError:
        return True
    return False
