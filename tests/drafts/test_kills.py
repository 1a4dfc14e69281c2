"""A keep or an undo that is killed at any call is finished afterwards: the change is there whole or not at all."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from handrail.drafts.keep import keep, recover, undo
from handrail.drafts.layout import DraftDirectory, read_clock, remove_tree
from tests.drafts.enter import enter_namespaces, mount_overlay, unmount
from tests.drafts.scenarios import TOP, fork, run_in_draft
from tests.drafts.trees import describe
from tests.sizes import pick, spread

_BEFORE = "mkdir -p d/e gone; echo 1 > a; echo 2 > d/b; echo 3 > d/e/c; echo 4 > gone/x; ln -s a link; touch same"
_COMMAND = """
echo more >> a; rm d/b; mkdir -p new/inner; echo 5 > new/inner/f; rm -rf gone; mkdir gone; echo 6 > gone/y
chmod 700 d; touch -d @1000000000 same; rm link; ln -s d link; mv d/e/c d/moved; chmod 555 new
"""


class Scene:
    """A workspace and a draft with changes, copied for each try."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.template = folder / "template"
        self.template.mkdir()
        subprocess.run(["bash", "-c", _BEFORE], cwd=self.template, check=True)
        draft = DraftDirectory.create(str(folder / "first"), str(self.template))
        try:
            run_in_draft(draft, "bash", "-c", _COMMAND)
        except subprocess.CalledProcessError:
            pytest.skip("no overlay can be mounted here: the reason is in the output of this test")
        self.upper = folder / "upper"
        os.rename(draft.upper, self.upper)
        remove_tree(draft.path)

    def draft(self) -> DraftDirectory:
        """A fresh copy of the workspace with an open draft that holds the changes."""
        for name in ("workspace", "draft"):
            if (self.folder / name).exists():
                remove_tree(str(self.folder / name))
        subprocess.run(["cp", "-a", self.template, self.folder / "workspace"], check=True)
        draft = DraftDirectory.create(str(self.folder / "draft"), str(self.folder / "workspace"))
        shutil.rmtree(draft.upper)
        subprocess.run(["cp", "-a", "--preserve=all", self.upper, draft.upper], check=True)
        return draft


class SceneOnOverlay(Scene):
    """The same on an overlay, whose lower layer is the template: changes are copied before they are kept."""

    def draft(self) -> DraftDirectory:
        top = self.folder / TOP
        if top.exists():
            unmount(str(top))
            for name in ("upper-of-top", "work", "layers"):
                remove_tree(str(self.folder / name))
        for name in ("lower", "upper-of-top", "work", "layers", TOP):
            (self.folder / name).mkdir(exist_ok=True)
        if not (self.folder / "lower" / "workspace").exists():
            subprocess.run(["cp", "-a", self.template, self.folder / "lower" / "workspace"], check=True)
        mount_overlay(str(top), *(str(self.folder / name) for name in ("lower", "upper-of-top", "work")))
        layers = str(self.folder / "layers" / "draft")
        draft = DraftDirectory.create(str(top / "draft"), str(top / "workspace"), layers=layers)
        shutil.rmtree(draft.upper)
        subprocess.run(["cp", "-a", "--preserve=all", self.upper, draft.upper], check=True)
        return draft


def run_in_namespaces(work: Callable[[], object]) -> None:
    """Do something in a process with mounts of its own; skips where the kernel does not allow that."""

    def run() -> None:
        try:
            enter_namespaces()
        except OSError as error:
            print(error, file=sys.stderr)
            sys.stderr.flush()
            os._exit(77)
        work()

    ending = os.waitstatus_to_exitcode(os.waitpid(fork(run), 0)[1])
    if ending == 77:
        pytest.skip("no namespaces can be entered here: the reason is in the output of this test")
    assert ending == 0


def is_counted(event: str, function: object) -> bool:
    """Whether an event of the profiler is a call of the operating system, as far as Python makes it itself."""
    return event == "c_call" and getattr(function, "__module__", None) in ("posix", "fcntl", "_io")


def count_calls(work: Callable[[], object]) -> int:
    count = 0

    def profile(_frame: object, event: str, function: object) -> None:
        nonlocal count
        count += is_counted(event, function)

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def kill_at(work: Callable[[], object], call: int) -> None:
    """Do something in a process that is killed before its call number ``call``, if it makes as many."""
    left = call

    def profile(_frame: object, event: str, function: object) -> None:
        nonlocal left
        left -= is_counted(event, function)
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        sys.setprofile(profile)
        work()

    ending = os.waitpid(fork(run), 0)[1]
    assert os.waitstatus_to_exitcode(ending) in (0, -signal.SIGKILL), "it failed before it was killed"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("kills"))
    yield scene
    remove_tree(str(scene.folder))  # with directories that are read-only


