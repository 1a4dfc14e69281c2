"""Rules that a person has approved for good: one line each, in a file of their own beside the user's rules.

A command means something else in another project: its rule holds in the directory in which it was approved. The file
belongs to the program, so that a hand-written policy is never rewritten. It counts as the user's.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from handrail.policy.files import PolicyError, find_approved_file, parse
from handrail.policy.rules import Rule, from_line

_HEAD = "# Rules saved by the answer `always`. Remove a line to be asked again.\nrules = [\n"


def remember(lines: Sequence[str], environ: Mapping[str, str], place: str) -> str:
    """Add the rules that are not there yet; returns the file. Raises `PolicyError` if it cannot be used.

    ``place``: the directory that the commands among them run in.
    """
    path = find_approved_file(environ)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(f"{path}.lock", "wb") as lock:  # two people may say yes at once
            fcntl.flock(lock, fcntl.LOCK_EX)
            _add(lines, path, place)
    except UnicodeError:
        raise PolicyError(f"{path}: not UTF-8; save it as UTF-8, or remove it") from None
    except OSError as error:
        raise PolicyError(f"{path}: the rule cannot be saved: {error.strerror}") from None
    return path


def _add(lines: Sequence[str], path: str, place: str) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = _HEAD + "]\n"
    before = parse(text, path, "user").rules
    known = {(rule.text, rule.place) for rule in before}
    new: dict[str, Rule] = {}
    for line in filter(None, lines):
        rule = from_line(line, project=False)
        rule = replace(rule, place=place) if rule.actions == {"run"} or rule.lends else rule
        if (rule.text, rule.place) not in known:
            new[line] = rule
    if not new:
        return
    today = dt.datetime.now(dt.UTC).date().isoformat()
    text = (
        text.rstrip().removesuffix("]")
        + "".join(f"  {_write_rule(line, rule.place)},  # {today}\n" for line, rule in new.items())
        + "]\n"
    )
    after = parse(text, path, "user").rules
    # What is not read back as the very rules that were meant must not be written.
    if [_strip_source(rule) for rule in after] != [_strip_source(rule) for rule in (*before, *new.values())]:
        raise PolicyError(f"{path}: its format was changed, so no rule can be added; restore the list `rules = [`")
    beside = f"{path}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def _write_rule(line: str, place: str) -> str:
    text = json.dumps(line, ensure_ascii=False)
    return f"{{ rule = {text}, in = {json.dumps(place, ensure_ascii=False)} }}" if place else text


def _strip_source(rule: Rule) -> Rule:
    return replace(rule, source="", loosens=True)
