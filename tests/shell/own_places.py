"""A user with a state directory and settings full of secrets, for tests that try to reach them from a command."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, Settings
from handrail.errors import NoSandbox
from handrail.files.versions import hash_bytes
from handrail.journal.log_lines import get_logs_path
from handrail.journal.logs import OldContents
from handrail.journal.store import SqliteJournal, get_default_path

SECRET = "hush-hush-4711"
BOUNDARIES = ("namespaces", "landlock")


def shows(path: Path, text: str) -> bool:
    """Whether a text holds what is in a file; the journal packs the contents that it keeps, and has a head."""
    return ("SQLite format 3" if path.suffix == ".db" else SECRET) in text


@dataclass(frozen=True)
class User:
    """Real files, outside of the directory for temporary files, of which namespaces give commands another one."""

    work: Path
    state: Path
    config: Path

    def session(self, sandbox: Any, **options: Any) -> Session:
        names = Settings.__dataclass_fields__
        given = {name: options.pop(name) for name in list(options) if name in names}
        settings = Settings(
            state=str(self.state), sandbox=sandbox, sandbox_required=sandbox != "off", raise_bugs=True, **given
        )
        journal = SqliteJournal(get_default_path(str(self.state)), required=True, budget=1 << 20)
        return Session(self.work, settings=settings, journal=journal, **options)

    def files(self) -> list[Path]:
        """Every file that holds the secret."""
        return [
            Path(OldContents(get_logs_path(get_default_path(str(self.state)))).get_path(hash_bytes(SECRET.encode()))),
            self.state / "artefacts" / "1-2-3" / "log",
            self.state / "mcp-http-token",
            self.state / "conversations" / "one.json",
            self.config / "approved.toml",
            self.config / "config.toml",
        ]


@contextmanager
def made_user(monkeypatch: pytest.MonkeyPatch, inside: bool = False) -> Iterator[User]:
    """A user whose files all hold the secret; ``inside``: they lie inside the workspace."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as result:
        top = Path(os.path.realpath(result))
        work = top / "work"
        home = work if inside else top
        user = User(work, home / "state", home / "config" / "handrail")
        work.mkdir()
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        monkeypatch.setenv("HANDRAIL_STATE", str(user.state))
        monkeypatch.delenv("HANDRAIL_CONFIG", raising=False)
        for path in user.files():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {SECRET}\n", encoding="utf-8")
        user.files()[0].unlink()
        (work / "a.txt").write_text(SECRET, encoding="utf-8")
        with user.session("off", mode="full") as session:  # the journal keeps what stood there before
            session.call("Read", {"file_path": "a.txt"})
            assert session.call("Write", {"file_path": "a.txt", "content": "plain"}).ok
        yield user


def run(session: Session, command: str) -> str:
    """What a command prints that no policy has judged: only the boundary is in its way."""
    try:
        terminal = session.services.command_host()
        _, ended = terminal.run(command, str(session.workspace.home), 60, "test", None)
    except NoSandbox as error:
        pytest.skip(f"this boundary cannot be had on this machine: {error.facts['why']}")
    assert ended is not None
    with open(ended.log, "rb") as file:
        return file.read().decode("utf-8", "replace")
