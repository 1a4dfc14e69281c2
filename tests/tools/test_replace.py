"""Replace: looked at first, counted or chosen, and changed in many files all or none."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handrail import Access, Result, Root, Session, Settings, Setup, Verdict
from tests import sizes

Make = Callable[..., Session]
FILES = {
    "a.py": b"foo = 1\nbar(foo)\n",
    "sub/b.py": b"print(foo)\n",
    "sub/c.txt": b"a Foo, a foo and food\n",
    "d.txt": b"nothing\n",
}


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def code(result: Result) -> str | None:
    return result.error.code if result.error else None


def swap(session: Session, pattern: str = "foo", replacement: str = "quux", **more: Any) -> Result:
    return session.call("Replace", {"pattern": pattern, "replacement": replacement, **more})


def ids(result: Result) -> list[str]:
    return [one["id"] for one in result.data["occurrences"]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    for name, raw in FILES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(raw)
    return directory


@pytest.fixture
def session(make_session: Make, root: Path) -> Session:
    return make_session(root, durable=False)


def own(tmp_path: Path, **limits: int | float) -> str:
    """A dialect with other limits."""
    folder = tmp_path / "dialect"
    folder.mkdir()
    (folder / "messages.toml").touch()
    table = ", ".join(f"{name} = {value}" for name, value in limits.items())
    (folder / "tools.toml").write_text(f'[tools.Replace]\nid = "replace"\nlimits = {{ {table} }}\n', encoding="utf-8")
    return str(folder)


# Looking first.


def test_a_dry_run_shows_every_occurrence_with_an_id_and_changes_nothing(session: Session, root: Path) -> None:
    result = swap(session, dry_run=True)
    one, two, three, four, five = ids(result)
    assert result.text == (
        "Dry run: 5 occurrences in 3 files, nothing changed yet:\n"
        "a.py: 2\n"
        f"  {one} line 1\n    - foo = 1\n    + quux = 1\n"
        f"  {two} line 2\n    - bar(foo)\n    + bar(quux)\n"
        "sub/b.py: 1\n"
        f"  {three} line 1\n    - print(foo)\n    + print(quux)\n"
        "sub/c.txt: 2\n"
        f"  {four} line 1\n    - a Foo, a foo and food\n    + a Foo, a quux and food\n"
        f"  {five} line 1\n    - a Foo, a foo and food\n    + a Foo, a foo and quuxd\n"
        "To replace all 5, call again without dry_run, with expected: 5; "
        "to replace some of them, list their ids in only."
    )
    assert all(re.fullmatch("[0-9a-f]{8}", each) for each in ids(result))
    assert tree(root) == FILES


def test_the_data_of_a_dry_run_lists_files_and_occurrences(session: Session) -> None:
    data = swap(session, dry_run=True, path="sub", glob="*.py").data
    assert data["files"] == [{"path": "sub/b.py", "count": 1}]
    assert [{key: one[key] for key in ("path", "line", "old", "new")} for one in data["occurrences"]] == [
        {"path": "sub/b.py", "line": 1, "old": "foo", "new": "quux"}
    ]
    assert (data["replaced"], data["dry_run"], data["receipt"]["searched"]) == (0, True, 1)


def test_a_long_dry_run_goes_on_with_offset(make_session: Make, root: Path, tmp_path: Path) -> None:
    session = make_session(root, own(tmp_path, page_chars=200))
    first = swap(session, dry_run=True)
    assert first.status == "partial" and [note.code for note in first.notes] == ["more_occurrences"]
    seen, following = ids(first), first.data["next_offset"]
    assert f"offset={following}" in first.text and len(seen) == following < 5
    while following:
        page = swap(session, dry_run=True, offset=following)
        seen, following = seen + ids(page), page.data["next_offset"]
    assert len(seen) == len(set(seen)) == 5
    assert "No results at this offset" in swap(session, dry_run=True, offset=99).text


def test_an_offset_without_a_dry_run_is_refused(session: Session, root: Path) -> None:
    result = swap(session, offset=1, expected=5)
    assert code(result) == "bad_arguments" and "only" in result.text
    assert tree(root) == FILES


def test_nothing_found_says_what_was_looked_at_and_left_out(session: Session, root: Path) -> None:
    (root / ".hidden").write_bytes(b"nowhere\n")
    (root / ".gitignore").write_bytes(b"*.log\n")
    (root / "x.log").write_bytes(b"nowhere\n")
    (root / "x.bin").write_bytes(b"nowhere\0")
    result = swap(session, "nowhere", dry_run=True)
    assert result.text.startswith("No match in .: 4 files searched.")
    assert all(
        part in result.text for part in ("1 ignored", "2 hidden", "1 binary", "include_ignored", "include_hidden")
    )
    wider = swap(session, "nowhere", dry_run=True, include_hidden=True, include_ignored=True)
    assert wider.data["files"] == [{"path": ".hidden", "count": 1}, {"path": "x.log", "count": 1}]


# Knowing what is changed.


def test_a_change_that_was_neither_counted_nor_chosen_is_a_dry_run(session: Session, root: Path) -> None:
    result = swap(session)
    assert (result.text, result.data) == ((dry := swap(session, dry_run=True)).text, dry.data)
    assert "with expected: 5" in result.text
    assert tree(root) == FILES


def test_the_expected_number_is_replaced_without_reading_first(session: Session, root: Path) -> None:
    result = swap(session, expected=5)
    assert result.text == (
        "Replaced 5 occurrences in 3 files:\n"
        "a.py: 2\n1\tquux = 1\n2\tbar(quux)\n"
        "sub/b.py: 1\n1\tprint(quux)\n"
        "sub/c.txt: 2\n1\ta Foo, a quux and quuxd"
    )
    assert tree(root) == {name: raw.replace(b"foo", b"quux") for name, raw in FILES.items()}
    assert result.data["files"] == [
        {"path": "a.py", "count": 2},
        {"path": "sub/b.py", "count": 1},
        {"path": "sub/c.txt", "count": 2},
    ]
    assert (result.data["replaced"], result.data["dry_run"]) == (5, False)
    assert result.data["diff"].count("+++") == 3


@pytest.mark.parametrize("expected", [0, 4, 6])
def test_another_number_than_expected_changes_nothing_and_is_told(session: Session, root: Path, expected: int) -> None:
    result = swap(session, expected=expected)
    assert code(result) == "other_count" and "5 occurrences in 3 files" in result.text
    assert tree(root) == FILES


def test_none_expected_and_none_found_is_no_error(session: Session, root: Path) -> None:
    result = swap(session, "nowhere", expected=0)
    assert result.status == "ok" and "No match in" in result.text
    assert tree(root) == FILES


def test_only_the_chosen_occurrences_are_replaced(session: Session, root: Path) -> None:
    listed = ids(swap(session, dry_run=True))
    result = swap(session, only=[listed[4], listed[1]])
    assert result.status == "ok" and ids(result) == [listed[1], listed[4]]
    assert tree(root) == FILES | {"a.py": b"foo = 1\nbar(quux)\n", "sub/c.txt": b"a Foo, a foo and quuxd\n"}
    assert [access.target for access in result.accesses if access.action == "write"] == ["a.py", "sub/c.txt"]


def test_chosen_ids_may_be_shown_again_and_counted(session: Session, root: Path) -> None:
    listed = ids(swap(session, dry_run=True))
    again = swap(session, only=[listed[2]], dry_run=True)
    assert ids(again) == [listed[2]] and "To replace these, call again without dry_run." in again.text
    assert code(swap(session, only=[listed[2]], expected=2)) == "other_count"
    assert swap(session, only=[listed[2]], expected=1).data["replaced"] == 1


def test_a_list_of_ids_may_come_as_json(session: Session, root: Path) -> None:
    listed = ids(swap(session, dry_run=True))
    assert swap(session, only=f'["{listed[0]}"]').data["replaced"] == 1


@pytest.mark.parametrize("wrong", ["00000000", "", "x", "b", "\0", "\ud800"])
def test_an_unknown_id_changes_nothing(session: Session, root: Path, wrong: str) -> None:
    listed = ids(swap(session, dry_run=True))
    result = swap(session, only=[listed[0], wrong])
    assert code(result) == "unknown_occurrence" and "call without only" in result.text
    assert tree(root) == FILES


def test_an_id_of_a_file_that_changed_is_not_known_any_more(session: Session, root: Path) -> None:
    listed = ids(swap(session, dry_run=True))
    (root / "a.py").write_bytes(FILES["a.py"] + b"# more\n")
    result = swap(session, only=[listed[0], listed[2]])
    assert code(result) == "unknown_occurrence" and listed[0] in result.text and listed[2] not in result.text
    assert tree(root) == FILES | {"a.py": FILES["a.py"] + b"# more\n"}
    assert swap(session, only=[listed[2]]).data["replaced"] == 1


def test_two_occurrences_whose_short_ids_are_the_same_get_longer_ones(make_session: Make, tmp_path: Path) -> None:
    root = tmp_path / "collision"
    root.mkdir()
    raw = b"0061\n" + b"x\n" * 9000  # found by trying: lines 1047 and 3763 share the first eight digits
    (root / "a.txt").write_bytes(raw)
    session = make_session(root, own(tmp_path, page_chars=10_000_000), durable=False)
    listed = swap(session, "x", "y", dry_run=True).data["occurrences"]
    assert len({one["id"] for one in listed}) == 9000
    long = [one for one in listed if len(one["id"]) > 8]
    assert [one["line"] for one in long] == [1047, 3763]
    assert long[0]["id"][:8] == long[1]["id"][:8]
    assert code(swap(session, "x", "y", only=[long[0]["id"][:8]])) == "unknown_occurrence"
    assert swap(session, "x", "y", only=[long[1]["id"]]).data["replaced"] == 1
    assert (root / "a.txt").read_bytes() == raw[: 5 + 2 * 3761] + b"y" + raw[5 + 2 * 3761 + 1 :]


def test_a_replaced_file_counts_as_seen(session: Session, root: Path) -> None:
    assert swap(session, expected=1, path="sub/b.py").status == "ok"
    edit = {"file_path": "sub/b.py", "old_string": "quux", "new_string": "x"}
    assert session.call("Edit", edit).status == "ok"


def test_a_dry_run_is_no_reading(session: Session) -> None:
    swap(session, dry_run=True)
    assert code(session.call("Edit", {"file_path": "a.py", "old_string": "= 1", "new_string": ""})) == "not_seen"


# What is looked for, and where.


def test_a_literal_is_the_default_and_a_regex_must_be_asked_for(session: Session, root: Path) -> None:
    assert swap(session, "fo+", dry_run=True).data["total"] == 0
    result = swap(session, r"(\w+)\((foo)\)", r"\2(\1)", regex=True, expected=2)
    assert result.status == "ok"
    assert tree(root) == FILES | {"a.py": b"foo = 1\nfoo(bar)\n", "sub/b.py": b"foo(print)\n"}


def test_case_and_words(session: Session) -> None:
    def count(**more: Any) -> int:
        return int(swap(session, dry_run=True, path="sub/c.txt", **more).data["total"])

    assert (count(), count(ignore_case=True), count(whole_words=True)) == (2, 3, 1)
    assert count(ignore_case=True, whole_words=True) == 2


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ({"glob": "*.py"}, ["a.py", "sub/b.py"]),
        ({"glob": "**/*.py"}, ["a.py", "sub/b.py"]),
        ({"glob": "sub/*"}, ["sub/b.py", "sub/c.txt"]),
        ({"glob": "!*.py"}, ["sub/c.txt"]),
        ({"glob": "*.{txt,md}"}, ["sub/c.txt"]),
        ({"path": "sub"}, ["sub/b.py", "sub/c.txt"]),
        ({"path": "a.py"}, ["a.py"]),
        ({"path": "a.py", "glob": "*.txt"}, []),
        ({"path": "sub", "glob": "b.*"}, ["sub/b.py"]),
    ],
)
def test_path_and_glob_say_which_files(session: Session, root: Path, where: dict[str, str], names: list[str]) -> None:
    listed = swap(session, dry_run=True, **where).data
    assert [one["path"] for one in listed["files"]] == names
    assert code(swap(session, expected=listed["total"], **where)) is None
    after = {name: raw.replace(b"foo", b"quux") if name in names else raw for name, raw in FILES.items()}
    assert tree(root) == after


def test_a_path_may_be_absolute(session: Session, root: Path) -> None:
    assert swap(session, expected=1, path=str(root / "sub/b.py")).data["files"] == [{"path": "sub/b.py", "count": 1}]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"pattern": "(", "regex": True}, "bad_pattern"),
        ({"pattern": "x*", "regex": True}, "empty_match"),
        ({"pattern": "foo", "replacement": r"\1", "regex": True}, "bad_replacement"),
        ({"pattern": "foo", "replacement": "foo"}, "no_change"),
        ({"pattern": ""}, "bad_arguments"),
        ({"glob": "../*"}, "bad_glob"),
        ({"path": "nowhere"}, "not_found"),
        ({"path": "/"}, "outside_workspace"),
        ({"only": []}, "bad_arguments"),
        ({"expected": -1}, "bad_arguments"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_what_cannot_be_looked_for_is_refused(
    session: Session, root: Path, arguments: dict[str, Any], wanted: str, dry_run: bool
) -> None:
    result = swap(session, **{"expected": 5, "dry_run": dry_run, **arguments})
    assert code(result) == wanted, result.text
    assert tree(root) == FILES


def test_an_empty_match_is_told_with_its_place(session: Session) -> None:
    assert "line 1 of a.py" in swap(session, r"\s*$", regex=True, expected=1).text


def test_text_that_reads_so_already_is_not_written(session: Session, root: Path) -> None:
    before = (root / "sub/b.py").stat().st_ino
    result = swap(session, "FOO", "foo", ignore_case=True, expected=1, path="sub/b.py")
    assert result.text.startswith("No change: 1 occurrence") and result.data["replaced"] == 0
    assert (root / "sub/b.py").stat().st_ino == before


def test_odd_names_are_changed_and_shown_escaped(session: Session, root: Path) -> None:
    for name in (b"new\nline", b"stray\xff", b"back\\x41", b"~tilde", b"-dash"):
        with open(os.path.join(os.fsencode(root), name), "wb") as file:
            file.write(b"odd\n")
    (root / "backA").write_bytes(b"other\n")
    result = swap(session, "odd", "even", expected=5)
    assert result.status == "ok"
    shown = [one["path"] for one in result.data["files"]]
    assert sorted(shown) == ["-dash", "back\\\\x41", "new\\nline", "stray\\xff", "~tilde"]
    for name in (b"new\nline", b"stray\xff", b"back\\x41", b"~tilde", b"-dash"):
        assert Path(os.fsdecode(os.path.join(os.fsencode(root), name))).read_bytes() == b"even\n"


def test_a_link_is_passed_over_and_its_file_changed_once(session: Session, root: Path) -> None:
    (root / "link.py").symlink_to("a.py")
    (root / "loop").symlink_to(".")
    dry = swap(session, dry_run=True)
    assert dry.data["total"] == 5 and "2 links" in dry.text
    assert swap(session, expected=2, path="link.py").data["files"] == [{"path": "a.py", "count": 2}]
    assert (root / "link.py").is_symlink()


# Bytes.


def test_all_bytes_outside_the_occurrences_stay(session: Session, root: Path) -> None:
    mixed = b"one foo\r\ntwo\nthree foo\rfour \x0c\x0b\r\n\r\nfoo"
    legacy = "Gr\xfc\xdfe, foo! \x80\x9f".encode("latin-1") + b"\r\n\xe9t\xe9 foo\n"
    utf16 = "\ufeffh\xe4 foo\r\n".encode("utf-16-le")
    stray = "fö foo ".encode() + b"\xff\xfe foo\n" + "日本語のテキスト foo".encode()
    bom = b"\xef\xbb\xbffoo\n"
    given_ = {"mixed": mixed, "legacy": legacy, "utf16": utf16, "stray": stray, "bom": bom}
    for name, raw in given_.items():
        (root / name).write_bytes(raw)
    total = swap(session, dry_run=True).data["total"]
    assert total == 5 + 3 + 2 + 1 + 3 + 1
    assert swap(session, expected=total).status == "ok"
    after = tree(root)
    for name, raw in given_.items():
        old, new = (text.encode("utf-16-le") if name == "utf16" else text.encode() for text in ("foo", "quux"))
        assert after[name] == raw.replace(old, new), name


def test_lines_of_a_group_keep_their_endings(session: Session, root: Path) -> None:
    (root / "m.txt").write_bytes(b"BEGIN\r\na\nb\r\nEND\n")
    result = swap(session, r"(?s)BEGIN\n(.*)END", r"<\n\1>", regex=True, path="m.txt", expected=1)
    assert result.status == "ok"
    assert (root / "m.txt").read_bytes() == b"<\r\na\nb\r\n>\n"


def test_new_lines_take_the_endings_of_each_file(session: Session, root: Path) -> None:
    (root / "crlf").write_bytes(b"x MARK y\r\nz\r\n")
    (root / "lf").write_bytes(b"x MARK y\nz\n")
    assert swap(session, "MARK", "1\n2", expected=2).status == "ok"
    assert (root / "crlf").read_bytes() == b"x 1\r\n2 y\r\nz\r\n"
    assert (root / "lf").read_bytes() == b"x 1\n2 y\nz\n"


def test_a_text_over_several_lines_is_found_whatever_they_end_with(session: Session, root: Path) -> None:
    (root / "crlf").write_bytes(b"one\r\ntwo\r\n")
    (root / "lf").write_bytes(b"one\ntwo\n")
    assert swap(session, "one\ntwo", "1", expected=2).status == "ok"
    assert ((root / "crlf").read_bytes(), (root / "lf").read_bytes()) == (b"1\r\n", b"1\n")


# All or nothing.


def test_a_hard_linked_file_keeps_all_files_as_they_are(session: Session, root: Path, tmp_path: Path) -> None:
    os.link(root / "sub/c.txt", tmp_path / "other-name")
    result = swap(session, expected=5)
    assert (
        code(result) == "hard_linked" and "sub/c.txt" in result.text and result.text.startswith("Nothing was changed")
    )
    assert tree(root) == FILES


def test_a_character_that_one_file_cannot_hold_keeps_all_files_as_they_are(session: Session, root: Path) -> None:
    (root / "sub/z.txt").write_bytes("Caf\xe9 f\xfcr foo\n".encode("cp1252"))
    before = tree(root)
    result = swap(session, "foo", "日本", expected=6)
    assert code(result) == "cannot_encode" and "sub/z.txt" in result.text
    assert tree(root) == before


def test_a_nul_character_is_not_written(session: Session, root: Path) -> None:
    assert code(swap(session, "foo", "\0", expected=5)) == "cannot_encode"
    assert code(swap(session, "foo", r"\0", regex=True, expected=5)) == "cannot_encode"
    assert tree(root) == FILES


def test_a_read_only_root_is_not_changed(make_session: Make, root: Path, tmp_path: Path) -> None:
    reference = tmp_path / "reference"
    reference.mkdir()
    (reference / "r.txt").write_bytes(b"foo\n")
    session = make_session(root, setup=Setup(roots=[Root(str(reference), writable=False)]))
    assert swap(session, dry_run=True, path=str(reference)).data["total"] == 1
    assert code(swap(session, expected=1, path=str(reference))) == "read_only_root"
    assert (reference / "r.txt").read_bytes() == b"foo\n"


class Keeps:
    """A policy that hides one name from reading and another from writing."""

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        for access in accesses:
            if access.path.endswith("secret.txt") or (access.action == "write" and access.path.endswith("b.py")):
                return Verdict("deny", "keep", f"{access.target} is not yours")
        return Verdict("allow")


def test_what_policy_hides_is_not_found_and_what_it_protects_stops_all(make_session: Make, root: Path) -> None:
    (root / "secret.txt").write_bytes(b"foo\n")
    session = make_session(root, policy=Keeps(), durable=False)
    before = tree(root)
    assert swap(session, dry_run=True).data["total"] == 5
    denied = swap(session, expected=5)
    assert denied.status == "denied" and "sub/b.py" in denied.text
    assert tree(root) == before
    assert swap(session, expected=4, glob="!b.py").status == "ok"


def test_who_is_asked_sees_all_changes_first(make_session: Make, root: Path) -> None:
    class Asks:
        def judge(self, accesses: Sequence[Access]) -> Verdict:
            writes = any(access.action == "write" for access in accesses)
            return Verdict("ask", "r", "it writes") if writes else Verdict("allow")

    previews: list[str] = []

    def approve(prepared: Any) -> bool:
        previews.append(prepared.preview())
        return False

    session = make_session(root, policy=Asks(), approve=approve)
    assert swap(session, expected=5).status == "denied"
    assert previews[0].count("+++") == 3 and "+print(quux)" in previews[0]
    assert tree(root) == FILES


# Bounds.


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"files": 2}, "more than 2 files"),
        ({"occurrences": 4}, "more than 4 occurrences"),
        ({"total_bytes": 40}, "more than 40 bytes"),
    ],
)
def test_too_much_is_refused_as_a_whole(
    make_session: Make, root: Path, tmp_path: Path, limits: dict[str, int], expected: str
) -> None:
    session = make_session(root, own(tmp_path, **limits))
    for more in ({"expected": 5}, {"dry_run": True}):
        result = swap(session, **more)
        assert code(result) == "too_many_occurrences" and expected in result.text and "glob" in result.text
    assert tree(root) == FILES


def test_a_replacement_that_multiplies_is_refused(make_session: Make, root: Path, tmp_path: Path) -> None:
    (root / "many").write_bytes(b"x" * 1000)
    session = make_session(root, own(tmp_path, total_bytes=100_000))
    assert code(swap(session, "x", "y" * 1000, expected=1000)) == "too_many_occurrences"


def test_files_above_the_limit_are_passed_over_and_counted(make_session: Make, root: Path, tmp_path: Path) -> None:
    (root / "large").write_bytes(b"foo\n" * 100)
    session = make_session(root, own(tmp_path, file_bytes=300), durable=False)
    result = swap(session, expected=5)
    assert result.data["replaced"] == 5 and "1 too large" in result.text


def test_a_catastrophic_pattern_is_an_error_and_changes_nothing(make_session: Make, root: Path, tmp_path: Path) -> None:
    (root / "x").write_bytes(b"x" * 5000)
    session = make_session(root, own(tmp_path, seconds=0.3))
    result = swap(session, r"(?:x|x\w?)+(?:\w|x)+!", "", regex=True, dry_run=True)
    assert code(result) == "search_timed_out" and result.text.startswith("Nothing was changed")


def test_a_search_without_time_is_an_error(make_session: Make, root: Path, tmp_path: Path) -> None:
    session = make_session(root, own(tmp_path, seconds=0.0))
    assert code(swap(session, expected=5)) == "search_timed_out"
    assert tree(root) == FILES


# Others at work.


class Meddles:
    """A policy through which another program writes once the files to change are known, before they are locked."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self.meddle = meddle

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        if any(access.action == "write" for access in accesses):
            self.meddle()
        return Verdict("allow")


