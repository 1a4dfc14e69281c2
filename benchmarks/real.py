"""A real tree, as agents work in it: search, change, search.

`HANDRAIL_BENCH_TREE` names a git clone of about 30,000 files, such as kubernetes; each row names its version. Processor
time decides. The baselines are what a person would run instead: `rg`, and `bash` without a sandbox.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.measure import Line, Scale, Times, contest, seconds
from benchmarks.trees import list_newest
from handrail import Session, Settings
from handrail.search.ripgrep import find_program

_ROUNDS = 300
_WORDS = (
    "TODO",
    "nosuchtext",
    "waitForPod",
    "kubeletConfig",
    "apierrors.IsNotFound",
    r"func \w+Timeout\(",
    "errNeverSeen",
)
_INDEX = """
import sys
from handrail import Session, Settings
with Session(sys.argv[1], settings=Settings(state=sys.argv[2]), journal=None) as session:
    session.call("Grep", {"pattern": "nosuchtext"})
    from handrail.search.index.use import get_indexes
    get_indexes(session.search_tree()).wait()
"""


class _Work:
    """A copy of the tree, and the sessions that work in it."""

    def __init__(self, source: Path, folder: Path, program: str) -> None:
        self.root, self.state, self.program = folder / "real", folder / "state", program
        subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(self.root)], check=True)
        version = ["git", "describe", "--tags", "--always"]
        described = subprocess.run(version, cwd=source, capture_output=True, text=True, check=True).stdout.strip()
        self.name = f"{source.name} {described}"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "*.go"], cwd=self.root, capture_output=True, check=True
        ).stdout
        self.sources = [self.root / os.fsdecode(name) for name in listed.split(b"\0")[:-1]]
        self.files = len(self.rg("--files", "."))
        time.sleep(2.5)  # what was written just now proves nothing yet

    def open(self, *, index: bool = True) -> Session:
        return Session(self.root, mode="full", settings=Settings(state=str(self.state), index=index))

    def rg(self, *words: str, here: str = ".") -> list[bytes]:
        command = [self.program, "--no-config", "--null", *words]
        return subprocess.run(command, stdout=subprocess.PIPE, cwd=self.root / here).stdout.split(b"\0")

    def build_index(self) -> None:
        here = Path(__file__).parent.parent
        subprocess.run([sys.executable, "-c", _INDEX, str(self.root), str(self.state)], check=True, cwd=here)


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    program, source = find_program(), os.environ.get("HANDRAIL_BENCH_TREE")
    if program is None or source is None or sys.platform != "linux":
        why = "HANDRAIL_BENCH_TREE names no tree" if source is None else "this needs Linux and ripgrep"
        yield Line(f"Work in a real tree: {why}", "not measured")
        return
    work = _Work(Path(source), folder, program)
    yield Line("The tree", f"{work.name}, {work.files:,} files")
    yield from _first_lines(work, scale)
    work.build_index()
    yield from _search_lines(work, scale)
    yield from _one_shot_lines(work, scale)
    yield from _command_lines(work, scale)
    yield from _changing_lines(work, scale)
    shutil.rmtree(work.root)


def call(session: Session, tool: str, **arguments: object) -> None:
    result = session.call(tool, arguments)
    assert result.error is None, result.text


def _first_lines(work: _Work, scale: Scale) -> Iterator[Line]:
    """What the first calls in a workspace and in a session cost, before there is an index."""

    def glob() -> None:
        with work.open(index=False) as session:
            call(session, "Glob", pattern="**/*.go")

    times = contest(scale.few, {"ours": glob, "rg": lambda: list_newest(work.program, work.root, "*.go")})
    about = f"Glob **/*.go first in a session, {work.files:,} files, against `rg --files -g`, stat, sort"
    yield at_most(about, times["ours"], times["rg"], 4)

    def very_first() -> None:
        shutil.rmtree(work.state, ignore_errors=True)
        first()

    def first() -> None:
        with work.open(index=False) as session:
            call(session, "Bash", command="true")

    times = contest(scale.few, {"ours": very_first, "rg": lambda: list_newest(work.program, work.root, "*")})
    yield at_most(
        "Bash `true`, the very first in the workspace, against `rg --files`, stat, sort", times["ours"], times["rg"], 4
    )
    first()
    yield limit("Bash `true`, the first of a later session, CPU", contest(scale.few, {"ours": first})["ours"], 250)


def _search_lines(work: _Work, scale: Scale) -> Iterator[Line]:
    with work.open() as session:
        for what, arguments, words, least in (
            ("an absent text", {"pattern": "nosuchtext"}, ("-l", "nosuchtext"), 20.0),
            (r"`func \w+Timeout\(`", {"pattern": r"func \w+Timeout\("}, ("-l", r"func \w+Timeout\("), 15),
            ("the first 100 files of a common text", {"pattern": "config"}, ("-l", "config"), 20),
            (
                "the first 100 lines of a common text, newest first",
                {"pattern": "config", "output_mode": "content", "head_limit": 100},
                ("-n", "config"),
                1,
            ),
        ):
            call(session, "Grep", **arguments)
            call(session, "Grep", **arguments)
            lines = len(work.rg(*words, "."))
            runs: dict[str, Callable[[], object]] = {
                "ours": partial(call, session, "Grep", **arguments),
                "rg": partial(work.rg, *words, "."),
            }
            times = contest(scale.rounds, runs)
            yield at_least(f"Grep for {what} (rg finds {lines:,}), against `rg`", times["ours"], times["rg"], least)
        here = next(path for path in sorted({one.parent for one in work.sources}) if len(os.listdir(path)) == 3)
        inner = str(here.relative_to(work.root))
        runs = {
            "ours": partial(call, session, "Grep", pattern="func", path=inner),
            "rg": partial(work.rg, "-l", "func", ".", here=inner),
        }
        times = contest(scale.rounds, runs, each=5)
        yield at_most("Grep in a directory of 3 files, against `rg -l`", times["ours"], times["rg"], 2)


def _changing_lines(work: _Work, scale: Scale) -> Iterator[Line]:
    numbers = count()
    with work.open() as session:

        def prepare() -> None:
            call(session, "Grep", pattern="nosuchtext")
            call(session, "Glob", pattern="**/*.go")
            call(session, "Grep", pattern="nosuchtext")
            call(session, "Glob", pattern="**/*.go")

        def after(change: Callable[[], None], search: Callable[[], None]) -> Times:
            prepare()
            used = []
            for _ in range(scale.rounds):
                change()
                used.append(contest_once(search))
            used.sort()
            return Times(used[len(used) // 2], used[0], used[len(used) // 2])

        def append() -> None:
            path = work.sources[next(numbers) * 37 % len(work.sources)]
            call(session, "Bash", command=f"echo '// one more' >> '{path.relative_to(work.root)}'")

        def create() -> None:
            (work.sources[next(numbers) * 41 % len(work.sources)].parent / f"new{next(numbers)}.go").touch()

        grep = partial(call, session, "Grep", pattern="nosuchtext")
        glob = partial(call, session, "Glob", pattern="**/*.go")
        yield limit("Grep for an absent text after our own Bash has changed a file, CPU", after(append, grep), 10)
        yield limit("Glob **/*.go after another program has created a file, CPU", after(create, glob), 10)
    yield _rounds(work, max(10, _ROUNDS * scale.rounds // 7))


def _rounds(work: _Work, rounds: int) -> Line:
    """Random changes by other programs and by our own tools, each followed by a search."""
    chance = random.Random(36)
    ours = theirs = 0.0
    with work.open() as session:
        call(session, "Grep", pattern="nosuchtext")
        for number in range(rounds):
            path = chance.choice(work.sources)
            kind = chance.randrange(5)
            if kind == 0:
                with path.open("a", encoding="utf-8") as file:
                    file.write("// appended\n")
            elif kind == 1:
                (path.parent / f"made{number}.go").write_text("package made\n", encoding="utf-8")
            elif kind == 2:
                path.with_suffix(f".tmp{number}").write_bytes(path.read_bytes())
                path.with_suffix(f".tmp{number}").replace(path)
            elif kind == 3:
                call(session, "Bash", command=f"echo '// by a command' >> '{path.relative_to(work.root)}'")
            else:
                call(session, "Write", file_path=str(path.parent / f"written{number}.go"), content="package w\n")
            word = chance.choice(_WORDS)
            ours += contest_once(partial(call, session, "Grep", pattern=word))
            theirs += contest_once(partial(work.rg, "-l", word, "."))
    what = f"{rounds} random rounds of change and search: the searches, against `rg -l`"
    return at_most(what, Times(ours, ours, ours), Times(theirs, theirs, theirs), 0.25)


def _command_lines(work: _Work, scale: Scale) -> Iterator[Line]:
    with work.open() as session:
        call(session, "Bash", command="true")
        runs: dict[str, Callable[[], object]] = {
            "ours": partial(call, session, "Bash", command="true"),
            "bash": lambda: subprocess.run(["bash", "-c", "true"], cwd=work.root, check=True),
        }
        times = contest(scale.rounds, runs, each=5)
        yield at_most("Bash `true`, warm, against `bash -c true`", times["ours"], times["bash"], 4)
        small = work.root / "small.txt"
        small.write_text("".join(f"line {number} of a small file\n" for number in range(40)), encoding="utf-8")
        call(session, "Read", file_path="small.txt")
        turns = count()

        def edit() -> None:
            turn = next(turns) % 2
            call(
                session, "Edit", file_path="small.txt",
                old_string=f"line {7 + turn * 100} of", new_string=f"line {107 - turn * 100} of",
            )  # fmt: skip

        times = contest(
            scale.rounds, {"read": partial(call, session, "Read", file_path="small.txt"), "edit": edit}, each=50
        )
        yield limit("Read a small file, CPU", times["read"], 0.2)
        yield limit("Edit a file of 1 KB, CPU", times["edit"], 0.8)
        small.unlink()


def _one_shot_lines(work: _Work, scale: Scale) -> Iterator[Line]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["HANDRAIL_STATE"] = str(work.state)
    words = [sys.executable, "-m", "handrail", "call", "Grep", "pattern=nosuchtext", "-w", str(work.root)]

    def ours() -> None:
        subprocess.run(words, stdout=subprocess.PIPE, check=True, env=environment)

    ours()  # compiles the modules
    times = contest(scale.few, {"ours": ours, "rg": partial(work.rg, "-l", "nosuchtext", ".")})
    yield at_most("`handrail call Grep`, indexed, the whole process, against `rg -l`", times["ours"], times["rg"], 1)


def contest_once(run: Callable[[], object]) -> float:
    """The processor time of one run, its children included."""
    from benchmarks.measure import cpu_time

    before = cpu_time()
    run()
    return cpu_time() - before


def at_most(what: str, ours: Times, baseline: Times, most: float) -> Line:
    """How many times the processor time of the baseline."""
    ratio = ours.cpu / baseline.cpu
    return Line(what, seconds(ours.cpu), seconds(baseline.cpu), f"{ratio:.2f}x", f"at most {most:g}x", ratio <= most)


def at_least(what: str, ours: Times, baseline: Times, least: float) -> Line:
    """How many times less processor time than the baseline."""
    ratio = baseline.cpu / ours.cpu
    ahead = f"{ratio:.1f}x less"
    return Line(what, seconds(ours.cpu), seconds(baseline.cpu), ahead, f"at least {least:g}x less", ratio >= least)


def limit(what: str, ours: Times, most: float) -> Line:
    """A target in milliseconds of processor time."""
    return Line(what, seconds(ours.cpu), "", "", f"at most {most:g} ms", ours.cpu * 1e3 <= most)
