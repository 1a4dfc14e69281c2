"""Rules that a person has approved for good: one line each, in a file of their own beside the user's rules.

The file belongs to the program, so that a hand-written policy is never rewritten. It counts as the user's.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping, Sequence

from handrail.policy.files import PolicyError, approved_file, parse

_HEAD = "# Rules that were approved for good when handrail asked. Take a line out to be asked again.\nrules = [\n"


def remember(lines: Sequence[str], environ: Mapping[str, str]) -> str:
    """Add the rules that are not there yet; returns the file. Raises `PolicyError` if it cannot be used."""
    path = approved_file(environ)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = _HEAD + "]\n"
    known = {rule.text for rule in parse(text, path, "user").rules}
    today = dt.datetime.now(dt.UTC).date().isoformat()
    body = text.rstrip().removesuffix("]")
    new = [line for line in dict.fromkeys(lines) if line and line not in known]
    text = body + "".join(f"  {json.dumps(line, ensure_ascii=False)},  # {today}\n" for line in new) + "]\n"
    parse(text, path, "user")  # what cannot be read back must not be written
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        beside = f"{path}.{os.getpid()}"
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise PolicyError(f"{path}: the rule cannot be written down: {error.strerror}") from None
    return path
