"""Which commands go out to the network, as data."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.shell.effects.arguments import Arg
from handrail.shell.effects.git import git_goes_out, verb_of

_ALWAYS = frozenset(
    (
        "curl", "wget", "ssh", "scp", "sftp", "ftp", "lftp", "telnet", "nc", "ncat", "netcat", "socat",
        "mosh", "aria2c", "http", "https", "xh", "yt-dlp", "lynx", "w3m", "links", "elinks", "dig",
        "nslookup", "host", "ping", "ping6", "traceroute", "tracepath", "mtr", "whois", "nmap", "gh", "glab",
        "hub", "aws", "gcloud", "gsutil", "az", "kubectl", "helm", "doctl", "flyctl", "heroku", "vercel",
        "netlify", "twine", "rclone", "s3cmd", "ansible", "ansible-playbook", "sendmail", "mail", "mutt",
        "npx", "bunx", "pnpx", "uvx", "autossh", "sshfs", "sshpass", "ssh-copy-id", "ssh-keyscan", "websocat",
        "grpcurl", "ab", "wrk", "iperf", "iperf3", "openvpn", "wg", "ngrok", "cloudflared",
    )
)  # fmt: skip
_INSTALL = "install add update upgrade download search fetch get"
_VERBS: dict[str, frozenset[str]] = {
    name: frozenset(verbs.split())
    for names, verbs in (
        ("pip pip3", "install download search wheel index"),
        (
            "npm pnpm yarn bun",
            "install i ci add update upgrade up publish view info outdated audit search exec dlx create",
        ),
        ("uv", "add sync pip lock run tool python publish build"),
        ("poetry pdm pipenv hatch rye", "install add update lock publish self sync"),
        ("pipx conda mamba", "install upgrade create update search run inject"),
        ("cargo", "install add update fetch publish search build check test run b c t r login"),
        ("go", "get install mod build test run work list"),
        ("gem bundle bundler composer", f"{_INSTALL} push require outdated"),
        ("apt apt-get yum dnf zypper brew port snap flatpak", f"{_INSTALL} refresh dist-upgrade tap"),
        ("apk", "add update upgrade fetch"),
        ("docker podman nerdctl", "pull push login build run search compose"),
        ("terraform tofu pulumi", "init apply plan destroy refresh up"),
        ("mvn gradle", "install package compile test build deploy verify"),
        ("openssl", "s_client"),
        ("rustup nvm pyenv rbenv asdf mise volta", "install update self toolchain use"),
        ("hg svn bzr", "pull push clone update checkout co up incoming"),
    )
    for name in names.split()
}
_LIBRARIES = frozenset(("python", "python3"))
_DATABASES = frozenset(("psql", "mysql", "mariadb", "redis-cli", "mongosh", "mongo", "pg_dump", "mysqldump"))
_HOST = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!\\).*|rsync://.*")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/.*")


def goes_out(base: str, args: Sequence[Arg]) -> bool:
    """Whether a command goes out to the network, as far as its name and words tell."""
    texts = [arg.text or "" for arg in args]
    if len(texts) == 1 and texts[0] in ("--version", "-V", "--help", "-h"):
        return False
    if base == "git":
        return git_goes_out(args) or verb_of(args)[0] is None
    if base in _ALWAYS:
        return True
    if base in ("yarn", "pnpm", "bundle", "composer") and not texts:
        return base != "composer"
    if base in _VERBS:
        verb = next((arg for arg in args if not (arg.text or "").startswith("-")), None)
        return verb is not None and (verb.text is None or verb.text in _VERBS[base])
    if base == "rsync":
        return any(_HOST.fullmatch(text) for text in texts)
    if base in _DATABASES:
        return any(text.startswith(("-h", "--host", "postgres", "mysql:", "redis:", "mongodb")) for text in texts)
    if base in _LIBRARIES:
        if texts[:1] != ["-m"] or len(args) < 2:
            return False
        return args[1].text is None or (
            texts[1] == "pip" and (not texts[2:] or texts[2] in ("", "install", "download"))
        )
    return any(_SOCKET.fullmatch(text) for text in texts)


def is_socket(path: str) -> bool:
    """Whether bash opens a connection for a redirection to this name."""
    return bool(_SOCKET.fullmatch(path))
