"""Where a command goes over the network, as far as its words tell.

A destination is *certain* if the words name every host that is contacted: one plain download, without an option, a
file or a variable that could name another one. Anything else only names hosts, for refusals and for the person who is
asked. What git calls a remote has its address in the repository, so only its name is returned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from handrail.frozen import frozen
from handrail.shell.effects.arguments import Arg, ParsedOptions, Program, parse_options
from handrail.shell.effects.hosts import Host, is_loopback, parse_bare, parse_url
from handrail.shell.git.verbs import find_verb
from handrail.shell.parser.script import Command

_LOCAL = re.compile(r"""["']?(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?![\w.-])""")
_HARMLESS_EXPORTS = re.compile(
    r"(?:GH|GIT|MAN|SYSTEMD)?_?PAGER|GH_PROMPT_DISABLED|NO_COLOR|FORCE_COLOR|CLICOLOR|TERM|CI|LANG|LC_\w+|TZ|DEBUG"
    r"|NODE_ENV|PYTHONUNBUFFERED|RUST_BACKTRACE|GIT_TERMINAL_PROMPT"
)
_STEERS = re.compile(
    r".*PROXY.*|CURL.*|WGETRC|GIT_.*|SSH_.*|PIP_.*|UV_.*|NPM_.*|YARN_.*|GH_.*|GITHUB_.*|HOME|XDG_.*|PATH|LD_.*"
    r"|HOSTALIASES|RES_.*|LOCALDOMAIN|SSL.*|NETRC|RSYNC_.*|NODE_.*|PYTHON.*|BASH_.*|ENV|IFS",
    re.IGNORECASE,
)
"""Variables that decide which hosts programs contact. They may be exported already."""
_EXPORTS = ("export", "declare", "typeset", "readonly", "local", "set", "env")


@frozen
class Destination:
    """Where a command goes."""

    hosts: tuple[Host, ...] = ()
    certain: bool = False
    """No other host is contacted."""
    remote: str | None = None
    """The remote of git, or its address; empty for the one that the repository chooses."""
    reads: bool = False
    """It only fetches: nothing changes on the other side."""
    service: str = ""
    """The service that it logs in to with its own credentials: `gh`, `git` or `ssh`."""
    addresses: tuple[str, ...] = ()
    """The addresses of git's remotes, as the settings have them."""
    by_http: bool = False
    """It contacts these hosts by HTTP alone, through a proxy if one is set."""

    @property
    def local(self) -> bool:
        """Whether only this machine is named."""
        return bool(self.hosts) and all(is_loopback(host.name) for host in self.hosts)


UNKNOWN = Destination()
PLAIN_WRAPPERS = frozenset(("timeout", "nice", "ionice", "time", "command", "stdbuf", "nohup"))
"""Programs that run another one as it is written."""


def steers_network(runs: Sequence[Command]) -> bool:
    """Whether a script sets a variable that may decide which hosts its programs contact."""
    for run in runs:
        names = [item.name for item in run.assignments]
        if run.words and not all(map(_HARMLESS_EXPORTS.fullmatch, names)):
            return True
        if any(
            _STEERS.fullmatch(name) and not _HARMLESS_EXPORTS.fullmatch(name) for name in (*names, *run.indirect_sets)
        ):
            return True
        if run.base in _EXPORTS and not all(_is_harmless_export(word.fixed) for word in run.words[1:]):
            return True
        if run.base in ("source", ".", "eval"):
            return True
    return False


def _is_harmless_export(word: str | None) -> bool:
    return word is not None and bool(_HARMLESS_EXPORTS.fullmatch(word.partition("=")[0]))


def find_destination(base: str, args: Sequence[Arg]) -> Destination:
    """Where a program that uses the network goes."""
    find = _PROGRAMS.get(base)
    return find(args) if find else UNKNOWN


# -- downloads


_CURL = Program(
    "sSfiIvOkgG46",
    "oHXdmwA",
    "silent show-error fail head remote-name compressed include verbose ipv4 ipv6 fail-with-body no-progress-meter "
    "output= header= request= data= data-raw= json= max-time= connect-timeout= retry= write-out= user-agent=",
)
"""Options with which curl contacts no further host. Without `-L`: a redirection leads to another one."""
_WGET = Program("qcvSnv46", "OPTt", "quiet continue")


