"""Patterns in a command: a file with the name of an option makes a command do more than its words say."""

from __future__ import annotations

import os

from handrail.model import Access
from handrail.shell.effects.effects import Effects


def seek(effects: Effects, where: str, place: str = "") -> list[Access]:
    """What the names of files add to the judgement of commands with patterns.

    ``where`` is the directory that the line starts in, ``place`` its name, if that is not the workspace.
    """
    out: list[Access] = []
    for use in effects.patterns:
        for directory in sorted(use.places or ()):
            name = _find_option_name(os.path.join(where, os.path.expanduser(directory)), use.signs)
            if name:
                doubt = f"a pattern may match the file {name}, which would be an option"
                out.append(Access("run", use.text, tier="ordinary", why=doubt, doubt=doubt, place=place))
    return list(dict.fromkeys(out))


def _find_option_name(directory: str, signs: str) -> str:
    try:
        with os.scandir(directory) as entries:
            return next((entry.name for entry in entries if entry.name[0] in signs), "")
    except OSError:  # the command cannot list it, either
        return ""
