"""The hosts that git contacts for a remote, and whether a repository leaves git as its user has set it up.

A remote's address is in the repository's settings, which a command may change, and an address can carry data. So the
addresses that may be fetched from without a question are those that the remotes had before the first command
(`KnownRemotes`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from handrail.files.per_workspace import record_once
from handrail.shell.effects.destinations import EVERY_REMOTE, is_http, parse_git_address
from handrail.shell.effects.hosts import Host
from handrail.shell.git.settings import TRUSTED, ask_git, list_settings, parse_settings
from handrail.shell.sandbox.environment import AGENT, Logins

_MOST_BYTES = 1 << 20
_MOST_REMOTES = 100
_MOST_SUBMODULES = 200
_URL = re.compile(r"remote\..*\.url", re.DOTALL)
_BENIGN = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|longpaths|quotepath|untrackedcache|preloadindex|compression|bigfilethreshold|abbrev)"
    r"|remote\..*\.(?:url|fetch|pushurl|push|tagopt|prune|prunetags|gh-resolved|skipdefaultupdate|skipfetchall)"
    r"|branch\..*\.(?:remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base|github-pr-[\w-]+)"
    r"|remote\.pushdefault|user\.(?:name|email|signingkey|useconfigonly)|author\..*|committer\..*|init\..*"
    r"|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote|followtags)|fetch\.(?:prune|prunetags|writecommitgraph)"
    r"|gc\.(?:auto|autodetach)|maintenance\.(?:auto|strategy)|rerere\..*|merge\.(?:conflictstyle|ff)|advice\..*"
    r"|extensions\.(?:objectformat|refstorage)|color\..*|status\..*|log\.(?:date|decorate)|rebase\.autostash"
    r"|commit\.gpgsign|tag\.gpgsign|lfs\.repositoryformatversion|rebase\.autosquash",
    re.DOTALL,
)
"""Settings of a repository that neither name a program nor send git elsewhere."""
_OVERRIDDEN = re.compile(
    r"core\.(?:fsmonitor|hookspath|usebuiltinfsmonitor)|diff\.submodule|extensions\.partialclone|.*\.promisor"
)
"""Settings of a repository that count for nothing where git runs `with_plain_settings`."""
_NOT_FOR_LOOKING = re.compile(
    r"(?:credential|remote|url|https?|submodule|difftool|mergetool|guitool|gui|browser|man|web|help|instaweb|sendemail"
    r"|imap|trailer|tar|receive|receivepack|uploadpack|uploadarchive|sequence|interactive|svn|svn-remote|gitcvs|rebase"
    r"|add|commit|fetch|push|pull|protocol|pager)\..*"
    r"|core\.(?:editor|pager|askpass|sshcommand|gitproxy|alternaterefscommand)|(?:merge|diff)\.(?:gui)?tool",
    re.DOTALL,
)
"""Read by commands that write, go to the network or have a terminal, which git does not do while it looks."""
_RUNS = re.compile(
    r"hook\..*|diff\.submodule|extensions\.partialclone|.*\.promisor|lfs\.(?:extension|customtransfer)\..*"
    r"|lfs\.standalonetransferagent|.*\.standalonetransferagent|core\.worktree"
    r"|.*(?:command|cmd|program|textconv|driver|clean|smudge|process|editor|pager|helper|hook|hookspath|askpass|proxy"
    r"|external|fsmonitor|vcs|filter|tool|browser|viewer|tunnel|virtualfilesystem)",
    re.DOTALL,
)
"""Names of settings that hold a program, in git and its extensions, or make git look into other directories."""
_OFF = ("", "false", "no", "off", "0")
_ALIAS = re.compile(r"alias\.(.*?)(?:\.command)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RemoteUse:
    """The hosts that a git command contacts."""

    hosts: tuple[Host, ...] = ()
    local: bool = False
    """The remotes are directories of this machine."""
    by_http: bool = False
    """All of them are contacted by HTTP."""
    benign: bool = False
    """The repository neither makes git run a program nor sends it elsewhere."""
    addresses: tuple[str, ...] = ()
    """As the settings have them; none if the command itself names an address."""


class KnownRemotes:
    """The addresses of the remotes that the repositories of the workspace had before the first command.

    That is the first command of any session, if there is a state directory to record them in.
    """

    def __init__(self, roots: Iterable[str], state: str = "") -> None:
        self._settings = [record_once(state, "remotes", root, _read_settings(root)) for root in roots]
        self._addresses: frozenset[str] | None = None

    @property
    def addresses(self) -> frozenset[str]:
        """As the settings have them; read by git when they are first needed."""
        if self._addresses is None:
            entries = (entry for text in self._settings if text for entry in parse_settings(text))
            self._addresses = frozenset(value for key, value in entries if _URL.fullmatch(key))
        return self._addresses


def find_hosts(places: Sequence[str], remote: str, *, push: bool, hooks: bool) -> RemoteUse:
    """The hosts of a remote, as git finds it in each of these directories.

    ``hooks``: the command may run hooks of the repository.
    """
    remote_hosts: list[Host] = []
    benign = named = bool(places)
    known: list[str] = []
    local, by_http = 0, True
    for place in places:
        own, trusted = _list_settings(place)
        settings = {**trusted, **own}
        addresses = _find_addresses(settings, remote, push, place)
        named = named and addresses != [remote]
        known += addresses
        rewritten = [_rewrite(address, settings, push) for address in addresses]
        hosts = [parse_git_address(address) for address in rewritten]
        if addresses and all(map(_is_directory, rewritten)):
            local += 1
        elif not hosts or None in hosts:
            return RemoteUse()
        remote_hosts += [host for host in hosts if host]
        by_http = by_http and all(map(is_http, rewritten))
        benign = benign and _leaves_git(own, trusted) and not _runs_more(place, hooks)
    if local:
        return RemoteUse(local=local == len(places))
    hosts_once = tuple(dict.fromkeys(remote_hosts))
    return RemoteUse(hosts_once, by_http=by_http, benign=benign, addresses=tuple(known) if named else ())


def _is_directory(address: str) -> bool:
    return address.startswith("/") and "\n" not in address


def is_benign(places: Sequence[str]) -> bool:
    """Whether git runs no program of the repositories in these directories, for whatever it is used."""
    return bool(places) and all(_leaves_git(*_list_settings(place)) and not _runs_more(place, True) for place in places)


def may_run_programs(places: Iterable[str], verbs: Collection[str]) -> bool:
    """Whether git, which only looks in these directories `with_plain_settings`, may run a program of a repository."""
    return any(_may_run(place, verbs) for place in dict.fromkeys(places) if os.path.isdir(place))


def _may_run(place: str, verbs: Collection[str]) -> bool:
    own, trusted = _list_settings(place)
    if not own and ask_git(["rev-parse", "--git-dir"], place)[0]:
        return False  # no repository, or none that git accepts
    strange = {key: value for key, value in own.items() if trusted.get(key) != value and value.lower() not in _OFF}
    if any(_runs(key, verbs) for key in strange):
        return True
    code, listed = ask_git(["ls-files", "--stage", "--full-name", "-z", ":/"], place)
    _, top = ask_git(["rev-parse", "--show-toplevel"], place)
    links = [entry.partition(b"\t")[2] for entry in listed.split(b"\0") if entry.startswith(b"160000 ")]
    modules = [os.path.join(os.fsdecode(top).strip(), os.fsdecode(link)) for link in links[:_MOST_SUBMODULES]]
    inner = [path for path in modules if os.path.lexists(os.path.join(path, ".git"))]
    return bool(code) or len(links) > _MOST_SUBMODULES or may_run_programs(inner, verbs)


def _runs(key: str, verbs: Collection[str]) -> bool:
    """Whether git may run a program because of this setting."""
    if alias := _ALIAS.fullmatch(key):
        return alias[1] in verbs  # later versions of git let an alias take the place of a deprecated command
    is_off = _OVERRIDDEN.fullmatch(key) or _NOT_FOR_LOOKING.fullmatch(key)
    return _RUNS.fullmatch(key) is not None and not is_off


def _leaves_git(own: Mapping[str, str], trusted: Mapping[str, str]) -> bool:
    """Whether the settings of a repository leave git as its user has set it up."""
    return all(_BENIGN.fullmatch(key) or trusted.get(key) == own[key] for key in own)


def _list_settings(place: str) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of the repository, and those of the user and the system. Raises nothing: unreadable is unknown."""
    own: dict[str, str] = {}
    trusted: dict[str, str] = {}
    code, entries = list_settings(place)
    if code or all(scope != "command" for scope, _, _ in entries):  # an old git obeys none of our own settings
        return {"unreadable.filter": "unknown"}, {}
    for scope, key, value in entries:
        if scope in TRUSTED:
            trusted[key] = value
        elif scope != "command":
            if _URL.fullmatch(key) and key in own:
                key = f"{key}.more"  # a remote with several addresses is not followed
            own[key] = value
    return own, trusted


