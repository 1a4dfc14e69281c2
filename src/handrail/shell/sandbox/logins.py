"""The credentials of each program: what a command gets when its use of the network was allowed, and nothing else.

A row names a program, the files that it logs in with, the variables, and the programs that it runs for this itself.
Whoever opens the network for `git push` opens git's files and those of ssh; the token of npm stays hidden.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

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
