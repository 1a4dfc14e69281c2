"""LS: what a directory holds, directories first, in pages, and what was left out."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from handrail import Access, Session, Verdict

MakeSession = Callable[..., Session]


def put(top: Path, *paths: str) -> None:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(b"x\n")


class Hides:
    """A policy that denies to read whatever has a word in its path."""

    hides: Sequence[str] | None = None

    def __init__(self, word: str) -> None:
        self._word = word

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        hidden = any(self._word in access.path.rpartition("/pytest-")[2] for access in accesses)
        return Verdict("deny" if hidden else "allow", "test", "hidden")


def test_directories_come_first_and_names_without_regard_to_case(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, "b.txt", "A.txt", "z/inner", "Y/inner", "a.md")
    result = make_session().call("LS", {})
    assert result.text == "Y/\nz/\na.md\nA.txt\nb.txt"
    assert result.status == "ok"
    assert result.data["entries"][0] == {"path": "Y", "type": "dir"}
    assert result.data["total"] == 5
    assert result.data["receipt"] == {"searched": 5, "skipped": {}, "complete": True}


def test_pages_hold_every_entry_once(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, *(f"f{number:02}" for number in range(25)))
    session = make_session()
    collected: list[str] = []
    offset: int | None = 0
    while offset is not None:
        result = session.call("LS", {"offset": offset, "limit": 10})
        collected += [entry["path"] for entry in result.data["entries"]]
        assert result.status == ("partial" if result.data["next_offset"] else "ok")
        assert result.data["total"] == 25
        offset = result.data["next_offset"]
    assert collected == [f"f{number:02}" for number in range(25)]
    past = session.call("LS", {"offset": 25})
    assert "No results at this offset" in past.text
    assert past.data["entries"] == []


def test_links_are_what_they_point_to(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, "dir/f")
    for name, target in (("to_dir", "dir"), ("to_file", "dir/f"), ("broken", "no"), ("out", "/etc"), ("loop", "loop")):
        (tmp_path / name).symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    result = make_session().call("LS", {})
    assert result.text.split("\n") == ["dir/", "to_dir/", "broken@", "loop@", "out@", "pipe|", "to_file"]
    assert {entry["path"]: entry["type"] for entry in result.data["entries"]}["to_dir"] == "dir"


def test_what_is_hidden_or_ignored_is_counted_and_can_be_asked_for(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, ".env", "x.log", "build/y", "a.py", ".git/config")
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n", encoding="utf-8")
    session = make_session()
    result = session.call("LS", {})
    assert result.text.startswith("a.py\n")
    assert "2 ignored" in result.text and "2 hidden" in result.text
    assert "include_ignored" in result.text and "include_hidden" in result.text
    assert result.data["receipt"]["skipped"] == {"ignored": 2, "hidden": 2}
    everything = session.call("LS", {"include_hidden": True, "include_ignored": True})
    assert [entry["path"] for entry in everything.data["entries"]] == ["build", ".env", ".gitignore", "a.py", "x.log"]


def test_depth_shows_a_tree_without_entering_links(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, "src/app/deep/x.py", "src/a.py", "README.md")
    (tmp_path / "src/loop").symlink_to("..")
    result = make_session().call("LS", {"depth": 3})
    assert result.text.split("\n") == ["src/", "  app/", "    deep/", "  loop/", "  a.py", "README.md"]


def test_globs_leave_entries_out(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, "a.py", "b.pyc", "sub/c.pyc", "sub/d.py")
    result = make_session().call("LS", {"ignore": ["*.pyc"], "depth": 2})
    assert [entry["path"] for entry in result.data["entries"]] == ["sub", "sub/d.py", "a.py"]
    bad = make_session().call("LS", {"ignore": ["../*"]})
    assert bad.error and bad.error.code == "bad_glob"


def test_an_empty_directory_says_so_and_whether_all_was_seen(make_session: MakeSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    put(tmp_path, "only_hidden/.x")
    session = make_session()
    assert session.call("LS", {"path": "empty"}).text == "empty is empty."
    assert "1 hidden" in session.call("LS", {"path": "only_hidden"}).text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"path": "missing"}, "not_found"),
        ({"path": "file"}, "not_directory"),
        ({"path": ".."}, "outside_workspace"),
        ({"path": "/etc"}, "outside_workspace"),
        ({"path": ""}, "bad_path"),
        ({"depth": 0}, "bad_arguments"),
        ({"depth": 99}, "bad_arguments"),
        ({"offset": -1}, "bad_arguments"),
        ({"limit": 0}, "bad_arguments"),
    ],
)
def test_bad_input_is_an_error_that_says_why(
    make_session: MakeSession, tmp_path: Path, arguments: dict[str, object], code: str
) -> None:
    put(tmp_path, "file")
    result = make_session().call("LS", arguments)
    assert result.error and result.error.code == code


@pytest.mark.parametrize("name", [b"new\nline", b"\xff\xfe.txt", "\u202egnp.exe".encode(), b"back\\slash", b"tab\t"])
def test_an_odd_name_is_shown_on_one_line_and_can_be_read(
    make_session: MakeSession, tmp_path: Path, name: bytes
) -> None:
    (tmp_path / "d").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/d/" + name)).write_bytes(b"content\n")
    session = make_session()
    result = session.call("LS", {"path": "d"})
    (entry,) = result.data["entries"]
    assert "\n" not in result.text and result.text == entry["path"].removeprefix("d/")
    assert "content" in session.call("Read", {"file_path": entry["path"]}).text


def test_what_policy_denies_is_not_there(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, "secret/key", "a.txt", "my_secret.txt")
    (tmp_path / "link").symlink_to("secret")
    result = make_session(policy=Hides("secret")).call("LS", {"depth": 3})
    assert [entry["path"] for entry in result.data["entries"]] == ["a.txt", "link"]
    assert result.data["entries"][1]["type"] == "link"
    assert result.data["receipt"]["skipped"] == {"withheld": 2}
    assert make_session(policy=Hides("secret")).call("LS", {"path": "secret"}).status == "denied"


def test_a_change_is_seen_at_once(make_session: MakeSession, tmp_path: Path) -> None:
    session = make_session()
    for number in range(5):
        put(tmp_path, f"f{number}")
        assert session.call("LS", {}).data["total"] == number + 1


@pytest.mark.parametrize("seed", range(12))
def test_pages_are_parts_of_one_list_in_the_order_of_names(
    make_session: MakeSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    names = ["a", "B", "b", "Z", "ä", "_x", "c d", "é.txt", "README", "readme", "10", "9"]
    places = [tmp_path]
    for place in places:
        for name in chance.sample(names, chance.randrange(1, 7)):
            kind = chance.random()
            if kind < 0.4 and len(places) < 25 and len(place.relative_to(tmp_path).parts) < 4:
                (place / name).mkdir()
                places.append(place / name)
            elif kind < 0.5:
                (place / name).symlink_to(chance.choice(places))
            else:
                (place / name).write_text("", encoding="utf-8")
    ignore = chance.choice([[], ["b"], ["*.txt", "a"]])
    expected = [str(path.relative_to(tmp_path)) for path in expected_entries(tmp_path, ignore)]
    session = make_session()

    def listed(**more: object) -> list[str]:
        result = session.call("LS", {"path": ".", "depth": 10, "ignore": ignore, **more})
        assert result.ok, result.text
        assert result.data["total"] == len(expected)
        return [entry["path"] for entry in result.data["entries"]]

    assert listed() == expected
    for size in (2, 7):
        pages = [listed(offset=at, limit=size) for at in range(0, len(expected), size)]
        assert [path for page in pages for path in page] == expected


def expected_entries(place: Path, ignore: list[str]) -> list[Path]:
    """The entries below a directory: directories first, each followed by its own entries."""
    entries: list[Path] = []
    shown = [path for path in place.iterdir() if not any(fnmatchcase(path.name, one) for one in ignore)]
    for child in sorted(shown, key=lambda path: (not path.is_dir(), path.name.casefold(), path.name)):
        entries.append(child)
        if child.is_dir() and not child.is_symlink():
            entries += expected_entries(child, ignore)
    return entries
