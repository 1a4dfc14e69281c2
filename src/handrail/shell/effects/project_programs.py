"""Programs of projects and networks: build tools, package managers, downloads, and destruction.

`network` names the verbs with which a program uses the network by nature, `fetches` those with which it only
may, to fetch what is missing: where a sandbox cuts the network, these need no question.
"""

from __future__ import annotations

from handrail.frozen import frozen


@frozen
class NetworkProgram:
    """A program that uses the network."""

    network: str = ""
    """Verbs with which it does by nature: `verb`, `verb/second word`, `-` without a verb, `*` in any case; or `~` and a
    pattern for an argument."""
    fetches: str = ""
    """Verbs with which it may, to fetch what is missing."""
    tools: str = ""
    """Verbs with which it runs a tool of the project, and fetches one that is not installed; `-` without a verb."""


@frozen
class Harm:
    """A command destroys if each of `needs` is among its words. Each is a set of spellings, one of which is enough.

    `-x` is that letter alone or among others, `--long` that option with or without a value, `~text` a regular
    expression that is found in some argument, anything else a word as it is. Spellings are separated by blanks. A verb
    of git has a name of its own, `git-push`.
    """

    names: str
    needs: tuple[str, ...] = ()
    why: str = ""


_CONNECTS = NetworkProgram("*")
_NODE_VERBS = (
    "install i ci add update upgrade up publish view info outdated audit search dlx create unpublish deprecate "
    "login logout whoami ping dist-tag owner access team token star"
)
_PYTHON_ENVIRONMENTS = NetworkProgram("install add update lock publish self sync")
_INSTALL = "install add update upgrade download search fetch get"


def _repeat_row(names: str, program: NetworkProgram) -> dict[str, NetworkProgram]:
    """The same row for several programs."""
    return dict.fromkeys(names.split(), program)


NETWORK: dict[str, NetworkProgram] = {
    # networks, by nature
    **_repeat_row(
        "curl wget scp "
        "ssh sftp ftp lftp telnet nc ncat netcat socat mosh aria2c http https xh yt-dlp lynx w3m links elinks dig "
        "nslookup host ping ping6 traceroute tracepath mtr whois nmap gh glab hub aws gcloud gsutil az kubectl helm "
        "doctl flyctl heroku vercel netlify twine rclone s3cmd ansible ansible-playbook sendmail mail mutt autossh "
        "sshfs sshpass ssh-copy-id ssh-keyscan websocat grpcurl ab wrk iperf iperf3 openvpn wg ngrok cloudflared",
        _CONNECTS,
    ),
    "rsync": NetworkProgram(r"~(?:[\w.-]+@)?[\w.-]+:(?!\\).*|rsync://.*"),
    **_repeat_row(
        "psql mysql mariadb redis-cli mongosh mongo pg_dump mysqldump",
        NetworkProgram(r"~(?:-h|--host|postgres|mysql:|redis:|mongodb).*"),
    ),
    "openssl": NetworkProgram("s_client"),
    # packages of the system, containers, infrastructure
    **_repeat_row(
        "apt apt-get yum dnf zypper brew port snap flatpak", NetworkProgram(f"{_INSTALL} refresh dist-upgrade tap")
    ),
    "apk": NetworkProgram("add update upgrade fetch"),
    **_repeat_row(
        "docker podman nerdctl",
        NetworkProgram(
            "pull push login build run search compose/up compose/pull compose/push compose/build compose/run "
            "compose/create compose/start compose/watch compose/publish compose/down",
        ),
    ),
    **_repeat_row("terraform tofu pulumi", NetworkProgram("init apply plan destroy refresh up")),
    **_repeat_row("rustup nvm pyenv rbenv asdf mise volta", NetworkProgram("install update self toolchain use")),
    **_repeat_row("hg svn bzr", NetworkProgram("pull push clone update checkout co up incoming")),
    # Python
    **_repeat_row("pip pip3", NetworkProgram("install download search wheel index")),
    "ensurepip": _CONNECTS,
    "uv": NetworkProgram(
        "add sync pip lock publish self python tool/install tool/upgrade tool/update", "run build tool venv"
    ),
    "uvx": NetworkProgram(tools="-"),
    **_repeat_row("poetry pdm pipenv hatch rye", _PYTHON_ENVIRONMENTS),
    **_repeat_row("pipx conda mamba", NetworkProgram("install upgrade create update search run inject")),
    # JavaScript and TypeScript
    "npm": NetworkProgram(_NODE_VERBS, tools="exec x"),
    **_repeat_row("pnpm yarn", NetworkProgram(f"- {_NODE_VERBS}", "exec")),
    "bun": NetworkProgram(_NODE_VERBS, "exec", tools="x"),
    **_repeat_row("npx bunx pnpx", NetworkProgram(tools="-")),
    "deno": NetworkProgram("install add cache update upgrade publish", "run test check bench compile"),
    # Go, Rust, C and C++
    "go": NetworkProgram("get install mod work/sync", "build test run list vet generate tool work"),
    "cargo": NetworkProgram(
        "install add update fetch publish search login logout owner yank",
        "build check test run b c t r clippy doc bench fix nextest d",
    ),
    # Java, Ruby, PHP, Swift, .NET and others
    **_repeat_row("mvn gradle", NetworkProgram("deploy publish", "install package compile test build verify check")),
    **_repeat_row("bundle bundler", NetworkProgram(f"- {_INSTALL} push require outdated")),
    **_repeat_row("gem composer", NetworkProgram(f"{_INSTALL} push require outdated")),
    "swift": NetworkProgram("package/update package/resolve", "build test run"),
    "dotnet": NetworkProgram("restore add nuget tool workload", "build test run publish pack format"),
    "mix": NetworkProgram("deps.get deps.update hex.publish"),
    **_repeat_row("flutter dart", NetworkProgram("pub upgrade", "test build run")),
}

