"""What commands find in their environment, and what they do not."""

from __future__ import annotations

import os

import pytest

from handrail.shell.sandbox.environment import redirect_temporary_files, scrub_environment


def test_what_tools_need_stays() -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/" + "home/a",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "XDG_DATA_HOME": "/x",
        "VIRTUAL_ENV": "/v",
        "CONDA_PREFIX": "/c",
        "JAVA_HOME": "/j",
        "SSL_CERT_FILE": "/etc/cert.pem",
    }
    assert scrub_environment(given) == given


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "DATABASE_URL",
        "PGPASSWORD",
        "DB_PASSWD",
        "MY_CREDENTIALS",
        "BASIC_AUTH",
        "CONDA_TOKEN",
        "XDG_SESSION_COOKIE",
        "LC_API_KEY",
        "lc_secret",
        "SENTRY_DSN",
        "HTTPS_PROXY",
        "SOMETHING_ELSE",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "SHELLOPTS",
        "PS4",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "PERL5OPT",
        "GIT_DIR",
        "GIT_SSH_COMMAND",
        "GIT_EXTERNAL_DIFF",
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "BASH_FUNC_ls%%",
        "HANDRAIL_STATE",
    ],
)
def test_secrets_and_what_runs_unasked_are_left_out(name: str) -> None:
    assert scrub_environment({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}


def test_a_function_in_the_place_of_a_value_is_left_out() -> None:
    assert scrub_environment({"TERM": "() { :; }; echo here"}) == {}


def test_a_host_names_further_variables() -> None:
    given = {"HTTPS_PROXY": "p", "MY_TOKEN": "t", "APP_MODE": "m", "APP_SECRET": "s", "OTHER": "o"}
    assert scrub_environment(given, keep=["HTTPS_PROXY"]) == {"HTTPS_PROXY": "p"}
    assert scrub_environment(given, keep=["MY_TOKEN"]) == {"MY_TOKEN": "t"}  # named in full, so it is wanted
    assert scrub_environment(given, keep=["APP_*"]) == {"APP_MODE": "m"}


def test_further_values_are_on_top() -> None:
    assert scrub_environment({"TERM": "xterm"}, set={"TERM": "dumb", "GIT_PAGER": "cat"}) == {
        "TERM": "dumb",
        "GIT_PAGER": "cat",
    }


def test_the_environment_of_this_program_is_the_default_and_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush")
    before = dict(os.environ)
    assert "SOME_API_KEY" not in scrub_environment()
    assert "SOME_API_KEY" not in redirect_temporary_files(None, "/private")
    assert dict(os.environ) == before


def test_temporary_files_and_caches_go_to_the_private_place() -> None:
    env = redirect_temporary_files({"PATH": "/bin", "TEMP": "/elsewhere"}, "/private")
    assert env == {
        "PATH": "/bin",
        "TMPDIR": "/private",
        "TEMP": "/private",
        "XDG_CACHE_HOME": "/private/cache",
    }
