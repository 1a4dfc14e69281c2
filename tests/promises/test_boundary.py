"""Promise 1, at rest: no path, link or special file leads a tool out of its roots.

Every attack is tried with Read, Write and Edit. None may answer with the secret, change anything outside, or succeed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Root, Session, Setup

SECRET = "the secret outside"

# Each makes what it needs below the root and answers with the path to try.
ATTACKS: dict[str, Callable[[Path, Path], str]] = {
    "dot dot": lambda root, out: "../outside/secret.txt",
    "dot dot in the middle": lambda root, out: "sub/../../outside/secret.txt",
    "dot dot many times": lambda root, out: "../" * 40 + str(out).lstrip("/") + "/secret.txt",
    "dot dot behind a missing directory": lambda root, out: "missing/../../outside/secret.txt",
    "absolute": lambda root, out: f"{out}/secret.txt",
    "absolute with double slash": lambda root, out: f"/{out}/secret.txt",
    "absolute through the root and back": lambda root, out: f"{root}/../outside/secret.txt",
    "a sibling whose name begins like the root": lambda root, out: _sibling(root) + "/secret.txt",
    "a system file": lambda root, out: "/etc/passwd",
    "proc root": lambda root, out: f"/proc/self/root{out}/secret.txt",
    "proc cwd": lambda root, out: "/proc/self/cwd/../../../../../../etc/passwd",
    "proc fd": lambda root, out: "/proc/self/fd/0",
    "proc environ": lambda root, out: "/proc/self/environ",
    "dev fd": lambda root, out: "/dev/fd/0",
    "dev stdin": lambda root, out: "/dev/stdin",
    "home": lambda root, out: "~/.bashrc",
    "home of somebody": lambda root, out: "~root/.bashrc",
    "link to a file": lambda root, out: _link(root / "l", out / "secret.txt"),
    "relative link to a file": lambda root, out: _link(root / "l", Path("../outside/secret.txt")),
    "link to a directory": lambda root, out: _link(root / "l", out) + "/secret.txt",
    "relative link to a directory": lambda root, out: _link(root / "sub" / "l", Path("../../outside")) + "/secret.txt",
    "chain of links": lambda root, out: _chain(root, out / "secret.txt"),
    "link to a link outside": lambda root, out: _link(root / "l", Path(_link(out / "l", out / "secret.txt"))),
    "link to the root's parent": lambda root, out: _link(root / "l", Path("..")) + "/outside/secret.txt",
    "link and dot dot": lambda root, out: _link(root / "l", out / "deep") + "/../secret.txt",
    "dangling link": lambda root, out: _link(root / "l", out / "new.txt"),
    "dangling link to a new directory": lambda root, out: _link(root / "l", out / "new") + "/new.txt",
    "link to proc root": lambda root, out: _link(root / "l", Path("/proc/self/root")) + f"{out}/secret.txt",
    "link to proc cwd": lambda root, out: _link(root / "l", Path("/proc/self/cwd")) + "/pyproject.toml",
    "link to dev fd": lambda root, out: _link(root / "l", Path("/dev/fd")) + "/0",
    "link to a device": lambda root, out: _link(root / "l", Path("/dev/zero")),
    "link in a circle": lambda root, out: _link(root / "l", Path("l")),
    "full-width dots": lambda root, out: "\uff0e\uff0e/outside/secret.txt",
    "one dot leaders": lambda root, out: "\u2024\u2024/outside/secret.txt",
    "two dot leader": lambda root, out: "\u2025/outside/secret.txt",
    "full-width slash": lambda root, out: "..\uff0foutside\uff0fsecret.txt",
    "division slash": lambda root, out: "..\u2215outside\u2215secret.txt",
    "backslash": lambda root, out: "..\\outside\\secret.txt",
    "percent": lambda root, out: "%2e%2e/outside/secret.txt",
    "zero width in dot dot": lambda root, out: ".\u200b./outside/secret.txt",
    "NUL": lambda root, out: f"sub/in.txt\0{out}/secret.txt",
    "NUL after dot dot": lambda root, out: "../outside/secret.txt\0.txt",
    "lone surrogate": lambda root, out: "\ud800/../outside/secret.txt",
    "overlong name": lambda root, out: "x" * 300,
    "overlong path": lambda root, out: "sub/" * 2000 + "in.txt",
    "empty": lambda root, out: "",
    "blank before an absolute path": lambda root, out: f" {out}/secret.txt",
    "file address": lambda root, out: f"file://{out}/secret.txt",
    "FIFO": lambda root, out: _make(root, "fifo", os.mkfifo),
    "socket": lambda root, out: _socket(root),
    "directory": lambda root, out: "sub",
    "the root": lambda root, out: ".",
    "a file as a directory": lambda root, out: "sub/in.txt/secret.txt",
}
# Names that look like a way out and are none: a new file of that name is made inside, and that is right.
HARMLESS = {
    "full-width dots",
    "one dot leaders",
    "two dot leader",
    "full-width slash",
    "division slash",
    "backslash",
    "percent",
    "zero width in dot dot",
    "blank before an absolute path",
    "file address",
}


def _link(at: Path, to: Path) -> str:
    at.symlink_to(to)
    return str(at)


def _chain(root: Path, to: Path) -> str:
    for number in range(5):
        (root / f"chain{number}").symlink_to(f"chain{number + 1}")
    (root / "chain5").symlink_to(to)
    return "chain0"


def _sibling(root: Path) -> str:
    beside = root.with_name(root.name + "-beside")
    beside.mkdir()
    (beside / "secret.txt").write_text(SECRET, encoding="utf-8")
    return str(beside)


def _make(root: Path, name: str, make: Callable[[Path], None]) -> str:
    make(root / name)
    return name


def _socket(root: Path) -> str:
    here = os.open(root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as result:
        result.bind(f"/proc/self/fd/{here}/socket")  # the plain path may be longer than a socket's may be
    os.close(here)
    return "socket"


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    """A root with one file in it, and a directory beside it with the secret."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "in.txt").write_text("inside\n", encoding="utf-8")
    (outside / "deep").mkdir(parents=True)
    (outside / "secret.txt").write_text(SECRET, encoding="utf-8")
    return root, outside


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("dialect", ["native", "claude"])
def test_no_path_leads_outside(
    place: tuple[Path, Path], make_session: Callable[..., Session], attack: str, dialect: str
) -> None:
    root, outside = place
    path = ATTACKS[attack](root, outside)
    beside = {str(p): contents(p) for p in root.parent.iterdir() if p != root}
    session = make_session(root, dialect, durable=False)
    read = session.call("Read", {"file_path": path})
    edit = session.call("Edit", {"file_path": path, "old_string": "secret", "new_string": "changed"})
    write = session.call("Write", {"file_path": path, "content": "written by an attack\n"})
    assert SECRET not in read.text + edit.text + write.text + str((read.data, edit.data, write.data))
    assert {str(p): contents(p) for p in root.parent.iterdir() if p != root} == beside
    assert read.status in ("error", "denied") and edit.status in ("error", "denied")
    if attack not in HARMLESS:
        assert write.status in ("error", "denied"), write.text


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit", "MultiEdit", "NotebookEdit"])
def test_every_tool_says_that_a_path_outside_is_denied(
    place: tuple[Path, Path], make_session: Callable[..., Session], tool: str
) -> None:
    root, outside = place
    session = make_session(root)
    path = f"{outside}/secret.txt"
    by_tool: dict[str, dict[str, Any]] = {
        "Read": {"file_path": path},
        "Write": {"file_path": path, "content": "x"},
        "Edit": {"file_path": path, "old_string": "a", "new_string": "b"},
        "MultiEdit": {"file_path": path, "edits": [{"old_string": "a", "new_string": "b"}]},
        "NotebookEdit": {"notebook_path": path, "new_source": "x", "cell_id": "a"},
    }
    arguments = by_tool[tool]
    if tool not in session.dialect.entries:
        pytest.fail(f"the dialect has no {tool}")
    result = session.call(tool, arguments)
    assert (result.status, result.error and result.error.code) == ("denied", "outside_workspace")


