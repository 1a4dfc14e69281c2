"""The virtual `apply_patch` command: what is taken for a patch, what is not, and that a real shell agrees."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.shell.patch_command import PatchCall, as_patch
from tests import sizes
from tests.command import TIMEOUT

PATCH = "*** Begin Patch\n*** Add File: a.txt\n+one\n*** End Patch\n"
HERE = f"<<'EOF'\n{PATCH}EOF"

TAKEN: list[tuple[str, str | None, str]] = [  # script, patch, directory
    (f"apply_patch {HERE}", PATCH, ""),
    (f"apply_patch {HERE}\n", PATCH, ""),
    (f"\n\n  apply_patch {HERE}\n\n\n", PATCH, ""),
    (f"applypatch {HERE}\n", PATCH, ""),
    (f"apply_patch <<EOF\n{PATCH}EOF\n", PATCH, ""),
    (f'apply_patch <<"EOF"\n{PATCH}EOF\n', PATCH, ""),
    (f"apply_patch <<\\EOF\n{PATCH}EOF\n", PATCH, ""),
    (f"apply_patch << 'EOF'\n{PATCH}EOF\n", PATCH, ""),
    (f"apply_patch<<'EOF'\n{PATCH}EOF\n", PATCH, ""),
    (f"apply_patch <<'EOF'   \n{PATCH}EOF\n", PATCH, ""),
    (f"apply_patch \\\n  <<'EOF'\n{PATCH}EOF\n", PATCH, ""),
    (f"apply_patch <<'END_OF-patch.1'\n{PATCH}END_OF-patch.1\n", PATCH, ""),
    ("apply_patch <<-EOF\n\t*** Begin Patch\n\t\t+a\tb\n\t*** End Patch\n\t\tEOF\n", None, ""),
    ("apply_patch <<-'EOF'\n\t*** Begin\n  \t kept\nEOF\n", "*** Begin\n  \t kept\n", ""),
    (f"cd sub && apply_patch {HERE}\n", PATCH, "sub"),
    (f"cd a/b/c && apply_patch {HERE}\n", PATCH, "a/b/c"),
    (f"cd ./sub/ && apply_patch {HERE}\n", PATCH, "./sub/"),
    (f"cd 2024 && apply_patch {HERE}\n", PATCH, "2024"),
    (f"cd 'my dir' && apply_patch {HERE}\n", PATCH, "my dir"),
    (f'cd "my dir" && apply_patch {HERE}\n', PATCH, "my dir"),
    (f"cd my\\ dir && apply_patch {HERE}\n", PATCH, "my dir"),
    (f"cd my' 'dir && apply_patch {HERE}\n", PATCH, "my dir"),
    (f"cd 'it'\\''s' && apply_patch {HERE}\n", PATCH, "it's"),
    (f'cd "a \\"b\\" \\$c" && apply_patch {HERE}\n', PATCH, 'a "b" $c'),
    (f"cd 'a $b `c` *' && apply_patch {HERE}\n", PATCH, "a $b `c` *"),
    (f"cd 'größe 好' && apply_patch {HERE}\n", PATCH, "größe 好"),
    (f"cd sub &&\n  apply_patch {HERE}\n", PATCH, "sub"),
    (f"cd sub && \\\n  apply_patch {HERE}\n", PATCH, "sub"),
    (f"cd 'my dir' && apply_patch <<EOF\n{PATCH}EOF\n", PATCH, "my dir"),
    (f"apply_patch '{PATCH}'", PATCH, ""),
    (f'apply_patch "{PATCH}"\n', PATCH, ""),
    (f"cd sub && apply_patch '{PATCH}'\n", PATCH, "sub"),
    ("apply_patch '*** Begin\n+it'\\''s'\n", "*** Begin\n+it's", ""),
    ('apply_patch "+say \\"x\\" for \\$5 \\\\ \\n"', '+say "x" for $5 \\ \\n', ""),
    ("apply_patch <<'EOF'\n+$HOME `ls` $(pwd) \\$x \\\\ 'q' \"q\" <<EOF\nEOF\n", None, ""),
    ("apply_patch <<EOF\n+\\$HOME \\`ls\\` \\\\ \\n \"q\" 'q' cost: 5$ $ $,\nEOF\n", None, ""),
    ("apply_patch <<'EOF'\n\n   \n\n  lead\n\nEOF\n", "\n   \n\n  lead\n\n", ""),
    ("apply_patch <<'EOF'\n+cat <<EOF\n EOF\n\tEOF\nEOF2\n-EOF\nEOF \nEOF\n", None, ""),
    ("apply_patch <<EOF\n  EOF\n)}]';\"|&\nEOF\n", "  EOF\n)}]';\"|&\n", ""),
    ("apply_patch <<'EOF'\n+if [ -z \"$x\" ]; then\n+  (( \n+case x in\nEOF\n", None, ""),
    ("apply_patch <<'EOF'\n+a\r\n+b\r\nEOF\n", "+a\r\n+b\r\n", ""),
    ("apply_patch <<'EOF'\nEOF\n", "", ""),
    ("apply_patch <<'EOF'\n+größe 好 \U0001f600\nEOF\n", "+größe 好 \U0001f600\n", ""),
    (f"apply_patch '{PATCH}';", PATCH, ""),
    ("apply_patch $'a\\nb'", "a\nb", ""),
    (f"apply_patch {HERE}\n# last\n", PATCH, ""),
    (f"apply_patch <<'EOF'\r\n{PATCH}EOF\r\n", PATCH, ""),
    (f"apply_patch <<'E'OF\n{PATCH}EOF\n", PATCH, ""),
    (f"apply_patch <<''\n{PATCH}\n", PATCH, ""),
]

LEFT: list[str] = [
    "",
    " ",
    "ls -la",
    "apply_patch",
    "apply_patch --help me",
    f"echo foo; apply_patch {HERE}\n",
    f"echo foo && apply_patch {HERE}\n",
    f"echo foo\napply_patch {HERE}\n",
    f"apply_patch {HERE}\necho foo\n",
    f"apply_patch {HERE}; echo foo\n",
    f"apply_patch <<'EOF' && echo foo\n{PATCH}EOF\n",
    f"apply_patch <<'EOF' || echo foo\n{PATCH}EOF\n",
    f"apply_patch <<'EOF'; echo foo\n{PATCH}EOF\n",
    f"apply_patch <<'EOF' | cat\n{PATCH}EOF\n",
    f"apply_patch <<'EOF' > out\n{PATCH}EOF\n",
    f"apply_patch <<'EOF' 2>&1\n{PATCH}EOF\n",
    f"apply_patch > out <<'EOF'\n{PATCH}EOF\n",
    f"apply_patch <<'EOF' &\n{PATCH}EOF\n",
    f"apply_patch <<'EOF' extra\n{PATCH}EOF\n",
    f"apply_patch extra <<'EOF'\n{PATCH}EOF\n",
    f"apply_patch --flag {HERE}\n",
    f"apply_patch '{PATCH}' extra",
    f"apply_patch '{PATCH}' &",
    f"apply_patch '{PATCH}' > out",
    f"apply_patch '{PATCH}' {HERE}\n",
    f"cat {HERE}\n",
    f"cat <<'EOF' | apply_patch\n{PATCH}EOF\n",
    f"echo '{PATCH}' | apply_patch",
    "apply_patch < patch.txt",
    f"apply_patch <<< '{PATCH}'",
    f'apply_patch "$(cat {HERE}\n)"',
    'apply_patch "$PATCH"',
    "apply_patch $PATCH",
    "apply_patch `cat p`",
    "apply_patch *.patch",
    "apply_patch {a,b}",
    f"(apply_patch {HERE}\n)",
    f"{{ apply_patch {HERE}\n}}",
    f"! apply_patch {HERE}\n",
    f"if true; then apply_patch {HERE}\nfi",
    f"for i in 1 2; do apply_patch {HERE}\ndone",
    f"apply_patch() {{ :; }}; apply_patch {HERE}\n",
    f"FOO=1 apply_patch {HERE}\n",
    f"sudo apply_patch {HERE}\n",
    f"time apply_patch {HERE}\n",
    f"./apply_patch {HERE}\n",
    f"exec apply_patch {HERE}\n",
    f"command apply_patch {HERE}\n",
    f"eval apply_patch {HERE}\n",
    f"apply_patch '{PATCH}'; ls",
    f"apply_patch 3{HERE}\n",
    f"apply_patch2 {HERE}\n",
    f"'apply_patch' {HERE}\n",
    f"ap\\ply_patch {HERE}\n",
    f"# first\napply_patch {HERE}\n",
    f"cd sub || apply_patch {HERE}\n",
    f"cd sub; apply_patch {HERE}\n",
    f"cd sub & apply_patch {HERE}\n",
    f"cd sub | apply_patch {HERE}\n",
    f"cd sub\napply_patch {HERE}\n",
    f"cd && apply_patch {HERE}\n",
    f"cd - && apply_patch {HERE}\n",
    f"cd -P sub && apply_patch {HERE}\n",
    f"cd '' && apply_patch {HERE}\n",
    f"cd a b && apply_patch {HERE}\n",
    f"cd a && cd b && apply_patch {HERE}\n",
    f"cd a && apply_patch <<'A' && apply_patch <<'B'\n{PATCH}A\n{PATCH}B\n",
    f"pushd a && apply_patch {HERE}\n",
    f"cd ~ && apply_patch {HERE}\n",
    f"cd ~/x && apply_patch {HERE}\n",
    f"cd $HOME && apply_patch {HERE}\n",
    f'cd "$HOME" && apply_patch {HERE}\n',
    f'cd "a$(pwd)" && apply_patch {HERE}\n',
    f'cd "`pwd`" && apply_patch {HERE}\n',
    f"cd s* && apply_patch {HERE}\n",
    f"cd {{a,b}} && apply_patch {HERE}\n",
    f"cd sub > out && apply_patch {HERE}\n",
    f"cd sub <<'A' && apply_patch {HERE}\nA\n",
    "apply_patch <<EOF\n+$HOME\nEOF\n",
    "apply_patch <<EOF\n+${HOME}\nEOF\n",
    "apply_patch <<EOF\n+$(pwd)\nEOF\n",
    "apply_patch <<EOF\n+`pwd`\nEOF\n",
    "apply_patch <<EOF\n+$((1+1))\nEOF\n",
    "apply_patch <<EOF\n+$[1+1]\nEOF\n",
    "apply_patch <<EOF\n+$1 $@ $? $$\nEOF\n",
    "apply_patch <<EOF\n+one \\\n+two\nEOF\n",
    "apply_patch <<EOF\n+\\\\$HOME\nEOF\n",
    f"apply_patch <<'EOF'\n{PATCH}",
    f"apply_patch <<'EOF'\n{PATCH} EOF\n",
    f"apply_patch <<'EOF'\n{PATCH}\tEOF\n",
    f"apply_patch <<'EOF'\n{PATCH}EOF\nEOF\n",
    f"apply_patch <<$X\n{PATCH}$X\n",
    f"apply_patch <<'EOF' <<'B'\n{PATCH}EOF\n{PATCH}B\n",
    f"apply_patch\u00a0{HERE}\n",
    f"cd\u3000sub && apply_patch {HERE}\n",
    f"cd\fsub && apply_patch {HERE}\n",
    f"apply_patch {HERE}\n\0",
    "apply_patch 'unclosed",
    "((((((",
    "apply_patch <<",
    "apply_patch \\",
]


def _expected(script: str, patch: str | None) -> str:
    """Most patches are spelled out above; the others are what the shell below makes of the script."""
    if patch is not None:
        return patch
    special = {
        "<<-EOF": "*** Begin Patch\n+a\tb\n*** End Patch\n",
        "\\$HOME \\`ls": "+$HOME `ls` \\ \\n \"q\" 'q' cost: 5$ $ $,\n",
    }
    actual = [text for mark, text in special.items() if mark in script]
    return actual[0] if actual else script.split("\n", 1)[1].rsplit("EOF\n", 1)[0]


def _noting(command: Path, text: Path, cwd: Path) -> None:
    """A command that notes its text (its argument, or else what comes in) and where it runs."""
    body = f'pwd > "{cwd}"\nif [ $# -gt 0 ]; then printf %s "$1"; else cat; fi >> "{text}"\n'
    command.write_text(f"#!/bin/sh\n{body}", encoding="utf-8")
    command.chmod(0o755)


@pytest.mark.parametrize(("script", "patch", "directory"), TAKEN, ids=range(len(TAKEN)))
def test_a_script_that_is_one_patch_and_nothing_else_is_taken_for_it(
    script: str, patch: str | None, directory: str
) -> None:
    for shell, flag in itertools.product(("bash", "sh", "zsh", "/bin/bash"), ("-lc", "-c")):
        assert as_patch([shell, flag, script]) == PatchCall(_expected(script, patch), directory)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed, so there is nothing to compare with")
@pytest.mark.parametrize(("script", "patch", "directory"), TAKEN, ids=range(len(TAKEN)))
def test_bash_hands_the_same_text_to_the_command_in_the_same_directory(
    script: str, patch: str | None, directory: str, tmp_path: Path
) -> None:
    actual = as_patch(["bash", "-c", script])
    assert actual is not None
    work, tools = tmp_path / "work", tmp_path / "bin"
    (work / actual.directory).mkdir(parents=True)
    tools.mkdir()
    for name in ("apply_patch", "applypatch"):
        command = tools / name
        _noting(command, tmp_path / "text", tmp_path / "cwd")
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], cwd=work, env=environment, capture_output=True, timeout=TIMEOUT)
    assert (done.returncode, done.stdout) == (0, b"")
    assert (tmp_path / "text").read_bytes() == actual.patch.encode("utf-8")
    cwd = (tmp_path / "cwd").read_text(encoding="utf-8").removesuffix("\n")
    assert os.path.samefile(cwd, work / actual.directory)


@pytest.mark.parametrize("script", LEFT, ids=range(len(LEFT)))
def test_any_other_script_is_left_alone(script: str) -> None:
    assert as_patch(["bash", "-lc", script]) is None


@pytest.mark.parametrize("name", ["apply_patch", "applypatch"])
@pytest.mark.parametrize("patch", [PATCH, "", "$HOME `ls`", "'", "--help", "\ud800"])
def test_a_direct_argument_is_the_patch_as_it_stands(name: str, patch: str) -> None:
    assert as_patch([name, patch]) == PatchCall(patch, "")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["apply_patch"],
        ["apply_patch", PATCH, "more"],
        ["apply_patch", PATCH + "\0"],
        ["./apply_patch", PATCH],
        ["/usr/bin/apply_patch", PATCH],
        ["apply_patch\n", PATCH],
        ["bash", PATCH],
        ["bash", "-lc"],
        ["bash", "-x", f"apply_patch {HERE}"],
        ["bash", "-lc", f"apply_patch {HERE}", "more"],
        ["bash", "-l", "-c", f"apply_patch {HERE}"],
        ["fish", "-c", f"apply_patch {HERE}"],
        ["python", "-c", f"apply_patch {HERE}"],
        [f"apply_patch {HERE}"],
        ["ls"],
        ["env", "apply_patch", PATCH],
    ],
)
def test_any_other_command_line_is_left_alone(argv: list[str]) -> None:
    assert as_patch(argv) is None


def test_the_table_is_large_enough_to_mean_something() -> None:
    assert len(TAKEN) >= 40 and len(LEFT) >= 100
    assert len({script for script, _, _ in TAKEN} | set(LEFT)) == len(TAKEN) + len(LEFT)


def test_a_long_patch_is_taken_whole() -> None:
    body = "+ a line of $code `x` (\n" * 5_000
    assert as_patch(["bash", "-lc", f"apply_patch <<'EOF'\n{body}EOF\n"]) == PatchCall(body, "")


PIECES = [
    "apply_patch", "cd", "sub", " ", "\n", "&&", "||", ";", "|", "&", "<<", "<<-", "<<<", "'EOF'", '"EOF"', "EOF",
    "'", '"', "$", "`", "$(", ")", "(", "{", "}", "\\", "#", "*", "~", ">", "<", "a b", "+x", "\t", "\r", "ä", "=", "!",
]  # fmt: skip


@settings(max_examples=sizes.pick(100, 400), deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_no_script_of_shell_pieces_makes_it_raise(script: str) -> None:
    actual = as_patch(["bash", "-c", script])
    assert actual is None or script.replace("\\\n", "").lstrip().startswith(("apply_patch", "cd"))


@settings(max_examples=sizes.pick(50, 200), deadline=None)
@given(st.lists(st.text(), max_size=4))
def test_no_command_line_makes_it_raise(argv: list[str]) -> None:
    as_patch(argv)
    as_patch(["sh", "-c", *argv[:1]])


@settings(max_examples=sizes.pick(37, 150), deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=200))
def test_any_text_comes_through_a_quoted_here_document_unchanged(text: str) -> None:
    body = "".join(f" {line}\n" for line in text.split("\n"))
    assert as_patch(["bash", "-c", f"apply_patch <<'EOF'\n{body}EOF\n"]) == PatchCall(body, "")


@settings(max_examples=sizes.pick(37, 150), deadline=None)
@given(st.text(st.characters(exclude_characters="\0'", exclude_categories=["Cs"]), max_size=200))
def test_any_text_comes_through_single_quotes_unchanged(text: str) -> None:
    assert as_patch(["bash", "-c", f"apply_patch '{text}'"]) == PatchCall(text, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed, so there is nothing to compare with")
def test_what_is_taken_of_broken_scripts_is_what_bash_would_run(tmp_path: Path) -> None:
    """Scripts of the table with one character changed: each that is still taken runs one command in bash, that one."""
    choose = random.Random(3)
    tools = tmp_path / "bin"
    tools.mkdir()
    command = tools / "apply_patch"
    text = tmp_path / "text"
    command.write_text(f'#!/bin/sh\nif [ $# -gt 0 ]; then printf %s "$1"; else cat; fi >> "{text}"\n', encoding="utf-8")
    command.chmod(0o755)
    compared = 0
    for _ in range(1500):
        script = choose.choice(TAKEN)[0]
        at = choose.randrange(len(script))
        script = script[:at] + choose.choice(["", *PIECES, script[at : at + 1] * 2]) + script[at + 1 :]
        actual = as_patch(["bash", "-c", script])
        if (
            actual is None
            or "applypatch" in script
            or compared == 120
            or not set(actual.directory) <= set("submydir /.")
        ):
            continue
        work = tmp_path / f"work-{compared}"
        (work / actual.directory).mkdir(parents=True, exist_ok=True)
        text.unlink(missing_ok=True)
        # Nothing but the command itself can run: there is no other directory on the path.
        subprocess.run(["/bin/bash", "-c", script], cwd=work, env={"PATH": f"{tools}:/bin"}, capture_output=True)
        assert text.read_bytes() == actual.patch.encode("utf-8"), script
        compared += 1
    assert compared > 50
