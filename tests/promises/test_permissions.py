"""Generated permissions: an edit keeps them but for set-uid bits, and a `chmod` is undone.

A file without write permission is left alone.
"""

from __future__ import annotations

import itertools
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests.drafts.machine import require_drafts
from tests.sizes import spread

EDITS: dict[str, dict[str, Any]] = {
    "Write": {"content": "one\nTWO\n"},
    "Edit": {"old_string": "two", "new_string": "TWO"},
    "MultiEdit": {"edits": [{"old_string": "two", "new_string": "TWO"}]},
}
SPECIAL = (0, 0o4000, 0o2000, 0o6000, 0o1000, 0o7000)
PERMISSIONS = (0o400, 0o444, 0o555, 0o600, 0o640, 0o644, 0o664, 0o666, 0o700, 0o711, 0o755, 0o775, 0o777, 0o620)
EDITED = list(itertools.product(EDITS, SPECIAL, PERMISSIONS))

SPELLED = (
    "chmod {mode:04o} {name}",
    "chmod -R {mode:04o} {folder}",
    "chmod u=,g=,o= {name} && chmod {mode:04o} {name}",
)
OLD, NEW = (
    (0o400, 0o444, 0o600, 0o644, 0o664, 0o700, 0o755, 0o777),
    (0o400, 0o500, 0o600, 0o640, 0o644, 0o664, 0o666, 0o700, 0o711, 0o755),
)
CHANGED = [case for case in itertools.product(SPELLED, OLD, NEW) if case[1] != case[2]]


def test_there_are_enough_cases() -> None:
    assert len(set(EDITED)) >= 200 and len(set(CHANGED)) >= 200


def _set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)
    if stat.S_IMODE(path.stat().st_mode) != mode:
        pytest.skip(f"the system does not let this user set the mode {mode:o}")


@pytest.mark.parametrize(("tool", "special", "permissions"), spread(EDITED, 40))
def test_an_edit_keeps_permissions_and_drops_set_uid_bits(
    tmp_path: Path, make_session: Callable[..., Session], tool: str, special: int, permissions: int
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    _set_mode(path, special | permissions)
    session = make_session(durable=False)
    assert session.call("Read", {"file_path": "a.txt"}).ok
    result = session.call(tool, {"file_path": "a.txt", **EDITS[tool]})
    left = stat.S_IMODE(path.stat().st_mode)
    if permissions & 0o222:
        assert result.status == "ok", result.text
        assert path.read_bytes() == b"one\nTWO\n"
        assert left == (special | permissions) & 0o1777
    else:
        assert result.error is not None and result.error.code == "permission_denied"
        assert path.read_bytes() == b"one\ntwo\n" and left == special | permissions


@pytest.mark.slow
@pytest.mark.parametrize(("command", "old", "new"), spread(CHANGED, 12))
def test_a_chmod_is_undone(
    tmp_path: Path, make_session: Callable[..., Session], command: str, old: int, new: int
) -> None:
    require_drafts()
    folder = tmp_path / "work/sub"
    folder.mkdir(parents=True)
    path = folder / "a.txt"
    path.write_text("one\n", encoding="utf-8")
    path.chmod(old)
    session = make_session(tmp_path / "work", sandbox="namespaces", durable=False, state=str(tmp_path / "state"))
    words = command.format(mode=new | 0o100 * ("-R" in command), name="sub/a.txt", folder="sub")
    assert session.call("Bash", {"command": words}).ok
    assert stat.S_IMODE(path.stat().st_mode) == new | 0o100 * ("-R" in command)
    session.undo()
    folder.chmod(0o755)
    assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (old, b"one\n")