@pytest.mark.parametrize("dialect", ["native", "claude"])
def test_links_that_stay_inside_are_followed(
    place: tuple[Path, Path], make_session: Callable[..., Session], dialect: str
) -> None:
    root, _ = place
    (root / "absolute").symlink_to(root / "sub")
    (root / "sub" / "relative").symlink_to("../absolute/in.txt")
    session = make_session(root, dialect, durable=False)
    path = str(root / "sub" / "relative")
    assert "inside" in session.call("Read", {"file_path": path}).text
    assert session.call("Edit", {"file_path": path, "old_string": "inside", "new_string": "within"}).status == "ok"
    assert (root / "sub" / "in.txt").read_text(encoding="utf-8") == "within\n"
    assert (root / "sub" / "relative").is_symlink()
    (root / "fresh").symlink_to("sub/fresh.txt")
    assert session.call("Write", {"file_path": str(root / "fresh"), "content": "new\n"}).status == "ok"
    assert (root / "sub" / "fresh.txt").read_text(encoding="utf-8") == "new\n" and (root / "fresh").is_symlink()


def test_a_root_that_is_a_link_works_and_holds(place: tuple[Path, Path], make_session: Callable[..., Session]) -> None:
    root, _ = place
    (root.parent / "alias").symlink_to(root)
    session = make_session(root.parent / "alias", durable=False)
    for path in ("sub/in.txt", str(root.parent / "alias/sub/in.txt"), str(root / "sub/in.txt")):
        assert session.call("Read", {"file_path": path}).status == "ok", path
    assert session.call("Read", {"file_path": "../outside/secret.txt"}).status == "denied"
    assert session.call("Write", {"file_path": "new.txt", "content": "x"}).status == "ok"
    assert (root / "new.txt").exists()


