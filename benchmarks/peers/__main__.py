"""Measure Handrail beside its peers: `python -m benchmarks.peers [--only NAME ...] [--write]`.

Installs each peer in a pinned version into a temporary environment, which needs the indexes of pip and npm, runs the
same work through it, and prints one table; `--write` puts it into docs/peers.md.
"""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import handrail
from benchmarks.peers.cases import list_cases
from benchmarks.peers.connections import HERE, Connection, McpConnection

PAGE = HERE.parents[1] / "docs" / "peers.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
MANY = 40
"""Edits of one file by each of two processes."""
LINES = 1_000_000
ROWS = (
    "Imperfect edits: right",
    "Imperfect edits: wrong file, or applied though it must be refused",
    "Imperfect edits: refused though it could be applied",
    "80 parallel edits: lost though reported as made, and failed",
    "Read 100 lines in the middle of 1,000,000, CPU",
    "Read a small file, CPU of one of 200",
    "Grep for a rare word in 2,000 files, CPU",
    "Start to first answer, CPU",
)


@dataclass(frozen=True, slots=True)
class Peer:
    """A program, its pinned version, and how it is started once it is installed."""

    name: str
    version: str
    install: Callable[[Path], None]
    command: Callable[[Path, Path], list[str]]
    kind: type[Connection] = Connection


def _pip(package: str, python: str = "python3") -> Callable[[Path], None]:
    def install(folder: Path) -> None:
        program = shutil.which(python) or sys.executable
        subprocess.run([program, "-m", "venv", folder], check=True)
        words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
        subprocess.run([folder / "bin" / "python", *words], check=True)

    return install


def _npm(package: str) -> Callable[[Path], None]:
    def install(folder: Path) -> None:
        folder.mkdir()
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", package], cwd=folder, check=True)

    return install


def _drive(name: str) -> Callable[[Path, Path], list[str]]:
    return lambda folder, root: [str(folder / "bin" / "python"), str(HERE / f"driver_{name}.py"), str(root)]


_NODE = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
PEERS = (
    Peer(
        "Handrail",
        handrail.__version__,
        lambda _: None,
        lambda _, root: [sys.executable, str(HERE / "driver_handrail.py"), str(root)],
    ),
    Peer("deepagents", "0.7.32", _pip("deepagents==0.7.32"), _drive("deepagents")),
    Peer(
        "MCP filesystem server",
        "2026.8.31",
        _npm("@modelcontextprotocol/server-filesystem@2026.8.31"),
        lambda folder, root: ["node", str(folder / _NODE), str(root)],
        McpConnection,
    ),
    Peer("openhands-aci", "0.3.3", _pip("openhands-aci==0.3.3", "python3.12"), _drive("openhands")),
    Peer("aider", "0.86.2", _pip("aider-chat==0.86.2"), _drive("aider")),
)


def measure(peer: Peer, folder: Path, place: Path) -> list[str]:
    """The cells of one peer, in the order of `ROWS`."""

    def connect() -> Connection:
        return peer.kind(peer.command(folder, place), place)

    place.mkdir()
    right, wrong, refused = judge_edits(connect, place)
    return [
        str(right),
        str(wrong),
        str(refused),
        count_lost(connect, place),
        read_middle(connect, place),
        read_small(connect, place),
        search(connect, place),
        start(connect, place),
    ]


def judge_edits(connect: Callable[[], Connection], place: Path) -> tuple[int, int, int]:
    """How many edits are right, wrong, and refused though they could be applied."""
    path, counts = place / "app.py", [0, 0, 0]
    connection = connect()
    for case in list_cases():
        path.write_bytes(case.before)
        connection.ask(do="edit", path="app.py", old=case.old, new=case.new)
        after = path.read_bytes()
        if after == (case.wanted or case.before):
            counts[0] += 1
        else:
            counts[2 if after == case.before else 1] += 1
    connection.close()
    path.unlink()
    return counts[0], counts[1], counts[2]


