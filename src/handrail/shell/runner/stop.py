"""The end of several commands at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from handrail.shell.runner import process_tree
from handrail.shell.runner.order import Reason
from handrail.shell.runner.process_tree import Tree

if TYPE_CHECKING:
    from handrail.shell.runner.run import Run


def stop_all(runs: Sequence[Run], reason: Reason, also: Sequence[Tree] = ()) -> None:
    """End these trees together: the seconds of grace pass once for all of them."""
    with contextlib.ExitStack() as held:
        for run in runs:
            held.enter_context(run.ending)  # no shell is reaped meanwhile, so that its number stays its own

        def idle(seconds: float) -> None:
            for run in runs:
                run.idle(seconds / len(runs))
            if not runs:
                time.sleep(seconds)

        grace = max((run.order.grace for run in runs), default=0.0)
        survivors = process_tree.end([*(run.tree for run in runs), *also], grace, idle)
        for run in runs:
            run.over(survivors, reason)
