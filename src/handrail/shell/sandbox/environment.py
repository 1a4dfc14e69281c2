"""The environment of commands: what tools need, no secrets, nothing that runs unasked or waits, and logins.

There is no terminal, stdin is empty, and a pager, an editor or a question for a password would wait forever.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from handrail.programs import find_on_path

_NAMES = """
PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM COLORTERM NO_COLOR FORCE_COLOR CLICOLOR COLUMNS LINES
TMPDIR TMP TEMP HOSTNAME CI MAKEFLAGS EDITOR
VIRTUAL_ENV PYENV_ROOT PYENV_VERSION PYTHONPATH PYTHONHASHSEED PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE
PYTHONIOENCODING PYTHONUTF8 PIPENV_ACTIVE POETRY_ACTIVE UV_CACHE_DIR UV_PYTHON
NODE_ENV NODE_PATH NVM_DIR NVM_BIN VOLTA_HOME FNM_DIR PNPM_HOME BUN_INSTALL DENO_DIR COREPACK_HOME
JAVA_HOME JDK_HOME MAVEN_HOME M2_HOME GRADLE_HOME GRADLE_USER_HOME KOTLIN_HOME SCALA_HOME ANDROID_HOME
ANDROID_SDK_ROOT
GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOOS GOARCH GOTOOLCHAIN CGO_ENABLED
CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTFLAGS RUST_BACKTRACE
CC CXX CPP AR CFLAGS CXXFLAGS CPPFLAGS LDFLAGS PKG_CONFIG_PATH CMAKE_PREFIX_PATH CCACHE_DIR
GEM_HOME GEM_PATH BUNDLE_PATH RBENV_ROOT RBENV_VERSION DOTNET_ROOT PERL5LIB COMPOSER_HOME MIX_HOME HEX_HOME
ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY
NIX_PATH NIX_PROFILES NIX_SSL_CERT_FILE SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
SOURCE_DATE_EPOCH SYSTEMROOT
"""
_KEPT = frozenset(_NAMES.split())
_KEPT_PREFIXES = ("LC_", "XDG_", "CONDA_")

_SECRET = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|PWD_|_PW$|CREDENTIAL|AUTH|COOKIE|SESSION|BEARER|JWT|PRIVATE|SIGNATURE|DSN|"
    r"CERT_DATA|WEBHOOK|_PAT$|_SAS$",
    re.IGNORECASE,
)
# What a loader, a shell or an interpreter would run or obey before the command itself.
_UNASKED = re.compile(
    r"LD_|DYLD_|BASH_FUNC_|BASH_ENV$|ENV$|PROMPT_COMMAND$|PS[0-4]$|SHELLOPTS$|BASHOPTS$|IFS$|CDPATH$|GLOBIGNORE$|"
    r"POSIXLY_CORRECT$|PYTHONSTARTUP$|PYTHONHOME$|PYTHONINSPECT$|PYTHONBREAKPOINT$|NODE_OPTIONS$|PERL5OPT$|RUBYOPT$|"
    r"JAVA_TOOL_OPTIONS$|_JAVA_OPTIONS$|JDK_JAVA_OPTIONS$|GIT_|SSH_|GPG_|DBUS_|XDG_RUNTIME_DIR$|MALLOC_|GCONV_PATH$|"
    r"LOCPATH$|NLSPATH$|HOSTALIASES$|RES_OPTIONS$|TERMCAP$|LESSOPEN$|LESSCLOSE$|HANDRAIL_"
)


def scrub_environment(
    environ: Mapping[str, str] | None = None,
    keep: Iterable[str] = (),
    set: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The part of ``environ`` that commands get (by default of this process's), with ``set`` on top.

    ``keep`` names further variables; a host that names one by its full name gets it, secret or not. A name that ends in
    `*` stands for a prefix, and of these neither secrets nor what runs unasked come along.
    """
    source = os.environ if environ is None else environ
    named = [name for name in keep if not name.endswith("*")]
    prefixes = (*_KEPT_PREFIXES, *(name[:-1] for name in keep if name.endswith("*")))
    kept = {
        name: source[name]
        for name in source
        if name in named or ((name in _KEPT or name.startswith(prefixes)) and is_harmless(name, source[name]))
    }
    return {**kept, **(set or {})}


