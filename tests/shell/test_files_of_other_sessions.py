"""What another session writes while a command runs is not the command's: it is neither removed nor put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.shell.sandbox.protected_files import ProtectedFiles

NAME = ".handrail-0123456789abcdef"


@pytest.mark.parametrize("place", ["", "deep/er", f"deep/{NAME}"])
@pytest.mark.parametrize("moment", ["comes", "goes", "changes"])
def test_a_temporary_file_of_a_commit_is_left_to_its_session(tmp_path: Path, place: str, moment: str) -> None:
    path = tmp_path / place / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    if moment != "comes":
        path.touch()
    guard = ProtectedFiles([str(tmp_path)], lambda path: "/.handrail" in path)
    before = guard.find()
    if moment == "goes":
        path.unlink()
    else:
        path.write_text("new\n", encoding="ascii")
    other = tmp_path / "deep" / ".handrail.toml"
    other.parent.mkdir(exist_ok=True)
    other.touch()
    kept = tmp_path.parent / "kept"
    assert [Path(one.path) for one in guard.put_back(before, [], lambda _: str(kept))] == [other]
    assert not other.exists()
    assert path.exists() == (moment != "goes")
    assert not guard.is_protected(str(path)) and guard.is_protected(str(other))
