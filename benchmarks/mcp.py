"""The MCP server on stdio: the time until a client has the tool list, and the cost of a call.

CPU is read from the kernel's account of every thread of the server at the moment when the answer is there, so that
neither our own waiting nor what the server does afterwards counts.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Protocol

from benchmarks.measure import Line, Scale, Times, seconds, size
from handrail import dialects
from handrail.mcp import build_specs, tool_list

AT_ONCE = 32
_INSTALLING = 180.0
PACKAGE = "@modelcontextprotocol/server-filesystem"


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    if not Path("/proc/self/schedstat").exists():
        yield Line("MCP over stdio", "not measured: this system keeps no account of CPU time a thread in /proc")
        return
    if tool_list.read_built("native") is None:  # sources are newer than the files that the install built
        build_specs.build(dialects.HERE, trusted=False)
    place = folder / "mcp"
    place.mkdir()
    (place / "small.txt").write_text("".join(f"line {n}\n" for n in range(10)), encoding="utf-8")
    variables = surroundings(folder)
    ours = [sys.executable, "-m", "handrail", "mcp", str(place)]
    yield from starting(ours, place, variables, scale)
    with Server(ours, variables) as server:
        yield from calling(server, scale)


def surroundings(folder: Path) -> dict[str, str]:
    """Compiled modules as an installed package has them, and a state of its own."""
    left_out = ("PYTHONDONTWRITEBYTECODE", "HANDRAIL_CONFIG")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    own = {
        name: str(folder / "mcp-own" / name) for name in ("HANDRAIL_STATE", "XDG_CONFIG_HOME", "PYTHONPYCACHEPREFIX")
    }
    return kept | own


def cpu_of(pid: int) -> float:
    """Seconds of all threads of a process."""
    spent = 0
    for task in list(Path(f"/proc/{pid}/task").iterdir()):
        try:
            spent += int((task / "schedstat").read_text(encoding="ascii").split()[0])
        except OSError:  # the thread has ended meanwhile
            continue
    return spent / 1e9


class Server:
    """A server, and what it has cost so far."""

    def __init__(self, words: Sequence[str], variables: Mapping[str, str]) -> None:
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=nothing, env=dict(variables))
        self._lock = Lock()
        self._number = 0
        self._waiting: dict[int, SimpleQueue[dict[str, Any]]] = {}
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Server:
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", about)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.ask("tools/list", {})
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self.process.stdout.close()

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        answer: SimpleQueue[dict[str, Any]] = SimpleQueue()
        with self._lock:
            self._number += 1
            number = self._number
            self._waiting[number] = answer
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return answer.get(timeout=60)

    def read_small(self) -> None:
        answer = self.ask("tools/call", {"name": "Read", "arguments": {"file_path": "small.txt"}})
        assert not answer["result"]["isError"], answer

    def cpu(self) -> float:
        """Seconds of all its threads."""
        return cpu_of(self.process.pid)

    def memory(self) -> int:
        """Bytes that are resident."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin
        with self._lock:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message and (waits := self._waiting.pop(message.get("id"), None)):
                waits.put(message)


def starting(ours: Sequence[str], place: Path, variables: Mapping[str, str], scale: Scale) -> Iterator[Line]:
    """CPU until the tool list is there, against an interpreter that does nothing and the server in node."""
    node = node_server(place, place.parent / "mcp-node" if scale.install else None)
    spent: dict[str, list[float]] = {"ours": [], "pass": [], **({"node": []} if node else {})}
    for number in range(scale.rounds + 1):
        seconds = {"ours": until_listed(ours, variables), "pass": bare(variables)}
        if node:
            seconds["node"] = until_listed(node, variables)
        if number:  # the first round writes compiled modules
            for name, value in seconds.items():
                spent[name].append(value)
    times = {name: Times(statistics.median(values), min(values)) for name, values in spent.items()}
    ratio = times["ours"].median / times["pass"].median
    what = "MCP: CPU from start to the tool list, against `python -c pass`"
    yield Line(what, str(times["ours"]), str(times["pass"]), f"{ratio:.2f}x", "at most 3x", ratio <= 3)
    what = f"MCP: CPU from start to the tool list, against `{PACKAGE}` in node"
    if node:
        ratio = times["ours"].median / times["node"].median
        yield Line(what, str(times["ours"]), str(times["node"]), f"{ratio:.2f}x", "below 1x", ratio < 1)
    else:
        why = "it could not be installed with npm" if scale.install else f"node or {PACKAGE} is not installed here"
        yield Line(what, str(times["ours"]), f"not measured: {why}")


def until_listed(words: Sequence[str], variables: Mapping[str, str]) -> float:
    with Server(words, variables) as server:
        return server.cpu()


def bare(variables: Mapping[str, str]) -> float:
    process = subprocess.Popen([sys.executable, "-c", "pass"], env=dict(variables))
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime


def node_server(place: Path, into: Path | None = None) -> list[str] | None:
    """The node server for the same folder: on PATH, among npm's global packages, or installed ``into`` a folder."""
    if server := shutil.which("mcp-server-filesystem"):
        return [server, str(place)]
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return None
    where = subprocess.run([npm, "root", "-g"], capture_output=True, encoding="utf-8", check=False).stdout.strip()
    script = Path(where, PACKAGE, "dist", "index.js")
    if not (where and script.is_file()) and into:
        into.mkdir(exist_ok=True)
        quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        words = [npm, "install", "--prefix", str(into), *quiet, PACKAGE]
        try:
            subprocess.run(words, cwd=into, capture_output=True, check=False, timeout=_INSTALLING)
        except subprocess.TimeoutExpired:
            return None
        script = into / "node_modules" / PACKAGE / "dist" / "index.js"
    return [node, str(script), str(place)] if script.is_file() else None


class ReadServer(Protocol):
    """A server that can be asked for a small file, and for the processor time that it has used."""

    def read_small(self) -> object: ...

    def cpu(self) -> float: ...


def measure_reads(what: str, server: ReadServer, calls: int, most: float) -> Line:
    """Measure small Reads: the processor time of the server, at most ``most`` seconds, and the whole round trip."""
    for _ in range(20):
        server.read_small()
    took, before = [], server.cpu()
    for _ in range(calls):
        started = time.perf_counter()
        server.read_small()
        took.append(time.perf_counter() - started)
    cost = (server.cpu() - before) / calls
    trip = seconds(statistics.median(took))
    return Line(what, seconds(cost), trip, target=f"at most {seconds(most)}", met=cost <= most)


def calling(server: Server, scale: Scale) -> Iterator[Line]:
    time.sleep(2)  # what the server prepares after the tool list belongs to an idle server
    idle = server.memory()
    yield Line("MCP: memory of an idle server", size(idle), target="under 40 MB", met=idle < 40e6)
    yield measure_reads("MCP: server time of a small Read, of the whole round trip", server, scale.calls, 0.0005)
    rounds = max(2, scale.calls // 10)
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def volley() -> None:
            list(pool.map(lambda _: server.read_small(), range(AT_ONCE)))

        for _ in range(rounds):
            volley()
        warm, started = server.memory(), time.perf_counter()
        for _ in range(rounds):
            volley()
        taken, grown = time.perf_counter() - started, server.memory() - warm
    what = f"MCP: {AT_ONCE} calls at once, {rounds} times over: growth of memory"
    rate = f"{AT_ONCE * rounds / taken:.0f} calls a second"
    yield Line(what, size(max(0, grown)), rate, target="at most 2 MB", met=grown <= 2 << 20)
