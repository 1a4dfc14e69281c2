"""Whatever goes wrong while the changes of a command are kept, they are in the workspace or in a named draft."""

from __future__ import annotations

import errno
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import handrail.drafts
from handrail import Answer, Question
from handrail.drafts.store import DraftStore
from handrail.errors import JournalFailed
from handrail.pipeline import draft_changes
from handrail.pipeline.draft_changes import CallDraft, DraftChanges
from handrail.pipeline.session import Session
from handrail.settings import Settings
from tests.drafts.machine import require_drafts
from tests.drafts.test_failing_disks import fill_disk, on_small_disk
from tests.drafts.trees import describe
from tests.pipeline.opaque_commands import make_workspace, opaque
from tests.sizes import spread

pytestmark = pytest.mark.slow  # starts many processes

COMMAND = opaque(
    "import os, shutil; shutil.rmtree('src'); open('a.txt', 'a').write('more\\n'); os.mkdir('new');"
    " open('new/file', 'w').write('1\\n'); os.remove('link'); os.chmod('b.txt', 0o600)"
)
FAULTS: list[BaseException] = [
    MemoryError(),
    AssertionError("an assumption that does not hold"),
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    KeyError("missing"),
    OSError(errno.EIO, os.strerror(errno.EIO)),
    RecursionError("too deep"),
    JournalFailed(journal="journal.db", why="no room"),
]
STEPS = (os.path.dirname(handrail.drafts.__file__), draft_changes.__file__)


class Injector:
    """Raises an error when a given function call of a keep begins."""

    def __init__(self, number: int = -1, fault: BaseException | None = None) -> None:
        self.number, self.fault = number, fault
        self.count = 0
        self.raised = ""

    def watch(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # A generator is entered once more when it is thrown away, where Python only reports an error.
        if event != "call" or code.co_flags & inspect.CO_GENERATOR or not code.co_filename.startswith(STEPS):
            return
        self.count += 1
        if self.fault and self.count == self.number:
            sys.setprofile(None)
            self.raised = f"{type(self.fault).__name__} in {code.co_name}"
            raise self.fault

    def wrap(self, patch: pytest.MonkeyPatch) -> None:
        settle = CallDraft.settle

        def watched(draft: CallDraft) -> None:
            sys.setprofile(self.watch)
            try:
                settle(draft)
            finally:
                sys.setprofile(None)

        patch.setattr(CallDraft, "settle", watched)


def run_with(session: Session, injector: Injector) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        injector.wrap(patch)
        return session.call("Bash", {"command": COMMAND})


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    require_drafts()
    return make_workspace(tmp_path)


@pytest.fixture
def session(workspace: Path) -> Iterator[Session]:
    with Session(workspace, settings=Settings(durable=False)) as session:
        yield session


def list_left(workspace: Path, name: str) -> set[tuple[str, str]]:
    """The changes in a draft that an answer names, which is dropped then."""
    store = DraftStore.open(os.environ["HANDRAIL_STATE"], str(workspace))
    draft = store.open_named(name)
    try:
        return {(one.path, one.how) for one in DraftChanges.observe(draft).summaries()}
    finally:
        draft.drop()


def test_an_error_at_any_step_of_a_keep_loses_nothing(session: Session, workspace: Path) -> None:
    before = describe(str(workspace), times=False)
    counter = Injector()
    first = run_with(session, counter)
    assert first.status == "ok"
    expected = {(one["path"], one["how"]) for one in first.data["changes"]}
    after = describe(str(workspace), times=False)
    session.undo()
    assert describe(str(workspace), times=False) == before
    faults = [Injector(number, FAULTS[number % len(FAULTS)]) for number in range(1, counter.count + 1)]
    left = 0
    for injector in spread(faults, 40):
        result = run_with(session, injector)
        now = describe(str(workspace), times=False)
        if now == after:  # the changes were kept before the error, or in spite of it
            assert "draft" not in result.data, injector.raised
            session.undo()
        else:
            assert now == before, injector.raised
            assert injector.raised
            name = result.data.get("draft")
            assert name and name in result.text, (injector.raised, result.text)
            assert result.status != "ok"
            left += 1
            assert list_left(workspace, name) == expected, injector.raised
        assert describe(str(workspace), times=False) == before, injector.raised
    assert left


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("function", ["move_changes", "compare", "keep", "adopt_foreign_copies"])
def test_an_error_after_a_person_chose_a_part_loses_nothing(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, function: str
) -> None:
    before = describe(str(workspace), times=False)
    answered = False

    def choose(question: Question) -> Answer:
        nonlocal answered
        answered = True
        return Answer(True, hunks={"a.txt": [], "new/file": [0]})

    def fail(*_: object, **__: object) -> None:
        raise fault

    real = getattr(draft_changes, function)

    def fail_once_answered(*args: Any, **named: Any) -> Any:
        return (fail if answered else real)(*args, **named)

    monkeypatch.setattr(draft_changes, function, fail_once_answered)
    command = opaque("import os; open('a.txt', 'a').write('more'); os.mkdir('new'); open('new/file', 'w').write('1')")
    with Session(workspace, mode="ask", approve=choose, settings=Settings(durable=False)) as session:
        result = session.call("Bash", {"command": command})
    assert answered
    assert describe(str(workspace), times=False) == before
    name = result.data["draft"]
    assert name in result.text
    monkeypatch.setattr(draft_changes, function, real)
    assert ("new/file", "created") in list_left(workspace, name)


@pytest.mark.parametrize(
    "command",
    [
        "cat /dev/zero > big",
        "cat /dev/zero > big; echo precious > p",
        "cp a.txt copy; cat /dev/zero >> a.txt; true",
        "mkdir d; head -c 100M /dev/zero > d/half || true",
        "rm b.txt; cat /dev/zero > b.txt",
    ],
)
def test_no_half_written_file_is_kept_on_a_full_disk(tmp_path: Path, command: str) -> None:
    require_drafts()

    def work() -> None:
        workspace = make_workspace(tmp_path)
        before = describe(str(workspace), times=False)
        state = tmp_path / "state"
        with Session(workspace, settings=Settings(durable=False, state=str(state))) as session:
            result = session.call("Bash", {"command": command})
            assert describe(str(workspace), times=False) == before
            assert result.data["kept"] is False, result.text
            assert result.data["draft"] in result.text
            assert "disk is full" in result.text

    on_small_disk(tmp_path, work)


def test_files_can_be_deleted_on_a_full_disk(tmp_path: Path) -> None:
    require_drafts()

    def work() -> None:
        workspace = make_workspace(tmp_path)
        state = tmp_path / "state"
        with Session(workspace, settings=Settings(durable=False, state=str(state))) as session:
            session.call("Bash", {"command": "true > first"})
            with fill_disk(workspace / "ballast"):
                (workspace / "ballast").rename(tmp_path / "ballast")
                os.truncate(tmp_path / "ballast", (tmp_path / "ballast").stat().st_size - (256 << 10))
                result = session.call("Bash", {"command": "rm -r src"})
                assert not (workspace / "src").exists(), result.text
                (tmp_path / "ballast").rename(workspace / "ballast")

    on_small_disk(tmp_path, work)
