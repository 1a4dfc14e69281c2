"""Reading scripts: what bash would run, found without running it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from handrail.shell.effects.arguments import make_argument
from handrail.shell.parser.parse import check_syntax, parse_script
from handrail.shell.parser.script import Command, Word
from tests import sizes
from tests.command import TIMEOUT
from tests.shell.script_rows import ROWS

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash on this machine to compare with")


def shown(word: Word) -> str:
    return word.fixed if word.fixed is not None else f"<{'+'.join(word.holds)}>"


def describe(simple: Command) -> str:
    assigned = [f"{item.name}={','.join(shown(value) for value in item.values)}" for item in simple.assignments]
    redirected = [f"{item.descriptor}{item.operator}{shown(item.target)}" for item in simple.redirections]
    return " ".join([*assigned, *(shown(word) for word in simple.words), *redirected])


@pytest.mark.parametrize(("script", "commands", "state"), ROWS, ids=range(len(ROWS)))
def test_a_script_comes_to_these_commands(script: str, commands: list[str], state: str) -> None:
    seen = parse_script(script)
    assert [describe(run) for run in seen.runs] == commands
    assert (f"wrong: {seen.error.message}" if seen.error else "; ".join(seen.doubts)) == state
    assert seen.proven == (state == "")


def test_the_table_is_as_large_as_promised() -> None:
    assert len({script for script, _, _ in ROWS}) >= 120


@needs_bash
@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_what_is_proven_is_valid_for_bash_and_what_bash_refuses_is_not_proven(row: tuple[str, list[str], str]) -> None:
    refused = check_syntax(row[0]) is not None
    if row[2].startswith("wrong: "):
        assert refused
    elif not row[2]:
        assert not refused


def test_what_a_command_stands_in_is_told() -> None:
    runs = parse_script("a; (b) & { c | d; }; if e; then f; fi; for x in y; do g $(h) <(i); done; j() { k; }; `l`").runs
    within = {run.name: run.within for run in runs if run.name}
    assert within["a"] == ()
    assert within["b"] == ("background", "subshell")
    assert within["c"] == ("group", "pipeline")
    assert within["d"] == ("group", "pipeline", "piped")
    assert within["f"] == ("if",)
    assert within["h"] == ("for", "substitution")
    assert within["i"] == ("for", "process")
    assert within["k"] == ("function", "group")
    assert within["l"] == ("substitution",)


def test_the_wrappers_that_a_command_was_reached_through_are_told() -> None:
    runs = parse_script("env A=1 timeout 5 bash -c 'nice x; y'").runs
    assert [(run.name, run.via) for run in runs] == [
        ("env", ()),
        ("timeout", ("env",)),
        ("bash", ("env", "timeout")),
        ("nice", ("env", "timeout", "bash")),
        ("x", ("env", "timeout", "bash", "nice")),
        ("y", ("env", "timeout", "bash")),
    ]


def test_a_command_and_an_error_know_their_place() -> None:
    where = parse_script("é;\n  b c").commands[1].where
    assert (where.start, where.end, where.line, where.column) == (5, 8, 2, 3)
    error = parse_script("a\n  b )\nc").error
    assert error is not None
    assert (error.line, error.column, error.text) == (2, 5, "  b )")


def test_a_pattern_keeps_its_special_characters_and_escapes_the_quoted_ones() -> None:
    words = parse_script(r"ls src/*.p? 'a*'[bc]* x\*").commands[0].words
    values = [value for word in words[1:] for value in make_argument(word).values or ()]
    assert [(value.text, value.glob) for value in values] == [("src/*.p?", True), (r"a\*[bc]*", True), ("x*", False)]
    assert make_argument(parse_script("ls $x*").commands[0].words[1]).values is None


def test_a_path_before_a_name_is_kept_and_the_name_is_known() -> None:
    command = parse_script('/usr/bin/env ./x; "$HOME/bin/tool" a').runs
    assert [(run.name, run.base) for run in command] == [("/usr/bin/env", "env"), ("./x", "x"), (None, "tool")]
    assert parse_script("$X/bin/tool").runs[0].base is None  # may split into several words


def test_redirections_say_whether_they_read_or_write_a_file() -> None:
    items = parse_script("a <r >w >>w 2>&1 >&- &>w >&w <>b 3<&0 <<<t").commands[0].redirections
    assert [item.reads for item in items] == [True, *[False] * 6, True, False, False]
    assert [item.writes for item in items] == [False, True, True, False, False, True, True, True, False, False]


def test_a_value_evaluated_in_a_nested_script_is_doubted_too() -> None:
    assert not parse_script("x='a[$(b)]'; eval 'echo $((x))'").proven


@pytest.mark.parametrize("script", ["((((" * 250_000, "$(" * 60_000, "{ " * 60_000, '"$(' * 40_000, "`" * 100_001])
def test_a_monstrous_script_is_bounded_and_not_proven(script: str) -> None:
    assert not parse_script(script).proven


@pytest.mark.parametrize("script", ["a;" * 60_000, "{a,b}" * 200, "a " * 60_000, "'" * 100_000, "bash -c " * 5_000])
def test_a_long_script_is_read_or_doubted(script: str) -> None:
    parse_script(script)


@needs_bash
def test_bash_itself_says_what_is_not_valid_and_where() -> None:
    assert check_syntax("echo a\necho b") is None
    fault = check_syntax("echo a\necho )\n")
    assert fault is not None
    assert (fault.line, fault.text) == (2, "echo )")
    assert "syntax error" in fault.message
    unfinished = check_syntax("if true; then echo")
    assert unfinished is not None
    assert check_syntax("a\0b") is not None


@needs_bash
def test_asking_bash_runs_nothing(tmp_path: Path) -> None:
    assert (
        check_syntax(f"touch {shlex.quote(str(tmp_path / 'made'))}; $(touch {shlex.quote(str(tmp_path / 'made'))})")
        is None
    )
    assert list(tmp_path.iterdir()) == []


# -- quotes

letters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
plain_words = st.lists(st.text(letters, max_size=12), min_size=1, max_size=5)


@given(plain_words)
def test_words_quoted_for_a_shell_are_read_back_as_they_were(words: list[str]) -> None:
    seen = parse_script("run " + " ".join(map(shlex.quote, words)))
    assert [word.fixed for word in seen.commands[0].words[1:]] == words
    assert seen.proven


def in_single_quotes(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def in_double_quotes(text: str) -> str:
    return '"' + "".join("\\" + char if char in '$`"\\' else char for char in text) + '"'


def escaped(text: str) -> str:
    return "".join("'\n'" if char == "\n" else "\\" + char for char in text) or "''"


def in_ansi_c(text: str) -> str:
    return "$'" + "".join({"\n": "\\n", "\t": "\\t", "\\": "\\\\", "'": "\\'"}.get(char, char) for char in text) + "'"


styles = st.sampled_from([in_single_quotes, in_double_quotes, escaped, in_ansi_c])
quoted_pieces = st.lists(st.tuples(styles, st.text(letters, max_size=6), st.booleans()), min_size=1, max_size=5)


def mixed(pieces: list[tuple[object, str, bool]]) -> tuple[str, str]:
    """A word in mixed quotes with continued lines in between, and what it stands for."""
    source = "".join(style(text) + ("\\\n" if goes_on else "") for style, text, goes_on in pieces)  # type: ignore[operator]
    return source, "".join(text for _, text, _ in pieces)


@given(st.lists(quoted_pieces, min_size=1, max_size=4))
def test_any_mix_of_quotes_is_taken_off_as_bash_does(rows: list[list[tuple[object, str, bool]]]) -> None:
    pairs = [mixed(row) for row in rows]
    seen = parse_script("run " + " ".join(source for source, _ in pairs))
    assert [word.fixed for word in seen.commands[0].words[1:]] == [text for _, text in pairs]


def printed_by_bash(arguments: str, tmp_path: Path) -> list[str] | None:
    """What bash makes of the words; None if it does not take them."""
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", f"run() {{ printf '%s\\0' \"$@\"; }}\nrun {arguments}"],
        capture_output=True,
        cwd=tmp_path,
        env={"LC_ALL": "C.UTF-8", "PATH": os.defpath},
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode or done.stderr:
        return None
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


pieces_of_words = st.sampled_from(
    [
        "a",
        "b",
        "1",
        " ",
        "'",
        '"',
        "\\",
        "\\\n",
        "{",
        "}",
        ",",
        "..",
        "$'",
        "\\x41",
        "\\t",
        "=",
        "#",
        "-",
        "~",
        "]",
        "é",
    ]
)


@needs_bash
@settings(max_examples=sizes.pick(60, 150), deadline=None)
@given(st.lists(pieces_of_words, min_size=1, max_size=12).map("".join))
@example("a{},}")
@example("{},x}")
@example("{a}{},b}")
@example("x{},y{},z}")
def test_quotes_and_braces_come_to_the_same_words_as_in_bash(arguments: str) -> None:
    seen = parse_script(f"run {arguments}")
    if not seen.proven or len(seen.commands) != 1 or any(word.fixed is None for word in seen.commands[0].words):
        return
    expected = printed_by_bash(arguments, Path("/"))
    assert expected is not None
    # printf prints one empty word where it gets none
    assert ([word.fixed for word in seen.commands[0].words[1:]] or [""]) == expected


shell_pieces = st.sampled_from(
    [
        *(
            "a",
            "b",
            ";",
            "&",
            "&&",
            "||",
            "|",
            "|&",
            "!",
            "{",
            "}",
            "(",
            ")",
            "((",
            "))",
            "[[",
            "]]",
            "$(",
            "`",
            '"',
            "'",
        ),
        *(
            "\\",
            "$",
            "${",
            "<",
            ">",
            "<<",
            "<<-",
            "<<<",
            "E",
            "\n",
            "#",
            "=",
            "x=",
            "x=(",
            "if",
            "then",
            "fi",
            "case",
            "in",
        ),
        *(
            "esac",
            "for",
            "do",
            "done",
            "while",
            "function",
            "time",
            "coproc",
            "eval",
            "bash",
            "-c",
            "env",
            "xargs",
            "find",
        ),
        *("-exec", "{}", ";;", "$((", "~", "*", "?", "[", "]", ",", "..", "@P"),
    ]
)


@settings(max_examples=sizes.pick(75, 300))
@given(st.one_of(st.text(), st.lists(shell_pieces, max_size=25).map(" ".join), st.lists(shell_pieces).map("".join)))
def test_no_text_at_all_raises(text: str) -> None:
    parse_script(text)