def test_an_occurrence_that_comes_in_between_breaks_the_count(make_session: Make, root: Path) -> None:
    session = make_session(root, policy=Meddles(lambda: (root / "a.py").write_bytes(b"foo foo foo\n")))
    assert code(swap(session, expected=5)) == "other_count"
    assert tree(root) == FILES | {"a.py": b"foo foo foo\n"}


def test_a_file_that_changes_in_between_loses_nothing_if_the_count_holds(make_session: Make, root: Path) -> None:
    session = make_session(root, policy=Meddles(lambda: (root / "a.py").write_bytes(b"new\nfoo, foo\n")))
    assert swap(session, expected=5).status == "ok"
    assert (root / "a.py").read_bytes() == b"new\nquux, quux\n"


def test_a_file_that_vanishes_in_between_breaks_the_count(make_session: Make, root: Path) -> None:
    session = make_session(root, policy=Meddles(lambda: (root / "sub/b.py").unlink(missing_ok=True)))
    assert code(swap(session, expected=5)) == "other_count"
    assert tree(root) == {name: raw for name, raw in FILES.items() if name != "sub/b.py"}


def test_a_new_file_with_occurrences_is_not_touched(make_session: Make, root: Path) -> None:
    session = make_session(root, policy=Meddles(lambda: (root / "late.py").write_bytes(b"foo\n")))
    assert swap(session, expected=5).data["replaced"] == 5
    assert (root / "late.py").read_bytes() == b"foo\n"


