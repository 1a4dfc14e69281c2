"""No script that runs code by arithmetic, or steers the next command by a variable, runs unasked."""

from __future__ import annotations

import os
import subprocess

import pytest

from handrail import Session, Settings
from handrail.errors import NoSandbox, ToolError
from handrail.policy.modes import Mode
from handrail.shell.effects.effects import find_effects
from handrail.shell.sandbox.choose import choose
from tests import sizes
from tests.shell.boundaries import World
from tests.shell.variants import evaluated, steering, steering_others

ARITHMETIC = list(dict.fromkeys(evaluated("../outside/canary")))
STEERED = list(dict.fromkeys(steering()))
OTHERS = list(dict.fromkeys(steering_others()))
KINDS = pytest.mark.parametrize("scripts", [ARITHMETIC, STEERED], ids=["arithmetic", "steered"])


@pytest.fixture
def place(world: World) -> World:
    """A workspace with programs of a harmless name, where a changed PATH leads, that leave a trace outside."""
    for folder in (".", "0", "1", "7", "10", "11", "12"):
        program = world.work / folder / "ls"
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n: > ../outside/canary\n", encoding="utf-8")
        program.chmod(0o755)
    return world


def _left_a_trace(place: World) -> bool:
    """Whether code has run since the last question."""
    canary = place.outside / "canary"
    exists = canary.exists()
    canary.unlink(missing_ok=True)
    return exists


def _run_freely(script: str, place: World) -> bool:
    """Whether bash runs the code in the script where nothing holds or judges it."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(place.folder), "LANG": "C.UTF-8"}
    subprocess.run(
        ["bash", "-c", script],
        cwd=place.work,
        env=environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return _left_a_trace(place)


def _run_unasked(script: str, session: Session) -> bool:
    """Run the script if nobody would be asked."""
    try:
        verdict = session.prepare("Bash", {"command": script}).verdict
    except ToolError:
        return False
    if verdict.decision == "allow":
        session.call("Bash", {"command": script, "timeout": 20})
    return verdict.decision == "allow"


def test_there_are_many_different_variants() -> None:
    assert len(ARITHMETIC) > 1000
    assert len(STEERED) > 400
    assert len(OTHERS) > 400


@pytest.mark.parametrize("scripts", [ARITHMETIC, STEERED, OTHERS], ids=["arithmetic", "steered", "others"])
def test_no_variant_is_proven_to_only_look(scripts: list[str]) -> None:
    assert [script for script in scripts if find_effects(script).tier == "read_only"] == []


@KINDS
def test_bash_would_run_the_code_of_most_variants(place: World, scripts: list[str]) -> None:
    sample = scripts[:: sizes.pick(47, 11)]
    assert sum(_run_freely(script, place) for script in sample) > len(sample) * 0.7


@pytest.mark.parametrize("mode", ["read-only", "ask", "accept-edits"])
@KINDS
def test_nothing_runs_unasked_where_no_boundary_holds_it(place: World, scripts: list[str], mode: Mode) -> None:
    with Session(place.work, mode=mode, settings=Settings(sandbox="off")) as session:
        unasked = [script for script in scripts[:: sizes.pick(23, 5)] if _run_unasked(script, session)]
    assert unasked == []
    assert not _left_a_trace(place)


@pytest.mark.parametrize("mode", ["read-only", "ask"])
@KINDS
def test_what_runs_unasked_in_a_draft_leaves_nothing_anywhere(place: World, scripts: list[str], mode: Mode) -> None:
    _require_boundary(place)
    with Session(place.work, mode=mode) as session:
        if not session.services.command_host().drafts.workspace:
            pytest.skip(f"no command can run in a draft here: {session.services.command_host().drafts.why_none}")
        for script in scripts[:: len(scripts) // sizes.pick(7, 100)]:
            _run_unasked(script, session)
    assert not _left_a_trace(place)


@pytest.mark.parametrize("mode", ["read-only", "ask"])
@KINDS
def test_nothing_runs_unasked_inside_a_boundary_either(place: World, scripts: list[str], mode: Mode) -> None:
    _require_boundary(place)
    with Session(place.work, mode=mode, settings=Settings(sandbox="auto", drafts=False)) as session:
        unasked = [script for script in scripts[:: sizes.pick(41, 7)] if _run_unasked(script, session)]
    assert unasked == []
    assert not _left_a_trace(place)


@KINDS
def test_what_a_boundary_lets_run_leaves_nothing_outside(place: World, scripts: list[str]) -> None:
    _require_boundary(place)
    with Session(place.work, mode="accept-edits", settings=Settings(sandbox="auto")) as session:
        ran = sum(_run_unasked(script, session) for script in scripts[:: len(scripts) // 12])
    assert ran, "in this mode a boundary is leave enough to run a command that cannot be proven"
    assert not _left_a_trace(place)


def _require_boundary(place: World) -> None:
    try:
        choose("auto", True, place.confinement()).close()
    except NoSandbox as error:
        pytest.skip(f"no boundary can be had on this machine: {error.facts['why']}")


@pytest.mark.parametrize(
    "script",
    [
        "echo $((1+2)) $[3*4]",
        "[[ $? -eq 0 ]] && echo yes",
        '[ "$#" -gt 1 ] && echo yes',
        "[ $# -gt 1 ] || [ $? -ne 0 ]",
        "x=hello; echo ${x:0:2} ${x: -1} ${#x}",
        "a=(1 2 3); echo ${a[1]} ${a[@]:1} ${#a[@]} ${!a[@]}",
        '[ -z "$X" ] && [ "$X" = y ] && [ ! -d "$X" ]',
        "sleep 0 & wait $!",
        'while read -r line; do echo "$line"; done < f',
        'printf \'%s\\n\' "$x"; printf "Total: $x\\n"; printf -v y %d 3',
        "exec {fd}<f; read -r -u 3 line",
        "[[ -v HOME ]] && echo ${HOME:-x}",
    ],
)
def test_numbers_and_quoted_variables_are_proven_to_only_look(script: str) -> None:
    actual = find_effects(script)
    assert (actual.tier, actual.doubts) == ("read_only", ())


@pytest.mark.parametrize(
    "script",
    ["for i in 1 2; do echo $((i * 2)); done", "i=0; [[ $i -lt 3 ]]", "f=a; [ -f $f ]", "i=1; echo ${a[i]}", "let i=1"],
)
def test_a_variable_whose_value_bash_evaluates_is_a_doubt(script: str) -> None:
    assert find_effects(script).doubts