def _download(row: Program, args: Sequence[Arg]) -> Destination:
    """The host of a plain download. wget follows redirections unless it is told not to."""
    words = args if row is _CURL else [arg for arg in args if arg.text != "--max-redirect=0"]
    parsed = parse_options(row, words)
    known = not parsed.unknown and all(arg.text is not None for arg in args)
    hosts = [parse_url(arg.text or "") or parse_bare(arg.text or "") for arg in parsed.operands] if known else []
    if hosts and None not in hosts and (row is _CURL or len(words) < len(args)):
        return Destination(_remove_duplicates([host for host in hosts if host]), certain=True, by_http=True)
    return Destination(_find_hosts(args), by_http=True)


_GOES_ELSEWHERE = re.compile(r"-[A-Za-z]*x|--(?:prox|prep|soc|connect-t)")
"""Options of curl that name a proxy, or another host."""


def _find_hosts(args: Sequence[Arg]) -> tuple[Host, ...]:
    """The hosts of the addresses among the words, where options are not known to be harmless."""
    hosts: list[Host] = []
    for before, arg in pairwise((Arg("", ()), *args)):
        text = arg.text
        if text is not None and _GOES_ELSEWHERE.match(text):
            return ()
        if text is not None and (text.startswith("-") or (before.source.startswith("-") and "://" not in text)):
            continue  # an option, or what may be its value
        host = (parse_url(text) or parse_bare(text)) if text is not None else _parse_local_prefix(arg)
        if host is None:
            return ()
        hosts.append(host)
    return _remove_duplicates(hosts)


def _parse_local_prefix(arg: Arg) -> Host | None:
    """`http://localhost:$PORT/` is taken for this machine: whatever it turns out to be, nothing else can be reached."""
    return Host("localhost") if _LOCAL.match(arg.source) else None


# -- ssh, scp and rsync

_SSH = Program("46ACTtqvxnN", "pli")
_COPY = Program("avzrqpPCnu", "", "archive verbose progress delete dry-run")
_REMOTE_FILE = re.compile(r"(?:[\w.-]+@)?(\[[0-9A-Fa-f:.]+\]|[\w.-]+):(?!//).*", re.DOTALL)


def _find_ssh(args: Sequence[Arg]) -> Destination:
    """`ssh user@host command`. Options that name another host, a command or a file make it uncertain."""
    first = next(iter(parse_options(_SSH, args).operands), None)
    parsed = parse_options(_SSH, args[: args.index(first) + 1]) if first else ParsedOptions()
    text = parsed.operands[0].text if parsed.operands else None
    host = parse_bare(text.rpartition("@")[2]) if text else None
    if text is None or host is None or "/" in text or host.port:
        return UNKNOWN
    ports = [value.text or "" for name, value in parsed.options if name == "p" and value]
    port = int(ports[-1]) if ports and ports[-1].isdecimal() else 0
    return Destination((host._replace(port=port),), certain=not parsed.unknown, service="ssh")


def _find_remote_copy(args: Sequence[Arg]) -> Destination:
    """scp and rsync: `host:path`, with options that name nothing else."""
    parsed = parse_options(_COPY, args)
    hosts: list[Host] = []
    for text in (arg.text or "" for arg in parsed.operands):
        match = _REMOTE_FILE.fullmatch(text)
        host = parse_url(text, "rsync ssh scp sftp") or (parse_bare(match[1]) if match else None)
        if match and host is None:
            return UNKNOWN
        hosts += [host] if host else []
    certain = bool(hosts) and not parsed.unknown and all(arg.text is not None for arg in args)
    return Destination(_remove_duplicates(hosts), certain=certain, service="ssh")


# -- packages