def test_a_killed_keep_is_finished_or_has_not_begun(scene: Scene) -> None:
    check_killed_keeps(scene, 12)


def test_a_killed_undo_is_finished_or_has_not_begun(scene: Scene) -> None:
    check_killed_undos(scene, 8)


def test_kills_where_changes_are_copied(scene: Scene, tmp_path: Path) -> None:
    """A workspace on an overlay, as in a container: directories cannot be renamed there."""

    def work() -> None:
        on_overlay = SceneOnOverlay.__new__(SceneOnOverlay)
        on_overlay.folder, on_overlay.template, on_overlay.upper = tmp_path, scene.template, scene.upper
        check_killed_keeps(on_overlay, 10)
        check_killed_undos(on_overlay, 5)

    run_in_namespaces(work)
    remove_tree(str(tmp_path))


def check_killed_keeps(scene: Scene, count: int) -> None:
    draft = scene.draft()
    before = describe(draft.info.workspace, times=True)
    calls = count_calls(partial(keep, draft))
    after = describe(draft.info.workspace, times=True)
    states = set[str]()
    for call in spread(range(calls), count):
        tried = scene.draft()
        kill_at(partial(keep, tried), call)
        state = tried.state
        states.add(state)
        recover(tried)
        assert describe(tried.info.workspace, times=True) == (before if state == "open" else after), (call, state)
    assert states >= {"open", "keeping"}


def check_killed_undos(scene: Scene, count: int) -> None:
    first = scene.draft()
    keep(first)
    calls = count_calls(partial(undo, first))
    states = set[str]()
    for call in spread(range(calls), count):
        draft = scene.draft()
        before = describe(draft.info.workspace, times=True)
        keep(draft)
        after = describe(draft.info.workspace, times=True)
        kill_at(partial(undo, draft), call)
        state = draft.state
        states.add(state)
        recover(draft)
        assert describe(draft.info.workspace, times=True) == (after if state == "kept" else before), (call, state)
    assert states >= {"kept", "undoing"}


def test_a_killed_keep_of_many_files_is_finished_or_has_not_begun(tmp_path: Path) -> None:
    """Files are created, changed and deleted one by one, and most of them are in a new directory."""
    count, most = pick(40, 2_000), pick(200, 44_000)
    workspace, draft = tmp_path / "workspace", tmp_path / "draft"
    (workspace / "d").mkdir(parents=True)
    for number in range(2 * count):
        (workspace / "d" / f"f{number}").write_text(f"{number}\n", encoding="ascii")
    before = describe(str(workspace), times=True)
    directory = DraftDirectory.create(str(draft), str(workspace))
    command = (
        f"cd d; for n in $(seq 0 {count - 1}); do echo new > f$n; echo new > g$n; done; "
        f"seq -f f%.0f {count} {2 * count - 1} | xargs rm; mkdir new; cd new; seq {most} | xargs touch"
    )
    try:
        run_in_draft(directory, "bash", "-c", command)
    except subprocess.CalledProcessError:
        pytest.skip("no overlay can be mounted here: the reason is in the output of this test")
    changed = (draft / "upper" / "d").stat().st_mtime_ns

    def reset() -> DraftDirectory:
        """The draft once more, as if it had been created now: an undo changes times in the workspace and the draft."""
        undo(directory)
        assert describe(str(workspace), times=True) == before
        (draft / "undone.json").unlink()
        os.utime(draft / "upper" / "d", ns=(changed, changed))
        return replace(directory, info=replace(directory.info, start=read_clock(str(draft))))

    began = time.monotonic()
    keep(directory)
    seconds = time.monotonic() - began
    after = describe(str(workspace), times=True)
    directory = reset()
    choice = random.Random(int(os.environ.get("HANDRAIL_SEED", "0")))
    states: Counter[str] = Counter()
    for _ in range(pick(4, 200)):
        child = fork(partial(keep, directory))
        time.sleep(choice.random() * seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        state = directory.state
        states[state] += 1
        recover(directory)
        assert describe(str(workspace), times=True) == (before if state == "open" else after), state
        if state != "open":
            directory = reset()
    print("states after the kills:", dict(states))
