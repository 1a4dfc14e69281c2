"""Promise 7: what the edit does not name stays: mode, owner, attributes, ACLs, links."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session

CALLS: dict[str, dict[str, Any]] = {
    "Write": {"content": "one\nTWO\n"},
    "Edit": {"old_string": "two", "new_string": "TWO"},
    "MultiEdit": {"edits": [{"old_string": "two", "new_string": "TWO"}]},
}
every_tool = pytest.mark.parametrize("tool", CALLS)
ACL = "system.posix_acl_access"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\n")
    return path


def change(session: Session, tool: str, path: Path) -> None:
    session.call("Read", {"file_path": str(path)})
    result = session.call(tool, {"file_path": str(path), **CALLS[tool]})
    assert result.status == "ok", result.text
    assert path.read_bytes() == b"one\nTWO\n"


def _acl(*entries: tuple[int, int, int]) -> bytes:
    """An ACL as the kernel takes it: version 2, then tag, permissions and id of each entry."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@every_tool
@pytest.mark.parametrize("mode", [0o755, 0o600, 0o666, 0o640, 0o1644])
def test_the_mode_stays(path: Path, make_session: Callable[..., Session], tool: str, mode: int) -> None:
    path.chmod(mode)
    if stat.S_IMODE(path.stat().st_mode) != mode:
        pytest.skip(f"the system does not let this user set the mode {mode:o}")
    if not os.access(path, os.R_OK | os.W_OK):
        pytest.skip(f"this user may not write a file of mode {mode:o}; only root may")
    change(make_session(durable=False), tool, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@every_tool
@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6754, 0o6600])
def test_set_uid_bits_do_not_stay_with_other_contents(
    path: Path, make_session: Callable[..., Session], tool: str, mode: int
) -> None:
    path.chmod(mode)
    if stat.S_IMODE(path.stat().st_mode) != mode:
        pytest.skip(f"the system does not let this user set the mode {mode:o}")
    change(make_session(durable=False), tool, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode & 0o1777


@every_tool
def test_the_owner_stays(path: Path, make_session: Callable[..., Session], tool: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(path, 12345, 54321)
    path.chmod(0o754)
    change(make_session(durable=False), tool, path)
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 54321, 0o754)


@every_tool
def test_extended_attributes_stay(path: Path, make_session: Callable[..., Session], tool: str) -> None:
    wanted = {"user.note": b"kept \0 bytes", "user.empty": b"", "user.long": b"x" * 900}
    try:
        for name, value in wanted.items():
            os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"no extended attributes on this file system: {error}")
    change(make_session(durable=False), tool, path)
    assert {name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith("user.")} == wanted


@every_tool
def test_an_acl_stays(path: Path, make_session: Callable[..., Session], tool: str) -> None:
    nobody = 0xFFFFFFFF
    acl = _acl((1, 6, nobody), (2, 4, 4321), (4, 4, nobody), (16, 4, nobody), (32, 0, nobody))
    try:
        os.setxattr(path, ACL, acl)
    except OSError as error:
        pytest.skip(f"no ACLs on this file system: {error}")
    mode = path.stat().st_mode
    change(make_session(durable=False), tool, path)
    assert os.getxattr(path, ACL) == acl and path.stat().st_mode == mode


@every_tool
def test_an_acl_that_the_directory_hands_down_is_not_added(
    path: Path, make_session: Callable[..., Session], tool: str
) -> None:
    nobody = 0xFFFFFFFF
    acl = _acl((1, 7, nobody), (2, 7, 4321), (4, 5, nobody), (16, 7, nobody), (32, 0, nobody))
    try:
        os.setxattr(path.parent, "system.posix_acl_default", acl)
    except OSError as error:
        pytest.skip(f"no ACLs on this file system: {error}")
    path.chmod(0o640)
    change(make_session(durable=False), tool, path)
    assert ACL not in os.listxattr(path) and stat.S_IMODE(path.stat().st_mode) == 0o640


@every_tool
def test_the_time_of_the_change_moves_on(path: Path, make_session: Callable[..., Session], tool: str) -> None:
    os.utime(path, ns=(10**18, 10**18))
    change(make_session(durable=False), tool, path)
    assert path.stat().st_mtime_ns > 10**18


@every_tool
def test_a_link_is_written_through_and_stays_a_link(
    path: Path, make_session: Callable[..., Session], tool: str
) -> None:
    link = path.with_name("link")
    link.symlink_to("a.txt")
    change(make_session(durable=False), tool, link)
    assert link.is_symlink() and os.readlink(link) == "a.txt"
    assert path.read_bytes() == b"one\nTWO\n" and not path.is_symlink()


@every_tool
def test_a_file_with_two_names_is_refused_and_the_way_out_is_named(
    path: Path, make_session: Callable[..., Session], tool: str
) -> None:
    os.link(path, path.with_name("b.txt"))
    session = make_session(durable=False)
    session.call("Read", {"file_path": "a.txt"})
    result = session.call(tool, {"file_path": "a.txt", **CALLS[tool]})
    assert result.error and result.error.code == "hard_linked" and "hard_links" in result.advice
    assert path.read_bytes() == b"one\ntwo\n" and path.stat().st_nlink == 2


@every_tool
def test_a_file_with_two_names_can_be_split(path: Path, make_session: Callable[..., Session], tool: str) -> None:
    other = path.with_name("b.txt")
    os.link(path, other)
    path.chmod(0o751)
    change(make_session(durable=False, hard_links="split"), tool, path)
    assert other.read_bytes() == b"one\ntwo\n" and not path.samefile(other)
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


@every_tool
def test_a_file_with_two_names_can_be_written_through(
    path: Path, make_session: Callable[..., Session], tool: str
) -> None:
    other = path.with_name("b.txt")
    os.link(path, other)
    change(make_session(durable=False, hard_links="through"), tool, path)
    assert other.read_bytes() == b"one\nTWO\n" and path.samefile(other)


@every_tool
@pytest.mark.parametrize("mode", [0o444, 0o400, 0o555])
def test_a_read_only_file_is_refused_to_everybody(
    path: Path, make_session: Callable[..., Session], tool: str, mode: int
) -> None:
    path.chmod(mode)
    session = make_session(durable=False)
    session.call("Read", {"file_path": "a.txt"})
    result = session.call(tool, {"file_path": "a.txt", **CALLS[tool]})
    assert result.error and result.error.code == "permission_denied"
    assert path.read_bytes() == b"one\ntwo\n"