_INDEXES = {
    "pip": (Host("pypi.org"), Host("files.pythonhosted.org")),
    "npm": (Host("registry.npmjs.org"),),
    "cargo": (Host("index.crates.io"), Host("static.crates.io")),
    "go": (Host("proxy.golang.org"), Host("sum.golang.org")),
    "gem": (Host("rubygems.org"), Host("index.rubygems.org")),
}
_SENDS_PACKAGES = (
    *("publish", "unpublish", "deprecate", "dist-tag", "owner", "access", "token", "login", "adduser", "logout"),
    *("yank", "push", "signin", "signout", "star", "unstar", "hook", "profile", "team", "org"),
)
"""Verbs of package managers that do more than fetch."""
_ELSEWHERE = re.compile(
    r"(?:-i|--index-url|--extra-index-url|-f|--find-links|--registry|--proxy|--https-proxy)(?:=.*)?|-[if].+"
)


def _find_packages(index: str, args: Sequence[Arg]) -> Destination:
    """Package managers run code that they fetch, and obey files of the project: their hosts are never certain."""
    hosts: list[Host] = []
    elsewhere = False
    for at, arg in enumerate(args):
        text = arg.text or ""
        if _ELSEWHERE.fullmatch(text):
            elsewhere = elsewhere or not text.startswith("--extra")
            value = text.partition("=")[2] or (args[at + 1].text if at + 1 < len(args) else "") or ""
            host = parse_url(value)
            hosts += [host] if host else []
        elif "://" in text and (host := parse_url(text.partition("@ ")[2] or text.removeprefix("git+"))):
            hosts.append(host)
    by_http = all(arg.text is not None and arg.text not in _SENDS_PACKAGES for arg in args)
    return Destination(_remove_duplicates([*hosts, *(() if elsewhere else _INDEXES[index])]), by_http=by_http)


def _find_python(args: Sequence[Arg]) -> Destination:
    """`python -m pip`."""
    return _find_packages("pip", args[2:]) if [arg.text for arg in args[:2]] == ["-m", "pip"] else UNKNOWN


# -- git


EVERY_REMOTE = "--all"
_FETCHES = ("fetch", "pull", "ls-remote")
_SENDS = ("push",)
_GIT = Program(
    "vqptfnaur46",
    "",
    "all tags no-tags prune quiet verbose progress ff-only ff no-ff rebase? no-rebase autostash heads refs symref "
    "depth= unshallow set-upstream follow-tags dry-run no-edit no-verify force-with-lease? force delete prune-tags "
    "deepen= exit-code porcelain stat no-stat",
)
"""Options with which git contacts nothing but the remote."""
_SCP_LIKE = re.compile(r"(?:[\w.-]+@)?([\w.-]+):(?!//)(?!\\).*", re.DOTALL)


def _find_git(args: Sequence[Arg]) -> Destination:
    """The remote of `fetch`, `pull`, `ls-remote`, `push` and `clone`."""
    verb, at, odd = find_verb(args)
    if verb not in (*_FETCHES, *_SENDS, "clone"):
        return UNKNOWN
    parsed = parse_options(_GIT, args[at:])
    operands = [arg.text for arg in parsed.operands]
    if verb == "clone":
        host = parse_git_address(operands[0]) if operands and operands[0] else None
        return Destination((host,) if host else (), by_http=is_http(operands[0]) if host else False)
    remote = operands[0] if operands else ""
    if remote is None or odd or parsed.unknown:
        return UNKNOWN
    if verb != "push" and parsed.has("all"):
        remote = EVERY_REMOTE
    return Destination(remote=remote, reads=verb in _FETCHES, service="git")


def is_http(address: str | None) -> bool:
    """Whether git takes an address by HTTP."""
    return (address or "").lower().startswith(("http://", "https://"))


def parse_git_address(text: str) -> Host | None:
    """The host of an address as git takes it: a URL, or `user@host:path`."""
    if "://" in text:
        return parse_url(re.sub(r"^(ssh|https?|git)://[\w.-]+@", r"\1://", text), "http https ssh git")
    match = _SCP_LIKE.fullmatch(text)
    return parse_bare(match[1]) if match else None


# -- gh

