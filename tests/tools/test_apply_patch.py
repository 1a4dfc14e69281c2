"""ApplyPatch in the native dialect: seen first, computed for all files, committed all or none, told file by file."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from handrail import Access, Record, Result, Session, Setup, Verdict
from handrail.journal import NoJournal
from handrail.policy.files import parse_rules

Make = Callable[..., Session]


def patch(*ops: str) -> str:
    return "\n".join(["*** Begin Patch", *ops, "*** End Patch", ""])


def apply(session: Session, *ops: str, **more: Any) -> Result:
    return session.call("ApplyPatch", {"patch": patch(*ops), **more})


def code(result: Result) -> str | None:
    return result.error.code if result.error else None


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


class Kept(NoJournal):
    """A journal that remembers."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def record(self, record: Record) -> str:
        self.records.append(record)
        return ""


@pytest.fixture
def three(make_session: Make, tmp_path: Path) -> Session:
    """Three files that were read."""
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_bytes(f"one {name}\ntwo\n".encode("ascii"))
    session = make_session(durable=False)
    for name in ("a.txt", "b.txt", "c.txt"):
        session.call("Read", {"file_path": name})
    return session


UPDATE_A = "*** Update File: a.txt\n@@\n-two\n+2"
MOVE_B = "*** Update File: b.txt\n*** Move to: sub/d.txt\n@@\n-two\n+2"
DELETE_C = "*** Delete File: c.txt"


def test_the_answer_has_one_line_a_file_and_a_short_snippet(three: Session, tmp_path: Path) -> None:
    result = apply(three, UPDATE_A, MOVE_B, DELETE_C, "*** Add File: e.txt\n+x\n+y")
    assert result.text == (
        "Patched 4 files:\nM a.txt\n1\tone a.txt\n2\t2\nR b.txt -> sub/d.txt\n1\tone b.txt\n2\t2\nD c.txt\nA e.txt"
    )
    assert tree(tmp_path) == {"a.txt": b"one a.txt\n2\n", "sub/d.txt": b"one b.txt\n2\n", "e.txt": b"x\ny\n"}


def test_the_data_says_what_became_of_each_file(three: Session) -> None:
    result = apply(three, UPDATE_A, MOVE_B, DELETE_C)
    assert result.data["files"] == [
        {"path": "a.txt", "change": "update", "added": 1, "removed": 1, "rung": "exact"},
        {"path": "sub/d.txt", "change": "move", "added": 1, "removed": 1, "rung": "exact", "from": "b.txt"},
        {"path": "c.txt", "change": "delete", "added": 0, "removed": 2, "rung": "exact"},
    ]
    assert "-two\n+2\n" in result.data["diff"]


def test_a_long_snippet_is_left_out(make_session: Make, tmp_path: Path) -> None:
    result = apply(make_session(durable=False), "*** Add File: a.txt\n" + "\n".join(f"+{n}" for n in range(100)))
    assert result.text == "Patched 1 file:\nA a.txt"


def test_what_a_patch_touches_is_known_before_it_runs(three: Session, tmp_path: Path) -> None:
    prepared = three.prepare("ApplyPatch", {"patch": patch(UPDATE_A, MOVE_B, DELETE_C, "*** Add File: e.txt\n+x")})
    assert [(access.action, access.target) for access in prepared.accesses] == [
        ("read", "a.txt"),
        ("write", "a.txt"),
        ("read", "b.txt"),
        ("delete", "b.txt"),
        ("write", "sub/d.txt"),
        ("delete", "c.txt"),
        ("write", "e.txt"),
    ]
    assert prepared.verdict.decision == "allow"


def test_the_preview_shows_every_file_and_changes_none(three: Session, tmp_path: Path) -> None:
    before = tree(tmp_path)
    shown = three.prepare("ApplyPatch", {"patch": patch(UPDATE_A, MOVE_B, DELETE_C)}).preview()
    assert all(name in shown for name in ("a.txt", "b.txt", "sub/d.txt", "c.txt"))
    assert tree(tmp_path) == before


