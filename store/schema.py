"""The tables, written for SQLite and for Postgres alike."""

import base64
import json
import re
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

from store.seal import Seal


class Utc(TypeDecorator[datetime]):
    """Aware UTC times; SQLite keeps them without a zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Store in UTC."""
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give back aware times."""
        return value.replace(tzinfo=UTC) if value and value.tzinfo is None else value


class Json(TypeDecorator[Any]):
    """JSON as ASCII text: NUL and lone surrogates survive, in either database."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Encode."""
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Decode."""
        return None if value is None else json.loads(value)


_UNKEEPABLE = re.compile("[\x00\ud800-\udfff]")


class Words(TypeDecorator[str]):
    """Text that others wrote, as either database can keep it: NUL and lone surrogates become U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace what cannot be kept, in values and in comparisons alike."""
        return None if value is None else _UNKEEPABLE.sub("\N{REPLACEMENT CHARACTER}", value)


# Each database has its own seal: `database.connect` sets it.
_SEALS: WeakKeyDictionary[Dialect, Seal] = WeakKeyDictionary()
_SEALED, _CLEAR = "sealed:", "sealed:not:"


def seal_by(dialect: Dialect, seal: Seal) -> None:
    """Seal by this what is written to sealed columns from now on."""
    _SEALS[dialect] = seal


class SealedJson(Json):
    """JSON that only the holder of a key can read, where there are keys; rows from before are read as they are."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Encode and seal."""
        return _sealed(super().process_bind_param(value, dialect), dialect)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Open and decode; `errors.MissingKey` if its key is not here."""
        return super().process_result_value(_opened(value, dialect), dialect)


class SealedWords(Words):
    """The same for text. Two equal texts differ once they are sealed: it is for no column that anything looks for."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace what cannot be kept, and seal."""
        return _sealed(super().process_bind_param(value, dialect), dialect)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Open; `errors.MissingKey` if its key is not here."""
        return _opened(value, dialect)


class ClearWords(Words):
    """Text that is kept only where nothing is sealed: what a sealed text is found by would tell it."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Keep it, or nothing."""
        seal = _SEALS.get(dialect)
        return None if seal is not None and seal.on else super().process_bind_param(value, dialect)


def _sealed(text: str | None, dialect: Dialect) -> str | None:
    seal = _SEALS.get(dialect)
    if text is not None and seal is not None and seal.on:
        return _SEALED + base64.b64encode(seal.seal(text.encode())).decode()
    return _CLEAR + text if text is not None and text.startswith(_SEALED) else text


def _opened(text: str | None, dialect: Dialect) -> str | None:
    if text is None or not text.startswith(_SEALED):
        return text
    if text.startswith(_CLEAR):
        return text.removeprefix(_CLEAR)
    return _SEALS.get(dialect, Seal({})).open(base64.b64decode(text.removeprefix(_SEALED))).decode()


metadata = MetaData()

