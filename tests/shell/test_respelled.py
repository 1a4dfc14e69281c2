"""A name that only the file tools know, in a command: spelled out where that changes nothing else."""

from __future__ import annotations

import pytest

from handrail.shell.effects.respell import respell
from handrail.shell.parser.parse import parse_script

NAME, REAL = "/kept", "/srv/state/1-2-ab"


@pytest.mark.parametrize(
    "command",
    [
        "cat /kept/a",
        "tail -n 5 '/kept/a' | grep x",
        'wc -l "/kept/a" /kept/b',
        "grep -n error /kept/a",
        "sort < /kept/a",
        "cd src && head /kept/a; cat b",
        "ls /kept",
        "diff /kept/a /kept/b",
    ],
)
def test_a_file_that_is_only_read_is_named_by_its_real_path(command: str) -> None:
    assert respell(parse_script(command), NAME, REAL) == command.replace(NAME, REAL)


@pytest.mark.parametrize(
    "command",
    [
        "cat a",
        "echo /kept/a > note",
        "grep /kept/a log",
        "grep /kept/a /kept/a",
        "cat > note <<E\nsee /kept/a\nE",
        "cat /kept/a; echo see /kept/a",
        "python3 -c 'open(\"/kept/a\")'",
        "cat x > /kept/a",
        "rm /kept/a",
        "cat /kept_too/a",
        "cat $x/kept/a",
        "cat /kept/*",
        "cp /kept/a b",
        "cat /kept/a 'x",
        "# /kept/a\ncat /kept/a",
    ],
)
def test_everything_else_stays_as_it_is_written(command: str) -> None:
    assert respell(parse_script(command), NAME, REAL) is None


def test_a_real_path_that_needs_quotes_is_not_put_in() -> None:
    assert respell(parse_script("cat /kept/a"), NAME, "/srv/me and you/x") is None
