"""A fleet of workspaces on Ray: this machine by default, or a cluster that runs already."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from handrail.errors.extras import needs
from handrail.fleet.work import FleetResult, Work, open_session, work_in
from handrail.fleet.workspaces import FleetWorkspace
from handrail.pipeline.session import Session
from handrail.policy.modes import DEFAULT_MODE, Mode

_MOST_CHARS = 4000


class Fleet:
    """Runs functions in many workspaces. Needs the extra `ray`.

    ``address``: of a Ray cluster, such as `ray://head:10001`; without it Ray is started on this machine, and ended by
    `close`. Each workspace is worked on in a process of Ray, whose server is beside the files. A worker that dies is
    started again by Ray, and repeats no call that had its effect, as long as the function makes the same calls.
    ``run``: a name for this use of the fleet; with the same name a later fleet goes on in the same workspaces.
    """

    def __init__(
        self, address: str | None = None, *, run: str = "", dialect: str = "native", mode: Mode = DEFAULT_MODE
    ):
        with needs("ray"):
            ray: Any = import_module("ray")
        self._ray = ray
        self.run = run or secrets.token_hex(6)
        self._options = {"dialect": dialect, "mode": mode}
        self._is_local = address is None
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            local = {"include_dashboard": False} if address is None else {}
            ray.init(address=address, log_to_driver=False, **local)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End Ray, if this fleet has started it."""
        if self._is_ours:
            self._ray.shutdown()

    def map(
        self, work: Work, workspaces: Iterable[FleetWorkspace], *, concurrency: int | None = None, retries: int = 3
    ) -> Iterator[FleetResult]:
        """Run ``work(session, workspace)`` in each workspace and yield the results as they come, in any order.

        ``concurrency``: at most so many at once; by default one for each processor of the cluster. ``retries``: how
        often a workspace whose worker dies is tried again; after that its result has an error. An exception of the
        function is a result too, and is not tried again. Raises `ValueError` if two workspaces have one name.
        """
        waiting = deque(workspaces)
        if len({one.name for one in waiting}) < len(waiting):
            raise ValueError("two workspaces have the same name; give each a name of its own")
        most = concurrency or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        task = self._ray.remote(max_retries=retries)(work_in)
        running: dict[Any, str] = {}
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    one = waiting.popleft()
                    running[task.remote(one, work, self.run, self._options)] = one.name
                (done,), _ = self._ray.wait(list(running), num_returns=1)
                yield self._take(done, running.pop(done))
        finally:
            for left in running:
                self._ray.cancel(left, force=True)

    def _take(self, done: Any, name: str) -> FleetResult:
        try:
            result: FleetResult = self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:  # of the function: it is not tried again
            return FleetResult(name, error=str(error)[-_MOST_CHARS:])
        except self._ray.exceptions.RayError as error:
            return FleetResult(name, error=f"its worker died too often: {type(error).__name__}")
        return result

    def session(self, workspace: FleetWorkspace) -> Session:
        """A session in one workspace of this machine, the same that `map` works in; raises `OSError`.

        Raises `ValueError` if the fleet is a cluster: the workspace may be on another machine then.
        """
        if not self._is_local:
            raise ValueError("a fleet on a cluster has no sessions here: give map a function")
        return open_session(workspace, self.run, self._options)[0]
