"""Start the `handrail` command in a terminal of its own, for tests that play the person in front of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pexpect

from tests.command import TIMEOUT
from tests.forked import as_fork


def spawn_in_terminal(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], dimensions: tuple[int, int] = (40, 120)
) -> pexpect.spawn:
    """Run ``command`` as a fork of this process; the caller closes what is returned."""
    child = pexpect.spawn(
        command[0],
        list(command[1:]),
        cwd=str(cwd),
        env=dict(env),
        encoding="utf-8",
        timeout=TIMEOUT,
        dimensions=dimensions,
        preexec_fn=as_fork(command, env),
    )
    child.delaybeforesend = None
    return child