class NoDeleting:
    """A policy that allows all but deleting."""

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        gone = [access.target for access in accesses if access.action == "delete"]
        return Verdict("deny", "keep", f"{gone[0]} must stay") if gone else Verdict("allow")


def test_a_policy_sees_deletes_and_moves(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"one\ntwo\n")
    session = make_session(policy=NoDeleting())
    session.call("Read", {"file_path": "b.txt"})
    result = apply(session, MOVE_B)
    assert (result.status, code(result)) == ("denied", "denied")
    assert tree(tmp_path) == {"b.txt": b"one\ntwo\n"}


def test_the_journal_gets_all_changes_with_what_was_there_before(make_session: Make, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_bytes(b"one\ntwo\n")
    journal = Kept()
    session = make_session(journal=journal, durable=False)
    for name in ("a.txt", "b.txt", "c.txt"):
        session.call("Read", {"file_path": name})
    assert apply(session, UPDATE_A, MOVE_B, DELETE_C, "*** Add File: e.txt\n+x").status == "ok"
    notes = [
        (change.path.named, change.before and change.before.raw, change.after, change.moved_from is not None)
        for change in journal.records[-1].changes
    ]
    assert notes == [
        ("a.txt", b"one\ntwo\n", b"one\n2\n", False),
        ("sub/d.txt", None, b"one\n2\n", True),
        ("b.txt", b"one\ntwo\n", None, False),
        ("c.txt", b"one\ntwo\n", None, False),
        ("e.txt", None, b"x\n", False),
    ]


# Read before write.


@pytest.mark.parametrize(
    "op",
    ["*** Update File: a.txt\n@@\n-TWO\n+2", "*** Delete File: a.txt", "*** Update File: a.txt\n*** Move to: b.txt"],
)
def test_a_file_that_was_not_read_is_not_changed(op: str, make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n")
    result = apply(make_session(), "*** Add File: z.txt\n+z", op)
    assert code(result) == "not_seen" and "No file was changed" in result.text
    assert tree(tmp_path) == {"a.txt": b"one\ntwo\n"}


def test_an_update_goes_through_if_the_file_changed_elsewhere_and_says_so(three: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"ONE\ntwo\n")
    result = apply(three, UPDATE_A)
    assert (result.status, [note.code for note in result.notes]) == ("partial", ["changed_elsewhere"])
    assert (tmp_path / "a.txt").read_bytes() == b"ONE\n2\n"


def test_a_hunk_that_no_longer_fits_says_that_the_file_changed(three: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\nTWO\n")
    assert code(apply(three, UPDATE_A)) == "changed_since"


def test_a_file_that_changed_since_is_not_deleted(three: Session, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_bytes(b"precious\n")
    assert code(apply(three, UPDATE_A, DELETE_C)) == "changed_since"
    assert (tmp_path / "a.txt").read_bytes() == b"one a.txt\ntwo\n"


def test_what_a_patch_wrote_or_moved_counts_as_seen_and_what_it_deleted_does_not(
    three: Session, tmp_path: Path
) -> None:
    assert apply(three, MOVE_B, DELETE_C, "*** Add File: e.txt\n+x").status == "ok"
    assert apply(three, "*** Update File: sub/d.txt\n@@\n-2\n+3", "*** Delete File: e.txt").status == "ok"
    (tmp_path / "c.txt").write_bytes(b"new\n")
    assert code(apply(three, DELETE_C)) == "not_seen"


def test_a_dialect_may_do_without_reading(make_session: Make, tmp_path: Path) -> None:
    folder = tmp_path / "dialect"
    folder.mkdir()
    (folder / "messages.toml").touch()
    (folder / "tools.toml").write_text('extends = "codex"\n', encoding="utf-8")
    root = tmp_path / "root"
    root.mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (root / name).write_bytes(b"one\ntwo\n")
    session = make_session(root, str(folder))
    text = patch(UPDATE_A, DELETE_C, "*** Add File: b.txt\n+new")
    assert session.call("apply_patch", {"input": text}).error is None
    assert tree(root) == {"a.txt": b"one\n2\n", "b.txt": b"new\n"}
    (root / "a.txt").write_bytes(b"another\ntwo\n")
    assert session.call("apply_patch", {"input": patch("*** Delete File: a.txt")}).error is None
    moved = session.call(
        "apply_patch", {"input": patch("*** Add File: x\n+x", "*** Update File: b.txt\n*** Move to: c.txt")}
    )
    assert moved.error is None and tree(root) == {"x": b"x\n", "c.txt": b"new\n"}
    clobbering = session.call("apply_patch", {"input": patch("*** Update File: x\n*** Move to: c.txt")})
    assert code(clobbering) == "would_overwrite"


# Names and kinds of files.


def test_a_link_is_not_moved_in_place_of_its_file(three: Session, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a.txt")
    three.call("Read", {"file_path": "link"})
    result = apply(three, "*** Update File: link\n*** Move to: z.txt")
    assert code(result) == "not_regular" and "a link" in result.text
    assert (tmp_path / "link").is_symlink() and (tmp_path / "a.txt").exists()


def test_one_file_under_two_names_is_noticed(three: Session, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a.txt")
    result = apply(three, UPDATE_A, "*** Update File: link\n@@\n-one a.txt\n+1")
    assert code(result) == "same_file" and "a.txt" in result.text and "link" in result.text
    (tmp_path / "folder").symlink_to(".")
    assert code(apply(three, UPDATE_A, "*** Delete File: folder/a.txt")) == "same_file"


def test_a_move_onto_itself_through_a_link_is_refused(three: Session, tmp_path: Path) -> None:
    (tmp_path / "folder").symlink_to(".")
    op = "*** Update File: a.txt\n*** Move to: folder/a.txt\n@@\n-two\n+2"
    assert code(apply(three, op)) == "would_overwrite"
    assert code(apply(three, op, overwrite=True)) == "same_file"
    assert (tmp_path / "a.txt").read_bytes() == b"one a.txt\ntwo\n"


def test_a_link_that_leads_out_is_refused(
    three: Session, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (tmp_path / "out").symlink_to(outside)
    for op in ("*** Add File: out/x\n+x", "*** Update File: a.txt\n*** Move to: out/a.txt"):
        assert code(apply(three, op)) == "outside_workspace"
    assert list(outside.iterdir()) == []


def test_a_binary_file_is_moved_and_deleted_but_not_changed(make_session: Make, tmp_path: Path) -> None:
    raw = bytes(range(256))
    (tmp_path / "a.bin").write_bytes(raw)
    (tmp_path / "b.bin").write_bytes(raw)
    folder = tmp_path / "dialect"
    folder.mkdir()
    (folder / "messages.toml").touch()
    table = '[tools.patch]\nid = "apply_patch"\nlimits = { needs_reading = false }\n'
    (folder / "tools.toml").write_text(table, encoding="utf-8")
    session = make_session(dialect=str(folder))
    text = patch("*** Update File: a.bin\n*** Move to: c.bin", "*** Delete File: b.bin")
    assert session.call("patch", {"patch": text}).error is None
    assert (tmp_path / "c.bin").read_bytes() == raw and not (tmp_path / "b.bin").exists()
    assert code(session.call("patch", {"patch": patch("*** Update File: c.bin\n@@\n-a\n+b")})) == "binary_file"


def test_a_moved_file_keeps_its_mode_and_attributes(three: Session, tmp_path: Path) -> None:
    (tmp_path / "b.txt").chmod(0o751)
    noted = True
    try:
        os.setxattr(tmp_path / "b.txt", "user.note", b"kept")
    except (AttributeError, OSError):
        noted = False  # none to be kept on this file system
    assert apply(three, MOVE_B).error is None
    assert (tmp_path / "sub/d.txt").stat().st_mode & 0o777 == 0o751
    assert not noted or os.getxattr(tmp_path / "sub/d.txt", "user.note") == b"kept"


def test_a_file_with_several_names_is_not_moved_but_one_name_of_it_may_be_deleted(
    three: Session, tmp_path: Path
) -> None:
    os.link(tmp_path / "b.txt", tmp_path / "other")
    assert code(apply(three, MOVE_B)) == "hard_linked"
    assert apply(three, "*** Delete File: b.txt").error is None
    assert (tmp_path / "other").read_bytes() == b"one b.txt\ntwo\n" and not (tmp_path / "b.txt").exists()


def test_an_encoding_is_kept_and_what_it_lacks_is_refused_for_all_files(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("größe\ntwo\n".encode("latin-1"))
    (tmp_path / "b.txt").write_bytes("é\r\ntwo\r\n".encode("utf-16"))
    session = make_session(durable=False)
    for name in ("a.txt", "b.txt"):
        session.call("Read", {"file_path": name})
    second = "*** Update File: b.txt\n@@\n-two\n+zwölf"
    assert code(apply(session, second, "*** Update File: a.txt\n@@\n-two\n+日本")) == "cannot_encode"
    assert apply(session, second, "*** Update File: a.txt\n@@\n-two\n+zwölf").error is None
    assert (tmp_path / "a.txt").read_bytes() == "größe\nzwölf\n".encode("latin-1")
    assert (tmp_path / "b.txt").read_bytes() == "é\r\nzwölf\r\n".encode("utf-16")


# All or none.


def test_a_file_that_cannot_be_made_takes_everything_back(three: Session, tmp_path: Path) -> None:
    before = tree(tmp_path)
    result = apply(three, UPDATE_A, MOVE_B, DELETE_C, "*** Add File: new/" + "n" * 300 + "\n+x")
    assert result.status == "error"
    assert tree(tmp_path) == before and not (tmp_path / "new").exists() and not (tmp_path / "sub").exists()


def test_a_file_where_a_folder_is_needed_takes_everything_back(three: Session, tmp_path: Path) -> None:
    before = tree(tmp_path)
    assert apply(three, UPDATE_A, DELETE_C, "*** Add File: c.txt/x\n+x").status == "error"
    assert apply(three, UPDATE_A, "*** Add File: d/x\n+x", "*** Add File: d\n+x").status == "error"
    assert tree(tmp_path) == before


def needs_leases(folder: Path) -> None:
    probe = folder / "probe"
    probe.touch()
    fd = os.open(probe, os.O_RDONLY)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except (AttributeError, OSError) as error:
        pytest.skip(f"no file leases here: {error}")
    finally:
        os.close(fd)
        probe.unlink()


def test_a_file_that_somebody_writes_to_is_not_deleted_under_his_hands(three: Session, tmp_path: Path) -> None:
    needs_leases(tmp_path)
    before = tree(tmp_path)
    with (tmp_path / "c.txt").open("r+b"):
        assert code(apply(three, UPDATE_A, MOVE_B, DELETE_C)) == "busy"
    assert tree(tmp_path) == before


def test_a_file_that_was_saved_anew_at_the_last_moment_is_not_deleted(three: Session, tmp_path: Path) -> None:
    needs_leases(tmp_path)
    done: list[Result] = []
    with (tmp_path / "c.txt").open("r+b"):
        thread = threading.Thread(target=lambda: done.append(apply(three, UPDATE_A, DELETE_C)))
        thread.start()
        time.sleep(0.3)
        (tmp_path / "fresh").write_bytes(b"saved\n")
        (tmp_path / "fresh").rename(tmp_path / "c.txt")
    thread.join()
    assert code(done[0]) in ("changed_since", "busy")
    assert tree(tmp_path) == {"a.txt": b"one a.txt\ntwo\n", "b.txt": b"one b.txt\ntwo\n", "c.txt": b"saved\n"}


# What a killed process leaves: see promises/test_patch_crash.py for kills; here a stranger came by before the mending.

TEMP = ".handrail-0123456789abcde{}"


def left_behind(doing: str, *parts: list[Any]) -> None:
    folder = Path(os.environ["HANDRAIL_STATE"]) / "locks"
    folder.mkdir(exist_ok=True)
    (folder / f"{0:016x}").write_text(json.dumps([{"doing": doing, "parts": parts}]), encoding="ascii")


def part(root: Path, kind: str, number: int, name: str, new_ino: int, old: bytes | None, new: bytes) -> list[Any]:
    import hashlib

    digests = [None if raw is None else hashlib.sha256(raw).hexdigest() for raw in (old, new)]
    place = root.stat()
    where = [str(root), place.st_dev, place.st_ino]
    return [*where, f"{kind:8}", TEMP.format(number), name, f"{new_ino:016x}", *digests]


def swapped(root: Path, stranger: str = "") -> list[list[Any]]:
    """A set of four, all names changed: an exchanged, a new and two deleted files."""
    parts = []
    for number, (kind, name, old, new) in enumerate(
        [
            ("exchange", "a", b"old", b"new"),
            ("new", "n", None, b"new"),
            ("delete", "d", b"gone", b""),
            ("delete", "e", b"g", b""),
        ]
    ):
        if kind != "delete":
            (root / name).write_bytes(new)
        if kind != "new":
            (root / TEMP.format(number)).write_bytes(old or b"")
        ino = (root / name).stat().st_ino if kind != "delete" else 0
        parts.append(part(root, kind, number, name, ino, old, new))
    if stranger:
        (root / stranger).write_bytes(b"a stranger's")
    return parts


def mended(session: Session, root: Path) -> dict[str, bytes]:
    session.call("Read", {"file_path": "x"})
    return tree(root)


def test_a_set_that_was_not_complete_goes_back(make_session: Make, tmp_path: Path) -> None:
    left_behind("swaps", *swapped(tmp_path))
    assert mended(make_session(), tmp_path) == {"a": b"old", "d": b"gone", "e": b"g"}


def test_a_set_that_was_complete_stays(make_session: Make, tmp_path: Path) -> None:
    left_behind("ready", *swapped(tmp_path))
    assert mended(make_session(), tmp_path) == {"a": b"new", "n": b"new"}


@pytest.mark.parametrize("name", ["a", "n"])
def test_what_a_stranger_wrote_into_a_new_file_is_not_taken_back(name: str, make_session: Make, tmp_path: Path) -> None:
    left_behind("swaps", *swapped(tmp_path, name))
    actual = mended(make_session(), tmp_path)
    assert actual[name] == b"a stranger's" and actual["d"] == b"gone"
    assert not any(path.startswith(".handrail-") for path in actual)


def test_a_deleted_file_whose_name_was_taken_is_kept_under_another(make_session: Make, tmp_path: Path) -> None:
    left_behind("swaps", *swapped(tmp_path, "d"))
    actual = mended(make_session(), tmp_path)
    assert actual.pop("d") == b"a stranger's"
    assert sorted(actual.values()) == [b"g", b"gone", b"old"] and any(name.startswith("d.kept-") for name in actual)


def test_a_stranger_caught_in_a_delete_gets_his_file_back(make_session: Make, tmp_path: Path) -> None:
    parts = swapped(tmp_path, TEMP.format(2))
    left_behind("ready", *parts)
    assert mended(make_session(), tmp_path) == {"a": b"new", "n": b"new", "d": b"a stranger's"}


def test_a_record_cut_off_before_all_new_files_are_known_removes_temporary_files_only(
    make_session: Make, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / TEMP.format(0)).write_bytes(b"ne")
    one = part(tmp_path, "exchange", 0, "a", 5, b"old", b"new")
    other = part(tmp_path, "new", 1, "n", 0, None, b"new")
    left_behind("swaps", one, other)
    assert mended(make_session(), tmp_path) == {"a": b"old"}


@pytest.mark.parametrize("parts", [[], [1], [["x"]], [["/", 1, 2, "delete", "precious", "a", "zz", None, None]], None])
def test_a_record_that_is_none_does_not_wedge_every_call(parts: Any, make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    left_behind("swaps")
    lock = Path(os.environ["HANDRAIL_STATE"]) / "locks" / f"{0:016x}"
    lock.write_text(json.dumps([{"doing": "swaps", "parts": parts}]), encoding="ascii")
    assert make_session().call("Write", {"file_path": "a.txt", "content": "x"}).status == "ok"
    assert (tmp_path / "precious").exists()


def test_a_path_may_be_absolute_inside_the_workspace(make_session: Callable[..., Session], tmp_path: Path) -> None:
    session = make_session(durable=False)
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("one\n", encoding="utf-8")
    for name in ("a.txt", "b.txt"):
        session.call("Read", {"file_path": name})
    files = [str(tmp_path / f"{name}.txt") for name in "abc"]
    assert apply(session, f"*** Update File: {files[0]}", "@@", "-two", "+2", f"*** Add File: {files[2]}", "+3").ok
    diff = f"--- {tmp_path}/b.txt\n+++ {tmp_path}/b.txt\n@@ -1 +1 @@\n-one\n+1\n"
    assert session.call("ApplyPatch", {"patch": diff}).ok
    assert [(tmp_path / f"{name}.txt").read_text(encoding="utf-8") for name in "abc"] == ["one\n2\n", "1\n", "3\n"]
    outside = session.call("ApplyPatch", {"patch": "*** Begin Patch\n*** Delete File: /etc/hostname\n*** End Patch"})
    assert outside.error and outside.error.code == "outside_workspace"
    twice = ["*** Update File: a.txt", "@@", "-one", "+1", f"*** Update File: {files[0]}", "@@", "-2", "+3"]
    assert apply(session, *twice).error is not None
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one\n2\n"


@pytest.mark.parametrize(
    "rename",
    [
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-one\n+1\n*** End Patch",
        "diff --git a/a.txt b/b.txt\nsimilarity index 100%\nrename from a.txt\nrename to b.txt\n",
    ],
)
def test_a_rename_is_judged_as_a_rename_and_a_rule_against_deleting_still_holds(
    make_session: Callable[..., Session], tmp_path: Path, rename: str
) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session = make_session(
        durable=False, mode="accept-edits", setup=Setup(rules=[parse_rules('rules = ["deny Delete(a.txt)"]')])
    )
    session.call("Read", {"file_path": "a.txt"})
    assert session.call("ApplyPatch", {"patch": rename}).status == "denied"
    session = make_session(durable=False, mode="ask")
    session.call("Read", {"file_path": "a.txt"})
    delete = session.call("ApplyPatch", {"patch": "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"})
    assert delete.error and delete.error.code == "needs_approval"
    session.set_mode("accept-edits")
    assert session.call("ApplyPatch", {"patch": rename}).ok
    assert not (tmp_path / "a.txt").exists() and (tmp_path / "b.txt").exists()


def test_a_refused_hunk_names_the_characters_that_look_alike_and_shows_the_lines(three: Session) -> None:
    result = apply(three, "*** Update File: a.txt\n@@\n-\u043ene a.txt\n+1\n two")
    assert code(result) == "bad_hunk"
    assert "U+043E in the patch and U+006F in the file" in result.text
    assert result.text.endswith("     1\tone a.txt\n     2\ttwo")
