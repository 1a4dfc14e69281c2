"""Commands that leave huge files: their contents are never read as a whole, and nothing beside them is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from handrail.drafts.compare import Entry, Step, have_same_contents
from handrail.drafts.layout import DraftDirectory, is_same_index_at
from handrail.drafts.staging import stage_changes
from handrail.journal.records import MOST_HASHED_BYTES, read_state
from handrail.system_calls import READABLE_DIRECTORY
from tests.command import TIMEOUT
from tests.drafts.machine import require_drafts
from tests.sizes import spread

SIZES = {"2G": 2 << 30, "4T": 4 << 40}
MOST_KILOBYTES = 128 << 10
COMMANDS = [
    "truncate -s {size} t; echo precious > p",
    "echo precious > p; truncate -s {size} t",
    'python3 -c \'open("t", "wb").truncate({size})\'; echo precious > p',
    "dd if=/dev/null of=t bs=1 seek={size} count=0 status=none; echo precious > p",
    "mkdir -p deep/er; truncate -s {size} deep/er/t; ln deep/er/t t; echo precious > p",
    "echo head > t; truncate -s {size} t; chmod 600 t; echo precious > p",
    "truncate -s {size} t; printf end >> t; echo precious > p",
    "truncate -s {size} .t; mv .t t; ln -s t link; echo precious > p",
    "cp --sparse=always old.{name} t; echo precious > p",
    "touch old.{name}; truncate -s {size} t; echo precious > p",
]
DRIVER = """
import json, os, resource, sys
from handrail import Session, Settings

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

with Session(sys.argv[1], settings=Settings(durable=False)) as session:
    session.call("Bash", {"command": "echo first > first"})
    before = peak()
    for command in json.loads(sys.argv[2]):
        result = session.call("Bash", {"command": command})
        kept = {name: os.lstat(os.path.join(sys.argv[1], name)).st_size for name in os.listdir(sys.argv[1])}
        session.undo()
        left = os.listdir(sys.argv[1])
        print(json.dumps([result.status, result.text, kept, left, peak() - before]), flush=True)
"""


def make_sparse(path: Path, size: int) -> None:
    try:
        with path.open("wb") as file:
            file.truncate(size)
    except OSError as error:
        pytest.skip(f"no file of {size} bytes can be created here: {error}")


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_a_huge_file_costs_no_memory_and_everything_is_kept_and_undone(tmp_path: Path, name: str) -> None:
    require_drafts()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for each, size in SIZES.items():
        make_sparse(workspace / f"old.{each}", size)
    commands = [command.format(size=SIZES[name], name=name) for command in spread(COMMANDS, 6)]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(workspace), json.dumps(commands)], capture_output=True, timeout=TIMEOUT
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(commands), done.stderr.decode()
    for command, (status, text, kept, left, grown) in zip(commands, answers, strict=True):
        assert status == "ok", (command, text)
        assert kept["p"] == len("precious\n"), command
        assert kept["t"] >= SIZES[name], command
        assert {"p", "t"}.isdisjoint(left), command
        assert grown < MOST_KILOBYTES, (command, grown)


@pytest.mark.parametrize("size", [0, 1, MOST_HASHED_BYTES, MOST_HASHED_BYTES + 1, *SIZES.values()])
def test_a_file_above_the_limit_has_no_hash(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    make_sparse(path, size)
    digest, mode = read_state(str(path))
    assert (digest is None) == (size > MOST_HASHED_BYTES)
    assert mode == path.stat().st_mode & 0o777


@pytest.mark.parametrize("size", SIZES.values())
@pytest.mark.parametrize("place", ["start", "middle", "end", ""])
def test_holes_are_neither_compared_nor_copied(tmp_path: Path, size: int, place: str) -> None:
    (tmp_path / "workspace").mkdir()
    draft = DraftDirectory.create(str(tmp_path / "draft"), str(tmp_path / "workspace"), layers=str(tmp_path / "layers"))
    original, same = Path(draft.upper, "file"), tmp_path / "workspace" / "file"
    for path in (original, same):
        make_sparse(path, size)
    if place:
        with original.open("r+b") as file:
            file.seek({"start": 0, "middle": size // 2, "end": size - 1}[place])
            file.write(b"x")
    directory = os.open(same.parent, READABLE_DIRECTORY)
    try:
        equal = have_same_contents(str(original), os.lstat(original), directory, "file", os.lstat(same))
        assert equal == (not place)
        (step,) = stage_changes(draft, [Step("create", "file", None, Entry.of(os.lstat(original)))])
        copy = os.path.join(draft.stage, "file")
        assert step.after and step.after.size == size
        assert have_same_contents(str(original), os.lstat(original), directory, copy, os.lstat(copy))
    finally:
        os.close(directory)


def test_a_huge_index_of_git_is_not_copied_for_each_draft(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / ".git").mkdir(parents=True)
    make_sparse(workspace / ".git" / "index", SIZES["4T"])
    draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
    assert not os.path.exists(os.path.join(draft.path, "index"))
    directory = os.open(workspace / ".git", READABLE_DIRECTORY)
    try:
        assert not is_same_index_at(".git/index", str(workspace / ".git" / "index"), directory, "index")
    finally:
        os.close(directory)