def count_lost(connect: Callable[[], Connection], place: Path) -> str:
    """Two processes edit lines of their own in one file at the same time; what was reported as made must be there."""
    path, collected = place / "shared.py", list[str]()
    path.write_text("".join(f"line_{number} = 0\n" for number in range(2 * MANY)), encoding="utf-8")

    def edit(first: int, connection: Connection) -> None:
        for number in range(first, 2 * MANY, 2):
            old, new = f"line_{number} = 0", f"line_{number} = 1"
            if connection.ask(do="edit", path="shared.py", old=old, new=new).get("ok"):
                collected.append(new)

    connections = [connect(), connect()]
    for connection in connections:  # both have started before the first edit
        connection.ask(do="edit", path="shared.py", old="a line that is not there", new="x")
    threads = [threading.Thread(target=edit, args=pair) for pair in enumerate(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.close()
    left = path.read_text(encoding="utf-8").splitlines()
    path.unlink()
    return f"{sum(line not in left for line in collected)} lost, {2 * MANY - len(collected)} failed"


def read_middle(connect: Callable[[], Connection], place: Path) -> str:
    path = place / "huge.txt"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"line {number} of a long file\n" for number in range(1, LINES + 1))
    cell = _time(connect, times=3, do="read", path="huge.txt", line=LINES // 2)
    path.unlink()
    return cell


def read_small(connect: Callable[[], Connection], place: Path) -> str:
    (place / "small.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    return _time(connect, times=200, do="read", path="small.txt", line=1)


def search(connect: Callable[[], Connection], place: Path) -> str:
    tree = place / "tree"
    for number in range(2_000):
        path = tree / str(number % 20) / f"file_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 100 + ("needle_7\n" if number == 777 else ""), encoding="utf-8")
    cell = _time(connect, times=3, do="grep", pattern="needle_7")
    shutil.rmtree(tree)
    return cell


def start(connect: Callable[[], Connection], place: Path) -> str:
    (place / "small.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    connection = connect()
    edit = {"do": "edit", "path": "small.txt", "old": "two", "new": "2"}
    connection.ask(**edit)
    taken = connection.cpu()
    connection.close()
    return f"{taken * 1000:.0f} ms"


def _time(connect: Callable[[], Connection], times: int, **request: object) -> str:
    """Processor time of one request, after one that does not count."""
    connection = connect()
    answer = connection.ask(**request)
    before = connection.cpu()
    if not answer.get("missing") and answer.get("ok"):
        for _ in range(times):
            connection.ask(**request)
    taken = (connection.cpu() - before) / times
    connection.close()
    if answer.get("missing"):
        return "no such tool"
    return f"{taken * 1000:.3g} ms" if answer.get("ok") else "refused"


def compare(peers: Sequence[Peer]) -> str:
    """Install and measure these peers; the table as Markdown."""
    columns: list[list[str]] = []
    for peer in peers:
        with tempfile.TemporaryDirectory(prefix="peers-") as name:
            began = time.monotonic()
            folder = Path(name)
            try:
                peer.install(folder / "env")
                columns.append(measure(peer, folder / "env", folder / "work"))
            except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
                print(f"{peer.name}: {error}", file=sys.stderr)
                columns.append(["not measured"] * len(ROWS))
            print(f"{peer.name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    heads = [f"{peer.name} {peer.version}" for peer in peers]
    rows = [f"| What | {' | '.join(heads)} |", "| --- |" + " --- |" * len(peers)]
    rows += [f"| {what} | {' | '.join(column[at] for column in columns)} |" for at, what in enumerate(ROWS)]
    total = sum(1 for _ in list_cases())
    day = dt.datetime.now(dt.UTC).date().isoformat()
    return f"Measured on {day}, Python {sys.version.split()[0]}; {total} imperfect edits each.\n\n" + "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="Measure Handrail beside its peers."
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the peers, by their names")
    parser.add_argument("--write", action="store_true", help="put the table into docs/peers.md")
    options = parser.parse_args()
    table = compare([peer for peer in PEERS if not options.only or peer.name in options.only])
    print(table)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        head, tail = page.partition(BEGIN)[0], page.partition(END)[2]
        PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
