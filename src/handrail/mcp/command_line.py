"""The command lines of the doors that read their own: mistakes are said in one line, with exit code 2."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from handrail.text.display import escape, replace_surrogates


class WrongUsage(Exception):
    """What was typed cannot be meant; the text says why."""


class Parser(argparse.ArgumentParser):
    """Help with its lines as they are; a word that was typed cannot forge a line."""

    def __init__(self, prog: str, about: str, examples: str) -> None:
        super().__init__(
            prog=prog,
            description=about,
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise WrongUsage(f"{escape(message)}; see `{self.prog} --help`")


def say(line: str) -> None:
    """A line for the person, on stderr."""
    if sys.stderr is not None:
        sys.stderr.buffer.write(replace_surrogates(line).encode("utf-8") + b"\n")
        sys.stderr.buffer.flush()
