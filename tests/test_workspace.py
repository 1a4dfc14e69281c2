"""The boundary: what a path may be, which roots there are, and no way out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Result, Root, Session, Setup

Make = Callable[..., Session]


def read(session: Session, name: str | Path) -> Result:
    return session.call("Read", {"file_path": str(name)})


def write(session: Session, name: str | Path, content: str = "x") -> Result:
    return session.call("Write", {"file_path": str(name), "content": content})


def code(result: Result) -> str | None:
    return result.error.code if result.error else None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a secret beside it."""
    directory = tmp_path / "root"
    (directory / "sub").mkdir(parents=True)
    (directory / "a.txt").write_text("inside\n", encoding="utf-8")
    (tmp_path / "secret").write_text("secret\n", encoding="utf-8")
    return directory


def test_relative_and_absolute_paths_name_the_same_file(make_session: Make, root: Path) -> None:
    session = make_session(root)
    for name in ("a.txt", "./a.txt", "sub/../a.txt", "../root/a.txt", str(root / "a.txt"), f"{root}//sub/.././a.txt"):
        result = read(session, name)
        assert (result.status, result.accesses[0].path) == ("ok", str(root / "a.txt")), name


def test_an_absolute_path_may_lack_its_slash_or_have_a_prefix_of_git(make_session: Make, root: Path) -> None:
    session = make_session(root)
    inside = str(root / "a.txt")[1:]
    for name in (inside, f"a/{inside}", f"b/{inside}"):
        result = read(session, name)
        assert (result.status, result.accesses[0].path) == ("ok", str(root / "a.txt")), name
    assert code(read(session, f"c/{inside}")) == "not_found"
    (root / inside.partition("/")[0]).mkdir()
    assert code(read(session, inside)) == "not_found"  # now it may well be a path from here


