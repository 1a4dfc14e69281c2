"""Keep git from running the programs that a repository names in its settings.

A repository says in its own files which programs git runs even for `git status`: a file system monitor, filters,
text converters, hooks, signature checkers. Settings of the system and of the user are trusted; those of a repository
are not. `inspect` asks git for the settings (`git config --list` runs nothing) and returns the values that override
them, or the reason why a value cannot be overridden. `with_settings` passes the overrides to every git of a command.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from handrail.programs import get_program, make_search_path
from handrail.shell.sandbox.environment import scrub_environment

_SECONDS = 20
_MOST_BYTES = 64 << 20
_MOST_REPOSITORIES = 200
_MOST_OVERRIDES = 500
_GITLINK = b"\0\0\xe0\0"
"""The mode of a submodule as it is written in every version of the index."""
_ASKED = ("--absolute-git-dir", "--git-common-dir", "--git-path", "index", "--is-inside-work-tree", "--show-toplevel")
_TRUSTED = ("system", "global")
_PLAIN_TEXT = """sh -c '[ -s "$0" ] || exit 0; grep -qI . "$0" && exec cat "$0"; cksum <"$0"'"""
"""Converts nothing; of a binary file it prints the checksum."""
_PLAIN_DIFF = """sh -c 'printf "diff --git a/%s b/%s\\n" "$0" "$0"; diff -u -L "a/$0" -L "b/$0" "$1" "$4"; exit 0'"""
"""Prints what git would print; git has no setting for "no program" here."""
_ALWAYS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
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
_OVERRIDES = (
    (r"filter\..*\.(?:clean|smudge|process)", ""),
    (r"diff\..*\.textconv", _PLAIN_TEXT),
    (r"diff\.external|diff\..*\.command", _PLAIN_DIFF),
    (r"gpg\.program|gpg\.openpgp\.program", "gpg"),
    (r"gpg\.x509\.program", "gpgsm"),
    (r"gpg\.ssh\.program", "ssh-keygen"),
    (r"gpg\.ssh\.defaultkeycommand", ""),
    (r"merge\..*\.driver", "false"),
    (r"log\.diffmerges", "separate"),  # `remerge` runs merge drivers
    (r"pager\..*", "false"),
    (r"core\.(?:fsmonitor|hookspath|pager|usebuiltinfsmonitor)", ""),  # among those that are always set
)
_WITH = (
    (re.compile(r"(filter\..*\.)(?:clean|smudge|process)", re.DOTALL), "required"),
    (re.compile(r"(diff\..*\.)textconv", re.DOTALL), "cachetextconv"),
)
"""Settings that make no sense without the program."""
_OVERRIDDEN = tuple((re.compile(pattern, re.DOTALL), value) for pattern, value in _OVERRIDES)
_NOT_FOR_LOOKING = re.compile(
    r"(?:credential|remote|url|https?|submodule|difftool|mergetool|guitool|gui|browser|man|web|help|instaweb|sendemail"
    r"|imap|trailer|tar|receive|receivepack|uploadpack|uploadarchive|sequence|interactive|svn|svn-remote|gitcvs|rebase"
    r"|add|commit|fetch|push|pull|protocol)\..*"
    r"|core\.(?:editor|askpass|sshcommand|gitproxy|alternaterefscommand)|(?:merge|diff)\.(?:gui)?tool",
    re.DOTALL,
)
"""Read by commands that write or go to the network, which git does not do while it looks and `GIT_ALLOW_PROTOCOL`
forbids every protocol."""
_RUNS = re.compile(
    r"hook\..*|lfs\.(?:extension|customtransfer)\..*|lfs\.standalonetransferagent|.*\.standalonetransferagent"
    r"|.*(?:command|cmd|program|textconv|driver|clean|smudge|process|editor|pager|helper|hook|hookspath|askpass|proxy"
    r"|external|fsmonitor|vcs|filter|tool|browser|viewer|tunnel|virtualfilesystem)",
    re.DOTALL,
)
"""Names of settings that hold a program, in git and its extensions. Those not listed above are not overridden."""
_OFF = ("", "false", "no", "off", "0")
_ALIAS = re.compile(r"alias\.(.*?)(?:\.command)?", re.DOTALL)


@dataclass(slots=True)
class Inspected:
    """The settings of the repositories that a git command would read."""

    overrides: dict[str, str] = field(default_factory=dict)
    """Values that keep the repositories' programs from running."""
    unproven: str = ""
    """Why git may run a program of a repository in spite of the overrides."""
    fires: str = ""
    """A program that git would run without the overrides."""
    aliases: set[str] = field(default_factory=set)
    """Names of commands that settings of any kind define."""

    def doubt(self, why: str) -> None:
        self.unproven = self.unproven or why


