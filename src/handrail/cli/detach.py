"""`handrail detach`: take Handrail's hooks out of an agent."""

from __future__ import annotations

import argparse

from handrail.cli import attach
from handrail.cli.attached_clients import detach


def parser() -> argparse.ArgumentParser:
    return attach.parser("detach")


def run(options: argparse.Namespace) -> int:
    detach(options.agent)
    return 0
