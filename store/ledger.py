"""The ledger: a row is committed as `begun` before anything leaves, and with its end before anyone is told.

Model calls and effects share the table: a model call is an effect whose destination takes no key. This is the model's
side of it; the effects are in `store.effects`.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Row, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from domain import errors
from store.database import Database
from store.schema import ledger


@dataclass(frozen=True)
class Entry:
    """What names a row: its key, and the digest that the key is bound to.

    position: the ask of a model call, the place in its step of an action. holds: the intent, if no other may hold it.
    outline: digest of the course of the run that a model call is asked in; its answer counts for that course alone.
    """

    key: str
    kind: Literal["model", "effect"]
    namespace: str
    run_id: str
    step: int
    position: int
    name: str
    digest: str
    action_id: str | None = None
    arguments: dict[str, Any] | None = None
    intent: str | None = None
    holds: str | None = None
    outline: str | None = None


@dataclass(frozen=True)
class Begun:
    """How a row stands when an attempt begins.

    attempt: the number of this attempt, from 1. result: the stored answer, if there is one: nothing is to be sent.
    possibly_paid: usage of attempts that were sent and gave no answer. failures: attempts that ended with an error.
    began_at: when the first attempt began.
    """

    attempt: int
    result: Any | None
    possibly_paid: list[dict[str, int]]
    failures: int
    began_at: datetime


def model_key(first_execution_run_id: str, step: int, ask: int) -> str:
    """Key of a model call's row."""
    return "model-" + hashlib.sha256(f"{first_execution_run_id}\0{step}\0{ask}".encode()).hexdigest()


def compaction_key(first_execution_run_id: str, step: int, number: int) -> str:
    """Key of the row of a summary that a model writes before a step."""
    return "model-" + hashlib.sha256(f"{first_execution_run_id}\0{step}\0summary\0{number}".encode()).hexdigest()


async def row_of(connection: AsyncConnection, key: str) -> Row[Any] | None:
    """The row of a key, of a model call or an effect."""
    return (await connection.execute(select(ledger).where(ledger.c.key == key))).one_or_none()


