"""Keep git from running the programs that a repository names in its settings.

A repository says in its own files which programs git runs even for `git status`: a file system monitor, filters,
text converters, hooks, signature checkers. Settings of the system and of the user are trusted; those of a repository
are not. `with_plain_settings` switches off the file system monitor and hooks, which many repositories have;
`remotes.py` tells by the other settings whether git may run a program.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from handrail.programs import get_program, make_search_path
from handrail.shell.sandbox.environment import scrub_environment

_SECONDS = 20
_MOST_BYTES = 64 << 20
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


def with_plain_settings(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` with settings for git that stand above those of any repository, and switch off what runs programs."""
    out = {**base, **_VARIABLES}
    home = base.get("HOME", "")
    own = os.path.join(home, ".gitconfig")
    other = os.path.join(base.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config")
    there = [path for path in (own, other) if os.path.isfile(path)]
    if home and len(there) < 2:  # a script that changes HOME must not bring a configuration of its own
        out["GIT_CONFIG_GLOBAL"] = there[0] if there else own
    count = base.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    for at, (key, value) in enumerate(_ALWAYS.items(), first):
        out[f"GIT_CONFIG_KEY_{at}"], out[f"GIT_CONFIG_VALUE_{at}"] = key, value
    return {**out, "GIT_CONFIG_COUNT": str(first + len(_ALWAYS))}


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