def test_a_missing_root_is_said_and_works_once_it_is_there(
    tmp_path: Path, make_session: Callable[..., Session]
) -> None:
    (tmp_path / "later").mkdir()
    session = make_session(tmp_path / "later")
    (tmp_path / "later").rmdir()
    result = session.call("Write", {"file_path": "a.txt", "content": "x"})
    assert result.error and result.error.code == "root_missing"
    assert not (tmp_path / "later").exists()
    (tmp_path / "later").mkdir()
    assert session.call("Write", {"file_path": "a.txt", "content": "x"}).status == "ok"


def test_an_extra_read_only_root_is_read_and_never_written(
    place: tuple[Path, Path], make_session: Callable[..., Session]
) -> None:
    root, outside = place
    session = make_session(root, setup=Setup(roots=[Root(str(outside), writable=False)]))
    path = f"{outside}/secret.txt"
    assert SECRET in session.call("Read", {"file_path": path}).text
    for tool, rest in (
        ("Write", {"content": "x"}),
        ("Edit", {"old_string": "secret", "new_string": "x"}),
        ("MultiEdit", {"edits": [{"old_string": "secret", "new_string": "x"}]}),
    ):
        result = session.call(tool, {"file_path": path, **rest})
        assert (result.status, result.error and result.error.code) == ("denied", "read_only_root"), tool
    (root / "l").symlink_to(outside)
    result = session.call("Write", {"file_path": "l/new.txt", "content": "x"})
    assert (result.status, result.error and result.error.code) == ("denied", "read_only_root")
    assert contents(outside) == {path: SECRET.encode()}


def test_of_nested_roots_the_innermost_decides(tmp_path: Path, make_session: Callable[..., Session]) -> None:
    vendor = tmp_path / "vendor"
    (vendor / "ours").mkdir(parents=True)
    (vendor / "a.txt").write_text("vendored\n", encoding="utf-8")
    extra = [Root(str(vendor), writable=False), Root(str(vendor / "ours"))]
    session = make_session(tmp_path, setup=Setup(roots=extra), durable=False)
    assert session.call("Read", {"file_path": "vendor/a.txt"}).status == "ok"
    assert session.call("Write", {"file_path": "vendor/b.txt", "content": "x"}).status == "denied"
    assert session.call("Write", {"file_path": "vendor/ours/b.txt", "content": "x"}).status == "ok"
    assert session.call("Write", {"file_path": "c.txt", "content": "x"}).status == "ok"
    moved = session.call("Write", {"file_path": "vendor/ours/../b.txt", "content": "x"})
    assert moved.status == "denied" and not (vendor / "b.txt").exists()
