"""Workspaces of which there can be no draft: the reason has a sentence of its own, and commands run without one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.command import TIMEOUT
from tests.drafts.test_random_programs import NOBODY, find_python, run

_DOCTOR = """
import os, sys
from handrail.shell.draft_trial import check_drafts
try:
    check_drafts(sys.argv[1] + "/state", sys.argv[1] + "/workspace")
except OSError as error:
    print("no draft:", error.strerror or error)
assert not os.path.exists(sys.argv[1] + "/workspace/new")
"""
_SESSION = """
import sys
from handrail import Session
with Session(sys.argv[1] + "/workspace", mode="full") as session:
    result = session.call("Bash", {"command": "echo new > new"})
    assert result.ok and not result.data.get("changes"), result
    print("no draft:", session.command_host().no_drafts)
"""
_OVERLAY = "mount -t overlay overlay -o lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work,userxattr $1/"
_IN_CONTAINER = """
import contextlib, os, sys
from handrail import Session, Settings
from handrail.drafts.store import DraftStore
from handrail.shell.draft_trial import check_drafts
top = sys.argv[1] + "/top"
os.environ["HANDRAIL_STATE"] = sys.argv[1] + "/" + sys.argv[2]
print(check_drafts(os.environ["HANDRAIL_STATE"], top + "/workspace"))
def read():
    return {
        path: (os.stat(path).st_mtime_ns, names, [open(path + "/" + name, "rb").read() for name in sorted(names)])
        for path, _, names in os.walk(top + "/workspace")
    }
before = read()
command = "echo 2 >> changed; mv inner moved; rm -r gone; echo x > new; truncate -s 60M big"
with Session(top + "/workspace", mode="full", settings=Settings(sandbox="namespaces")) as session:
    result = session.call("Bash", {"command": command})
    assert result.data.get("exit_code") == 0, (result, session.command_host().no_drafts)
    print(*sorted(f"{one['how']} {one['path']}" for one in result.data["changes"]), sep=", ")
    print([note for note in result.text.splitlines() if "copy" in note])
    kept = read()
    assert sorted(name for name in os.listdir(top + "/workspace")) == ["big", "changed", "moved", "new"]
    assert open(top + "/workspace/changed").read() == "1\\n2\\n"
    with session.draft() as draft:
        draft.session.call("Bash", {"command": "rm -r moved; echo 3 > changed"})
        draft.keep("changed")
        draft.drop()
    assert open(top + "/workspace/changed").read() == "3\\n"
    session.undo()
    assert read() == kept, (read(), kept)
    session.undo()
    assert read() == before, (read(), before)
layers = DraftStore.open(os.environ["HANDRAIL_STATE"], top + "/workspace").layers
os.rmdir(layers)
with contextlib.suppress(OSError):  # drafts of others may be there
    os.rmdir(os.path.dirname(layers))
"""


def _ask(folder: Path, set_up: str, code: str, *more: str) -> str:
    """The answer of a program, in a mount namespace of its own in which a shell command was run before."""
    for name in ("workspace/inner", "lower", "upper", "work", "state"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    outer = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    script = f'{set_up} || exit 77; exec "$2" -c "$3" "$1" $4'
    try:
        done = subprocess.run(
            [*outer, "sh", "-c", script, "sh", str(folder), sys.executable, code, *more],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except FileNotFoundError:
        pytest.skip("the program unshare is not installed")
    if done.returncode in (1, 77) and not done.stdout and "Traceback" not in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("code", [_DOCTOR, _SESSION], ids=["doctor", "session"])
@pytest.mark.parametrize(
    ("set_up", "reason"),
    [
        (f"{_OVERLAY}workspace", "no draft: no directory beside the workspace can be written that is on"),
        ("mount -t tmpfs none $1/workspace/inner", "no draft: there is a mount inside the workspace: {}/inner\n"),
        ("mount -t tmpfs none $1/workspace", "no draft: no directory beside the workspace can be written that is on"),
    ],
)
def test_mounts_that_no_draft_can_cover(tmp_path: Path, set_up: str, reason: str, code: str) -> None:
    assert _ask(tmp_path, set_up, code).startswith(reason.format(tmp_path / "workspace"))


@pytest.mark.parametrize("state", ["top/state", "state"])
def test_a_workspace_on_an_overlay(tmp_path: Path, state: str) -> None:
    """As in a container: the layers lie on another mount, and changes are kept by copying, for undo too."""
    workspace = tmp_path / "lower" / "workspace"
    for name in ("inner/deep", "gone/deep"):
        (workspace / name).mkdir(parents=True)
        (workspace / name / "file").write_text(f"{name}\n", encoding="ascii")
    (workspace / "changed").write_text("1\n", encoding="ascii")
    (tmp_path / "lower" / "state").mkdir()
    (tmp_path / "top").mkdir()
    remark, changes, notes = _ask(tmp_path, f"{_OVERLAY}top", _IN_CONTAINER, state).splitlines()
    assert "the workspace lies on an overlay: changes are in" in remark
    assert changes == (
        "changed changed, created big, created moved, created moved/deep, created moved/deep/file, created new, "
        "deleted gone, deleted gone/deep, deleted gone/deep/file, deleted inner, deleted inner/deep, "
        "deleted inner/deep/file"
    )
    assert "a copy of 60 MB" in notes


def test_files_that_the_namespace_of_a_user_does_not_know() -> None:
    """The kernel refuses to copy a file of another group in a draft (EOVERFLOW): a command could not change it."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    python = find_python(NOBODY)
    code = """
import sys
from handrail.drafts.store import DraftStore, NoDraft
try:
    DraftStore.open(sys.argv[1] + "/state", sys.argv[1]).require_own_files()
except NoDraft as error:
    print(error.strerror)
"""
    with tempfile.TemporaryDirectory(prefix="handrail-drafts-") as folder:
        os.chmod(folder, 0o755)
        workspace = Path(folder, "mine", "workspace")
        workspace.mkdir(parents=True)
        for path in (workspace.parent, workspace):
            os.chown(path, NOBODY, NOBODY)
        assert run(python, NOBODY, "-c", code, str(workspace)).stdout == ""
        (workspace / "shared").touch()
        os.chown(workspace / "shared", NOBODY, 0)
        answer = run(python, NOBODY, "-c", code, str(workspace)).stdout
    assert answer == "shared belongs to another user or group, and a command could not change it in a draft\n"
