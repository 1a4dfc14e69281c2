"""Random scripts, run in bash with stand-ins for programs: no command runs that the parser did not list."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from handrail.shell.parser.parse import parse_script
from tests.shell.random_scripts import Generator, Runner, is_listed
from tests.sizes import pick

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash on this machine to compare with")
BATCH = 250
SCRIPTS = pick(2_000, 20_000)


@pytest.mark.parametrize("first", range(0, SCRIPTS, BATCH))
def test_no_command_runs_that_the_parser_did_not_list(first: int, tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    outcomes = [runner.compare(seed) for seed in range(first, first + BATCH)]
    wrong = [f"seed {one.seed} ran {one.unlisted}:\n{one.script}" for one in outcomes if one.unlisted]
    assert not wrong, "\n\n".join(wrong)
    assert sum(one.proven for one in outcomes) >= BATCH // 5
    assert sum(one.ran for one in outcomes) >= BATCH // 5


def test_every_construct_stands_in_some_script() -> None:
    text = "\n".join(Generator(seed).script() for seed in range(2_000))
    constructs = (
        *(
            "if ",
            "for ((",
            "while ",
            "until ",
            "case ",
            "[[ ",
            "((",
            "$((",
            "$[",
            "`",
            "<(",
            "<<E",
            "<<-E",
            "<<'E",
            "<<<",
        ),
        *(
            "bash -c",
            "sh -c",
            "eval ",
            "xargs ",
            "-exec ",
            "trap ",
            "coproc",
            "f() {",
            "${!",
            ":=",
            "declare -i",
            "|&",
            ";;&",
        ),
    )
    assert [construct for construct in constructs if construct not in text] == []


@pytest.mark.parametrize(
    ("script", "ran"),
    [
        ("p0 a; q0 || p1 'b c'", [["p0", "a"], ["q0"], ["p1", "b c"]]),
        ("p0 $(p1) | xargs -n1 p2", [["p1"], ["p0", "output", "a[$(hidden)]"]]),
        ("x='a[$(hidden)]'; echo $((x))", [["hidden"]]),
    ],
)
def test_the_stand_ins_record_what_runs(script: str, ran: list[list[str]], tmp_path: Path) -> None:
    records = [list(record) for record in Runner(tmp_path).run(script)]
    assert all(record in records for record in ran)


def test_a_command_that_is_not_listed_is_noticed() -> None:
    script = parse_script("p0 a $x; p1")
    assert is_listed(["p0", "a"], script)
    assert is_listed(["p0", "a", "b", "c"], script)
    assert not is_listed(["p0", "b"], script)
    assert not is_listed(["p1", "b"], script)
    assert not is_listed(["hidden"], script)


@pytest.mark.parametrize("keyword", ["case a in x) p1;; esac", "{ p1; }", "(p1)", "if p1; then p1; fi"])
def test_time_before_a_compound_command_in_a_substitution_is_not_proven(keyword: str) -> None:
    """Bash ends `$(time case a in x)` at the pattern."""
    assert not parse_script(f"p0 $(time {keyword})").proven
    assert not parse_script(f"p0 <(! time -p {keyword})").proven
    assert parse_script(f"time {keyword}").proven


@pytest.mark.parametrize(
    "script",
    [
        "p0 $(p1 <<E\nE\np2; q0 <<F\nF\n)",
        "p0 <(p1 <<E &\nE\ntime p2; time p3 x)",
        "p0 `p1 '\\\nb'`",
        "p0 a 2\\\n>&1",
        "(>f y=('') p0 < <(p1 & { z=(w) && p2; }) `q1`)",
        "env =1 p0",
        "p0 <(p1 >&'$(hidden)' <<< '')",
        "p0 $(p1 <& '$(hidden)')",
        "p0 $(((7)) | case a in\nx) ! p1 # (\n;;\nesac)y p2",
        'p0 "$((p1) | p2 # )\n)"',
    ],
)
def test_constructs_that_bash_parses_in_its_own_way_are_not_proven(script: str) -> None:
    assert not parse_script(script).proven


@pytest.mark.parametrize(
    ("script", "ran"),
    [
        ("p0 {1.\\\n.3} x", [["p0", "1", "2", "3", "x"]]),
        ("p0 {p1,$}w x", [["p0", "p1w", "x"]]),
        ("p0 a\\\nb", [["p0", "ab"]]),
    ],
)
def test_words_over_two_lines_and_braces_are_listed_as_bash_expands_them(
    script: str, ran: list[list[str]], tmp_path: Path
) -> None:
    records = [list(record) for record in Runner(tmp_path).run(script)]
    assert records == ran
    assert all(is_listed(record, parse_script(script)) for record in records)


def test_a_message_in_a_here_document_is_still_proven() -> None:
    """Models write commit messages so."""
    assert parse_script("git commit -m \"$(cat <<'EOF'\nIt's (done)\n\nEOF\n)\"").proven
