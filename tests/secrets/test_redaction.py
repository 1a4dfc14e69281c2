"""Redaction: what is hidden on the way out, what comes back on the way in, and calls through a session that hides."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Session, Settings
from handrail.journal.queries import JournalReader
from handrail.journal.store import SqliteJournal
from handrail.model import as_json
from handrail.secrets.redaction import Redaction
from handrail.secrets.redaction import load as loaded
from handrail.settings.config_file import ConfigError, load

KEY = "s3cr3t-k3y-of-the-house"
PLACEHOLDER = re.compile(r"⟦secret:[0-9a-f]{12,64}⟧")


def test_a_value_leaves_as_a_placeholder_and_comes_back() -> None:
    redaction = Redaction([KEY])
    hidden = redaction.hide(f"a {KEY} b {KEY}")
    assert KEY not in hidden and len(set(PLACEHOLDER.findall(hidden))) == 1
    assert redaction.restore({"x": [hidden, 1, None], "y": {"z": hidden}}) == {
        "x": [f"a {KEY} b {KEY}", 1, None],
        "y": {"z": f"a {KEY} b {KEY}"},
    }


def test_a_placeholder_is_stable_in_a_session_and_another_one_in_the_next() -> None:
    one, other = Redaction([KEY]), Redaction([KEY])
    assert one.hide(KEY) == one.hide(f"x{KEY}")[1:]
    assert one.hide(KEY) != other.hide(KEY)
    assert other.restore(one.hide(KEY)) == one.hide(KEY)


def test_the_longest_value_is_hidden_and_no_end_of_one_is_left() -> None:
    redaction = Redaction(["secret", "secret-long", "longer!"], [r"token=(\w+)"])
    text = "secret-longer! secret token=abc token="
    hidden = redaction.hide(text)
    assert not re.search("secret-|longer|abc", hidden) and len(PLACEHOLDER.findall(hidden)) == 3
    assert "token=⟦" in hidden and redaction.restore(hidden) == text


def test_text_that_looks_like_a_placeholder_is_not_taken_for_one() -> None:
    redaction = Redaction([KEY])
    issued = redaction.hide(KEY)
    shown = redaction.hide(f"in the file: {issued} and {KEY}")
    assert shown.count(issued) == 1 and len(PLACEHOLDER.findall(shown)) == 2
    assert redaction.restore(shown) == f"in the file: {issued} and {KEY}"
    assert redaction.restore("⟦secret:00000000aaaa⟧") == "⟦secret:00000000aaaa⟧"


def test_the_lines_of_a_long_secret_are_hidden_one_by_one() -> None:
    redaction = Redaction(["-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n"])
    hidden = redaction.hide("     1\t-----BEGIN KEY-----\n     2\tMIIEvQIBADANBg\n")
    assert "MII" not in hidden and "BEGIN" not in hidden and len(PLACEHOLDER.findall(hidden)) == 2


def test_what_is_not_configured_hides_nothing() -> None:
    redaction = Redaction()
    assert not redaction
    assert redaction.hide("⟦secret:00000000aaaa⟧ x") == "⟦secret:00000000aaaa⟧ x"
    assert redaction.hide("x") == redaction.restore("x") == "x"


PIECES = st.lists(st.sampled_from([KEY, "key-2", "key-22", "⟦secret:", "⟧", "0" * 12, "ab", "\n", "ä", " k=v1 "]))


@given(PIECES.map("".join))
def test_hiding_and_restoring_gives_the_same_text(text: str) -> None:
    redaction = Redaction([KEY, "key-2", "key-22"], [r"k=(\w+)"], key=b"k")
    redaction.hide(f"{KEY} key-2")
    hidden = redaction.hide(text)
    assert KEY not in hidden and "key-2" not in hidden
    assert redaction.restore(hidden) == text


# Through a session.


@pytest.fixture
def hiding(
    tmp_path: Path, make_session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Session]:
    monkeypatch.setenv("MY_KEY", KEY)

    def make(**more: object) -> Session:
        return make_session(root=tmp_path, redact_values_from_env=("MY_KEY", "NOT_SET"), **more)

    return make


def test_a_line_with_a_secret_can_be_edited_by_its_placeholder(tmp_path: Path, hiding: Callable[..., Session]) -> None:
    (tmp_path / "a.ini").write_text(f"key = {KEY}\nport = 1\n", encoding="utf-8")
    session = hiding()
    shown = session.call("Read", {"file_path": "a.ini"})
    assert KEY not in json.dumps(as_json(shown), ensure_ascii=False)
    placeholder = PLACEHOLDER.search(shown.text)
    assert placeholder
    edited = session.call(
        "Edit",
        {
            "file_path": "a.ini",
            "old_string": f"key = {placeholder[0]}\nport = 1",
            "new_string": f"key = {placeholder[0]}  # kept\nport = 2",
        },
    )
    assert edited.status == "ok", edited.text
    assert (tmp_path / "a.ini").read_text(encoding="utf-8") == f"key = {KEY}  # kept\nport = 2\n"
    assert KEY not in json.dumps(as_json(edited), ensure_ascii=False)
    assert f"+key = {placeholder[0]}  # kept" in edited.data["diff"] and placeholder[0] in edited.text


def test_a_file_that_holds_a_placeholder_keeps_it(tmp_path: Path, hiding: Callable[..., Session]) -> None:
    session = hiding()
    (tmp_path / "k").write_text(KEY, encoding="utf-8")
    issued = session.call("Read", {"file_path": "k"}).text.split("\t")[1].strip()
    (tmp_path / "doc").write_text(f"written as {issued}\n", encoding="utf-8")
    shown = session.call("Read", {"file_path": "doc"}).text.split("\t")[1].strip("\n")
    assert issued not in shown
    done = session.call("Edit", {"file_path": "doc", "old_string": shown, "new_string": shown + "!"})
    assert done.status == "ok", done.text
    assert (tmp_path / "doc").read_text(encoding="utf-8") == f"written as {issued}!\n"


def test_a_failure_tells_no_secret(tmp_path: Path, hiding: Callable[..., Session]) -> None:
    (tmp_path / "a").write_text(f"x\nkey={KEY};\n", encoding="utf-8")
    session = hiding()
    session.call("Read", {"file_path": "a"})
    for arguments in (
        {"file_path": "a", "old_string": f"key={KEY}!", "new_string": "y"},
        {"file_path": f"{KEY}.txt", "old_string": "a", "new_string": "b"},
        {"file_path": "a", KEY: KEY},
    ):
        failed = session.call("Edit", arguments)
        assert failed.error and KEY not in failed.text and KEY not in failed.error.message


def test_commands_get_the_secret_and_print_the_placeholder(tmp_path: Path, hiding: Callable[..., Session]) -> None:
    session = hiding(sandbox="off")
    (tmp_path / "k").write_text(f"{KEY}\n", encoding="utf-8")
    placeholder = session.call("Read", {"file_path": "k"}).text.split("\t")[1].strip()
    done = session.call("Bash", {"command": f"echo '{placeholder}' | tee out | wc -c; cat out"})
    assert done.status == "ok", done.text
    assert (tmp_path / "out").read_text(encoding="utf-8") == KEY + "\n"
    assert str(len(KEY) + 1) in done.text and KEY not in json.dumps(as_json(done)) and placeholder in done.text


def test_the_journal_holds_no_secret_in_its_words_and_undo_still_works(
    tmp_path: Path, hiding: Callable[..., Session], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.mktemp("journal") / "j.db")
    journal = SqliteJournal(path)
    session = hiding(journal=journal, sandbox="off")
    (tmp_path / "k").write_text(f"{KEY}\n", encoding="utf-8")
    placeholder = session.call("Read", {"file_path": "k"}).text.split("\t")[1].strip()
    session.call("Write", {"file_path": "k", "content": f"{placeholder} and {KEY}\n"})
    session.call("Bash", {"command": f"echo {KEY} > out"})
    session.call("Edit", {"file_path": "nowhere", "old_string": KEY, "new_string": ""})
    with JournalReader(path) as reader:
        rows = reader.read_calls()
        assert len(rows) == 4 and KEY not in repr(rows)
        assert placeholder in repr(rows)
    session.undo(since=rows[1].seq)
    assert (tmp_path / "k").read_text(encoding="utf-8") == f"{KEY}\n"
    journal.close()


def test_a_person_is_shown_what_really_will_be_written(tmp_path: Path, hiding: Callable[..., Session]) -> None:
    seen: list[str] = []
    session = hiding(mode="ask", approve=lambda prepared: bool(seen.append(prepared.preview())) or True)
    (tmp_path / "k").write_text(f"{KEY}\n", encoding="utf-8")
    placeholder = session.call("Read", {"file_path": "k"}).text.split("\t")[1].strip()
    assert session.call("Write", {"file_path": "n", "content": f"{placeholder}\n"}).ok
    assert f"+{KEY}" in seen[0] and (tmp_path / "n").read_text(encoding="utf-8") == f"{KEY}\n"


# Settings.


def test_values_come_from_files_and_patterns(tmp_path: Path) -> None:
    (tmp_path / "env").write_text('# x\nexport A="long-enough-1"\nPORT=5432\nB=other-value-2\n', encoding="utf-8")
    (tmp_path / "key").write_text("a whole file of secret\n", encoding="utf-8")
    files = (str(tmp_path / "env"), str(tmp_path / "key"), str(tmp_path / "missing"))
    redaction = loaded(Settings(redact_files=files, redact_patterns=("id-[0-9]+",)), {})
    for text, hidden in (
        ("long-enough-1", True),
        ("other-value-2", True),
        ("5432", False),
        ("a whole file of secret", True),
        ("id-17", True),
        ("id-x", False),
    ):
        assert (redaction.hide(text) != text) == hidden, text


def test_a_value_that_is_too_short_and_a_bad_pattern_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="SHORT has 2 characters"):
        loaded(Settings(redact_values_from_env=("SHORT",)), {"SHORT": "ab"})
    with pytest.raises(ValueError, match="redact_patterns"):
        Settings(redact_patterns=("(",))
    config = tmp_path / "config.toml"
    for text, wanted in (
        ('redact_patterns = ["("]', "is not a regular expression"),
        ('redact_files = ["keys.env"]', "must be an absolute path"),
        ('redact_values_from_env = "A"', "must be a list of non-empty strings"),
    ):
        config.write_text(f"[settings]\n{text}\n", encoding="utf-8")
        with pytest.raises(ConfigError, match=wanted):
            load({"HANDRAIL_CONFIG": str(config)})
    config.write_text('[settings]\nredact_values_from_env = ["A", "B"]\n', encoding="utf-8")
    assert load({"HANDRAIL_CONFIG": str(config)}).settings.redact_values_from_env == ("A", "B")
