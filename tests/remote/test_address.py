"""Addresses of remote workspaces become commands, and nothing in an address becomes an option or a shell word."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.remote.address import parse_address

SERVE = ("serve", "--stdio", "--mode", "ask", "--")


@pytest.mark.parametrize(
    ("address", "argv"),
    [
        ("docker://box/srv/app", ("docker", "exec", "-i", "box", "handrail", *SERVE, "/srv/app")),
        (
            "docker://box/srv/app?handrail=/opt/bin/handrail",
            ("docker", "exec", "-i", "box", "/opt/bin/handrail", *SERVE, "/srv/app"),
        ),
        (
            "kubectl://team/pod-1/srv/app",
            ("kubectl", "exec", "-i", "-n", "team", "pod-1", "--", "handrail", *SERVE, "/srv/app"),
        ),
        (
            "kubectl://team/pod-1/srv/app?container=tools",
            ("kubectl", "exec", "-i", "-n", "team", "pod-1", "-c", "tools", "--", "handrail", *SERVE, "/srv/app"),
        ),
    ],
)
def test_containers_and_pods(address: str, argv: tuple[str, ...]) -> None:
    assert parse_address(address, "ask").argv == argv


@pytest.mark.parametrize(
    ("address", "before", "path"),
    [
        ("ssh://host/srv/app", ["--", "host"], "/srv/app"),
        ("ssh://me@host:2222/srv/app", ["-p", "2222", "--", "me@host"], "/srv/app"),
        ("ssh://host/~/app", ["--", "host"], "app"),
        ("ssh://host/srv/a%20b", ["--", "host"], "/srv/a b"),
    ],
)
def test_ssh(address: str, before: list[str], path: str) -> None:
    *words, command = parse_address(address, "ask").argv
    assert words == ["ssh", "-T", "-o", "BatchMode=yes", *before]
    assert shlex.split(command) == ["exec", "handrail", *SERVE, path]


@given(st.text(min_size=1, max_size=30).filter(lambda path: path.strip("/") and "/~/" not in "/" + path))
def test_no_path_is_more_than_one_word_of_the_far_shell(path: str) -> None:
    from urllib.parse import quote

    address = "ssh://host/" + quote(path.encode("utf-8", "replace").decode(), safe="/")
    command = parse_address(address, "ask").argv[-1]
    assert shlex.split(command)[:7] == ["exec", "handrail", *SERVE]
    assert len(shlex.split(command)) == 8


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host:/path",
        "http://host/path",
        "ssh://host",
        "ssh://host/",
        "ssh://-oProxyCommand=x/path",
        "ssh://-x@host/path",
        "ssh://host:99999/path",
        "ssh://host/path?shell=x",
        "ssh://host/path#part",
        "docker:///path",
        "docker://-v/path",
        "docker://box",
        "docker://box/",
        "kubectl://team/pod",
        "kubectl://team/-pod/path",
        "kubectl://team/pod/path?container=--rm",
    ],
)
def test_other_addresses_are_refused_with_the_valid_forms(address: str) -> None:
    with pytest.raises(ValueError, match="ssh://"):
        parse_address(address, "ask")


@pytest.mark.parametrize("words", [[], [""], ["ssh", ""]])
def test_a_command_needs_words(words: list[str]) -> None:
    with pytest.raises(ValueError, match="words"):
        parse_address(words, "ask")