_GH_READS = {
    "pr": ("view", "list", "diff", "checks", "status"),
    "issue": ("view", "list", "status"),
    "run": ("view", "list", "watch"),
    "workflow": ("view", "list"),
    "repo": ("view", "list"),
    "release": ("view", "list"),
    "label": ("list",),
    "cache": ("list",),
    "ruleset": ("view", "list", "check"),
    "variable": ("list", "get"),
    "auth": ("status",),
    "gist": ("list", "view"),
    "search": ("code", "commits", "issues", "prs", "repos"),
}
_GITHUB = Host("github.com")
_GH = Program("", "qStR", "jq= json= search= template= repo=")
_GH_API = Program(
    "i",
    "qHtpXfF",
    "paginate slurp include silent verbose jq= header= template= cache= preview= method= field= raw-field=",
)
_GH_FIELDS = ("f", "F", "field", "raw-field")
_ENDPOINT = re.compile(
    r"""["']?/?(?:repos|orgs|users|user|search|notifications|rate_limit|gists|meta)\b[^\\`]*""", re.DOTALL
)
_MUTATES = re.compile(r"\b(?:mutation|subscription)\b")
_OTHER_SERVICE = re.compile(r"(?!https://github\.com/).*://.*|[^/]+/[^/]+/[^/]+", re.DOTALL)
"""An address, or `host/owner/name`."""


def _find_gh(args: Sequence[Arg]) -> Destination:
    """`gh` only talks to its own service; some of its commands only read from there."""
    texts = [arg.text for arg in args]
    first = texts[0] if texts else None
    if first == "api":
        return Destination((_GITHUB,), reads=_reads_api(args[1:]), service="gh")
    if first not in _GH_READS:
        return Destination((_GITHUB,))
    second = texts[1] if len(texts) > 1 else None
    reads = second in _GH_READS[first] and not _leaves_gh(args[2:])
    return Destination((_GITHUB,), reads=reads, service="gh")


def _leaves_gh(args: Sequence[Arg]) -> bool:
    """Whether an argument may name another service, open a browser or show the token."""
    parsed = parse_options(_GH, args)
    named = [*parsed.operands, *(value for name, value in parsed.options if name in ("R", "repo") and value)]
    if parsed.has("w", "web", "show-token", "hostname") or any(arg.text == "--" for arg in args):
        return True
    return not all(arg.values and not any(_OTHER_SERVICE.fullmatch(one.text) for one in arg.values) for arg in named)


def _reads_api(args: Sequence[Arg]) -> bool:
    """Whether `gh api` only gets something: no other method, and no field but those of a GraphQL query."""
    parsed = parse_options(_GH_API, args)
    if parsed.unknown or parsed.loose or len(parsed.operands) != 1:
        return False
    endpoint = parsed.operands[0]
    methods = [value.text if value else None for name, value in parsed.options if name in ("X", "method")]
    fields = [value for name, value in parsed.options if name in _GH_FIELDS and value]
    if any((method or "").upper() != "GET" for method in methods):
        return False
    if any(re.match(r"""["']?[^=]*=@""", field.text or field.source) for field in fields):
        return False
    if endpoint.text == "graphql":
        queries = [field for field in fields if re.match(r"""["']?query=""", field.text or field.source)]
        query = queries[0].text if len(queries) == 1 else None
        return query is not None and not methods and not _MUTATES.search(query)
    return bool(methods or not fields) and bool(_ENDPOINT.fullmatch(endpoint.text or endpoint.source))


def _remove_duplicates(hosts: Sequence[Host]) -> tuple[Host, ...]:
    return tuple(dict.fromkeys(hosts))


_PROGRAMS: Mapping[str, Callable[[Sequence[Arg]], Destination]] = {
    "curl": partial(_download, _CURL),
    "wget": partial(_download, _WGET),
    "ssh": _find_ssh,
    **dict.fromkeys(("scp", "rsync"), _find_remote_copy),
    **dict.fromkeys(("pip", "pip3", "uv"), partial(_find_packages, "pip")),
    **dict.fromkeys(("python", "python3"), _find_python),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), partial(_find_packages, "npm")),
    "cargo": partial(_find_packages, "cargo"),
    "go": partial(_find_packages, "go"),
    **dict.fromkeys(("gem", "bundle"), partial(_find_packages, "gem")),
    "git": _find_git,
    "gh": _find_gh,
}
