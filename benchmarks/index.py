"""The index of a large tree: what it costs to build, and searches with it against ripgrep, in processor time."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from benchmarks.measure import Line, Scale, Times, contest, size
from benchmarks.trees import list_newest, make_directories, write_file
from handrail import Session, Settings
from handrail.search.index.read import IndexFile
from handrail.search.ripgrep import find_program

_PARTS = (
    *("get", "set", "pod", "node", "list", "client", "config", "server", "handle", "error", "cache", "watch"),
    *("event", "spec", "status", "volume", "proxy"),
)
_FILES = 31_000
_SMALL_FILES = 300_000
_BUILD = """
import json, resource, sys
from handrail import Session, Settings
from handrail.search.index.use import get_indexes, make_base
from handrail.search.ripgrep import find_program
with Session(sys.argv[1], settings=Settings(state=sys.argv[2]), journal=None) as session:
    tree = session.search_tree()
    store, base = get_indexes(tree).store, make_base(find_program(), tree)
    before = resource.getrusage(resource.RUSAGE_SELF)
    store.build(tree, base)
    own, child = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = own.ru_utime + own.ru_stime - before.ru_utime - before.ru_stime + child.ru_utime + child.ru_stime
print(json.dumps([cpu, child.ru_maxrss * 1024]))
"""
_FIRST = """
import sys, time
from handrail.search.index.read import IndexFile
begun = time.process_time()
index = IndexFile(sys.argv[1])
index.find_candidates([[b"nosuchtextanywhere"]], False), index.always, index.binary, index.linked
print(time.process_time() - begun)
"""
_WATCHES = """
import os, sys
from benchmarks.memory import grown
from handrail.search.index.read import IndexFile
from handrail.search.index.watch import Watch
index = IndexFile(sys.argv[1])
directories = list(index.directories)
watch = Watch(os.open(sys.argv[2], os.O_RDONLY))
print(grown(lambda: watch.add(directories)))
"""


def generate(root: Path, files: int, rows: float) -> int:
    """A tree of source files, ``rows`` lines in the middle; returns the bytes of their contents. The same each time."""
    chance = random.Random(7)
    names = sorted({"".join(chance.choices(_PARTS, k=chance.randrange(1, 5))) for _ in range(40_000)})
    lines = [f"\t{chance.choice(names)}({' '.join(chance.choices(names, k=4))})\n" for _ in range(20_000)]
    total = 0
    root.mkdir()
    for number, place in enumerate(make_directories(root, files, 5, chance)):
        text = "".join(chance.choices(lines, k=1 + int(rows * chance.lognormvariate(0, 1))))
        text += "func waitForVolume_timeout(ctx)\n" if number % 310 == 7 else ""
        text += "rareNeedleHere\n" if number % 6200 == 9 else ""
        write_file(place / f"file{number}.go", text, chance)
        total += len(text)
    return total


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    program = find_program()
    if program is None or find_spec("numpy") is None or sys.platform != "linux":
        return
    part = min(1.0, scale.lines / 10_000_000)
    root, state = folder / "indexed", folder / "state"
    for number, rows, cpu, peak, share in ((_SMALL_FILES, 4, 8, 250, 0.5), (_FILES, 53, 3.5, 120, 0.15)):
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(state, ignore_errors=True)
        files = max(50, int(number * part))
        total = generate(root, files, rows)
        time.sleep(0.1)  # what has changed just now is not indexed
        yield from _build_lines(root, state, f"{files:,} files, {size(total)}", total, (cpu, peak, share))
    yield from _search_lines(root, state, program, scale)
    shutil.rmtree(root)


def _run(script: str, *words: object) -> str:
    here = Path(__file__).parent.parent
    command = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8", cwd=here).stdout


def _build_lines(root: Path, state: Path, tree: str, total: int, most: tuple[float, float, float]) -> Iterator[Line]:
    cpu, peak = json.loads(_run(_BUILD, root, state))
    (index,) = (state / "index").glob("*.index")
    taken = index.stat().st_size
    yield Line(f"Index of {tree}: build, CPU", f"{cpu:.2f} s", "", "", f"at most {most[0]:g} s", cpu <= most[0])
    yield Line("its peak memory", size(peak), "", "", f"at most {most[1]:g} MB", peak <= most[1] * (1 << 20))
    ratio = f"{taken / total:.0%}"
    yield Line("its size", size(taken), size(total), ratio, f"at most {most[2]:.0%}", taken <= most[2] * total)


def _search_lines(root: Path, state: Path, program: str, scale: Scale) -> Iterator[Line]:
    (index,) = (state / "index").glob("*.index")
    first = min(float(_run(_FIRST, index)) for _ in range(3))
    yield _limit("Open that index and find the candidates of a first query, CPU", first, 5)
    with Session(root, settings=Settings(state=str(state))) as session:

        def call(tool: str, arguments: dict[str, object], other: Session | None = None) -> None:
            result = (other or session).call(tool, arguments)
            assert result.error is None, result.text

        def bare(pattern: str) -> None:
            subprocess.run([program, "--no-config", "-l", "-e", pattern, "."], stdout=subprocess.PIPE, cwd=root)

        def begin() -> None:
            with Session(root, settings=Settings(state=str(state))) as other:
                call("Grep", {"pattern": "nosuchtext"}, other)

        for what, pattern, least in (
            ("an absent text", "nosuchtext", 20),
            ("a text in 5 files", "rareNeedleHere", 20),
            ("a text in 100 files", "waitForVolume_timeout", 20),
            (r"`func \w+_timeout`, in 100 files", r"func \w+_timeout", 20),
            ("the first 100 files of a common text", "config", 15),
        ):
            query: dict[str, object] = {"pattern": pattern}
            runs: dict[str, Callable[[], object]] = {
                "ours": partial(call, "Grep", query),
                "rg": partial(bare, pattern),
            }
            call("Grep", query)
            times = contest(scale.rounds, runs)
            yield _ahead(f"Grep for {what}, watched, against `rg -l`", times["ours"], times["rg"], least)
        times = contest(scale.few, {"ours": begin, "rg": partial(bare, "nosuchtext")})
        yield _ahead("the first search of a session, which compares all stamps", times["ours"], times["rg"], None)

        path = next(root.rglob("*.go"))

        def change() -> None:
            with path.open("ab") as file:
                file.write(b"\n")
            call("Grep", {"pattern": "nosuchtext"})

        times = contest(scale.rounds, {"ours": change})
        yield _limit("Change a file and search for an absent text, CPU", times["ours"].cpu, 3)
        for tool, arguments in (("Glob", {"pattern": "**/*.go"}), ("LS", {"depth": 10})):
            runs = {
                "ours": partial(call, tool, dict[str, object](arguments)),
                "rg": partial(list_newest, program, root, "*.go"),
            }
            call(tool, dict(arguments))
            call(tool, dict(arguments))
            times = contest(scale.rounds, runs)
            yield _ahead(f"{tool} again, against `rg --files -g`, stat, sort", times["ours"], times["rg"], 5)

    def one_shot(index_is_used: str) -> None:
        config = state / "config.toml"
        config.write_text(f"[settings]\nindex = {index_is_used}\n", encoding="utf-8")
        environment = {**os.environ, "HANDRAIL_STATE": str(state), "HANDRAIL_CONFIG": str(config)}
        words = [sys.executable, "-m", "handrail", "call", "Grep", "pattern=nosuchtext", "-w", str(root)]
        subprocess.run(words, stdout=subprocess.PIPE, check=True, env=environment)

    times = contest(scale.few, {"ours": partial(one_shot, "true"), "without": partial(one_shot, "false")})
    what = "`handrail call Grep`, the whole process, against the same without the index"
    yield _ahead(what, times["ours"], times["without"], 2)
    new = (path.with_name(f"new{number}.go") for number in count())
    with Session(root, settings=Settings(state=str(state))) as session:

        def create() -> None:
            next(new).touch()
            call("Grep", {"pattern": "nosuchtext"}, session)

        call("Grep", {"pattern": "nosuchtext"}, session)
        times = contest(scale.rounds, {"ours": create, "rg": partial(bare, "nosuchtext")})
        yield _ahead("Create a file and search, against `rg -l`", times["ours"], times["rg"], None)
    watches = len(IndexFile(str(index)).directories)
    yield Line(f"Memory of {watches:,} watches, in the process", size(int(float(_run(_WATCHES, index, root)))))


def _limit(what: str, value: float, most: float) -> Line:
    return Line(what, f"{value * 1e3:.2f} ms", "", "", f"at most {most:g} ms", value * 1e3 <= most)


def _ahead(what: str, ours: Times, baseline: Times, least: float | None) -> Line:
    """How many times less processor time than the baseline."""
    ratio = baseline.cpu / ours.cpu
    target = f"at least {least:g}x in CPU" if least else ""
    return Line(what, str(ours), str(baseline), f"CPU {ratio:.1f}x less", target, ratio >= least if least else None)