def keep_harmless(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that another agent gives to its command, without secrets and what runs unasked."""
    return {
        name: value
        for name, value in environ.items()
        if is_harmless(name, value) or UNATTENDED.get(name) == value  # `GIT_EDITOR=true` asks nobody
    }


def find_search_path() -> str:
    """Where commands look for programs: `PATH`, which they always get from this process."""
    return os.environ.get("PATH", os.defpath)


def is_harmless(name: str, value: str = "") -> bool:
    """Whether a variable looks neither like a secret nor like something that runs a program."""
    return _is_harmless_name(name) and not value.startswith("() {")  # a function that an old bash would take over


@lru_cache(maxsize=512)
def _is_harmless_name(name: str) -> bool:
    if name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE"):
        return True
    return not (_SECRET.search(name) or _UNASKED.match(name))


def redirect_temporary_files(env: Mapping[str, str] | None, tmp: str) -> dict[str, str]:
    """The environment inside a boundary: temporary files and caches go where they can be written.

    Without an environment given, it is a scrubbed one: what is forgotten must not leak.
    """
    given = dict(scrub_environment() if env is None else env)
    for name in ("TMPDIR", "TMP", "TEMP"):
        if name == "TMPDIR" or name in given:
            given[name] = tmp
    given["XDG_CACHE_HOME"] = os.path.join(tmp, "cache")
    return given


UNATTENDED: dict[str, str] = {
    # Pagers: what they would page goes straight to the output.
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    # Editors: the text that a program proposes is taken as it is.
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    # Questions: fail at once.
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    # `git status` leaves the index alone, so that it never stands in the way of another git.
    "GIT_OPTIONAL_LOCKS": "0",
    # A draft is a mount of its own, and the repository may begin above the workspace.
    "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
    # No colours and no cursor games. CI is left alone: it changes what programs do, not only how they talk.
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PYTHONUNBUFFERED": "1",  # so that output is there when the time is up
}
_KEPT_UNATTENDED = ("GIT_SSH_COMMAND",)
"""Kept if the host has set it: it may name an identity or a proxy."""
_INHERITED_TROUBLE = ("BASH_ENV", "ENV", "PROMPT_COMMAND", "LESSOPEN", "LESSCLOSE")
"""Files or commands that a shell or a pager would run before or beside the command."""


def make_unattended(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` with everything that keeps programs from waiting for a person: nobody sits at a terminal."""
    kept = {name: base[name] for name in _KEPT_UNATTENDED if name in base}
    return {**{k: v for k, v in base.items() if k not in _INHERITED_TROUBLE}, **UNATTENDED, **kept}


def require_program(name: str, env: Mapping[str, str]) -> None:
    """`FileNotFoundError` for a program that the PATH to come does not have, as `subprocess.Popen` has it."""
    if "/" not in name and find_on_path(name, env.get("PATH", os.defpath)) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


AGENT = "SSH_AUTH_SOCK"


class _Login(NamedTuple):
    """What one program logs in with."""

    files: str = ""
    """Below the home directory, as words. Those in `.config` may also be in `$XDG_CONFIG_HOME`."""
    variables: str = ""
    uses: str = ""
    """Programs that it runs, or whose credentials it takes."""


_CLOUDS = "aws az gcloud"
_ROWS: Mapping[str, _Login] = {
    "ssh": _Login(".ssh", AGENT),
    **dict.fromkeys(("scp", "sftp", "rsync", "sshfs", "mosh", "ssh-add", "ssh-copy-id"), _Login(uses="ssh")),
    "git": _Login(".gitconfig .config/git .git-credentials .netrc", uses="ssh"),
    **dict.fromkeys(("git-lfs", "hub"), _Login(".config/hub", uses="git")),
    "gh": _Login(".config/gh", "GH_TOKEN GITHUB_TOKEN GH_ENTERPRISE_TOKEN GH_HOST", uses="git"),
    "glab": _Login(".config/glab-cli", "GITLAB_TOKEN", uses="git"),
    "curl": _Login(".netrc .curlrc .config/curlrc"),
    "wget": _Login(".netrc .wgetrc"),
    "npm": _Login(".npmrc", "NPM_TOKEN NODE_AUTH_TOKEN"),
    **dict.fromkeys(("npx", "pnpm", "pnpx"), _Login(".config/pnpm", uses="npm")),
    "yarn": _Login(".yarnrc .yarnrc.yml", uses="npm"),
    **dict.fromkeys(("bun", "bunx"), _Login(".bunfig.toml", uses="npm")),
    **dict.fromkeys(("pip", "pip3", "pipx"), _Login(".pip .config/pip .netrc")),
    **dict.fromkeys(("uv", "uvx"), _Login(".config/uv .local/share/uv/credentials", uses="pip")),
    "twine": _Login(".pypirc .netrc", "TWINE_USERNAME TWINE_PASSWORD"),
    **dict.fromkeys(("flit", "hatch"), _Login(".pypirc", uses="pip")),
    "poetry": _Login(".config/pypoetry", uses="pip"),
    "cargo": _Login(".cargo/credentials .cargo/credentials.toml", "CARGO_REGISTRY_TOKEN", uses="git"),
    "go": _Login(".netrc", uses="git"),
    "gem": _Login(".gem/credentials", "GEM_HOST_API_KEY"),
    **dict.fromkeys(("bundle", "bundler"), _Login(".bundle/config", uses="gem git")),
    "composer": _Login(".config/composer/auth.json .composer/auth.json", uses="git"),
    "mvn": _Login(".m2/settings.xml .m2/settings-security.xml"),
    "gradle": _Login(".gradle/gradle.properties"),
    "docker": _Login(".docker/config.json"),
    **dict.fromkeys(("podman", "buildah", "skopeo"), _Login(".config/containers/auth.json", uses="docker")),
    "kubectl": _Login(".kube/config", uses=_CLOUDS),
    "helm": _Login(".config/helm", uses="kubectl"),
    "aws": _Login(".aws", "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE AWS_REGION"),
    **dict.fromkeys(("sam", "cdk", "eksctl"), _Login(uses="aws")),
    "az": _Login(".azure"),
    **dict.fromkeys(("gcloud", "gsutil", "bq"), _Login(".config/gcloud")),
    **dict.fromkeys(("terraform", "tofu"), _Login(".terraformrc .terraform.d/credentials.tfrc.json", uses=_CLOUDS)),
    **dict.fromkeys(("psql", "pg_dump", "pg_restore", "createdb", "dropdb"), _Login(".pgpass", "PGPASSWORD")),
    **dict.fromkeys(("mysql", "mysqldump", "mariadb"), _Login(".my.cnf")),
    "vault": _Login(".vault-token", "VAULT_TOKEN"),
    "heroku": _Login(".netrc", "HEROKU_API_KEY"),
    **dict.fromkeys(("hf", "huggingface-cli"), _Login(".cache/huggingface/token", "HF_TOKEN")),
}


@dataclass(frozen=True, slots=True)
class Logins:
    """The credentials that one command may use."""

    files: tuple[str, ...] = ()
    """Real paths of files, and of directories with everything in them."""
    agent: str = ""
    """The socket of the ssh agent; empty for none."""
    all_files: bool = False
    """A person runs the command, on a terminal of theirs: no credentials are hidden from it."""

    def shows(self, path: str) -> bool:
        """Whether the command may read a path."""
        real = os.path.realpath(path)
        return self.all_files or any(real == file or real.startswith(file.rstrip("/") + "/") for file in self.files)


NO_LOGINS = Logins()


def find_logins(programs: Iterable[str], environ: Mapping[str, str] | None = None) -> Logins:
    """The credentials of these programs in this user's home directory, and the agent if one of them uses it."""
    env = os.environ if environ is None else environ
    rows = [_ROWS[name] for name in _follow(programs)]
    files = dict.fromkeys(path for row in rows for name in row.files.split() for path in _list_places(name, env))
    agent = env.get(AGENT, "") if any(AGENT in row.variables for row in rows) else ""
    return Logins(tuple(map(os.path.realpath, files)), agent if agent.startswith("/") else "")


def find_variables(programs: Iterable[str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that these programs log in with, as far as they are set; not the one that names the agent."""
    env = os.environ if environ is None else environ
    names = (name for program in _follow(programs) for name in _ROWS[program].variables.split())
    return {name: env[name] for name in names if name in env and name != AGENT}


def _follow(programs: Iterable[str]) -> dict[str, None]:
    """The programs of the table among these, with those that they use."""
    known: dict[str, None] = {}
    todo = [name for name in programs if name in _ROWS]
    while todo:
        name = todo.pop()
        if name not in known:
            known[name] = None
            todo += _ROWS[name].uses.split()
    return known


def _list_places(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    yield os.path.join(os.path.expanduser("~"), name)
    configured = environ.get("XDG_CONFIG_HOME", "")
    if name.startswith(".config/") and configured.startswith("/"):
        yield os.path.join(configured, name.removeprefix(".config/"))
