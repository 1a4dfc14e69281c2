"""The shared journal: a PostgreSQL database to which many machines ship their journals.

A tenant is a schema of the database: its tables, and nothing else, are what a role with rights on that schema can
reach. The tables have a version; `PostgresDatabase.migrate` creates and upgrades them, one process at a time.

Numbers: a call has the number `seq` in the shared journal, in the order of arrival, and `number` in the journal of its
machine. Each log of a machine is a row of `journals`. The entries of its hash chain keep the numbers of the machine, so
that the chains can be checked here too; `content` is the text of an entry that is about no call.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, LiteralString

from handrail.errors.extras import needs
from handrail.journal import JournalFailed
from handrail.settings.journal_address import JournalAddress

if TYPE_CHECKING:
    import psycopg

_DEFAULTS: Mapping[str, str | int] = {
    "connect_timeout": 10,
    "application_name": "handrail",
    # A server that is gone without a word is noticed within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_ESCAPE = "\ue000"
_ESCAPED = re.compile(f"{_ESCAPE}([01])")

MIGRATIONS: tuple[LiteralString, ...] = (
    """
CREATE TABLE journals (
    journal integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    host text NOT NULL,
    n bigint NOT NULL DEFAULT 0,
    hash text NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    shipped timestamptz
);
CREATE TABLE calls (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    journal integer NOT NULL REFERENCES journals,
    number bigint NOT NULL,
    time bigint, session text, workspace bytea, dialect text, tool text, call_id text, pid bigint, arguments text,
    given bigint, touches text, decision text, rule text, why text, source text,
    ended bigint, status text, error text, message text, duration double precision, diff text, exit_code bigint,
    output text, said bigint, answer_bytes bigint, notes text, traceback text,
    left_out bigint, client text, model text,
    UNIQUE (journal, number)
);
CREATE INDEX calls_session ON calls (session, seq);
CREATE INDEX calls_workspace ON calls (workspace, seq);
CREATE INDEX calls_tool ON calls (tool, seq);
CREATE INDEX calls_status ON calls (status, seq);
CREATE INDEX calls_call_id ON calls (call_id, seq) WHERE call_id <> '';
CREATE TABLE files (
    seq bigint NOT NULL REFERENCES calls,
    attempt bigint NOT NULL,
    place bigint NOT NULL,
    path bytea, kept bigint, before text, before_mode bigint, planned text, moved_from bytea, made text,
    after text, after_mode bigint,
    PRIMARY KEY (seq, attempt, place)
);
CREATE INDEX files_path ON files USING hash (path);
CREATE TABLE chain (
    journal integer NOT NULL REFERENCES journals,
    n bigint NOT NULL,
    number bigint NOT NULL,
    stage text NOT NULL,
    hash text NOT NULL,
    position bigint NOT NULL,
    content text,
    PRIMARY KEY (journal, n)
);
CREATE INDEX chain_position ON chain (position);
CREATE TABLE images (
    hash text NOT NULL,
    part integer NOT NULL,
    size bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (hash, part)
);
ALTER TABLE images ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);
""",
)
"""The statements that lead from each version of the tables to the next. One that was released is never changed."""
VERSION = len(MIGRATIONS)


def escape_nul(text: str) -> str:
    """A text that PostgreSQL can store: it has no character NUL."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")


def restore_nul(text: str) -> str:
    """The text that `escape_nul` was given."""
    return _ESCAPED.sub(lambda match: "\0" if match[1] == "0" else _ESCAPE, text) if _ESCAPE in text else text


