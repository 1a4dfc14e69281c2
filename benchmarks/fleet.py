"""Remote sessions and fleets: the way to the files, many workspaces at once, and what a workspace costs."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import loopback_ssh
from benchmarks.mcp import surroundings
from benchmarks.mcp_http import HttpServer
from benchmarks.measure import SMALL, Line, Scale, Times, contest, faster, seconds, size, slower
from handrail import AnySession, Fleet, FleetWorkspace, Session, connect
from handrail.fleet.worker import open_session
from handrail.fleet.workspaces import build_workspace
from handrail.pipeline.options import ConnectOptions

_FULL: ConnectOptions = {"mode": "full"}
_TREE_FILES = 30_000
_WORKSPACES = 1_000
_AT_ONCE = (1, 10, 50, 200)
_SCRIPT = "import sys; print(open(sys.argv[1]).read())"
_CHANGE = "import sys; p, a, b = sys.argv[1:]; t = open(p).read(); open(p, 'w').write(t.replace(a, b))"
_MOST_MORE = 1e-3
_MOST_SSH = 3.0


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    place = folder / "fleet"
    place.mkdir()
    with _variables({"HANDRAIL_STATE": str(place / "state"), "XDG_CONFIG_HOME": str(place / "config")}):
        yield from _compare_ways(place, scale)
        yield from _measure_many(place, scale)
        yield from _measure_start(place, scale)


@contextlib.contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    old = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Way:
    """A way to the files of a workspace, with a small file that is read and edited over it."""

    def __init__(self, call: Callable[[str, dict[str, Any]], Any]) -> None:
        self._call = call
        self._texts = ["line 5 of ten", "line five of ten"]

    def read(self) -> None:
        self._call("Read", {"file_path": "small.txt"})

    def edit(self) -> None:
        old, new = self._texts
        self._call("Edit", {"file_path": "small.txt", "old_string": old, "new_string": new})
        self._texts.reverse()


def _make_tree(root: Path) -> Path:
    root.mkdir()
    rows = [f"line {number} of ten\n" for number in range(10)]
    (root / "small.txt").write_text("".join(rows), encoding="utf-8")
    return root


def _serve_words(root: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "handrail", "serve", "--stdio", "--mode", "full", str(root)]


def _call(session: AnySession, tool: str, arguments: dict[str, Any]) -> None:
    result = session.call(tool, arguments)
    assert result.ok, result.text


def _run_python(words: Sequence[str], path: Path, tool: str, arguments: dict[str, Any]) -> None:
    """The way without a resident server: Python started for each call."""
    script, values = (_SCRIPT, [str(path)])
    if tool == "Edit":
        script, values = _CHANGE, [str(path), arguments["old_string"], arguments["new_string"]]
    quoted = [_quote(one) if len(words) > 1 else one for one in (script, *values)]
    subprocess.run([*words, "python3", "-c", *quoted], check=True, stdout=subprocess.DEVNULL)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _compare_ways(place: Path, scale: Scale) -> Iterator[Line]:
    with contextlib.ExitStack() as stack:
        names = ("process", "pipe", "python", "ssh", "python over ssh", "http", "ray")
        roots = {name: _make_tree(place / f"way-{name.replace(' ', '-')}") for name in names}
        near = stack.enter_context(Session(roots["process"], mode="full"))
        pipe = stack.enter_context(connect(_serve_words(roots["pipe"]), **_FULL))
        ways = {
            "process": _Way(partial(_call, near)),
            "pipe": _Way(partial(_call, pipe)),
            "python": _Way(partial(_run_python, [], roots["python"] / "small.txt")),
        }
        if loopback_ssh.is_installed():
            variables = {name: os.environ[name] for name in ("HANDRAIL_STATE", "XDG_CONFIG_HOME")}
            address, words = stack.enter_context(loopback_ssh.serve(place / "ssh", variables))
            host, _, port = address.partition(":")
            ssh = [*words, "-p", port, host]
            far = stack.enter_context(connect([*ssh, *_serve_words(roots["ssh"])], **_FULL))
            ways["ssh"] = _Way(partial(_call, far))
            ways["python over ssh"] = _Way(partial(_run_python, ssh, roots["python over ssh"] / "small.txt"))
        if importlib.util.find_spec("mcp") and importlib.util.find_spec("uvicorn"):
            server = stack.enter_context(HttpServer(roots["http"], surroundings(place)))
            ways["http"] = _Way(
                lambda tool, arguments: server.ask("tools/call", {"name": tool, "arguments": arguments})
            )
        if importlib.util.find_spec("ray") and scale.calls >= SMALL.calls:
            try:
                ways["ray"] = _Way(partial(_call, _open_on_ray(stack, roots["ray"])))
            except Exception as error:  # noqa: BLE001 - Ray raises no other class if it does not start in time
                print(f"  Ray does not start: {error}", file=sys.stderr)
        for what in ("read", "edit"):
            for way in ways.values():
                way.read()
            starts = {name for name in ways if name.startswith("python")}
            each = max(5, scale.calls // 10)
            times = contest(scale.rounds, {n: getattr(w, what) for n, w in ways.items() if n not in starts}, each=each)
            times |= contest(scale.few, {name: getattr(ways[name], what) for name in starts}, each=3)
            yield from _report_ways(what.capitalize(), times)


def _open_on_ray(stack: contextlib.ExitStack, root: Path) -> AnySession:
    """A session whose bytes an actor of Ray passes on, as on a cluster."""
    import ray  # type: ignore[import-not-found,import-untyped,unused-ignore]

    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    stack.callback(ray.shutdown)
    fleet = Fleet(ray.get_runtime_context().gcs_address, mode="full")
    return stack.enter_context(fleet.session(FleetWorkspace("way", folder=str(root))))


def _report_ways(what: str, times: dict[str, Times]) -> Iterator[Line]:
    process, pipe = times["process"], times["pipe"]
    more = pipe.median - process.median
    yield Line(
        f"Small {what} over a local pipe, against in process",
        str(pipe),
        str(process),
        f"{more * 1e3:+.2f} ms",
        "at most +1 ms" if what == "Read" else "",
        more <= _MOST_MORE if what == "Read" else None,
    )
    if "ssh" in times:
        most = _MOST_SSH if what == "Read" else None
        yield slower(f"Small {what} over ssh, against the pipe", times["ssh"], pipe, most)
        bare = times["python over ssh"]
        yield faster(f"Small {what} over ssh, against `python3 -c` for each over ssh", times["ssh"], bare, 10)
    else:
        yield Line(f"Small {what} over ssh", "not measured: openssh is not installed")
    yield faster(f"Small {what} over a local pipe, against `python3 -c` for each", pipe, times["python"], 10)
    for name, shown in (("http", "MCP over HTTP"), ("ray", "an actor of Ray")):
        if name in times:
            yield slower(f"Small {what} over {shown}, against the pipe", times[name], pipe)
        else:
            yield Line(f"Small {what} over {shown}", "not measured: the extra is not installed, or does not start")


def _measure_many(place: Path, scale: Scale) -> Iterator[Line]:
    """Calls a second, and memory, with so many workspaces at once, each with a server of its own."""
    tree = _make_tree(place / "many")
    chance = random.Random(1)
    for count in (one for one in _AT_ONCE if one <= scale.calls):
        with contextlib.ExitStack() as stack:
            opened = []
            for number in range(count):
                workspace = FleetWorkspace(f"w{count}-{number}", folder=str(tree))
                opened.append(stack.enter_context(open_session(workspace, "many", _FULL)[0]))
            ways = [_Way(partial(_call, session)) for session in opened]
            for way in ways:
                way.read()
            memory = sum(_measure_memory(session) for session in opened) // count
            each = max(2, scale.calls // count)

            def work(way: _Way, each: int = each) -> None:
                for number in range(each):
                    way.edit() if number % 4 == 3 else way.read()

            chance.shuffle(ways)
            started = time.perf_counter()
            with ThreadPoolExecutor(min(count, 32)) as pool:
                list(pool.map(work, ways))
            rate = each * count / (time.perf_counter() - started)
            yield Line(
                f"{count} workspaces at once: calls a second (3 Reads for each Edit), memory of one",
                f"{rate:.0f} a second, {size(memory)}",
            )


def _measure_memory(session: Any) -> int:
    """Bytes of the processes of a server, shared pages divided among those that share them; 0 where it is unknown."""
    total, waiting = 0, [session._link._connection.pid]
    while waiting:
        process = waiting.pop()
        with contextlib.suppress(OSError):
            rows = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
            total += sum(int(row.split()[1]) << 10 for row in rows if row.startswith("Pss:"))
            for task in Path(f"/proc/{process}/task").iterdir():
                waiting += map(int, (task / "children").read_text(encoding="ascii").split())
    return total


def _measure_start(place: Path, scale: Scale) -> Iterator[Line]:
    """Workspaces of one large tree: how long it takes to build them, and to open a session in one."""
    part = scale.lines / Scale().lines
    files, count = max(100, int(_TREE_FILES * part)), max(5, int(_WORKSPACES * part))
    tree = _make_tree(place / "large")
    for number in range(files):
        if number % 100 == 0:
            (tree / f"d{number // 100}").mkdir()
        (tree / f"d{number // 100}" / f"f{number}.txt").write_text(f"file {number}\n", encoding="ascii")
    base = str(place / "base")
    started = time.perf_counter()
    first = build_workspace(FleetWorkspace("first", folder=str(tree)), base)
    prepared = time.perf_counter() - started
    started = time.perf_counter()
    for number in range(count):
        build_workspace(FleetWorkspace(f"w{number}", folder=str(tree)), base)
    built = time.perf_counter() - started
    copied = contest(scale.few, {"cp": partial(_copy, tree, place / "copy")})["cp"]
    yield Line(
        f"{count:,} workspaces of a tree of {files:,} files ({first.built}), against `cp -r` of each",
        f"{seconds(built)}, {seconds(built / count)} each, and {seconds(prepared)} once",
        f"{seconds(copied.median * count)}, {seconds(copied.median)} each",
        f"{copied.median * count / built:.0f}x faster",
    )
    opened = []
    for number in range(min(count, 5)):
        started = time.perf_counter()
        with open_session(FleetWorkspace(f"o{number}", folder=str(tree)), "start", _FULL)[0] as session:
            _call(session, "Read", {"file_path": "small.txt"})
            opened.append(time.perf_counter() - started)
    yield Line(
        f"A session in one of them, until the first Read is answered ({len(opened)} tried)", seconds(min(opened))
    )


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    subprocess.run(["rm", "-rf", str(target)], check=True)