def _find_addresses(settings: Mapping[str, str], remote: str, push: bool, place: str) -> list[str]:
    """The addresses of a remote: by its name, by itself, or of the branch that is checked out."""
    if remote == EVERY_REMOTE:
        names = [key[7:-4] for key in settings if _URL.fullmatch(key)]
        return [settings[f"remote.{name}.url"] for name in names[:_MOST_REMOTES]]
    name = remote or _find_default_remote(settings, push, place)
    if push and f"remote.{name}.pushurl" in settings:
        return [settings[f"remote.{name}.pushurl"]]
    known = settings.get(f"remote.{name}.url")
    if known is not None:
        return [known]
    return [remote] if remote and not os.path.exists(os.path.join(place, remote)) else []


def _find_default_remote(settings: Mapping[str, str], push: bool, place: str) -> str:
    code, head = ask_git(["symbolic-ref", "--short", "-q", "HEAD"], place)
    branch = os.fsdecode(head).strip() if not code else ""
    names = [f"branch.{branch}.pushremote", "remote.pushdefault"] if push else []
    return next((settings[key] for key in (*names, f"branch.{branch}.remote") if key in settings), "origin")


def _rewrite(address: str, settings: Mapping[str, str], push: bool) -> str:
    """The address that git makes of one by `url.BASE.insteadOf`: the longest match counts."""
    kinds = ("pushinsteadof", "insteadof") if push else ("insteadof",)
    for kind in kinds:
        best = ("", "")
        for key, value in settings.items():
            replaces = key.startswith("url.") and key.endswith(f".{kind}") and address.startswith(value)
            if replaces and len(value) > len(best[0]):
                best = value, key[4 : -len(kind) - 1]
        if best[0]:
            return best[1] + address[len(best[0]) :]
    return address


