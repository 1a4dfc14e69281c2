"""Check text that is typed for a background command: if a shell would run it, the rules for commands apply.

Only a job that may run its input is asked. What was typed before counts, since a command can be typed in pieces.
"""

from __future__ import annotations

from handrail.shell.effects.effects import find_effects
from handrail.shell.effects.interpret import runs_input
from handrail.shell.effects.refused_commands import Danger, find_danger
from handrail.shell.parser.parse import parse_script
from handrail.shell.parser.wrappers import FOREIGN_SHELLS, SHELLS

_OBEYING = (*SHELLS, *FOREIGN_SHELLS, "eval", "source", ".", "xargs", "parallel", "ssh", "at", "batch", "script")


def may_run_its_input(command: str) -> bool:
    """Whether a command may run what it reads from its input, as far as its text tells."""
    script = parse_script(command)
    shells = any(run.base in _OBEYING and (runs_input(run) or run.base not in SHELLS) for run in script.runs)
    return shells or not script.proven


def find_typed_danger(before: str, text: str) -> Danger | None:
    """Find a refused command that a shell would run if it read ``text`` after all that came ``before``."""
    started = _read_unfinished_line(before)
    whole = parse_script(before + text)
    readings = [
        parse_script(text),
        *([parse_script(started + text)] if started else []),
        *([whole] if whole.error is None else []),
    ]
    danger = next((danger for script in readings if (danger := find_danger(script))), None)
    if danger or not started:
        return danger
    joined = find_effects(started + text)  # only the pieces were judged: they must not come to more than words
    if joined.tier == "read_only" and not joined.files:
        return None
    return Danger(
        "unread", (started + text).strip(), "a command must be typed as a whole line, so that it can be judged"
    )


def _read_unfinished_line(before: str) -> str:
    """The line that was begun, and that what is typed next goes on with."""
    started = before[before.rfind("\n") + 1 :]
    return before[before.rfind("\n", 0, -1) + 1 :] if before.endswith("\\\n") else started
