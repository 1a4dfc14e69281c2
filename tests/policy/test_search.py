"""What may not be read is not there to be found: searches, listings, ignore files, and the globs that hide it all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session, system_calls
from handrail.policy.guards import load_built_in_rules
from handrail.policy.paths import list_globs_to_hide
from handrail.policy.rules import from_line
from handrail.text.globs import compile_filter
from tests.policy.tables import access, policy, rules

SECRETS = [
    ".env",
    ".env.local",
    "a/.env.exam",
    "a/key.pem",
    ".ssh/config",
    "a/secrets.yml",
    "prod.env",
    "a/.docker/config.json",
]
PLAIN = [".env.example", "a/.env.sample", "a/b.py", "example.env", "secrets.py", "a/.docker/Dockerfile"]

NAMES = [
    *(".env", ".env.", ".env.x", ".env.e", ".env.example", ".env.examples", ".env.exampl", ".env.template"),
    *(".env.dist", ".env.distx", ".env.dis", ".env.sample", ".env.s", ".environment", "env", "x.pem", "x.pem.txt"),
    *(".ssh", "secrets.yml", "secrets.lst", "id_rsa", "id_rsa.pub", "service-account-1.json", "credentials.json"),
]


def _fill(root: Path, names: list[str]) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"needle in {name}\n", encoding="utf-8")


def _search(session: Session, engine: str, path: str = ".") -> list[str]:
    result = session.call(
        "Grep", {"pattern": "needle", "path": path, "include_hidden": True, "output_mode": "files_with_matches"}
    )
    assert result.status == "ok", (engine, result.text)
    return sorted(name for name in SECRETS + PLAIN + ["x/y", "x/z", "kept", "hid"] if name in result.text.split("\n"))


@pytest.mark.parametrize("engine", ["ripgrep", "plain"])
def test_a_search_finds_no_secret_with_either_engine(
    engine: str, tmp_path: Path, make_session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "plain":
        monkeypatch.setenv("HANDRAIL_RG", "")
    _fill(tmp_path, SECRETS + PLAIN)
    session = make_session(policy=policy(tmp_path), durable=False)
    assert _search(session, engine) == sorted(PLAIN)
    assert _search(session, engine, "a") == sorted(name for name in PLAIN if name.startswith("a/"))


@pytest.mark.parametrize("name", [".env", "link"])
def test_reading_a_secret_says_no_and_shows_nothing(
    name: str, tmp_path: Path, make_session: Callable[..., Session]
) -> None:
    (tmp_path / ".env").write_text("KEY=hunter2\n", encoding="utf-8")
    (tmp_path / "link").symlink_to(".env")
    result = make_session(policy=policy(tmp_path, "full")).call("Read", {"file_path": name})
    assert result.status == "denied" and "hunter2" not in result.text
    assert result.text.startswith(f"Not allowed: {name}: it looks like a secret (a key, a token, credentials).")


def test_the_globs_hide_nothing_that_may_be_read(tmp_path: Path) -> None:
    secrets = next(rule for rule in load_built_in_rules() if rule.text == "secrets")
    globs = [compile_filter(glob)[0] for glob in list_globs_to_hide(secrets.paths, str(tmp_path))]
    judge = policy(tmp_path)
    hidden = {name for name in NAMES if any(glob.match(f"a/{name}") for glob in globs)}
    secret = {name for name in NAMES if not judge.readable(str(tmp_path / "a" / name))}
    assert hidden <= secret
    assert {".env", "id_rsa"} <= hidden  # each match of the others is judged


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("deny Read(*.{csv,tsv})", ["*.csv", "*.tsv"]),
        ("deny Read(a/b/**)", ["/a/b/**"]),
        ("deny Read(private/)", ["private"]),
        ("deny Read(//work space/x/y)", ["/x/y"]),
        ("deny Read(//elsewhere/x)", []),
        ("deny Read(~/x)", []),
    ],
)
def test_rules_become_globs_where_that_can_be_said(line: str, wanted: list[str]) -> None:
    assert list_globs_to_hide(from_line(line).paths, "/work space") == wanted
    if any(glob.startswith("/") for glob in wanted):
        assert list_globs_to_hide(from_line(line).paths, None) == []


def test_a_secret_that_was_opened_is_not_hidden(tmp_path: Path, make_session: Callable[..., Session]) -> None:
    _fill(tmp_path, [".env.local", ".env"])
    judge = policy(tmp_path, "ask", rules("rules = ['allow Read(./.env.local)']"))
    assert _search(make_session(policy=judge), "ripgrep") == [".env.local"]


def test_what_would_be_asked_about_is_not_shown_by_a_search(tmp_path: Path) -> None:
    judge = policy(tmp_path, "full", rules("rules = ['ask Read(private/**)']"))
    assert not judge.readable(str(tmp_path / "private" / "x"))
    assert judge.readable(str(tmp_path / "public" / "x"))
    assert "/private/**" in judge.hides


@pytest.mark.parametrize("engine", ["ripgrep", "plain"])
@pytest.mark.parametrize("name", [".handrailignore", ".aiignore"])
def test_an_ignore_file_hides_from_reads_and_searches(
    name: str, engine: str, tmp_path: Path, make_session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "plain":
        monkeypatch.setenv("HANDRAIL_RG", "")
    _fill(tmp_path, ["x/y", "x/z", "hid", "kept"])
    (tmp_path / name).write_text("# not for machines\n/hid\nx/y\n", encoding="utf-8")
    session = make_session(policy=policy(tmp_path, "full"))
    assert _search(session, engine) == ["kept", "x/z"]
    result = session.call("Read", {"file_path": "hid"})
    assert result.status == "denied" and result.text.startswith("Not allowed: hid is hidden by an ignore file (")


def test_ignore_files_follow_git_and_stand_anywhere(tmp_path: Path) -> None:
    for directory in ("a/b", "logs", "w/src/x"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / ".aiignore").write_text("*.log\n!keep.log\nlogs/\n", encoding="utf-8")
    (tmp_path / "a" / ".aiignore").write_text("!b/fine.log\nsecret\n", encoding="utf-8")  # takes back its own only
    (tmp_path / "w" / ".handrailignore").write_text("*\n!*/\n!*.py\n", encoding="utf-8")
    judge = policy(tmp_path, "full")
    wanted = {
        "x.log": False, "keep.log": True, "logs": False, "logs/keep.log": False, "a/x.log": False,
        "a/b/fine.log": False, "a/b/secret": False, "secret": True, "w/src/x/a.py": True, "w/src/x/a.txt": False,
    }  # fmt: skip
    assert {path: judge.readable(str(tmp_path.resolve() / path)) for path in wanted} == wanted
    verdict = judge.judge([access(tmp_path, "write", "a/b/secret")])
    assert (verdict.decision, verdict.source) == ("deny", str(tmp_path.resolve() / "a" / ".aiignore"))


def test_one_ignore_file_does_not_take_back_what_another_kind_says(tmp_path: Path) -> None:
    (tmp_path / ".handrailignore").write_text("!x\n", encoding="utf-8")
    (tmp_path / ".aiignore").write_text("x\n", encoding="utf-8")
    assert not policy(tmp_path).readable(str(tmp_path.resolve() / "x"))


def test_an_ignore_file_that_cannot_be_read_hides_everything_around_it(tmp_path: Path) -> None:
    (tmp_path / "sub" / ".aiignore").mkdir(parents=True)
    judge = policy(tmp_path)
    assert not judge.readable(str(tmp_path.resolve() / "sub" / "x"))
    assert judge.readable(str(tmp_path.resolve() / "x"))


def test_a_name_that_is_not_suspect_may_be_read(tmp_path: Path) -> None:
    (tmp_path / "deep/deeper").mkdir(parents=True)
    (tmp_path / "deep/.handrailignore").write_text("*.log\n!keep.log\n", encoding="ascii")
    lines = "rules = ['deny Read(src/**/private.*)', 'deny Read(plain)', 'ask Read(asked/**)']"
    names = [".env", ".env.example", "id_rsa", "private.py", "plain", "a.log", "keep.log", "x.py", "asked", ".ssh"]
    places = ["", "src", "src/a/b", "asked", "asked/b", "deep", "deep/deeper", "plain/below", ".ssh", "node_modules"]
    many, alone = (policy(tmp_path, "ask", rules(lines)) for _ in range(2))
    for place in [*places, *places]:
        directory = str(tmp_path / place).rstrip("/")
        suspicious = many.suspect_names(directory, place == "deep")
        for name in names:
            assert (suspicious and suspicious(name)) or alone.readable(f"{directory}/{name}"), (place, name)


def test_a_remembered_walk_withholds_and_counts_the_same(tmp_path: Path, make_session: Callable[..., Session]) -> None:
    _fill(tmp_path, ["src/.env", "src/a.py", "b.py"])
    for directory in (tmp_path / "src", tmp_path):
        os.utime(directory, (1, 1))
    time.sleep(2 * system_calls.TICK / 1e9)  # until then a directory may change without a trace, and is listed again
    session = make_session(policy=policy(tmp_path))
    first, *again = (session.call("Glob", {"pattern": "**", "include_hidden": True}) for _ in range(3))
    assert first.data["receipt"]["skipped"]["withheld"] == 1 and ".env" not in first.text
    assert [(one.text, one.data) for one in again] == [(first.text, first.data)] * 2
    judge = policy(tmp_path, "ask", rules("rules = ['deny Read(b.py)']"))
    assert "b.py" not in make_session(policy=judge).call("Glob", {"pattern": "**"}).text