def _runs_more(place: str, hooks: bool) -> bool:
    """Whether git would run a hook there, or go on into submodules."""
    code, output = ask_git(["rev-parse", "--git-common-dir", "--absolute-git-dir"], place)
    lines = os.fsdecode(output).splitlines()
    if code or len(lines) != 2:
        return True
    common = os.path.join(place, lines[0])
    if any(True for _ in _list_entries(os.path.join(common, "modules"))):
        return True
    names = [name for name in _list_entries(os.path.join(common, "hooks")) if not name.endswith(".sample")]
    return bool(names) if hooks else "reference-transaction" in names


def _list_entries(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            yield from (entry.name for entry in entries)
    except FileNotFoundError:
        return
    except OSError:
        yield "unreadable"


def _read_settings(root: str) -> bytes:
    """The text of the settings of the repository at the top of a tree; empty if there is none to be read."""
    git = os.path.join(root, ".git")
    try:
        if stat.S_ISREG(os.stat(git).st_mode):  # a linked worktree
            with open(git, "rb") as file:
                line = file.read(_MOST_BYTES).strip()
            git = os.path.join(root, os.fsdecode(line.removeprefix(b"gitdir: ")))
            with open(os.path.join(git, "commondir"), "rb") as file:
                git = os.path.join(git, os.fsdecode(file.read(_MOST_BYTES).strip()))
        with open(os.path.join(git, "config"), "rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""


_SETTINGS = {
    **dict.fromkeys(("am", "cherry-pick", "commit", "merge", "pull", "rebase", "revert"), "commit.gpgsign"),
    "tag": "tag.gpgsign",
}
"""Verbs that may sign, each with its setting."""
_ASKS = ("-S", "--gpg-sign", "--sign")
_TAG_ASKS = ("-s", "-u", "--local-user")
_REFUSES = ("--no-gpg-sign", "--no-sign", "--abort")
_ON = ("", "true", "yes", "on", "1")
_RINGS = ("pubring.kbx", "pubring.gpg", "trustdb.gpg", "gpg.conf")


def find_agent(verb: str, words: Sequence[str], place: str) -> Logins | None:
    """The agent that signs for a git command, with the files that name the key. None: it signs nothing, or none runs.

    ``words``: of the command. ``place``: the directory that it runs in.
    """
    agents = list(_list_agents(os.environ)) if verb in _SETTINGS else []
    if not agents or any(word in _REFUSES for word in words):
        return None
    # A repository may neither want a signature nor choose the key.
    settings = {key: value for scope, key, value in list_settings(place)[1] if scope in TRUSTED}
    options = (*_ASKS, *_TAG_ASKS) if verb == "tag" else _ASKS
    asked = any(word.startswith(options) for word in words)
    if not asked and settings.get(_SETTINGS[verb], "false").lower() not in _ON:
        return None
    by_ssh = settings.get("gpg.format") == "ssh"
    agent = next((path for path in agents if (path == os.environ.get(AGENT)) == by_ssh), "")
    files = _list_ssh_files(settings) if by_ssh else (os.path.join(_find_home(os.environ), name) for name in _RINGS)
    return Logins(tuple(path for path in files if os.path.isfile(path)), agent) if agent else None


def _list_agents(environ: Mapping[str, str]) -> Iterator[str]:
    """The sockets of the agents that run. A restricted one of gpg's comes first: it signs, and gives no key away."""
    folders = (f"/run/user/{os.getuid()}/gnupg", _find_home(environ))
    ours = (f"{folder}/S.gpg-agent{more}" for more in (".extra", "") for folder in folders)
    for path in (*ours, environ.get(AGENT, "")):
        if path.startswith("/") and Path(path).is_socket():
            yield path


def _find_home(environ: Mapping[str, str]) -> str:
    return environ.get("GNUPGHOME") or os.path.expanduser("~/.gnupg")


def _list_ssh_files(settings: Mapping[str, str]) -> Iterator[str]:
    """The public half of the user's key; the private half stays hidden."""
    key = os.path.expanduser(settings.get("user.signingkey", ""))
    if key.startswith("/"):
        yield key if key.endswith(".pub") else f"{key}.pub"