def test_a_chosen_file_that_changes_in_between_is_not_touched(make_session: Make, root: Path) -> None:
    listed = ids(swap(make_session(root), dry_run=True))
    session = make_session(root, policy=Meddles(lambda: (root / "a.py").write_bytes(b"# foo\nfoo\n")))
    assert code(swap(session, only=[listed[0], listed[2]])) == "unknown_occurrence"
    assert tree(root) == FILES | {"a.py": b"# foo\nfoo\n"}


@pytest.mark.slow
def test_replace_and_edit_at_once_lose_no_update(make_session: Make, root: Path) -> None:
    names = [f"n{number}.txt" for number in range(4)]
    rounds = 12
    for name in names:
        (root / name).write_bytes(b"".join(b"edit-%d MARK-%d\n" % (n, n) for n in range(rounds)))
    failures: list[str] = []

    def edits() -> None:
        session = make_session(root, durable=False)
        for number in range(rounds):
            for name in names:
                change = {"file_path": name, "old_string": f"edit-{number} ", "new_string": f"done-{number} "}
                for _ in range(rounds + 1):  # the other one changes this line at most once
                    session.call("Read", {"file_path": name})
                    result = session.call("Edit", change)
                    if not result.error or result.error.code != "changed_since":
                        break
                if result.error:
                    failures.append(result.text)

    def replaces() -> None:
        session = make_session(root, durable=False)
        for number in range(rounds):
            result = swap(session, f"MARK-{number}", f"HIT-{number}", whole_words=True, expected=len(names))
            if result.error:
                failures.append(result.text)

    threads = [threading.Thread(target=work) for work in (edits, replaces)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    wanted = b"".join(b"done-%d HIT-%d\n" % (n, n) for n in range(rounds))
    assert {(root / name).read_bytes() for name in names} == {wanted}


# For all trees.

PIECE = st.sampled_from(["ab", "a", "b", "é", "\n", "\r\n", " ", "ß", "日", "aab"])
TREE = st.dictionaries(
    st.sampled_from(["a.txt", "b.py", "sub/a.py", "sub/deep/c.txt", "sub/d.md"]),
    st.lists(PIECE, max_size=12).map("".join),
    max_size=4,
)


@settings(max_examples=sizes.pick(20, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    files=TREE,
    pattern=st.sampled_from(["a", "ab", "é", "aa", " "]),
    replacement=st.sampled_from(["", "x", "日ü", "aba", r"\1"]),
    regex=st.booleans(),
    picks=st.none() | st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_the_result_is_pythons_file_by_file(
    files: dict[str, str], pattern: str, replacement: str, regex: bool, picks: list[bool] | None
) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "root")
        root.mkdir()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(text.encode())
        options = Settings(durable=False, raise_bugs=True, state=str(Path(place, "state")))
        if regex:
            pattern, replacement = f"({re.escape(pattern)})", replacement if replacement == r"\1" else replacement + "."
        call = {"pattern": pattern, "replacement": replacement, "regex": regex}
        with Session(root, settings=options) as session:
            dry = session.call("Replace", {**call, "dry_run": True})
            total = dry.data["total"]
            assert tree(root) == {name: text.encode() for name, text in files.items()}
            chosen = [True] * total if picks is None else picks[:total]
            how: dict[str, Any] = {"expected": total}
            if picks is not None and any(chosen):
                how = {"only": [one for one, taken in zip(ids(dry), chosen, strict=True) if taken]}
            elif picks is not None:
                return
            result = session.call("Replace", {**call, **how})
        assert result.error is None, result.text
        taken = iter(chosen)
        finder = re.compile(pattern if regex else re.escape(pattern))

        def put(actual: re.Match[str]) -> str:
            return (actual.expand(replacement) if regex else replacement) if next(taken) else actual[0]

        actual = [one["path"] for one in dry.data["files"]]  # the picks are in this order
        after = {name: finder.sub(put, files[name]).encode() for name in actual}
        assert tree(root) == {name: text.encode() for name, text in files.items()} | after
