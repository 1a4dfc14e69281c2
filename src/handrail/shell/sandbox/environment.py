"""The environment of commands: what tools need, no secrets, nothing that runs unasked, nothing that waits for a person.

There is no terminal, stdin is empty, and a pager, an editor or a question for a password would wait forever.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

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
