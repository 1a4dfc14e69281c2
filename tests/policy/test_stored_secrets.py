"""What a session found of secrets is a beginning for the next one, which finds what it would find by itself."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.files import directory_index
from handrail.policy import guards
from handrail.policy.judge import RulePolicy
from handrail.shell.git.tracked_files import TrackedFiles
from handrail.workspace import Root
from tests.policy.tables import rules
from tests.sizes import pick

_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq9y0Rk3vT8mX5uWcJ2hLpZsQdNfGxKoEiAVtYBrUDnPM14\n"
_NAMES = (".env", "plain.txt", "server.pem", "notes", "prod.tfvars", "id_rsa")
_PLACES = ("", "src", "src/deep", "docs", "vendor", "vendor/lib")


@pytest.fixture(autouse=True)
def store_small_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "_MANY", 0)
    monkeypatch.setattr(directory_index, "_LATE", 100_000_000)


def _policy(root: Path, state: Path | None, *files: str, tracked: TrackedFiles | None = None) -> RulePolicy:
    tracked = tracked or (TrackedFiles(str(state)) if state else TrackedFiles())
    home = str(root.parent / "home")
    return RulePolicy([Root(str(root))], "ask", [rules(text) for text in files], home=home, tracked=tracked)


def _tree(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    for place in _PLACES:
        (root / place).mkdir(parents=True, exist_ok=True)
        (root / place / "code.py").write_text("pass\n", encoding="utf-8")
    (root / "src/.env").write_text("A=b\n", encoding="utf-8")
    (root / "docs/notes").write_text(_KEY, encoding="utf-8")
    return root


def _write(root: Path, chance: random.Random) -> None:
    text = chance.choice(["words\n", _KEY])
    (root / chance.choice(_PLACES) / chance.choice(_NAMES)).write_text(text, encoding="utf-8")


def _remove(root: Path, chance: random.Random) -> None:
    (root / chance.choice(_PLACES) / chance.choice(_NAMES)).unlink(missing_ok=True)


def _link(root: Path, chance: random.Random) -> None:
    link = root / chance.choice(_PLACES) / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(root / chance.choice(_PLACES) / chance.choice(_NAMES))


def _commit(root: Path, _: random.Random) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "core.hooksPath=/dev/null"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "all"]):
        subprocess.run([*git, *words], cwd=root, check=True)


def _hide(root: Path, chance: random.Random) -> None:
    lines = chance.choice(["plain.txt\n", "deep/\n", "*.py\n"])
    (root / chance.choice(_PLACES) / ".handrailignore").write_text(lines, encoding="utf-8")


_CHANGES: list[Callable[[Path, random.Random], None]] = [_write, _write, _remove, _link, _commit, _hide]


@pytest.mark.parametrize("seed", range(pick(6, 200)))
def test_it_finds_what_a_session_without_it_finds(tmp_path: Path, seed: int) -> None:
    chance, root = random.Random(seed), _tree(tmp_path)
    for _ in range(6):
        for _ in range(chance.randrange(3)):
            chance.choice(_CHANGES)(root, chance)
        assert sorted(_policy(root, tmp_path / "state").unreadable()) == sorted(_policy(root, None).unreadable())


@pytest.mark.parametrize("seed", range(pick(6, 200)))
def test_it_finds_after_changes_what_a_new_session_finds(tmp_path: Path, seed: int) -> None:
    chance, root, tracked = random.Random(seed), _tree(tmp_path), TrackedFiles()
    rule = chance.choice(["", "rules = ['deny Read(**/*.tfvars)']"])
    policy = _policy(root, None, rule, tracked=tracked)
    for _ in range(8):
        for _ in range(chance.randrange(3)):
            chance.choice([change for change in _CHANGES if change is not _hide])(root, chance)
        tracked.look(str(root))
        assert sorted(policy.unreadable()) == sorted(_policy(root, None, rule).unreadable())


def test_other_rules_begin_anew(tmp_path: Path) -> None:
    root, state = _tree(tmp_path), tmp_path / "state"
    rule = "rules = ['deny Read(docs/code.py)']"
    assert str(root / "docs/code.py") not in _policy(root, state).unreadable()
    assert str(root / "docs/code.py") in _policy(root, state, rule).unreadable()
    assert str(root / "docs/code.py") not in _policy(root, state).unreadable()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": 1}'])
def test_what_is_damaged_is_not_used(tmp_path: Path, damage: str) -> None:
    root, state = _tree(tmp_path), tmp_path / "state"
    expected = _policy(root, state).unreadable()
    (stored,) = (state / "listings").iterdir()
    assert stored.stat().st_mode & 0o777 == 0o600
    assert len(json.loads(stored.read_text(encoding="ascii"))["directories"]) == len(_PLACES)
    stored.write_text(damage, encoding="ascii")
    assert _policy(root, state).unreadable() == expected


def test_a_directory_in_the_place_of_another_is_read(tmp_path: Path) -> None:
    root, state = _tree(tmp_path), tmp_path / "state"
    for path in root.rglob("*"):  # as old as a tree from an archive
        os.utime(path, (1, 1))
    _policy(root, state).unreadable()
    (root / "src").rename(tmp_path / "aside")
    (root / "src").mkdir()
    (root / "src/id_rsa").write_text(_KEY, encoding="utf-8")
    assert str(root / "src/id_rsa") in _policy(root, state).unreadable()


def test_several_roots_are_stored_together(tmp_path: Path) -> None:
    root, other, state = _tree(tmp_path), tmp_path / "other", tmp_path / "state"
    other.mkdir()
    (other / ".env").write_text("A=b\n", encoding="utf-8")

    def find_unreadable() -> list[str]:
        roots = [Root(str(root)), Root(str(other))]
        home, tracked = str(tmp_path / "home"), TrackedFiles(str(state))
        return sorted(RulePolicy(roots, "ask", [], home=home, tracked=tracked).unreadable())

    first = find_unreadable()
    assert {str(root / "src/.env"), str(other / ".env")} <= set(first)
    assert len(list((state / "listings").iterdir())) == 1
    assert find_unreadable() == first