class Ledger:
    """The rows of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, entry: Entry) -> Begun:
        """Commit the row of a model call as begun, or find the answer that it already has.

        A stored answer is the answer, also after a reset, although what was read may have changed meanwhile: it is not
        paid again. Where the run took another course since (a person decided otherwise, or said something), it is asked
        anew, and what the answer of before cost stays among what was paid for no answer.
        """
        async with self._database.transaction(entry.key, cheap=True) as connection:
            if first := await self._first(connection, entry):
                return first
            row = await _row(connection, entry.key)
            if row.status == "done" and entry.outline in (None, row.outline):
                return _standing(row)
            return await self._again(connection, entry, row)

    async def saw(self, key: str, usage: dict[str, int]) -> None:
        """Keep the usage that an attempt is known to have reached, in case it never answers."""
        async with self._database.transaction(key, cheap=True) as connection:
            await connection.execute(
                update(ledger).where(ledger.c.key == key, ledger.c.status == "begun").values(usage=usage)
            )

    async def finish(
        self, key: str, result: Any, usage: dict[str, int] | None = None, *, attempt: int | None = None
    ) -> Any:
        """Commit the answer of an attempt. The first answer of a row stands: it is what comes back."""
        ended = {"status": "done", "result": result, "usage": usage, "error": None, "ended_at": datetime.now(UTC)}
        async with self._database.transaction(key, cheap=True) as connection:
            newest = (ledger.c.key == key) & (ledger.c.status == "begun") & (ledger.c.attempts == attempt)
            if (await connection.execute(update(ledger).where(newest).values(**ended))).rowcount:
                return result
            row = await _row(connection, key)
            if row.status == "done":
                if row.result != result:  # or it is the same one, whose commit nobody heard of
                    await self._lost(connection, row, usage, attempt)
                return row.result
            if _given_up(row, attempt):
                ended["possibly_paid"] = (row.possibly_paid or [])[:-1]
            await connection.execute(update(ledger).where(ledger.c.key == key).values(**ended))
            return result

    async def fail(
        self, key: str, error: str, possibly_paid: dict[str, int] | None = None, *, attempt: int | None = None
    ) -> None:
        """Commit that an attempt ended without an answer; one that was given up has nothing more to say."""
        async with self._database.transaction(key, cheap=True) as connection:
            row = await row_of(connection, key)
            if row is None or _given_up(row, attempt):
                return
            await self._lost(connection, row, possibly_paid, attempt)
            if row.status == "done":
                return
            ended = {"status": "failed", "error": error, "usage": None, "ended_at": datetime.now(UTC)}
            await connection.execute(
                update(ledger).where(ledger.c.key == key).values(failures=row.failures + 1, **ended)
            )

    async def ended(self, key: str) -> Begun:
        """How a row stands that has its answer."""
        async with self._database.reading() as connection:
            row = await row_of(connection, key)
        if row is None or row.status != "done":
            raise errors.Broken(f"the ledger has no answer under {key}")
        return _standing(row)

    async def forget(self, namespace: str, run_id: str, step: int) -> int:
        """Drop the stored answers of a run's model calls from a step on; how many there were.

        What they cost stays in their rows, among what was paid for no answer.
        """
        mine = (ledger.c.namespace == namespace) & (ledger.c.run_id == run_id) & (ledger.c.kind == "model")
        async with self._database.transaction(run_id) as connection:
            answered = select(ledger).where(mine, ledger.c.step >= step, ledger.c.status == "done")
            rows = (await connection.execute(answered)).all()
            for row in rows:
                paid = [*(row.possibly_paid or []), row.usage or {}]
                dropped = {"status": "failed", "result": None, "usage": None, "possibly_paid": paid}
                await connection.execute(update(ledger).where(ledger.c.key == row.key).values(**dropped))
            return len(rows)

    async def rows(self, namespace: str, run_id: str) -> list[dict[str, Any]]:
        """All rows of a run, oldest first."""
        async with self._database.reading() as connection:
            wanted = select(ledger).where(ledger.c.namespace == namespace, ledger.c.run_id == run_id)
            found = await connection.execute(wanted.order_by(ledger.c.step, ledger.c.kind, ledger.c.position))
            return [dict(row) for row in found.mappings()]

    async def _first(self, connection: AsyncConnection, entry: Entry) -> Begun | None:
        """A new row, in one statement; None where there is one."""
        now = datetime.now(UTC)
        new = _insert(connection).values(**entry.__dict__, status="begun", attempts=1, failures=0, began_at=now)
        new = new.on_conflict_do_nothing(index_elements=[ledger.c.key]).execution_options(preserve_rowcount=True)
        made = await connection.execute(new)
        return Begun(1, None, [], 0, now) if made.rowcount == 1 else None

    async def _again(self, connection: AsyncConnection, entry: Entry, row: Row[Any]) -> Begun:
        """Begin another attempt; one that is still `begun` may have been paid, and the answer of another course was."""
        paid = list(row.possibly_paid or [])
        if row.status in ("begun", "done"):
            paid.append(row.usage or {})
        begun = {"status": "begun", "attempts": row.attempts + 1, "possibly_paid": paid, "usage": None, "error": None}
        await connection.execute(
            update(ledger)
            .where(ledger.c.key == entry.key)
            .values(digest=entry.digest, outline=entry.outline, result=None, ended_at=None, **begun)
        )
        return Begun(row.attempts + 1, None, paid, row.failures, row.began_at)

    async def _lost(
        self, connection: AsyncConnection, row: Row[Any], usage: dict[str, int] | None, attempt: int | None
    ) -> None:
        """Count an attempt as possibly paid; one that was given up was counted then."""
        if usage is None or _given_up(row, attempt):
            return
        paid = [*(row.possibly_paid or []), usage]
        await connection.execute(update(ledger).where(ledger.c.key == row.key).values(possibly_paid=paid))


def _insert(connection: AsyncConnection) -> sqlite.Insert | postgresql.Insert:
    return postgresql.insert(ledger) if connection.dialect.name == "postgresql" else sqlite.insert(ledger)


async def _row(connection: AsyncConnection, key: str) -> Row[Any]:
    if row := await row_of(connection, key):
        return row
    raise errors.Broken(f"the ledger has no row {key}")


def _standing(row: Row[Any]) -> Begun:
    return Begun(row.attempts, row.result, row.possibly_paid or [], row.failures, row.began_at)


def _given_up(row: Row[Any], attempt: int | None) -> bool:
    """Whether a later attempt has begun, and counted this one as possibly paid."""
    return attempt is not None and attempt < row.attempts