VERSIONS: dict[str, str] = {
    **dict.fromkeys(("python", "python3", "python2", "pypy3"), "-V --version -VV"),
    **dict.fromkeys(("node", "npm", "deno", "bun"), "-v --version"),
    **dict.fromkeys(("pip", "pip3", "uv", "poetry", "pipx", "ruff", "mypy", "black", "isort"), "-V --version"),
    **dict.fromkeys(("gcc", "g++", "cc", "clang", "make", "cmake", "ninja", "ld", "gdb", "tsc", "gh"), "-v --version"),
    **dict.fromkeys(("ruby", "perl", "php", "lua"), "-v --version"),
    **dict.fromkeys(("java", "javac"), "-version --version"),
    **dict.fromkeys(
        ("bash", "zsh", "sh", "docker", "git", "jq", "rg", "fd", "fzf", "tmux", "vim", "nvim"), "--version"
    ),
    **dict.fromkeys(("curl", "wget", "tar", "gzip", "zip", "rsync", "sqlite3", "psql", "mysql"), "-V --version"),
    **dict.fromkeys(("sed", "awk", "gawk", "grep", "find", "ls", "cat", "sort", "diff", "tree", "less"), "--version"),
    "ssh": "-V",
    "tmux": "-V --version",
    "dotnet": "--version",
    "openssl": "version",
}
"""Programs that tell their version and nothing else when this is all that they are given."""

