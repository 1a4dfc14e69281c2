"""A command never leaves a file that runs with the rights of its owner, however it made it."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from handrail import Answer, Session, Settings
from tests.drafts.machine import require_drafts
from tests.sizes import spread

pytestmark = pytest.mark.slow  # starts many processes

MODES = ["0o4755", "0o2755", "0o6755", "0o4644", "0o4000"]
WAYS = [
    "import os; os.chmod('old', {mode})",
    "import os; open('new', 'w').close(); os.chmod('new', {mode})",
    "import os; fd = os.open('new', os.O_CREAT | os.O_RDWR); os.fchmod(fd, {mode})",
    "import os; os.umask(0); os.close(os.open('new', os.O_CREAT | os.O_WRONLY, {mode}))",
    "import os; open('new', 'w').close(); os.chmod('new', {mode}); os.rename('new', 'sub/moved')",
    "import os; os.mkdir('d'); open('d/new', 'w').close(); os.chmod('d/new', {mode}); os.link('d/new', 'second')",
    "import os; os.remove('old'); open('old', 'w').close(); os.chmod('old', {mode})",
    "import os; os.chmod('old', {mode}, dir_fd=os.open('.', os.O_RDONLY))",
    "import ctypes, os; open('new', 'w').close(); ctypes.CDLL(None).chmod(b'new', {mode})",
    "import shutil, os; shutil.copy('old', 'new'); os.chmod('new', {mode}); shutil.copy2('new', 'copy')",
]
CASES = [(mode, way) for way in WAYS for mode in MODES]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    require_drafts()
    workspace = tmp_path / "workspace"
    (workspace / "sub").mkdir(parents=True)
    (workspace / "old").write_text("old\n", encoding="utf-8")
    (workspace / "old").chmod(0o644)
    return workspace


def find_set_ids(workspace: Path) -> list[str]:
    paths = (os.path.join(above, name) for above, _, names in os.walk(workspace) for name in names)
    return [path for path in paths if os.lstat(path).st_mode & (stat.S_ISUID | stat.S_ISGID)]


@pytest.mark.parametrize(("mode", "way"), spread(CASES, 20))
@pytest.mark.parametrize("approves", [False, True])
def test_no_file_with_a_set_id_bit_is_kept(workspace: Path, mode: str, way: str, approves: bool) -> None:
    script = workspace / "sub" / "work.py"
    script.write_text(way.format(mode=mode), encoding="utf-8")
    settings = Settings(durable=False)
    approve = (lambda _: Answer(True)) if approves else None
    with Session(workspace, mode="full", approve=approve, settings=settings) as session:
        result = session.call("Bash", {"command": f"{sys.executable} sub/work.py"})
    assert find_set_ids(workspace) == []
    if result.data.get("exit_code") == 0 and result.data["changes"]:
        assert result.data["kept"] is False
        assert "set-uid" in result.text


def test_a_file_that_has_such_a_bit_may_lose_it_and_directories_may_have_one(workspace: Path) -> None:
    (workspace / "old").chmod(0o4755)
    with Session(workspace, mode="full", settings=Settings(durable=False)) as session:
        code = "import os; os.chmod('old', 0o755); os.mkdir('d'); os.chmod('d', 0o2755); open('d/f', 'w').close()"
        (workspace / "work.py").write_text(code, encoding="utf-8")
        result = session.call("Bash", {"command": f"{sys.executable} work.py"})
        assert result.status == "ok", result.text
    assert stat.S_IMODE((workspace / "old").stat().st_mode) == 0o755
    assert (workspace / "d" / "f").exists()
