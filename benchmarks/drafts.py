"""Drafts: what a command costs in one, and what a copy of the tree costs beside `cp -r` and `git worktree add`."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.bash import call
from benchmarks.measure import Line, Scale, Times, contest, cpu_time, faster, seconds, slower
from handrail import Session, Settings
from handrail.drafts.keep import keep, undo
from handrail.drafts.store import DraftStore, NoDraft
from handrail.shell.sandbox.environment import scrub_environment
from handrail.shell.sandbox.namespaces import NamespaceBoundary

FILES = 20_000
MANY = 50
MOST_SECONDS, MOST_BYTES = 0.01, 5_000_000
OPAQUE = f"{sys.executable} -I -S -c 'pass'"
"""A command of which nobody can tell from its words that it changes nothing."""


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    """Commands and copies; one line that says why, where there can be no draft."""
    yield from _commands(folder, scale)
    yield from _copies(folder, scale)


def _open(root: Path, state: Path, *, drafts: bool) -> Session:
    return Session(root, mode="full", settings=Settings(state=str(state), drafts=drafts))


def _commands(folder: Path, scale: Scale) -> Iterator[Line]:
    root = folder / "draft-commands"
    root.mkdir()
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(_open(root, folder / "state", drafts=False))
        drafted = stack.enter_context(_open(root, folder / "state", drafts=True))
        if not drafted.services.command_host().drafts.workspace:
            yield Line(f"Commands in drafts: {drafted.services.command_host().drafts.why_none}", "not measured")
            return
        write = f'{sys.executable} -I -S -c \'open("file", "w").write("x")\''
        contestants: dict[str, Callable[[], object]] = {
            "plain": partial(call, plain, OPAQUE),
            "draft": partial(call, drafted, OPAQUE),
            "plain write": partial(call, plain, write),
            "draft write": partial(call, drafted, write),
        }
        each = max(3, scale.calls // 30)
        times = contest(scale.rounds, contestants, each)
        starts = _start_alone(drafted, root, scale.rounds, each)
    same = "against the same command on the workspace itself"
    yield slower(f"The start of a process in a draft alone, {same}", starts["draft"], starts["plain"], 1.5)
    yield slower(
        f"A command that changes nothing in a draft, kept and dropped, {same}", times["draft"], times["plain"], 2.2
    )
    yield slower(f"A command that creates a file in a draft, kept, {same}", times["draft write"], times["plain write"])


def _start_alone(session: Session, root: Path, rounds: int, each: int) -> dict[str, Times]:
    """Start a process in a draft that is there, and wait for its end: without keep and drop, and without a record."""
    host = session.services.command_host()
    words = shlex.split(OPAQUE)
    # The kernel mounts the layers of a command's draft only once.
    drafts = [draft for draft in (host.drafts.create() for _ in range((rounds + 1) * each)) if draft]
    unused = iter(drafts)
    assert isinstance(host.boundary, NamespaceBoundary)
    plain = partial(host.boundary.spawn, words, protection="nothing", cwd=str(root), env=scrub_environment())
    try:
        return contest(
            rounds,
            {
                "plain": lambda: plain().wait(),
                "draft": lambda: host.drafts.start(words, next(unused), cwd=str(root)).wait(),
            },
            each,
        )
    finally:
        for draft in drafts:
            draft.drop()


def _copies(folder: Path, scale: Scale) -> Iterator[Line]:
    root = folder / "draft-tree" / "project"
    count = max(50, FILES * scale.lines // Scale().lines)
    for number in range(count):
        if number % 50 == 0:
            (root / f"d{number // 50}").mkdir(parents=True)
        (root / f"d{number // 50}" / f"f{number}").write_text(f"{number}\n", encoding="ascii")
    try:
        store = DraftStore.open(str(folder / "draft-tree" / "state"), str(root))
    except NoDraft as error:
        yield Line(f"Drafts of a tree: {error.strerror}", "not measured")
        return
    copy, tree = folder / "draft-tree" / "copy", folder / "draft-tree" / "worktree"
    git = shutil.which("git")

    def by_copy() -> None:
        subprocess.run(["cp", "-r", str(root), str(copy)], check=True)
        shutil.rmtree(copy)

    def by_git() -> None:
        subprocess.run([str(git), "worktree", "add", "-q", "--detach", str(tree)], cwd=root, check=True)
        subprocess.run([str(git), "worktree", "remove", "--force", str(tree)], cwd=root, check=True)

    contestants: dict[str, Callable[[], object]] = {"draft": lambda: store.create().drop(), "cp": by_copy}
    if git:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "maintenance.auto=false"]  # nothing in the background
        for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "all"]):
            subprocess.run([git, *words], cwd=root, check=True)
        contestants["git"] = by_git
    times = contest(scale.few, contestants)
    about = f"A draft of {count:,} files, created and dropped, against"
    yield faster(f"{about} `cp -r` and `rm -r`", times["draft"], times["cp"], 10)
    if git:
        yield faster(f"{about} `git worktree add` and `remove`", times["draft"], times["git"], 10)
    yield _keep_new_files(store, count, scale)
    if git:
        yield _create_many(store, root, count // 2, git)


def _create_many(store: DraftStore, root: Path, more: int, git: str) -> Line:
    """Create many drafts of a larger checkout: the time and the disk that each of them takes."""
    (root / "more").mkdir()
    for number in range(more):
        (root / "more" / f"f{number}").write_text(f"{number}\n", encoding="ascii")
    subprocess.run([git, "add", "-A"], cwd=root, check=True)
    begun, used = time.perf_counter(), cpu_time()
    drafts = [store.create(f"draft-{number}") for number in range(MANY)]
    taken, cpu = ((after - before) / MANY for after, before in ((time.perf_counter(), begun), (cpu_time(), used)))
    space = sum(path.lstat().st_blocks << 9 for draft in drafts for path in Path(draft.directory.path).rglob("*"))
    for draft in drafts:
        draft.drop()
    what = f"One of {MANY} drafts of a git checkout with {3 * more:,} files: time, and space on the disk"
    met = cpu < MOST_SECONDS and space / MANY < MOST_BYTES
    shown = f"{seconds(taken)} (CPU {seconds(cpu)}), {space / MANY / 1e6:.1f} MB"
    return Line(what, shown, target="under 10 ms of CPU and 5 MB", met=met)


def _keep_new_files(store: DraftStore, count: int, scale: Scale) -> Line:
    """Keep and take back a directory of new files, as a build leaves it, against copying it into place."""
    draft = store.create()
    built, target = Path(draft.directory.upper) / "build", Path(store.workspace) / "copied"
    built.mkdir()
    for number in range(count):
        (built / f"f{number}").write_text("x", encoding="ascii")
    source = Path(store.path) / "source"
    shutil.copytree(built, source)

    def ours() -> None:
        keep(draft.directory)
        undo(draft.directory)
        Path(draft.directory.path, "undone.json").unlink()

    def by_copy() -> None:
        shutil.copytree(source, target)
        shutil.rmtree(target)

    times = contest(scale.few, {"ours": ours, "copy": by_copy})
    draft.drop()
    shutil.rmtree(source)
    return faster(
        f"{count:,} new files kept and taken back, against a copy and its removal", times["ours"], times["copy"], 5
    )
