"""The shared journal without a server: addresses, passwords, batches, retention, and a database that is down."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import AllowAll, Result, Session, Settings
from handrail.journal import JournalFailed, Origin, Record
from handrail.journal.log_lines import GENESIS, ChainEntry, get_logs_path
from handrail.journal.logs import OldContents
from handrail.journal.postgres import escape_nul, restore_nul
from handrail.journal.retention import ShippingState
from handrail.journal.shipper import Shipper
from handrail.journal.shipping import LocalJournal, note_failure, read_batch
from handrail.journal.store import SqliteJournal, get_default_path
from handrail.model import Call
from handrail.settings.journal_address import JournalAddress, hide_password
from tests.command import handrail

DOWN = "postgresql://node:very-secret@127.0.0.1:1/records"
"""Nobody listens at port 1."""
PASSWORDS = ["pw12", "p:w", "p@ss", "p/w?x", "p%40w", "é#w1", "a=b&c"]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("form", ["postgresql://u:{}@h:5432/db?tenant=a", "postgres://h/db?password={}", "x://u:{}@h"])
def test_no_password_is_shown(password: str, form: str) -> None:
    if "password=" in form and "&" in password:
        pytest.skip("a parameter ends at this character")
    url = form.format(password)
    shown = hide_password(url)
    assert password not in shown
    assert "***" in shown
    assert hide_password(shown) == shown


@pytest.mark.parametrize("url", ["postgresql://h/db", "postgresql://u@h:1/db?sslmode=require", "/a/path", "auto", ""])
def test_without_a_password_a_url_is_shown_as_it_is(url: str) -> None:
    assert hide_password(url) == url


def test_an_address_has_a_tenant_and_the_same_key_for_every_role() -> None:
    first = JournalAddress.parse("postgresql://a:pw@h/db?sslmode=require&tenant=team_a")
    assert (first.tenant, first.url) == ("team_a", "postgresql://a:pw@h/db?sslmode=require")
    assert first.key == JournalAddress.parse("postgresql://b@h/db?tenant=team_a").key
    assert first.key != JournalAddress.parse("postgresql://a:pw@h/db").key
    assert first.hide('role "a" of pw failed\nat once') == 'role "a" of *** failed at once'


@pytest.mark.parametrize("tenant", ["", "A", "1a", "pg_catalog", "a-b", "a;b", "a%22", "x" * 64])
def test_a_tenant_is_the_name_of_a_schema(tenant: str) -> None:
    with pytest.raises(ValueError, match="tenant must be the name of a schema"):
        JournalAddress.parse(f"postgresql://h/db?tenant={tenant}")


@pytest.mark.parametrize("value", ["mysql://u:very-secret@h/db", "journal.db", "postgresql:/u:very-secret@h"])
def test_what_is_no_address_is_refused_without_its_password(value: str, tmp_path: Path) -> None:
    for attempt in (lambda: Settings(journal=value), lambda: Session(tmp_path, journal=value)):
        with pytest.raises(ValueError, match="journal must be") as caught:
            attempt()
        assert "//" not in value or "very-secret" not in str(caught.value)


def test_settings_do_not_show_the_address_in_their_representation() -> None:
    assert "very-secret" not in repr(Settings(journal=DOWN)) + repr(JournalAddress.parse(DOWN))


@given(st.text(st.sampled_from("a\0\ue00001")))
def test_every_text_comes_back(text: str) -> None:
    assert "\0" not in escape_nul(text)
    assert restore_nul(escape_nul(text)) == text


@pytest.fixture
def configuration(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "config.toml"
    file.write_text(f'[settings]\njournal = "{DOWN}"\n', encoding="utf-8")
    return {"HANDRAIL_CONFIG": str(file)}


def test_commands_report_a_database_that_is_down_without_the_password(
    tmp_path: Path, configuration: dict[str, str]
) -> None:
    with Session(tmp_path, policy=AllowAll()) as session:
        assert session.call("Write", {"file_path": "a", "content": "a"}).ok
    results = {
        "config": 0,
        "config get journal": 0,
        "config --json": 0,
        "doctor": 1,
        "journal status": 0,
        "journal ship": 1,
        "journal migrate": 1,
        "log --shared": 1,
        "undo --shared": 2,
    }
    for words, code in results.items():
        done = handrail(*words.split(), cwd=tmp_path, variables=configuration)
        text = (done.stdout + done.stderr).decode()
        assert done.returncode == code, (words, text)
        assert "very-secret" not in text
        if words in ("doctor", "journal ship", "log --shared"):
            assert "refused" in text
    status = json.loads(handrail("journal", "status", "--json", cwd=tmp_path, variables=configuration).stdout)
    assert status["outstanding"] == 3  # the log begins with an entry of its own
    assert "refused" in status["failure"]


def test_a_password_in_an_argument_is_refused(tmp_path: Path) -> None:
    for words in (["log", "--journal", DOWN], ["journal", "status", "--to", DOWN], ["config", "set", "journal", DOWN]):
        done = handrail(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert b"can be seen by all users" in done.stderr
        assert b"very-secret" not in done.stderr


def test_without_the_setting_there_is_no_shared_journal(tmp_path: Path) -> None:
    for words in (["log", "--shared"], ["journal", "ship"]):
        done = handrail(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert b"the setting `journal`" in done.stderr


def test_a_database_that_is_down_is_no_concern_of_a_call(tmp_path: Path) -> None:
    with Session(tmp_path, policy=AllowAll(), journal=DOWN) as session:
        results = [session.call("Write", {"file_path": "a", "content": str(number)}) for number in range(5)]
        path = get_default_path(session.services.state)
    assert all(result.ok and not result.notes for result in results)
    local = LocalJournal(path, JournalAddress.parse(DOWN))
    until = time.monotonic() + 120
    while not local.read_state().failure:
        assert time.monotonic() < until
        time.sleep(0.05)
    state = local.read_state()
    assert "refused" in state.failure
    assert "very-secret" not in state.failure
    assert state.retry > state.failed


@pytest.fixture
def local(journal: SqliteJournal) -> LocalJournal:
    journal.require()
    return LocalJournal(journal.path, JournalAddress.parse(DOWN))


def test_attempts_come_later_each_time_and_start_anew_after_a_success(local: LocalJournal) -> None:
    pauses = [note_failure(local, "down", 1000.0).retry - 1000.0 for _ in range(9)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    local.write_state(ShippingState({"1": 3}, 1.0))
    assert note_failure(local, "down", 1000.0).retry == 1001.0


def test_a_shipper_keeps_to_the_time_that_another_process_wrote_down(local: LocalJournal) -> None:
    now = time.time()
    local.write_state(ShippingState(failure="down", failed=now, retry=now + 3000, failures=30))
    shipper = Shipper(local.path, JournalAddress.parse(DOWN))
    assert shipper._try(ending=False) > 2000
    assert local.read_state().failed == now  # it was not tried


def test_batches_are_bounded_and_follow_each_other(
    journal: SqliteJournal, local: LocalJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        journal.record(
            Record(Call("Read", {"n": number}), (), None, (), Origin("s"), result=Result("Read", "ok", "x" * 400))
        )
    monkeypatch.setattr("handrail.journal.shipping.MOST_ENTRIES", 7)
    at, sizes = ChainEntry(0, GENESIS), []
    while (batch := read_batch(local, 1, at, 1000)).entries:
        sizes.append(len(batch.entries))
        assert batch.entries[0][0] == at.n + 1
        at = batch.last
    assert sizes == [7, 7, 7, 7, 3]
    monkeypatch.setattr("handrail.journal.shipping._MOST_BYTES", 1000)
    few = read_batch(local, 1, ChainEntry(0, GENESIS), 1000)
    assert 1 < len(few.entries) < 7


def test_images_that_are_not_sent_stay_until_twice_the_budget(tmp_path: Path) -> None:
    settings = Settings(journal_bytes=20_000)

    def overwrite(count: int) -> None:
        with Session(tmp_path, policy=AllowAll(), settings=settings) as session:
            for _ in range(count):
                (tmp_path / "a").write_bytes(os.urandom(2000).hex().encode())
                session.call("Read", {"file_path": "a"})
                assert session.call("Write", {"file_path": "a", "content": "x"}).ok

    def count_images() -> int:
        return OldContents(get_logs_path(path)).measure()[1]

    overwrite(1)
    with Session(tmp_path, settings=settings) as session:
        path = get_default_path(session.services.state)
    overwrite(15)
    assert count_images() <= 20_000
    local = LocalJournal(path, JournalAddress.parse(DOWN))
    local.write_state(ShippingState(complete=time.time()))
    overwrite(15)
    assert 20_000 < count_images() <= 40_000
    local.write_state(ShippingState(complete=time.time() + 1000))
    overwrite(1)
    assert count_images() <= 20_000


def test_a_damaged_position_counts_as_none(local: LocalJournal) -> None:
    local.write_state(ShippingState({"1": 5}))
    Path(local._state).write_text("[]", encoding="ascii")
    assert local.read_state() == ShippingState()


def test_a_journal_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalFailed, match="there is no journal yet"):
        LocalJournal(str(tmp_path / "none.db"), JournalAddress.parse(DOWN))


def test_journals_of_drafts_and_fleets_are_sent_too(tmp_path: Path, configuration: dict[str, str]) -> None:
    with Session(tmp_path, policy=AllowAll()) as session:
        state = session.services.state
    places = ("journal", "fleet/run-1/work/w[1]/state/journal")
    for name in ("journal/journal.db", "journal/draft-0123456789abcdef.db", f"{places[1]}/journal.db"):
        with contextlib.closing(SqliteJournal(os.path.join(state, name))) as journal:
            journal.record(Record(Call("Read", {}), (), None, (), Origin("s"), result=Result("Read", "ok", "x")))
    status = json.loads(handrail("journal", "status", "--json", cwd=tmp_path, variables=configuration).stdout)
    assert status["outstanding"] == 6
    assert [os.path.relpath(one["journal"], state) for one in status["journals"]] == [
        "journal/draft-0123456789abcdef.db",
        "journal/journal.db",
        f"{places[1]}/journal.db",
    ]
