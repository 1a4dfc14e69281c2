"""Ways out of a draft that a command may try: the workspace, other drafts and the mounts stay as they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail.drafts.store import DraftStore
from handrail.pipeline.session import Session
from tests.drafts.machine import require_drafts
from tests.drafts.trees import describe

_TRY = r"""
import ctypes, json, os
with open("src/words.json") as file:
    workspace, store, name, host = json.load(file)
libc = ctypes.CDLL(None, use_errno=True)
got = {}
def tried(what, work):
    try:
        got[what] = bool(work())
    except OSError:
        got[what] = False
def write(path):
    with open(path, "w") as file:
        file.write("escaped")
    return open(path).read() == "escaped"
def mount(*words):
    return libc.mount(*words) == 0
def nested():
    pid = os.fork()
    if pid == 0:
        done = libc.unshare(0x10000000 | 0x20000) == 0 and libc.umount2(os.fsencode(workspace), 2) == 0
        os._exit(0 if done else 1)
    return os.waitpid(pid, 0)[1] == 0
for place in (store, "/.handrail/drafts"):
    tried(f"list {place}", lambda: os.listdir(place))
    tried(f"read {place}", lambda: os.listdir(f"{place}/{name}/upper"))
    tried(f"write {place}", lambda: write(f"{place}/{name}/upper/x"))
    tried(f"umount {place}", lambda: libc.umount2(os.fsencode(place), 2) == 0)
tried("umount the draft", lambda: libc.umount2(os.fsencode(workspace), 2) == 0)
tried("bind over it", lambda: mount(b"/tmp", os.fsencode(workspace), None, 4096, None))
tried("remount it", lambda: mount(b"none", os.fsencode(workspace), None, 32, b""))
tried("nested namespaces", nested)
tried("join another mount namespace", lambda: libc.setns(os.open(f"/proc/{host}/ns/mnt", os.O_RDONLY), 0x20000) == 0)
for pid in {"1", str(os.getppid()), str(host)}:
    tried(f"root of {pid}", lambda: os.listdir(f"/proc/{pid}/root{store}"))
tried("trace the process that may remount", lambda: libc.ptrace(16, 1, 0, 0) == 0)
for part in ("mem", "maps", "environ"):
    tried(f"{part} of the process that may remount", lambda: open(f"/proc/1/{part}", "rb").readable())
tried("chroot", lambda: os.chroot("/proc/1/root"))
tried("whiteout outside", lambda: os.mknod("/tmp/../" + store + "/x", 0o020000, 0) is None)
write(f"{workspace}/inside")
write(f"/proc/self/root{workspace}/by-proc")
write(f"/proc/self/cwd/by-cwd")
print(json.dumps(sorted(what for what, done in got.items() if done)))
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    require_drafts()
    (tmp_path / "workspace" / "src").mkdir(parents=True)
    (tmp_path / "workspace" / "src" / "file").write_text("original\n", encoding="utf-8")
    return tmp_path / "workspace"


@pytest.fixture
def other(workspace: Path) -> Iterator[str]:
    """A second draft of the same workspace, with a change in it; its path."""
    store = DraftStore.open(os.environ["HANDRAIL_STATE"], str(workspace))
    draft = store.create("other")
    (Path(draft.directory.upper) / "private").write_text("of another draft\n", encoding="utf-8")
    yield draft.directory.path
    draft.drop()


def test_no_way_out_of_a_draft(workspace: Path, other: str) -> None:
    words = json.dumps([str(workspace), os.path.dirname(other), os.path.basename(other), os.getpid()])
    # In files: a command whose words name places outside of the workspace is asked about.
    (workspace / "src" / "words.json").write_text(words, encoding="utf-8")
    (workspace / "src" / "escape.py").write_text(_TRY, encoding="utf-8")
    before, drafts_before = describe(str(workspace), times=True), describe(other, times=True)
    with Session(workspace, mode="read-only") as session:
        result = session.call("Bash", {"command": "python3 -I src/escape.py"})
    assert result.error is None and result.data["exit_code"] == 0, result.text
    escaped = json.loads(result.text.splitlines()[0])
    assert escaped == []
    assert {one["path"] for one in result.data["changes"]} == {"inside", "by-proc", "by-cwd"}
    assert describe(str(workspace), times=True) == before
    assert describe(other, times=True) == drafts_before
