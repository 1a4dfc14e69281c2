"""Where commands go over the network: hosts in the words of programs, and what only reads from a service."""

from __future__ import annotations

import pytest

from handrail.shell.effects.destinations import EVERY_REMOTE, UNKNOWN, Destination
from handrail.shell.effects.effects import find_effects
from handrail.shell.effects.hosts import Host, is_loopback, parse_bare, parse_name, parse_url


def goes(command: str) -> Destination:
    actual = find_effects(command)
    texts = (*actual.network, *actual.possible_network)
    return actual.destinations.get(texts[-1], UNKNOWN) if texts else UNKNOWN


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::ffff:10.0.0.1]", "10.0.0.1"),
        ("[FE80::1]", "fe80::1"),
        ("a_b.example", "a_b.example"),
        # Programs disagree on these: some take them for addresses.
        ("0177.0.0.1", ""),
        ("0x7f.1", ""),
        ("2130706433", ""),
        ("127.1", ""),
        ("127.0.0.1.", "127.0.0.1"),
        ("1.2.3.4.5", ""),
        ("256.1.1.1", ""),
        ("[::1", ""),
        ("[fe80::1%eth0]", ""),
        ("exa mple.org", ""),
        ("-x.example", ""),
        ("a..b", ""),
        ("", ""),
        ("\u0435xample.org", ""),
        ("example\u3002org", ""),
    ],
)
def test_a_host_is_parsed_strictly(text: str, name: str) -> None:
    assert parse_name(text) == name


@pytest.mark.parametrize(
    "text",
    [
        *("https://a@b/", "https://a:b@c/", "https://a\\@b/", "http://a b/", "https:///a", "https:a", "//a/"),
        *("http://a:99999/", "http://a:0/", "http://a:-1/", "http://{a,b}/", "http://[a]/", "file:///etc/passwd"),
        *("gopher://a/", "http://a%2eb/", "http://a?@b\\"),
    ],
)
def test_an_ambiguous_address_has_no_host(text: str) -> None:
    assert parse_url(text) is None


def test_addresses_have_hosts_and_ports() -> None:
    assert parse_url("https://A.example/x?y#z") == Host("a.example", 443)
    assert parse_url("http://[::1]:8080/") == Host("::1", 8080)
    assert parse_bare("localhost:3000/x") == Host("localhost", 3000)
    assert str(Host("a", 443)) == "a:443"
    assert str(Host("::1", 8080)) == "[::1]:8080"
    assert is_loopback("127.9.9.9")
    assert is_loopback("app.localhost")
    assert not is_loopback("localhost.example")
    assert not is_loopback("128.0.0.1")


LOCAL = """
curl localhost:3000; curl -s http://127.0.0.1:8080/x; curl "http://localhost:$PORT/health"; wget -q http://localhost/
timeout 5 curl localhost; curl -s http://[::1]:1/; curl -X POST -d a=b http://localhost:3000/api
curl -sS --retry 3 --url http://localhost:1
"""
NOT_LOCAL = """
curl localhost.example; curl localhost evil.example; curl -x evil.example localhost; curl http://localhost@evil.example
curl --connect-to ::evil.example: localhost; psql -h db.example; ssh localhost; scp a localhost:b; curl $x
curl http://localhost"$x" evil.example; nc evil.example 80; curl --resolve localhost:80:1.2.3.4 http://evil.example/
"""


def split(text: str) -> list[str]:
    return [command.strip() for row in text.strip().splitlines() for command in row.split(";")]


@pytest.mark.parametrize("command", split(LOCAL))
def test_a_connection_to_this_machine_is_no_use_of_the_network(command: str) -> None:
    actual = find_effects(command)
    assert not actual.network
    assert actual.possible_network


@pytest.mark.parametrize("command", split(NOT_LOCAL))
def test_a_connection_that_may_go_elsewhere_is_one(command: str) -> None:
    assert find_effects(command).network


READS = """
gh pr view 3; gh pr list --json number --jq '.[0]'; gh run view 5 --log-failed | tail -5; gh api repos/o/r/pulls/1
gh api -X GET search/issues -f q=x; gh api graphql -f query='{ viewer { login } }'; gh pr view 3 --repo o/r
gh api "repos/$R/pulls" --paginate; export GH_PAGER=cat && gh pr diff 3
git fetch; git fetch origin main; git pull --rebase; git pull origin main; git ls-remote origin; git -C d pull
git fetch --all; git pull --ff-only
"""
CHANGES = """
gh pr merge 3; gh pr create; gh api -X POST repos/o/r; gh api repos/o/r -f a=b; gh api repos/o/r --input x
gh api graphql -f query='mutation { x }'; gh api graphql -f query="$q"; gh api https://evil.example/x
gh api "$endpoint"; gh api repos/o/r --method $m; gh pr view https://evil.example/o/r/pull/1
gh pr view -R evil.example/o/r; gh pr view --web; gh auth status --show-token; gh auth token
gh extension exec x; gh evil; gh pr view "$x"; gh pr view $x
gh api graphql -F query=@file; gh api -X GET search/code -F q=@.env; gh api --hostname evil.example repos/o/r
GH_HOST=evil.example gh pr view 3; export GH_HOST=evil.example && gh pr list; gh run download 3; gh repo clone o/r
git push; git clone https://a.example/b; git -c core.sshCommand=x fetch; git fetch --upload-pack=x origin; git fetch $r
GIT_SSH_COMMAND=x git fetch; git --git-dir=x fetch; git fetch -o x origin; git pull -X theirs $x; env A=1 git fetch
gh() { evil; } && gh pr view; xargs gh pr view; bash -c 'gh pr view 3'; source x && gh pr list
"""


@pytest.mark.parametrize("command", split(READS))
def test_a_command_that_only_reads_from_its_service_is_known(command: str) -> None:
    assert goes(command).reads


@pytest.mark.parametrize("command", split(CHANGES))
def test_a_command_that_may_change_something_or_go_elsewhere_only_names_hosts(command: str) -> None:
    assert not goes(command).reads


@pytest.mark.parametrize(
    ("command", "hosts"),
    [
        ("pip install x", "pypi.org files.pythonhosted.org"),
        ("pip install -i https://pkg.example/packages x", "pkg.example:443"),
        ("pip install --proxy=https://pkg.example/packages x", "pkg.example:443"),
        ("pip install git+https://git.example/x", "git.example:443 pypi.org files.pythonhosted.org"),
        ("npm install x", "registry.npmjs.org"),
        ("npm install --registry https://npm.example x", "npm.example:443"),
        ("gh pr merge 3", "github.com"),
        ("ssh -p 2222 ann@h.example ls", "h.example:2222"),
        ("scp ann@h.example:a b.example:c", "h.example b.example"),
        ("rsync -a rsync://h.example/a b", "h.example"),
        ("git clone ssh://git@h.example:2222/x", "h.example:2222"),
        ("git clone git@h.example:x/y", "h.example"),
    ],
)
def test_hosts_in_the_words_of_programs(command: str, hosts: str) -> None:
    assert " ".join(map(str, goes(command).hosts)) == hosts


def test_a_remote_of_git_is_named() -> None:
    assert goes("git push upstream main").remote == "upstream"
    assert goes("git push").remote == ""
    assert goes("git fetch --all").remote == EVERY_REMOTE
    assert goes("git push $r").remote is None
