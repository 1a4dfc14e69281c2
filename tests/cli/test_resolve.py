"""`handrail draft resolve`: a way out of every conflict between a draft and its workspace."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import handrail
from tests.drafts.machine import require_drafts

LINES = "".join(f"line {number}\n" for number in range(1, 11))
OURS = LINES.replace("line 2\n", "ours\n")
THEIRS = LINES.replace("line 2\n", "theirs\n").replace("line 9\n", "far\n")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    require_drafts()
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "src/m.py"):
        (project / name).write_text(LINES, encoding="utf-8")
    return project


def draft(project: Path, *words: str, code: int = 0) -> str:
    done = handrail("draft", *words, cwd=project)
    assert done.returncode == code, done.stderr
    return (done.stdout + done.stderr).decode()


def change(project: Path, command: str) -> None:
    draft(project, "start", "way")
    draft(project, "run", "way", "--", "sh", "-c", command)


def test_the_draft_or_the_workspace_wins_at_single_paths(project: Path) -> None:
    change(project, "sed -i 's/^line 2$/ours/' a.txt b.txt")
    for name in ("a.txt", "b.txt"):
        (project / name).write_text(THEIRS, encoding="utf-8")
    assert "handrail draft resolve way" in draft(project, "keep", "way", code=1)
    assert draft(project, "resolve", "way", "a.txt", "--ours") == "a.txt\n"
    assert "b.txt" in draft(project, "keep", "way", code=1)
    assert draft(project, "resolve", "way", "--theirs") == "b.txt\n"
    assert "no conflict" in draft(project, "resolve", "way", "--theirs")
    draft(project, "keep", "way")
    assert (project / "a.txt").read_text(encoding="utf-8") == OURS
    assert (project / "b.txt").read_text(encoding="utf-8") == THEIRS
    assert handrail("undo", cwd=project).returncode == 0
    assert (project / "a.txt").read_text(encoding="utf-8") == THEIRS


def test_an_empty_git_directory_above_the_project_is_no_repository(project: Path) -> None:
    (project.parent / ".git").mkdir()
    change(project, "sed -i 's/^line 2$/ours/' a.txt")
    (project / "a.txt").write_text(LINES.replace("line 9\n", "far\n"), encoding="utf-8")
    draft(project, "keep", "way")
    assert (project / "a.txt").read_text(encoding="utf-8") == OURS.replace("line 9\n", "far\n")


def test_markers_show_both_sides_and_must_go_before_the_draft_is_kept(project: Path) -> None:
    change(project, "sed -i 's/^line 2$/ours/' a.txt")
    (project / "a.txt").write_text(THEIRS, encoding="utf-8")
    assert "markers" in draft(project, "resolve", "way", "--merge")
    shown = _read_in_draft(project)["a.txt"].decode()
    marked = "<<<<<<< draft\nours\n=======\ntheirs\n>>>>>>> workspace\n"
    assert shown == LINES.replace("line 2\n", marked).replace("line 9\n", "far\n")
    assert "markers" in draft(project, "keep", "way", code=1)
    draft(project, "run", "way", "--", "sed", "-i", "/^<<<<<<<\\|^=====\\|^>>>>>/d", "a.txt")
    draft(project, "keep", "way")
    both = LINES.replace("line 2\n", "ours\ntheirs\n").replace("line 9\n", "far\n")
    assert (project / "a.txt").read_text(encoding="utf-8") == both


@pytest.mark.parametrize("saves", [True, False])
def test_the_merge_tool_of_the_person_gets_three_sides(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: bool
) -> None:
    """A tool that joins the sides; the project's own settings name another one, which does not run."""
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    with (project / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write('[merge]\n\ttool = evil\n[mergetool "evil"]\n\tcmd = touch ' + str(tmp_path / "ran") + "\n")
    join = 'cat "$LOCAL" "$BASE" "$REMOTE" > "$MERGED"' if saves else "exit 1"
    config = tmp_path / "gitconfig"
    config.write_text(
        f'[merge]\n\ttool = joining\n[mergetool]\n\tprompt = false\n[mergetool "joining"]\n\ttrustExitCode = true\n'
        f"\tcmd = {json.dumps(join)}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    config.rename(tmp_path / ".gitconfig")
    change(project, "sed -i 's/^line 2$/ours/' a.txt src/m.py; sed -i 's/^line 5$/ours/' b.txt")
    for name in ("a.txt", "b.txt", "src/m.py"):
        (project / name).write_text(THEIRS, encoding="utf-8")
    assert "way  3 changed, 3 conflicts" in draft(project, "list")
    answer = draft(project, "resolve", "way", "--tool", "a.txt")
    assert answer.endswith("a.txt\n" if saves else "a.txt: is not merged\n")
    inside = _read_in_draft(project)
    assert inside["a.txt"].decode() == (OURS + LINES + THEIRS if saves else OURS)
    assert inside["src/m.py"].decode() == OURS
    assert not (tmp_path / "ran").exists()
    draft(project, "resolve", "way", "--theirs", "src/m.py")
    draft(project, "keep", "way", code=0 if saves else 1)


def delete_file(project: Path) -> None:
    (project / "a.txt").unlink()


def change_file(project: Path) -> None:
    (project / "a.txt").write_text(THEIRS, encoding="utf-8")


def change_in_directory(project: Path) -> None:
    (project / "src" / "m.py").write_text(THEIRS, encoding="utf-8")


def create(project: Path) -> None:
    (project / "new").write_text("theirs\n", encoding="utf-8")


def delete_directory(project: Path) -> None:
    shutil.rmtree(project / "src")


def write_binary(project: Path) -> None:
    (project / "a.txt").write_bytes(b"\0theirs\n")


CONFLICTS = [
    ("sed -i 's/^line 2$/ours/' a.txt", delete_file, False),
    ("rm a.txt", change_file, False),
    ("mv a.txt c.txt", change_file, False),
    ("rm -r src", change_in_directory, False),
    ("rm -r src; mkdir src; echo ours > src/m.py", change_in_directory, False),
    ("echo ours > new", create, True),
    ("sed -i 's/^line 2$/ours/' src/m.py", delete_directory, False),
    ("sed -i 's/^line 2$/ours/' a.txt", change_file, True),
    ("printf '\\0ours' > a.txt", write_binary, False),
    ("chmod 755 a.txt; echo ours > a.txt", change_file, True),
]


def read(project: Path) -> dict[str, bytes]:
    return {str(path.relative_to(project)): path.read_bytes() for path in project.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize(("command", "other", "has_lines"), CONFLICTS)
@pytest.mark.parametrize("side", ["ours", "theirs", "merge"])
def test_every_kind_of_conflict_has_a_way_out(
    project: Path, command: str, other: Callable[[Path], None], has_lines: bool, side: str
) -> None:
    change(project, command)
    inside = _read_in_draft(project)
    other(project)
    theirs = read(project)
    draft(project, "keep", "way", code=1)
    assert read(project) == theirs, "a conflict changed the workspace"
    if side == "merge":
        answer = draft(project, "resolve", "way", "--merge", code=0 if has_lines else 1)
        assert ("markers" in answer) if has_lines else ("choose a side" in answer)
        assert read(project) == theirs
        return
    draft(project, "resolve", "way", f"--{side}")
    draft(project, "keep", "way")
    if side == "ours":
        assert {name: raw for name, raw in read(project).items() if inside.get(name) != raw} == {}
        assert not {name for name in inside if name not in read(project)} - _deleted(theirs, inside, command)
    else:
        now = read(project)
        now.pop("c.txt", None)  # the other end of a rename
        assert now == theirs


def _deleted(theirs: dict[str, bytes], inside: dict[str, bytes], command: str) -> set[str]:
    """Files that only the other side has deleted, and that the command has not touched."""
    return {name for name in inside if name not in theirs and name not in command}


def _read_in_draft(project: Path) -> dict[str, bytes]:
    copy = project.parent / "inside"
    shutil.rmtree(copy, ignore_errors=True)
    draft(project, "run", "way", "--", "cp", "-r", ".", str(copy))
    return read(copy)