HARMS = (
    Harm("git-push", ("-f -d ~^--(?:fo(?!l)|m|de) ~^\\+.",), "it overwrites remote history"),
    Harm("git", ("~^--upload-pack|^--receive-pack|^ext::",), "it runs a command from its arguments"),
    Harm("mkfs", (), "it creates a file system"),
    Harm("wipefs", (), "it destroys a file system"),
    Harm("fdisk parted", (), "it changes partitions"),
    Harm("blkdiscard", (), "it destroys a disk"),
    Harm("cryptsetup", (), "it changes encrypted disks"),
    Harm("mount", ("~.",), "it mounts a file system"),
    Harm("umount", (), "it unmounts a file system"),
    Harm("swapoff swapon", (), "it changes the machine"),
    Harm("chroot", (), "it needs root"),
    Harm("nsenter", (), "it enters other containers"),
    Harm("setcap", (), "it lets programs run as root"),
    Harm("visudo", (), "it changes who may become root"),
    Harm("chmod", ("-R --recursive", "~^(?:0?777|a?\\+rwx|a=rwx)$"), "it opens all files to everyone"),
    Harm("chmod", ("~^[ugoa]*\\+[rwxX]*s|^[246][0-7]{3}$",), "programs get the rights of their owner"),
    Harm("chmod chown chgrp", ("-R --recursive", "~^(?:/|~|/[a-z]+/?)$"), "it changes the system"),
    Harm("killall5", (), "it kills every process"),
    Harm("crontab", ("-r",), "it deletes all timed commands"),
    Harm("useradd userdel usermod groupdel groupadd chsh", (), "it changes the users of the machine"),
    Harm("passwd chpasswd", (), "it changes passwords"),
    Harm("iptables ip6tables nft ufw", (), "it changes the firewall"),
    Harm("sysctl", ("-w --write -p ~=",), "it changes the kernel"),
    Harm("insmod modprobe rmmod", (), "it changes the kernel"),
    Harm("systemctl", ("stop disable mask kill isolate",), "it stops services of the machine"),
    Harm("service", ("stop",), "it stops services of the machine"),
    Harm("docker", ("system volume image container network builder buildx", "prune"), "it deletes everything unused"),
    Harm("docker", ("run create", "--privileged ~^(?:-v|--volume=)?/:"), "the container has the rights of root here"),
    Harm("docker", ("volume", "rm remove"), "it deletes data"),
    Harm("docker", ("compose", "down", "-v --volumes"), "it deletes data"),
    Harm("docker-compose", ("down", "-v --volumes"), "it deletes data"),
    Harm("kubectl", ("delete drain",), "it takes down remote services"),
    Harm("helm", ("uninstall delete",), "it takes down remote services"),
    Harm("terraform", ("destroy ~^-destroy$",), "it takes down remote services"),
    Harm("terraform", ("apply", "~^-+auto-approve"), "it changes remote services without asking"),
    Harm("tofu pulumi", ("destroy",), "it takes down remote services"),
    Harm("aws", ("~^(?:delete|terminate|remove)-|^rb$",), "it deletes remote data"),
    Harm("aws", ("s3", "rm", "--recursive"), "it deletes remote data"),
    Harm("gcloud", ("delete",), "it deletes remote data"),
    Harm("az", ("delete purge",), "it deletes remote data"),
    Harm("gsutil", ("rm rb",), "it deletes remote data"),
    Harm("gh", ("repo release secret", "delete"), "it deletes remote data"),
    Harm("npm", ("publish unpublish deprecate",), "everyone gets it, and it cannot be taken back"),
    Harm("yarn pnpm", ("publish",), "everyone gets it, and it cannot be taken back"),
    Harm("cargo", ("publish yank",), "everyone gets it, and it cannot be taken back"),
    Harm("twine", ("upload",), "everyone gets it, and it cannot be taken back"),
    Harm("gem", ("push yank",), "everyone gets it, and it cannot be taken back"),
    Harm("redis-cli", ("~(?i)^flush(?:all|db)$",), "it deletes all data"),
    Harm("dropdb", (), "it deletes a database"),
    Harm("dropuser", (), "it deletes a user of a database"),
    Harm("shred", (), "what it overwrites cannot be brought back"),
    Harm("srm", (), "what it deletes cannot be brought back"),
    Harm("launchctl", ("unload bootout remove",), "it stops services of the machine"),
    Harm("diskutil", ("~(?i)^(?:erase|partition|reformat|delete)",), "it destroys a disk"),
    Harm("csrutil spctl setenforce", (), "it turns off system protection"),
)
