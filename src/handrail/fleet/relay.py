"""The command of a session on a cluster: passes bytes between its own stdin and stdout and a server on another machine.

`python -m handrail.fleet.relay JSON` joins the cluster, and an actor of Ray on the machine with the files runs the
server. It ends with its stdin, and the actor ends the server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from handrail.fleet.worker import list_server_words
from handrail.fleet.workspaces import FleetWorkspace
from handrail.json_types import JsonObject

_BLOCK = 1 << 16
_END_SECONDS = 10.0


class ServerActor:
    """A server beside the files; its methods are called over Ray."""

    def __init__(self, workspace: JsonObject, run: str, mode: str, beside: bool) -> None:
        words, self._place = list_server_words(FleetWorkspace(**workspace), run, mode, beside=beside)
        self._server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - our own

    def read(self) -> Iterator[bytes]:
        """The output of the server, block by block, until it ends."""
        assert self._server.stdout
        while block := os.read(self._server.stdout.fileno(), _BLOCK):
            yield block

    def write(self, data: bytes) -> None:
        """Send bytes to the server; none at all are the end."""
        assert self._server.stdin
        if data:
            self._server.stdin.write(data)
            self._server.stdin.flush()
            return
        self._server.stdin.close()
        try:
            self._server.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._server.kill()
        self._place.opened.close()


def main(given: dict[str, object]) -> None:
    ray: Any = import_module("ray")
    strategies = import_module("ray.util.scheduling_strategies")
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # Ray prints to stdout
    ray.init(address=given["address"], log_to_driver=False)
    place = strategies.NodeAffinitySchedulingStrategy(given["node"], soft=True)
    # One thread reads all the time; the other one writes.
    kind = ray.remote(num_cpus=0, max_concurrency=2)(ServerActor).options(scheduling_strategy=place)
    actor = kind.remote(given["workspace"], given["run"], given["mode"], given["beside"])
    output = actor.read.options(num_returns="streaming").remote()

    def pass_output() -> None:
        for block in output:
            data = memoryview(ray.get(block))
            while data:
                data = data[os.write(sink, data) :]
        os._exit(0)  # the server ended: stdin may never end

    threading.Thread(target=pass_output, daemon=True).start()
    while block := os.read(source, _BLOCK):
        ray.get(actor.write.remote(block))
    ray.get(actor.write.remote(b""))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
