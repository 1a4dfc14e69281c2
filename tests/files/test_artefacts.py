"""Artefacts: their names, their byte budget, how long they stay, and that nothing is lost where none can be kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from handrail.files.artefacts import ALIAS, Artefacts
from tests.command import TIMEOUT

DAY = 24 * 3600


def _make(artefacts: Artefacts, name: str, size: int, age: int = 0) -> str:
    real, _ = artefacts.path(name)
    Path(real).write_bytes(b"x" * size)
    then = time.time() - age
    os.utime(real, (then, then))
    return real


def _names(artefacts: Artefacts) -> list[str]:
    return sorted(os.listdir(artefacts.directory))


def test_nothing_is_made_before_something_is_kept(tmp_path: Path) -> None:
    artefacts = Artefacts(str(tmp_path / "state" / "artefacts"), 1 << 20)
    assert not (tmp_path / "state").exists()
    artefacts.close()
    assert not (tmp_path / "state").exists()


def test_a_text_is_kept_under_its_name_for_this_user_only(tmp_path: Path) -> None:
    artefacts = Artefacts(str(tmp_path / "kept"), 1 << 20)
    assert artefacts.keep("call-1", "wörds\ud800") == f"{ALIAS}/call-1"
    path = Path(artefacts.directory, "call-1")
    assert path.read_bytes() == "wörds?".encode() and path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("wish", "name"),
    [("a/b", "a_b"), ("../../x", "_.._x"), ("", "result"), ("...", "result"), ("x" * 300, "x" * 80), ("ü\n", "__")],
)
def test_a_name_never_leads_out(tmp_path: Path, wish: str, name: str) -> None:
    artefacts = Artefacts(str(tmp_path), 1 << 20)
    real, called = artefacts.path(wish)
    assert (os.path.dirname(real), os.path.basename(real), called) == (artefacts.directory, name, f"{ALIAS}/{name}")


def test_a_name_is_never_given_twice_even_when_its_file_is_gone(tmp_path: Path) -> None:
    artefacts = Artefacts(str(tmp_path), 1 << 20)
    first = _make(artefacts, "x", 1)
    os.unlink(first)
    assert artefacts.path("x")[1] == f"{ALIAS}/x-2"


def test_many_threads_get_many_names(tmp_path: Path) -> None:
    artefacts, collected = Artefacts(str(tmp_path), 1 << 20), list[str]()
    threads = [threading.Thread(target=lambda: collected.append(artefacts.path("x")[0])) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(collected)) == 50


def test_the_oldest_go_when_there_is_too_much(tmp_path: Path) -> None:
    artefacts = Artefacts(str(tmp_path), 25_000)
    for age in (4, 3, 2, 1):
        _make(artefacts, f"aged-{age}", 10_000, age)
    artefacts.trim()
    assert _names(artefacts) == ["aged-1", "aged-2"]


def test_what_is_spared_and_what_is_newest_stays_whatever_its_size(tmp_path: Path) -> None:
    artefacts = Artefacts(str(tmp_path), 1_000)
    kept = _make(artefacts, "spared", 50_000, 9)
    _make(artefacts, "old", 10_000, 5)
    _make(artefacts, "new", 50_000)
    artefacts.trim({kept})
    assert _names(artefacts) == ["new", "spared"]


def test_keeping_trims(tmp_path: Path) -> None:
    artefacts = Artefacts(str(tmp_path), 10_000)
    _make(artefacts, "old", 9_000, 5)
    artefacts.keep("new", "x" * 9_000)
    assert _names(artefacts) == ["new"]


def test_files_stay_when_the_session_ends_and_an_empty_directory_does_not(tmp_path: Path) -> None:
    full, empty = Artefacts(str(tmp_path), 1 << 20), Artefacts(str(tmp_path), 1 << 20)
    full.keep("x", "y")
    empty.path("x")
    full.close()
    empty.close()
    assert os.listdir(tmp_path) == [os.path.basename(full.directory)]


def test_what_is_older_than_a_week_goes_when_another_session_keeps_something(tmp_path: Path) -> None:
    now = int(time.time())
    for name, age in (("old", 8), ("young", 6), ("alive", 8)):
        folder = tmp_path / f"{now - age * DAY}-1-{name}"
        folder.mkdir()
        (folder / "x").touch()
        when = now - (0 if name == "alive" else age * DAY)
        os.utime(folder, (when, when))
    (tmp_path / "not of ours").mkdir()
    artefacts = Artefacts(str(tmp_path), 1 << 20)
    artefacts.keep("x", "y")
    left = {name.rpartition("-")[2] for name in os.listdir(tmp_path)} - {artefacts.directory.rpartition("-")[2]}
    assert left == {"young", "alive", "not of ours"}


def test_where_the_directory_cannot_be_made_that_is_an_error_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="ascii")
    artefacts = Artefacts(str(tmp_path / "file"), 1 << 20)
    with pytest.raises(OSError, match="file"):
        artefacts.keep("x", "y")
    artefacts.trim()
    artefacts.close()
    assert (tmp_path / "file").read_text(encoding="ascii") == "x"


_FULL = """
import os, resource, sys
from handrail.files.artefacts import Artefacts
artefacts = Artefacts(sys.argv[1], 1 << 20)
artefacts.keep("first", "y")
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    artefacts.keep("second", "z" * 100_000)
except OSError:
    print(*os.listdir(artefacts.directory))
"""


def test_a_text_that_cannot_be_written_to_its_end_leaves_no_half(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, check=True, timeout=TIMEOUT
    )
    assert done.stdout == b"first\n"