class PostgresDatabase:
    """An open connection to the shared journal of a tenant. Raises `JournalFailed` for whatever goes wrong."""

    def __init__(self, address: JournalAddress) -> None:
        with needs("fleet"):
            import psycopg
        self.address = address
        self._errors = psycopg.Error
        self._denied = psycopg.errors.InsufficientPrivilege
        try:
            parameters = psycopg.conninfo.conninfo_to_dict(address.url)
        except psycopg.ProgrammingError:  # its message repeats parts of the URL, the password among them
            why = "it is not a URL that libpq understands: special characters in a password are written as %40"
            raise JournalFailed(journal=address.shown, why=why) from None
        with self.errors():
            self.connection: psycopg.Connection[Any] = psycopg.connect(
                **{**_DEFAULTS, **{name: value for name, value in parameters.items() if value is not None}},  # type: ignore[arg-type]
                autocommit=True,
                prepare_threshold=None,  # so that it works through a pooler
                row_factory=_restoring_rows,
            )
            self._path = psycopg.sql.SQL("SET LOCAL search_path TO {}").format(psycopg.sql.Identifier(address.tenant))

    @contextlib.contextmanager
    def errors(self, allow: str = "its owner can grant that") -> Iterator[None]:
        """Convert errors of the database to `JournalFailed`; ``allow``: what to do about missing rights."""
        try:
            yield
        except self._denied as error:
            why = self.address.hide(str(error))
            raise JournalFailed(journal=self.address.shown, why=f"{why}; {allow}") from None
        except self._errors as error:
            why = self.address.hide(str(error)) or type(error).__name__
            raise JournalFailed(journal=self.address.shown, why=why) from None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[psycopg.Cursor[Any]]:
        """One transaction on the tables of the tenant."""
        with self.errors(), self.connection.transaction(), self.connection.cursor() as cursor:
            cursor.execute(self._path)
            yield cursor

    def _read_version(self, cursor: psycopg.Cursor[Any]) -> int:
        tenant = self.address.tenant
        query = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s"
        if cursor.execute(query, (tenant,)).fetchone() == (False,):
            why = f"this role may not use the schema {tenant}, which is that of another tenant or lacks a GRANT"
            raise JournalFailed(journal=self.address.shown, why=why)
        table = cursor.execute("SELECT to_regclass('schema_version')").fetchone()
        if not table or table[0] is None:
            return 0
        row = cursor.execute("SELECT max(version) FROM schema_version").fetchone()
        return int(row[0] or 0) if row else 0

    def read_version(self) -> int:
        """The version of the tables; 0 if there are none."""
        with self.transaction() as cursor:
            return self._read_version(cursor)

    def require_version(self) -> None:
        """Raise `JournalFailed` unless the tables are those of this version of Handrail."""
        version = self.read_version()
        if version > VERSION:
            why = f"its tables have version {version}, and this Handrail knows version {VERSION}: upgrade Handrail"
            raise JournalFailed(journal=self.address.shown, why=why)
        if version < VERSION:
            why = f"its tables have version {version} of {VERSION}: run `handrail journal migrate` as their owner"
            raise JournalFailed(journal=self.address.shown, why=why)

    def migrate(self) -> int:
        """Create or upgrade the tables, where that is needed; returns how many versions they went up.

        Raises `JournalFailed` if the tables are newer than this program, or this role may not change them.
        """
        version = self.read_version()
        if version >= VERSION:
            self.require_version()
            return 0
        from psycopg.sql import SQL, Identifier

        tenant = self.address.tenant
        allow = f"its tables have version {version} of {VERSION}: run `handrail journal migrate` as their owner"
        with self.errors(allow), self.connection.transaction(), self.connection.cursor() as cursor:
            # Two machines that start at once: the second waits here, and then finds the tables.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"handrail:{tenant}",))
            if cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (tenant,)).fetchone() is None:
                cursor.execute(SQL("CREATE SCHEMA {}").format(Identifier(tenant)))
            cursor.execute(self._path)
            version = self._read_version(cursor)
            if version == 0:
                cursor.execute(
                    "CREATE TABLE schema_version "
                    "(version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
                )
            for number, statements in enumerate(MIGRATIONS[version:], version + 1):
                cursor.execute(statements)
                cursor.execute("INSERT INTO schema_version (version) VALUES (%s)", (number,))
        return max(0, VERSION - version)

    def close(self) -> None:
        with contextlib.suppress(self._errors):
            self.connection.close()


def _restoring_rows(cursor: psycopg.Cursor[object]) -> Any:  # noqa: ARG001 - psycopg passes it
    def make_row(values: Sequence[object]) -> tuple[Any, ...]:
        return tuple([restore_nul(value) if type(value) is str else value for value in values])

    return make_row