# One row for each model call and each effect, committed as `begun` before anything leaves.
ledger = Table(
    "ledger",
    metadata,
    Column("key", String(100), primary_key=True),
    Column("kind", String(10), nullable=False),
    Column("namespace", String(200), nullable=False),
    Column("run_id", String(1000), nullable=False),
    Column("step", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", String(200), nullable=False),
    Column("status", String(10), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("outline", String(64)),
    Column("action_id", String(100)),
    Column("arguments", SealedJson),
    Column("intent", Words),
    Column("holds", Words),
    Column("attempts", Integer, nullable=False),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("result", SealedJson),
    Column("usage", Json),
    Column("possibly_paid", Json),
    Column("error", SealedWords),
    Column("began_at", Utc, nullable=False),
    Column("last_sent_at", Utc),
    Column("ended_at", Utc),
)
_HOLDING = text("holds IS NOT NULL AND status IN ('begun', 'unknown', 'done')")
Index(
    "ledger_one_holder",
    ledger.c.namespace,
    ledger.c.holds,
    unique=True,
    sqlite_where=_HOLDING,
    postgresql_where=_HOLDING,
)
Index("ledger_by_run", ledger.c.namespace, ledger.c.run_id)

claims = Table(
    "claims",
    metadata,
    Column("namespace", String(200), primary_key=True),
    Column("run_id", String(1000), primary_key=True),
    Column("first_execution_run_id", String(100), nullable=False),
    Column("claimed_at", Utc, nullable=False),
)

# Where a run reads its inbox and its calendar, when it was started with its own.
sources = Table(
    "sources",
    metadata,
    Column("namespace", String(200), primary_key=True),
    Column("run_id", String(1000), primary_key=True),
    Column("inbox", Text),
    Column("calendar", Text),
)

# Runs that are to go: when their grace period began, and who keeps them.
expiries = Table(
    "expiries",
    metadata,
    Column("namespace", String(200), primary_key=True),
    Column("run_id", String(1000), primary_key=True),
    Column("noted_at", Utc, nullable=False),
    Column("marked_at", Utc),
    Column("kept_by", Words),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("namespace", String(200), nullable=False),
    Column("title", SealedWords, nullable=False),
    Column("notes", SealedWords),
    Column("due", String(10)),
    Column("status", String(10), nullable=False),
    Column("source_id", Words, nullable=False),
    Column("idempotency_key", String(100), nullable=False, unique=True),
    Column("run_id", String(1000), nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("done_at", Utc),
    UniqueConstraint("namespace", "source_id", name="tasks_one_per_source"),
)

# The journal of the task store: one row a commit, with the answer that every repetition of the key gets.
task_commits = Table(
    "task_commits",
    metadata,
    Column("idempotency_key", String(100), primary_key=True),
    Column("operation", String(20), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("task_id", Integer, nullable=False),
    Column("answer", SealedJson, nullable=False),
    Column("committed_at", Utc, nullable=False),
)

customers = Table(
    "customers",
    metadata,
    Column("namespace", String(200), primary_key=True),
    Column("id", String(100), primary_key=True),
    Column("name", SealedWords, nullable=False),
    Column("email", SealedWords, nullable=False),
    Column("since", String(10), nullable=False),
)

# What the shop knows of an order; what is left to refund is known by the payment provider alone.
orders = Table(
    "orders",
    metadata,
    Column("namespace", String(200), primary_key=True),
    Column("id", String(100), primary_key=True),
    Column("customer_id", String(100), nullable=False),
    Column("status", String(20), nullable=False),
    Column("currency", String(3), nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("charge", String(255)),
    Column("items", SealedJson, nullable=False),
    Column("placed_at", Utc, nullable=False),
    ForeignKeyConstraint(
        ["namespace", "customer_id"], ["customers.namespace", "customers.id"], name="orders_of_a_customer"
    ),
)
Index("orders_by_customer", orders.c.namespace, orders.c.customer_id)

# What later runs need to know. words: the text as it is looked for; none where it is sealed. scope: the namespace of
# the memory, such as `user_481/preferences`, beside that of the server.
memory = Table(
    "memory",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("namespace", String(200), nullable=False),
    Column("scope", String(200), nullable=False),
    Column("text", SealedWords, nullable=False),
    Column("words", ClearWords),
    Column("kind", String(20), nullable=False),
    Column("said_by", String(10), nullable=False),
    Column("run_id", String(1000)),
    Column("action_id", String(100)),
    Column("trust", String(10), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created", Utc, nullable=False),
    Column("changed", Utc, nullable=False),
    Column("last_used", Utc),
    Column("review_after", Utc, nullable=False),
    Column("expires", Utc),
    Column("ended", Utc),
    Column("ended_as", String(10)),
    sqlite_autoincrement=True,
)
Index("memory_by_scope", memory.c.namespace, memory.c.scope)

# What an entry was before each change.
memory_versions = Table(
    "memory_versions",
    metadata,
    Column("entry_id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("entry", SealedJson, nullable=False),
    ForeignKeyConstraint(["entry_id"], ["memory.id"], name="versions_of_an_entry", ondelete="CASCADE"),
)

# The journal of memory: one row a commit. It names entries and holds none of their text: what is forgotten is gone.
memory_commits = Table(
    "memory_commits",
    metadata,
    Column("idempotency_key", String(100), primary_key=True),
    Column("namespace", String(200), nullable=False),
    Column("run_id", String(1000)),
    Column("operation", String(20), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("trust", String(10)),
    Column("answer", Json, nullable=False),
    Column("committed_at", Utc, nullable=False),
)
Index("memory_commits_by_run", memory_commits.c.namespace, memory_commits.c.run_id)

# What a model says while it is answered, where workers are on other machines than who watches; gone with the answer.
streams = Table(
    "streams",
    metadata,
    Column("run", String(100), primary_key=True),
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("ask", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("lines", Text, nullable=False),
    Column("at", Utc, nullable=False),
)
Index("streams_by_age", streams.c.at)
