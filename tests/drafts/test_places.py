"""Workspaces of which there can be no draft: the reason has a sentence of its own, and commands run without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.command import TIMEOUT
from tests.drafts.test_random_programs import GROUP, NOBODY, find_python, require_overlays, run

_DOCTOR = """
import os, sys
from handrail.shell.command_drafts import check_drafts
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
    print("no draft:", session.services.command_host().drafts.why_none)
"""
_OVERLAY = "mount -t overlay overlay -o lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work,userxattr $1/"
_IN_CONTAINER = """
import contextlib, os, sys
from handrail import Session, Settings
from handrail.drafts.store import DraftStore
from handrail.shell.command_drafts import check_drafts
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
    assert result.data.get("exit_code") == 0, (result, session.services.command_host().drafts.why_none)
    print(*sorted(f"{one['how']} {one['path']}" for one in result.data["changes"]), sep=", ")
    print([note for note in result.text.splitlines() if "copied" in note])
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
    assert "the workspace is on overlayfs" in remark
    assert changes == (
        "changed changed, created big, created moved, created moved/deep, created moved/deep/file, created new, "
        "deleted gone, deleted gone/deep, deleted gone/deep/file, deleted inner, deleted inner/deep, "
        "deleted inner/deep/file"
    )
    assert "copied 60 MB" in notes


_SHARED = """
import json, os, sys
from handrail.drafts.compare import compare
from handrail.drafts.keep import keep, undo
from handrail.drafts.store import DraftStore
from tests.drafts.scenarios import run_in_draft
from tests.drafts.trees import describe
workspace = sys.argv[1]
store = DraftStore.open(os.path.dirname(workspace) + "/state", workspace)
store.look_at_owners()
move = '''move() { "$0" -c "
import os, sys
from handrail.files.overlay_renames import rename_entry
rename_entry(lambda: os.rename(*sys.argv[1:]), os.open('.', os.O_RDONLY), sys.argv[1])" "$@"; }
'''
def run(command):
    draft = store.create()
    run_in_draft(draft.directory, "sh", "-ec", move + command, sys.executable)
    return draft
before = describe(workspace, times=True)
draft = run(":")
assert compare(draft.directory).steps == [], compare(draft.directory)
draft.drop()
draft = run("move root-only r; mv r root-only")
assert [(step.action, step.path) for step in compare(draft.directory).steps] == [("set", "")], "other than times"
draft.drop()
draft = run(sys.argv[2])
assert describe(workspace, times=True) == before
keep(draft.directory)
after = {path: entry[:2] for path, entry in describe(workspace, times=False).items()}
undo(draft.directory)
now = describe(workspace, times=True)
if sys.argv[3:]:  # the times of a directory of somebody else cannot be set
    before, now = ({path: entry[:5] for path, entry in tree.items()} for tree in (before, now))
assert now == before, (now, before)
draft.drop()
print(json.dumps(after))
"""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo 2 >> shared", {"shared": ["-rw-rw-r--", "me", "team"]}),
        ("chmod 600 shared", {"shared": ["-rw-------", "me", "team"]}),
        ("mv shared moved", {"moved": ["-rw-rw-r--", "me", "team"]}),
        ("echo 1 > team/new; mkdir team/inner", {"team/new": ["-rw-r--r--", "me", "team"]}),
        (
            "echo 2 >> team/theirs",
            {"team/theirs": ["-rw-rw-r--", "me", "team"], "team": ["drwxrwsr-x", "root", "team"]},
        ),
        ("rm team/theirs; ! echo 2 >> root-only", {"root-only": ["-rw-r--r--", "root", "root"]}),
        ("ln -sfn other link", {"link": ["lrwxrwxrwx", "me", "me"]}),
        ("ls locked; echo 2 > locked-too", {"locked": ["dr-xr-xr-x", "me", "team"]}),
        ("mv link second", {"second": ["lrwxrwxrwx", "me", "team"]}),
        ("move root-only moved; ! ln root-link l", {"moved": ["-rw-r--r--", "me", "me"], "root-only": None}),
        ("move read-by-team moved", {"moved": ["-rw-r-----", "me", "me"]}),
        ("move root-link moved", {"moved": ["lrwxrwxrwx", "me", "me"]}),
        ("move mine moved", {"moved/deep/theirs": ["-r--r--r--", "me", "me"], "mine": None}),
        ("move root-only shared", {"shared": ["-rw-r--r--", "me", "me"], "root-only": None}),
        ("! move private moved 2> /dev/null", {"private": ["-rw-------", "root", "root"], "moved": None}),
        ("! move set-user moved 2> /dev/null", {"set-user": ["-rwsr-xr-x", "root", "root"], "moved": None}),
    ],
)
def test_files_of_other_users_and_groups(command: str, expected: dict[str, list[str] | None]) -> None:
    """The kernel refuses to copy them in a draft of an ordinary user (EOVERFLOW), so they are copied before.

    Those that the user may not write to are copied when they are renamed (`move`).
    """
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    python = find_python(NOBODY)
    names = {NOBODY: "me", GROUP: "team", 0: "root"}
    with tempfile.TemporaryDirectory(prefix="handrail-drafts-") as folder:
        os.chmod(folder, 0o755)
        top = Path(folder, "mine")
        workspace = top / "workspace"
        (workspace / "team").mkdir(parents=True)
        (workspace / "locked").mkdir()
        (workspace / "mine" / "deep").mkdir(parents=True)
        for path, owner, group, mode in (
            (top, NOBODY, NOBODY, 0o755),
            (workspace, NOBODY, NOBODY, 0o755),
            (workspace / "team", 0, GROUP, 0o2775),
            (workspace / "team" / "theirs", 0, GROUP, 0o664),
            (workspace / "shared", NOBODY, GROUP, 0o664),
            (workspace / "root-only", 0, 0, 0o644),
            (workspace / "locked", NOBODY, GROUP, 0o555),
            (workspace / "read-by-team", 0, GROUP, 0o640),
            (workspace / "private", 0, 0, 0o600),
            (workspace / "set-user", 0, 0, 0o4755),
            (workspace / "mine", NOBODY, NOBODY, 0o755),
            (workspace / "mine" / "deep", NOBODY, NOBODY, 0o755),
            (workspace / "mine" / "deep" / "theirs", 0, 0, 0o444),
        ):
            if not path.exists():
                path.write_text("1\n", encoding="ascii")
            os.chown(path, owner, group)
            path.chmod(mode)
        (workspace / "link").symlink_to("shared")
        os.chown(workspace / "link", NOBODY, GROUP, follow_symlinks=False)
        (workspace / "root-link").symlink_to("shared")
        require_overlays(python, str(top), NOBODY)
        more = ["theirs"] if "team" in command else []
        done = run(python, NOBODY, "-c", _SHARED, str(workspace), command, *more)
        assert done.returncode == 0, done.stderr
        after = json.loads(done.stdout)
    seen = {path: [mode, names[user], names[group]] for path, (mode, (user, group)) in after.items()}
    assert {path: seen.get(path) for path in expected} == expected


