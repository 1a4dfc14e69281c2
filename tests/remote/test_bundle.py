"""Handrail is sent to a machine that has Python and nothing else: a stand-in for docker starts that Python here."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from handrail.errors import ConnectionLost
from handrail.remote import bundle
from handrail.remote.fallbacks import pydantic_core as fallback
from handrail.tools.arguments import _build_model
from handrail.tools.edit import TOOL as EDIT
from handrail.tools.grep import TOOL as GREP

STAND_IN = """#!/bin/sh
shift 3  # exec -i box
[ "$1" != handrail ] || exit 127
[ "$1" = python3 ] || exit 99
shift
exec env -i HOME={home} PATH=/usr/bin:/bin HANDRAIL_STATE={home}/state {python} "$@"
"""


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a workspace in a container without Handrail."""
    home, folder = tmp_path / "home", tmp_path / "bin"
    for one in (home, folder, tmp_path / "work"):
        one.mkdir()
    (folder / "docker").write_text(STAND_IN.format(home=home, python=sys._base_executable))  # type: ignore[attr-defined]
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (tmp_path / "work" / "a.txt").write_text("one\ntwo\n")
    return f"docker://box{tmp_path}/work"


def work(session: Any, folder: Path) -> None:
    assert session.call("Read", {"file_path": "a.txt", "limit": "1"}).text.startswith("     1\tone")
    assert session.call("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "zwei"}).ok
    assert (folder / "work" / "a.txt").read_text() == "one\nzwei\n"
    assert "a.txt" in session.call("Grep", {"pattern": "^z.ei$"}).text
    missing = session.call("Edit", {"file_path": "a.txt", "old_string": "zwie", "new_string": "2"})
    assert missing.error.code == "no_match"
    wrong = session.call("Read", {"file_path": 3, "limit": "many", "other": 1}).text
    assert "file_path: input should be a valid string, got 3" in wrong
    assert "limit: input should be a valid integer" in wrong
    assert session.call("Bash", {"command": "echo $((40 + 2))"}).text == "42"
    session.undo()
    assert (folder / "work" / "a.txt").read_text() == "one\ntwo\n"


def find_place(folder: Path) -> Path:
    (place,) = (folder / "home" / ".cache" / "handrail" / "bundles").iterdir()
    return place


def test_a_pure_bundle_is_sent_once_and_checked_at_each_start(
    box: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "choose_kind", lambda _: "pure")
    built = bundle.build_bundle("pure")
    assert len(built.data) < 3 << 20
    with Session.connect(box, mode="full") as session:
        assert session.sent_bundle == "pure"  # type: ignore[attr-defined]
        work(session, tmp_path)
    place = find_place(tmp_path)
    assert place.name.startswith(hashlib.sha256(built.data).hexdigest())
    assert place.parent.stat().st_mode & 0o777 == 0o700
    number = place.stat().st_ino
    with Session.connect(box) as session:
        assert session.call("Read", {"file_path": "a.txt"}).ok
    assert find_place(tmp_path).stat().st_ino == number
    (damaged,) = place.glob("lib/*/site-packages/handrail/version.py")
    damaged.write_text("raise SystemExit('damaged')\n")
    with Session.connect(box) as session:
        assert session.call("Read", {"file_path": "a.txt"}).ok
    assert find_place(tmp_path).stat().st_ino != number


@pytest.mark.slow
def test_the_libraries_of_this_machine_are_sent_where_they_fit(box: str, tmp_path: Path) -> None:
    with Session.connect(box, mode="full") as session:
        assert session.sent_bundle == "full"  # type: ignore[attr-defined]
        work(session, tmp_path)
    assert (find_place(tmp_path) / "bin" / "rg").exists()


def test_the_kind_of_bundle_follows_the_other_machine() -> None:
    import platform
    import sysconfig

    facts = {"abi": sysconfig.get_config_var("SOABI"), "libc": platform.libc_ver()[0], "machine": platform.machine()}
    assert bundle.choose_kind(facts) == "full"
    for name in facts:
        assert bundle.choose_kind({**facts, name: "other"}) == "pure"


def test_a_machine_without_python_is_reported(box: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectionLost, match=r"ended|closed"):
        Session.connect(f"{box}?python=/none/such")


def test_a_directory_that_others_can_write_to_is_not_used(
    box: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "choose_kind", lambda _: "pure")
    cache = tmp_path / "home" / ".cache" / "handrail"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    stand_in = tmp_path / "bin" / "docker"
    stand_in.write_text(stand_in.read_text().replace("env -i", f"env -i TMPDIR={tmp_path}/other"))
    (tmp_path / "other").mkdir()
    with Session.connect(box) as session:
        assert session.call("Read", {"file_path": "a.txt"}).ok
    assert not (cache / "bundles").exists() or not list((cache / "bundles").iterdir())
    assert list((tmp_path / "other").glob("handrail-*/bundles/*"))


VALUES: list[dict[str, Any]] = [
    {"file_path": "a", "old_string": "x", "new_string": "y"},
    {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": "true"},
    {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": "maybe"},
    {"file_path": 1, "old_string": None, "more": 2},
    {},
]
SEARCHES: list[dict[str, Any]] = [
    {"pattern": "é", "context": "3"},
    {"pattern": "x", "context": 1.5},
    {"pattern": "x", "context": -1},
    {"pattern": "", "ignore_case": 1},
    {"pattern": ["x"]},
]


@pytest.mark.parametrize(
    ("args", "values"),
    [*((EDIT.args, one) for one in VALUES), *((GREP.args, one) for one in SEARCHES)],
)
def test_arguments_are_checked_as_pydantic_core_does(args: Any, values: dict[str, Any]) -> None:
    import pydantic_core

    ends: list[object] = []
    for library in (pydantic_core, fallback):
        try:
            parsed = library.SchemaValidator(_build_model(args)).validate_python(values)
            ends.append({name: value for name, value in vars(parsed).items() if not name.startswith("__pydantic")})
        except library.ValidationError as error:
            ends.append({(one["loc"], one["type"] in ("missing", "extra_forbidden")) for one in error.errors()})
    assert ends[0] == ends[1]
