"""File tools inside the boundary of commands: the same answers, and a kernel that refuses what lies outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from handrail import Root, Session, Settings
from handrail.policy import AllowAll


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    collected: list[Session] = []

    def make(**settings: Any) -> Session:
        base: dict[str, Any] = {
            "state": str(tmp_path / "state"),
            "durable": False,
            "raise_bugs": True,
            "confine_files": True,
        }
        collected.append(
            Session(
                project,
                roots=[Root(str(other), writable=False)],
                policy=AllowAll(),
                settings=Settings(**{**base, **settings}),
            )
        )
        session = collected[-1]
        if "landlock" not in session.command_host().boundary.name:
            pytest.skip(f"Landlock is not in force here: {session.command_host().boundary.description}")
        return session

    yield make
    for session in collected:
        session.close()


@pytest.mark.parametrize("sandbox", ["auto", "landlock"])
def test_every_file_tool_works_inside(opened: Callable[..., Session], tmp_path: Path, sandbox: str) -> None:
    session = opened(sandbox=sandbox)
    project = tmp_path / "project"
    (tmp_path / "other/o.txt").write_text("other\n", encoding="utf-8")
    (project / ".gitignore").write_text("hidden.txt\n", encoding="utf-8")
    Image.new("RGB", (4, 4), "red").save(project / "a.png")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("Write", {"file_path": "deep/down/a.txt", "content": "one\ntwo\n"}),
        ("Read", {"file_path": "deep/down/a.txt"}),
        ("Edit", {"file_path": "deep/down/a.txt", "old_string": "two", "new_string": "three"}),
        ("MultiEdit", {"file_path": "deep/down/a.txt", "edits": [{"old_string": "one", "new_string": "1"}]}),
        ("LS", {"path": "."}),
        ("Glob", {"pattern": "**/*.txt"}),
        ("Grep", {"pattern": "three", "path": "deep"}),
        ("Grep", {"pattern": "three"}),
        ("ApplyPatch", {"patch": "*** Begin Patch\n*** Add File: b.txt\n+b\n*** End Patch"}),
        ("Replace", {"pattern": "three", "replacement": "3", "path": "deep", "expected": 1}),
        ("Move", {"source_path": "b.txt", "target_path": "c.txt"}),
        ("Read", {"file_path": str(tmp_path / "other/o.txt")}),
        ("Read", {"file_path": "a.png"}),
    ]
    for tool, arguments in calls:
        result = session.call(tool, arguments)
        assert result.ok, (tool, result.text)
    assert (project / "deep/down/a.txt").read_text(encoding="utf-8") == "1\n3\n"
    assert (project / "c.txt").read_text(encoding="utf-8") == "b\n"


def test_long_output_can_be_read_and_searched_inside(opened: Callable[..., Session]) -> None:
    session = opened()
    done = session.call("Bash", {"command": "seq 100000"}, id="long")
    assert done.data["log"], done.text
    assert "99\t99" in session.call("Read", {"file_path": done.data["log"], "offset": 99, "limit": 1}).text
    assert session.call("Grep", {"pattern": "^77777$", "path": done.data["log"]}).ok


def test_the_kernel_refuses_what_lies_outside_even_if_the_house_does_not(
    opened: Callable[..., Session], tmp_path: Path
) -> None:
    session = opened()
    boundary = session.command_host().boundary
    (tmp_path / "outside.txt").write_text("x", encoding="utf-8")

    def write(path: Path) -> None:
        with open(path, "a", encoding="utf-8") as file:
            file.write("y")

    with pytest.raises(PermissionError):
        boundary.run(lambda: write(tmp_path / "outside.txt"))
    with pytest.raises(PermissionError):
        boundary.run(lambda: write(tmp_path / "other/o.txt"))
    boundary.run(lambda: write(tmp_path / "project/in.txt"))
    write(tmp_path / "outside.txt")  # this thread is free
    assert os.path.exists(tmp_path / "project/in.txt")


def test_after_the_end_nothing_is_opened_again(opened: Callable[..., Session], tmp_path: Path) -> None:
    session = opened()
    session.close()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for tool, arguments in (("Read", {"file_path": "a"}), ("Write", {"file_path": "a", "content": "x"}), ("LS", {})):
        result = session.call(tool, arguments)
        assert result.error is not None and result.error.code == "session_over"
    assert not (tmp_path / "project/a").exists()
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before


def test_commands_cannot_look_into_the_state_of_the_program(opened: Callable[..., Session], tmp_path: Path) -> None:
    session = opened(sandbox="auto")
    if not session.command_host().boundary.namespaced:
        pytest.skip("namespaces cannot be used here, and nothing else can hide a directory")
    (tmp_path / "state/journal").write_text("what others did\n", encoding="utf-8")
    state = tmp_path / "state"
    named = session.call("Bash", {"command": f"ls -A {state}; cat {state}/journal"})
    assert named.status == "denied"
    look = f"place=$(echo {tmp_path}/sta)te; ls -A $place; cat $place/journal; seq 100000"
    result = session.call("Bash", {"command": look}, id="look")
    assert "what others did" not in result.text and "artefacts" not in result.text
    assert session.call("Bash", {"command": f"head -c 3 {result.data['log']}; tail -n 1 {result.data['log']}"}).ok
