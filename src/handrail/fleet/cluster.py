"""A fleet of workspaces on Ray: this machine by default, or a cluster that runs already."""

from __future__ import annotations

import json
import secrets
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from importlib import import_module
from typing import Any

from handrail.errors.extras import needs
from handrail.fleet.progress import ProgressBar
from handrail.fleet.worker import FleetResult, Work, open_beside, open_draft, open_session, work_in
from handrail.fleet.workspaces import FleetWorkspace
from handrail.pipeline.any_session import AnySession
from handrail.pipeline.options import ConnectOptions
from handrail.pipeline.remote_session import connect
from handrail.pipeline.session_draft import SessionDraft
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
        with needs("fleet"):
            ray: Any = import_module("ray")
        self._ray = ray
        self.run = run or secrets.token_hex(6)
        self._options: ConnectOptions = {"dialect": dialect, "mode": mode}
        self._is_local = address is None
        self._address = address
        self._nodes: dict[str, str] = {}
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            local = {"include_dashboard": False} if address is None else {}
            ray.init(address=address or "local", log_to_driver=False, **local)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End Ray, if this fleet has started it."""
        if self._is_ours:
            self._ray.shutdown()

    def map(
        self,
        work: Work,
        workspaces: Iterable[FleetWorkspace],
        *,
        concurrency: int | None = None,
        retries: int = 3,
        progress: bool = False,
    ) -> Iterator[FleetResult]:
        """Run ``work(session, workspace)`` in each workspace and yield the results as they come, in any order.

        Each workspace has a machine of the cluster: the one that has its files, or the one with the least to do. It
        stays there as long as that machine lives. ``concurrency``: at most so many at once; by default one for each
        processor of the cluster. ``retries``: how often a workspace whose worker dies is tried again; after that its
        result has an error. An exception of the function is a result too, and is not tried again. ``progress``: show a
        bar on stderr, if that is a terminal. Raises `ValueError` if two workspaces have one name.
        """
        bar = ProgressBar(sys.stderr) if progress else None
        waiting = deque(workspaces)
        total = len(waiting)
        if len({one.name for one in waiting}) < total:
            raise ValueError("two workspaces have the same name; give each a name of its own")
        most = concurrency or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        task = self._ray.remote(max_retries=retries)(work_in)
        running: dict[object, str] = {}
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    one = waiting.popleft()
                    placed = task.options(scheduling_strategy=self._place(one.name, running.values()))
                    running[placed.remote(one, work, self.run, self._options)] = one.name
                (done,), _ = self._ray.wait(list(running), num_returns=1)
                result = self._take(done, running.pop(done))
                if result.node:
                    self._nodes[result.workspace] = result.node
                if bar:
                    bar.show(total - len(waiting) - len(running), total)
                yield result
        finally:
            for left in running:
                self._ray.cancel(left, force=True)

    def _place(self, name: str, running: Iterable[str]) -> object:
        """Where a workspace is worked on: on the machine with its files, or the one with the least to do."""
        alive = {one["NodeID"]: one["Resources"].get("CPU", 0) for one in self._ray.nodes() if one["Alive"]}
        if self._nodes.get(name) not in alive:
            load = Counter(self._nodes.get(one) for one in running)
            self._nodes[name] = min(alive, key=lambda node: (load[node] + 1) / max(alive[node], 0.001))
        strategies = import_module("ray.util.scheduling_strategies")
        return strategies.NodeAffinitySchedulingStrategy(self._nodes[name], soft=True)

    def _take(self, done: object, name: str) -> FleetResult:
        try:
            result: FleetResult = self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:  # of the function: it is not tried again
            return FleetResult(name, error=str(error)[-_MOST_CHARS:])
        except self._ray.exceptions.RayError as error:
            return FleetResult(name, error=f"its worker died too often: {type(error).__name__}")
        return result

    def session(self, workspace: FleetWorkspace) -> AnySession:
        """A session in one workspace, the same that `map` works in; raises `OSError` or `ConnectionLost`.

        On a cluster its server runs on the machine with the files, and an actor of Ray passes its bytes on.
        """
        if self._is_local:
            return open_session(workspace, self.run, self._options)[0]
        return self._connect(workspace, beside=False)

    def draft(self, workspace: FleetWorkspace) -> AbstractContextManager[SessionDraft[AnySession]]:
        """The draft that a workspace of `map` is: `changes`, `diff`, `keep`, `resolve` and `drop`, beside the files.

        `keep` merges into the copy of the source that the workspaces of its machine share. Once it was kept or dropped,
        the workspace starts anew from that copy. Raises `OSError` or `ConnectionLost` where workspaces are copies, and
        each method `OSError` while somebody works in the draft.
        """
        if self._is_local:
            return open_draft(open_beside(workspace, self.run, self._options))
        return open_draft(self._connect(workspace, beside=True))

    def _connect(self, workspace: FleetWorkspace, *, beside: bool) -> AnySession:
        """A session on the machine with the files of a workspace: in it, or beside the draft that it is."""
        self._place(workspace.name, ())
        given = {
            "address": self._address,
            "node": self._nodes[workspace.name],
            "run": self.run,
            "mode": self._options["mode"],
            "workspace": asdict(workspace),
            "beside": beside,
        }
        words = [sys.executable, "-P", "-m", "handrail.fleet.relay", json.dumps(given)]
        return connect(words, **self._options)