def with_settings(overrides: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """``base`` with settings for git that stand above those of any repository."""
    out = {**base, **_VARIABLES}
    home = base.get("HOME", "")
    own = os.path.join(home, ".gitconfig")
    other = os.path.join(base.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config")
    there = [path for path in (own, other) if os.path.isfile(path)]
    if home and len(there) < 2:  # a script that changes HOME must not bring a configuration of its own
        out["GIT_CONFIG_GLOBAL"] = there[0] if there else own
    return add_settings({**overrides, **_ALWAYS}, out)


def add_settings(settings: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """``base`` with further settings for git."""
    out = dict(base)
    count = base.get("GIT_CONFIG_COUNT", "")
    at = int(count) if count.isdecimal() else 0
    for key, value in settings.items():
        out[f"GIT_CONFIG_KEY_{at}"], out[f"GIT_CONFIG_VALUE_{at}"] = key, value
        at += 1
    return {**out, "GIT_CONFIG_COUNT": str(at)}


def inspect(places: Iterable[str], verbs: Iterable[str] = (), base: Mapping[str, str] | None = None) -> Inspected:
    """The settings that git would find in these directories, with those of every submodule below."""
    inspected = Inspected()
    env = scrub_environment() if base is None else base
    waiting, seen = list(places), set[str]()
    while waiting:
        real = os.path.realpath(waiting.pop())
        if real in seen or not os.path.isdir(real):
            continue
        seen.add(real)
        if len(seen) > _MOST_REPOSITORIES:
            inspected.doubt(f"there are more than {_MOST_REPOSITORIES} repositories below this one")
            break
        waiting += _look(real, frozenset(verbs), env, inspected)
    if len(inspected.overrides) > _MOST_OVERRIDES:
        inspected.doubt(f"the repository has more than {_MOST_OVERRIDES} settings that name a program")
    return inspected


def run_git(words: list[str], place: str, env: Mapping[str, str]) -> tuple[int, bytes]:
    """Run a git command that changes nothing. The code is -1 where its output is not to be used."""
    try:
        with subprocess.Popen(  # noqa: S603 - fixed words, and settings that run nothing
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


def _look(place: str, verbs: frozenset[str], base: Mapping[str, str], inspected: Inspected) -> list[str]:
    """Take in the settings of one repository; returns the directories of its submodules."""
    env = with_settings(inspected.overrides, base)
    code, listed = run_git(["-c", "safe.directory=*", "config", "--list", "-z", "--show-scope"], place, env)
    if code == 127:
        return []
    if code:
        inspected.doubt("git cannot list the settings of the repository")
        return []
    own, trusted, obeyed = _parse_entries(listed)
    if not own:
        code, _ = run_git(["-c", "safe.directory=*", "rev-parse", "--git-dir"], place, env)
        if code:
            return []  # no repository, or none that git accepts
    before = len(inspected.overrides)
    inspected.aliases |= {match[1] for key in (*own, *trusted) if (match := _ALIAS.fullmatch(key))}
    for key, value in own.items():
        _judge(key, value, trusted, verbs, inspected)
    if {**trusted, **own}.get("diff.submodule", "short") not in ("log", "short"):
        # A submodule of an older commit, or one that is not checked out, has settings that nobody has inspected.
        inspected.overrides["diff.submodule"] = "log"
        inspected.fires = inspected.fires or "diff.submodule"
    if not obeyed and (inspected.fires or len(inspected.overrides) > before):
        inspected.doubt("this git does not take settings from its environment")
    return _inspect_layout(place, {**trusted, **own}, with_settings(inspected.overrides, base), inspected)


def _parse_entries(listed: bytes) -> tuple[dict[str, str], dict[str, str], bool]:
    """The last value of each setting: of the repository, of trusted files; and whether git obeys the environment."""
    own: dict[str, str] = {}
    trusted: dict[str, str] = {}
    obeyed = False
    parts = os.fsdecode(listed).split("\0")
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        key, _, value = entry.partition("\n")
        if scope == "command":
            obeyed = obeyed or (key, value) == ("core.fsmonitor", "false")
        elif scope in _TRUSTED:
            trusted[key] = value
        else:
            own[key] = value
    return own, trusted, obeyed


def _judge(key: str, value: str, trusted: Mapping[str, str], verbs: frozenset[str], inspected: Inspected) -> None:
    """Take in one setting of a repository."""
    if trusted.get(key) == value:
        return
    alias = _ALIAS.fullmatch(key)
    if alias:
        if alias[1] in verbs:  # later versions of git let an alias take the place of a deprecated command
            inspected.doubt(f"the repository gives git {alias[1]} another meaning")
        return
    neutral = next((value for pattern, value in _OVERRIDDEN if pattern.fullmatch(key)), None)
    if neutral is None:
        if _RUNS.fullmatch(key) and not _NOT_FOR_LOOKING.fullmatch(key):
            inspected.doubt(f"the setting {key} of the repository names a program that git would run")
        return
    if key.startswith("core."):
        if "fsmonitor" in key and value.lower() not in _OFF:
            inspected.fires = inspected.fires or key
        return
    inspected.overrides[key] = trusted.get(key, neutral)
    inspected.fires = inspected.fires or ("" if key.startswith(("pager.", "merge.")) else key)
    for start, name in _WITH:
        if (match := start.fullmatch(key)) and match[1] + name not in trusted:
            inspected.overrides[match[1] + name] = "false"


def _inspect_layout(place: str, settings: Mapping[str, str], env: Mapping[str, str], inspected: Inspected) -> list[str]:
    """Look at the files of a repository: its work tree must be where its `.git` is, and submodules are followed."""
    asked = [
        "--absolute-git-dir",
        "--git-common-dir",
        "--git-path",
        "index",
        "--is-inside-work-tree",
        "--show-toplevel",
    ]
    _, output = run_git(["-c", "safe.directory=*", "rev-parse", *asked], place, env)
    lines = os.fsdecode(output).splitlines()
    if len(lines) not in (4, 5):
        inspected.doubt("git does not say where the repository is")
        return []
    directory, common, index = (os.path.join(place, line) for line in lines[:3])
    if _promises(settings):
        inspected.fires = inspected.fires or "a remote that has missing objects"
    hooks = os.path.expanduser(settings.get("core.hookspath") or os.path.join(common, "hooks"))
    top = os.path.realpath(lines[4]) if lines[4:] else place
    if os.access(os.path.join(top, hooks, "post-index-change"), os.X_OK):
        inspected.fires = inspected.fires or "the hook post-index-change"
    if not lines[4:]:
        return []
    holder = _find_holder(place)
    if not holder or os.path.realpath(holder) != top:
        inspected.doubt("the repository says that its files are in another directory")
    if not _has_gitlinks(directory, index):
        return []
    code, listed = run_git(["-c", "safe.directory=*", "ls-files", "--stage", "-z"], top, env)
    if code:
        inspected.doubt("git cannot list the submodules of the repository")
        return []
    links = [entry.partition(b"\t")[2] for entry in listed.split(b"\0") if entry.startswith(b"160000 ")]
    modules = [os.path.join(top, os.fsdecode(link)) for link in links]
    return [path for path in modules if os.path.lexists(os.path.join(path, ".git"))]


def _promises(settings: Mapping[str, str]) -> bool:
    """Whether git would fetch objects that are missing."""
    return "extensions.partialclone" in settings or any(re.fullmatch(r"remote\..*\.promisor", key) for key in settings)


def _find_holder(place: str) -> str:
    """The nearest directory with a `.git` in it, from here upwards."""
    here = place
    while not os.path.lexists(os.path.join(here, ".git")):
        above = os.path.dirname(here)
        if above == here:
            return ""
        here = above
    return here


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