_MOVES = """
import os, sys
from handrail import Session, Settings
settings = Settings(sandbox="namespaces", durable=False)
os.environ["HANDRAIL_STATE"] = os.path.dirname(sys.argv[1]) + "/state"
with Session(sys.argv[1], mode="full", settings=settings) as session:
    for command in ("mv theirs moved", "mv mine moved"):
        result = session.call("Bash", {"command": command})
        assert session.services.command_host().drafts.workspace, session.services.command_host().drafts.why_none
        assert result.data["exit_code"] == 0 and "moved" in os.listdir(sys.argv[1]), result.text
        session.undo()
    assert os.stat("theirs").st_uid == os.stat("mine/theirs").st_uid == 0
"""


def test_a_command_renames_files_of_other_users() -> None:
    """Without a draft it can, in a directory of its user."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    python = find_python(NOBODY)
    if run(python, NOBODY, "-c", "import handrail.pipeline.session, rapidfuzz").returncode:
        pytest.skip("this user can run no Python with all that a session needs")
    with tempfile.TemporaryDirectory(prefix="handrail-drafts-") as folder:
        workspace = Path(folder, "workspace")
        (workspace / "mine").mkdir(parents=True)
        for path in (folder, workspace, workspace / "mine"):
            os.chown(path, NOBODY, NOBODY)
        for name in ("theirs", "mine/theirs"):
            (workspace / name).write_text("1\n", encoding="ascii")
        require_overlays(python, folder, NOBODY)
        done = run(python, NOBODY, "-c", f"import os; os.chdir({str(workspace)!r})" + _MOVES, str(workspace))
    assert done.returncode == 0, done.stderr