def test_a_path_of_any_length_is_answered_at_once(make_session: Make, root: Path) -> None:
    session = make_session(root)
    for name in ("d/" * 10_000 + "a.txt", "../" * 10_000 + "a.txt", "sub/../" * 10_000 + "a.txt"):
        result = read(session, name)
        assert code(result) == "bad_path" and "at most 8192" in result.text and len(result.text) < 200


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "sub/../../secret",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/environ",
        "/proc/self/cwd/../etc/passwd",
        "/dev/stdin",
        "/",
        "..",
    ],
)
def test_no_path_leads_out(make_session: Make, root: Path, tmp_path: Path, name: str) -> None:
    session = make_session(root)
    before = sorted(tmp_path.rglob("*"))
    for result in (read(session, name), write(session, name)):
        assert (result.status, code(result)) == ("denied", "outside_workspace")
        assert "secret\n" not in result.text and "root:" not in result.text
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "name",
    ["\uff0e\uff0e/secret", "..\u2215secret", "\u2024\u2024/secret", "..\\secret", "%2e%2e/secret", "..\u200b/secret"],
)
def test_characters_that_look_like_a_way_out_are_ordinary_names(make_session: Make, root: Path, name: str) -> None:
    result = read(make_session(root), name)
    assert code(result) == "not_found"
    assert "\u200b" not in result.text


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "/proc/self/root/etc/passwd", "sub/../../secret"])
def test_a_link_that_leads_out_is_refused_and_said_to_be_one(make_session: Make, root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    session = make_session(root)
    for result in (read(session, "link"), write(session, "link")):
        assert (result.status, code(result)) == ("denied", "outside_workspace")
        assert "a symbolic link points there" in result.text


def test_a_linked_directory_that_leads_out_is_refused(make_session: Make, root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(tmp_path)
    session = make_session(root)
    assert code(read(session, "out/secret")) == "outside_workspace"
    assert code(write(session, "out/new.txt")) == "outside_workspace"
    assert code(write(session, "out/sub/new.txt")) == "outside_workspace"
    assert not (tmp_path / "new.txt").exists()


def test_a_link_that_stays_inside_is_followed(make_session: Make, root: Path) -> None:
    (root / "sub" / "up").symlink_to("../a.txt")
    (root / "here").symlink_to(root)
    session = make_session(root)
    assert read(session, "sub/up").text == "1\tinside"
    assert read(session, "here/here/sub/up").status == "ok"
    assert write(session, "here/sub/new.txt").status == "ok"
    assert (root / "sub" / "new.txt").exists()


def test_links_in_a_circle_are_refused(make_session: Make, root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    session = make_session(root)
    for name in ("one", "one/x"):
        assert code(read(session, name)) == "bad_path"
        assert code(write(session, name)) == "bad_path"


def test_a_root_whose_name_is_the_beginning_of_another_does_not_hold_it(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text("x", encoding="utf-8")
    assert code(read(make_session(tmp_path / "proj"), tmp_path / "project" / "a.txt")) == "outside_workspace"


def test_the_file_system_root_can_be_a_workspace(make_session: Make, root: Path) -> None:
    assert read(make_session(Path("/")), root / "a.txt").status == "ok"


# ~


def test_a_tilde_is_not_expanded_and_the_advice_leads_out(make_session: Make, root: Path) -> None:
    session = make_session(root)
    for name in ("~/a.txt", "~", "~root/a.txt"):
        for result in (read(session, name), write(session, name)):
            assert code(result) == "tilde_path"
    assert read(session, root / "a.txt").status == "ok"
    assert sorted(path.name for path in root.iterdir()) == ["a.txt", "sub"]


def test_a_file_whose_name_begins_with_a_tilde_can_be_named(make_session: Make, root: Path) -> None:
    (root / "~lock").write_text("x", encoding="utf-8")
    (root / "~").mkdir()
    (root / "~" / "b.txt").write_text("y", encoding="utf-8")
    session = make_session(root)
    assert read(session, "~lock").status == read(session, "~/b.txt").status == "ok"
    assert write(session, "./~new").status == "ok"


# Roots


def test_a_read_only_root_is_read_and_not_written(make_session: Make, root: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "b.txt").write_text("b\n", encoding="utf-8")
    session = make_session(root, setup=Setup(roots=[Root(str(library), writable=False)]))
    assert read(session, library / "b.txt").status == "ok"
    for name in ("b.txt", "new.txt", "deep/new.txt"):
        result = write(session, library / name)
        assert (result.status, code(result)) == ("denied", "read_only_root")
        assert str(library) in result.text
    assert [path.name for path in library.iterdir()] == ["b.txt"]
    assert (library / "b.txt").read_text(encoding="utf-8") == "b\n"


def test_a_link_into_a_read_only_root_is_read_and_not_written(make_session: Make, root: Path, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "b.txt").write_text("b\n", encoding="utf-8")
    (root / "link").symlink_to("../library/b.txt")
    session = make_session(root, setup=Setup(roots=[Root(str(tmp_path / "library"), writable=False)]))
    assert read(session, "link").status == "ok"
    assert code(write(session, "link")) == "read_only_root"


def test_several_roots_can_be_written(make_session: Make, root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    session = make_session(root, setup=Setup(roots=[Root(str(tmp_path / "other"))]))
    assert write(session, tmp_path / "other" / "new.txt").status == "ok"
    assert write(session, "new.txt").status == "ok"
    assert (root / "new.txt").exists() and (tmp_path / "other" / "new.txt").exists()


def test_the_innermost_root_decides(make_session: Make, root: Path) -> None:
    (root / "vendor").mkdir()
    session = make_session(root, setup=Setup(roots=[Root(str(root / "vendor"), writable=False)]))
    assert code(write(session, "vendor/x")) == code(write(session, root / "vendor" / "x")) == "read_only_root"
    assert write(session, "x").status == "ok"


def test_the_refusal_names_every_root(make_session: Make, root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    result = read(make_session(root, setup=Setup(roots=[Root(str(tmp_path / "other"))])), "/etc/passwd")
    assert str(root) in result.text and str(tmp_path / "other") in result.text


def test_a_root_that_is_a_link_works(make_session: Make, root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    session = make_session(tmp_path / "link")
    for name in ("a.txt", tmp_path / "link" / "a.txt", root / "a.txt"):
        assert read(session, name).status == "ok"
    assert write(session, tmp_path / "link" / "new.txt").status == "ok"
    assert (root / "new.txt").exists()


@pytest.mark.parametrize("absolute", [False, True])
def test_a_missing_root_says_so_and_creating_it_leads_out(make_session: Make, tmp_path: Path, absolute: bool) -> None:
    late = tmp_path / "late"
    late.mkdir()
    session = make_session(late)
    late.rmdir()
    name = late / "a.txt" if absolute else "a.txt"
    for result in (read(session, name), write(session, name)):
        assert code(result) == "root_missing", result.text
    late.mkdir()
    assert write(session, name).status == "ok"
    assert (late / "a.txt").exists()


def test_a_root_that_was_removed_and_made_anew_works(make_session: Make, root: Path) -> None:
    session = make_session(root, durable=False)
    assert read(session, "a.txt").status == "ok"
    shutil.rmtree(root)
    assert code(read(session, "a.txt")) == "root_missing"
    root.mkdir()
    assert code(read(session, "a.txt")) == "not_found"
    assert write(session, "a.txt").status == "ok"
    assert (root / "a.txt").read_text(encoding="utf-8") == "x"


def test_a_root_that_was_removed_is_not_written_before_it_is_made_anew(make_session: Make, root: Path) -> None:
    session = make_session(root)
    read(session, "a.txt")
    shutil.rmtree(root)
    assert code(write(session, "a.txt")) == "root_missing"
    assert not root.exists()


def test_a_root_that_was_moved_away_and_made_anew_is_the_one_at_the_reported_path(
    make_session: Make, root: Path, tmp_path: Path
) -> None:
    session = make_session(root, durable=False)
    read(session, "a.txt")
    root.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", root)
    result = session.call("Edit", {"file_path": "a.txt", "old_string": "inside", "new_string": "changed"})
    assert (tmp_path / "moved" / "a.txt").read_text(encoding="utf-8") == "inside\n"
    if result.status == "ok":
        assert Path(result.accesses[0].path).read_text(encoding="utf-8") == "changed\n"


def test_a_missing_extra_root_does_not_disturb_the_others(make_session: Make, root: Path, tmp_path: Path) -> None:
    session = make_session(root, setup=Setup(roots=[Root(str(tmp_path / "missing"))]))
    assert read(session, root / "a.txt").status == write(session, "new.txt").status == "ok"


def test_an_extra_root_that_is_no_directory_does_not_disturb_the_others(
    make_session: Make, root: Path, tmp_path: Path
) -> None:
    session = make_session(root, setup=Setup(roots=[Root(str(tmp_path / "secret"))]))
    assert read(session, root / "a.txt").status == "ok"
    assert write(session, "new.txt").status == "ok"
    assert write(session, root / "newer.txt").status == "ok"


def test_a_root_that_is_no_directory_is_said_to_be_none(make_session: Make, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    session = make_session(place)
    place.rmdir()
    place.touch()
    result = read(session, "a.txt")
    assert result.status == "error"
    assert "directory" in result.text and "does not exist" not in result.text


def test_a_closed_session_leaves_no_descriptor_behind(make_session: Make, root: Path) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc to count descriptors")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with make_session(root) as session:
            read(session, "a.txt")
            read(session, "missing")
    assert len(os.listdir("/proc/self/fd")) == before
