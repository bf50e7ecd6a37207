"""The ledger's effects: who holds an intent, what was sent, what came of it. One row for each key, for ever."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from domain import errors
from domain.tool import Conflict
from store.database import Database
from store.ledger import Entry, row_of
from store.schema import ledger

_HOLDING = ("begun", "unknown", "done")


@dataclass(frozen=True)
class Standing:
    """How an effect's row stands.

    sent: an attempt went out, or was about to, and gave no answer. result: the stored answer. last_sent_at: when the
    newest attempt was about to leave. failures: attempts that ended without an answer.
    """

    status: str
    sent: bool
    result: Any | None
    attempts: int
    failures: int
    began_at: datetime
    last_sent_at: datetime


class Effects:
    """The effects of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def standing(self, key: str) -> Standing | None:
        """How the row of a key stands, if there is one."""
        async with self._database.reading() as connection:
            row = await row_of(connection, key)
        return _standing(row) if row else None

    async def begin(self, entry: Entry, *, again: bool = False) -> Standing:
        """Commit the row as begun, or find how it stands. `sent` is False where this attempt is the first to leave.

        Raises `errors.ArgumentsChanged` for a key that was begun with other arguments, and `errors.IntentHeld` when
        another action holds the intent, unless a person said `again`.
        """
        try:
            async with self._database.transaction(entry.key) as connection:
                return await self._begin(connection, entry, again)
        except IntegrityError:
            raise errors.IntentHeld(await self._held(entry)) from None

    async def holder(self, entry: Entry) -> Conflict | None:
        """Who stands in the way of an action before it runs: itself with other arguments, or who holds its intent."""
        async with self._database.reading() as connection:
            row = await row_of(connection, entry.key)
            if row is not None:
                changed = row.digest != entry.digest
                return Conflict(run_id=row.run_id, action_id=row.action_id, changed=True) if changed else None
            return await self._other(connection, entry)

    async def sending(self, key: str) -> int:
        """Note that another attempt is about to leave; its number."""
        async with self._database.transaction(key) as connection:
            values = {"attempts": ledger.c.attempts + 1, "last_sent_at": datetime.now(UTC)}
            await connection.execute(update(ledger).where(ledger.c.key == key).values(values))
            row = await row_of(connection, key)
        if row is None:
            raise errors.Broken(f"the ledger has no row {key}")
        return int(row.attempts)

    async def stumble(self, key: str, error: str, *, last_sent_at: datetime | None = None) -> None:
        """Note that an attempt ended without an answer; the row stays begun.

        last_sent_at: when the one before it left, where it is that one that may still be sending.
        """
        async with self._database.transaction(key) as connection:
            values: dict[str, Any] = {"failures": ledger.c.failures + 1, "error": error}
            values |= {"last_sent_at": last_sent_at} if last_sent_at else {}
            await connection.execute(update(ledger).where(ledger.c.key == key, _open()).values(values))

    async def unsent(self, key: str, error: str, attempt: int) -> None:
        """Note that an attempt certainly did nothing; its intent is free until the next one.

        Where another attempt has begun since, that one may have done something, and the row is left to it.
        """
        async with self._database.transaction(key) as connection:
            values = {"failures": ledger.c.failures + 1, "error": error, "status": "failed"}
            await connection.execute(update(ledger).where(ledger.c.key == key, _newest(attempt)).values(values))

    async def finish(self, key: str, result: Any) -> Any:
        """Commit the answer. The first answer of a row stands: it is what comes back.

        It happened, also where its intent was free for a while, and another action holds it by now.
        """
        try:
            return await self._finish(key, result)
        except IntegrityError:
            return await self._finish(key, result, holds=ledger.c.holds + f" again {key}")

    async def _finish(self, key: str, result: Any, **values: Any) -> Any:
        async with self._database.transaction(key) as connection:
            await self._end(connection, _open(), key=key, status="done", result=result, error=None, **values)
            row = await row_of(connection, key)
        if row is None:
            raise errors.Broken(f"the ledger has no row {key}")
        return row.result if row.result is not None else result

    async def fail(self, key: str, error: str, attempt: int | None = None) -> bool:
        """Commit that the effect did not happen; its intent is free again. False where that cannot be said.

        attempt: who says so; where another attempt has begun since, it cannot know. A person's word has no number.
        """
        at = _open() if attempt is None else _newest(attempt)
        async with self._database.transaction(key) as connection:
            return await self._end(connection, at, key=key, status="failed", result=None, error=error)

    async def unknown(self, key: str, why: str) -> bool:
        """Commit that nobody can tell whether the effect happened; False where it has an end already."""
        async with self._database.transaction(key) as connection:
            begun = ledger.c.status == "begun"
            return await self._end(connection, begun, key=key, status="unknown", result=None, error=why)

    async def unknowns(self, namespace: str) -> list[dict[str, Any]]:
        """Every effect whose outcome nobody knows, oldest first."""
        wanted = select(ledger).where(ledger.c.namespace == namespace, ledger.c.status == "unknown")
        async with self._database.reading() as connection:
            found = await connection.execute(wanted.order_by(ledger.c.began_at))
            return [dict(row) for row in found.mappings()]

    async def _begin(self, connection: AsyncConnection, entry: Entry, again: bool) -> Standing:
        row = await row_of(connection, entry.key)
        if row is not None and row.digest != entry.digest:
            raise errors.ArgumentsChanged(
                f"{entry.name} was carried out before with other arguments: {row.status}"
                + (f", {row.result['content']}" if row.result else "")
            )
        if row is not None and row.status != "failed":
            return _standing(row)
        if not again and (other := await self._other(connection, entry)):
            raise errors.IntentHeld(other)
        holds = f"{entry.holds} again {entry.key}" if entry.holds and again else entry.holds
        await self._write(connection, entry, holds, known=row is not None)
        begun = await row_of(connection, entry.key)
        if begun is None:
            raise errors.Broken(f"the ledger has no row {entry.key}")
        return _standing(begun, sent=False)

    async def _write(self, connection: AsyncConnection, entry: Entry, holds: str | None, *, known: bool) -> None:
        now = datetime.now(UTC)
        begun: dict[str, Any] = {"status": "begun", "holds": holds, "last_sent_at": now, "ended_at": None}
        if known:
            again = update(ledger).where(ledger.c.key == entry.key)
            await connection.execute(again.values(**begun, attempts=ledger.c.attempts + 1))
        else:
            values = {**entry.__dict__, **begun, "attempts": 1, "failures": 0, "began_at": now}
            await connection.execute(insert(ledger).values(values))

    async def _end(self, connection: AsyncConnection, at: Any, *, key: str, **ended: Any) -> bool:
        wanted = update(ledger).where(ledger.c.key == key, at)
        changed = await connection.execute(wanted.values(**ended, ended_at=datetime.now(UTC)))
        return changed.rowcount > 0

    async def _held(self, entry: Entry) -> Conflict:
        async with self._database.reading() as connection:
            other = await self._other(connection, entry)
        return other or Conflict(run_id=entry.run_id, action_id=entry.action_id or "")

    async def _other(self, connection: AsyncConnection, entry: Entry) -> Conflict | None:
        if entry.holds is None:
            return None
        mine = (ledger.c.namespace == entry.namespace) & (ledger.c.intent == entry.intent) & ledger.c.holds.is_not(None)
        wanted = select(ledger).where(mine, ledger.c.status.in_(_HOLDING), ledger.c.key != entry.key)
        row = (await connection.execute(wanted.order_by(ledger.c.began_at).limit(1))).one_or_none()
        if row is None:
            return None
        # An edit has a key of its own: after a reset the action may meet what was done in its place under another one.
        same = (row.run_id, row.step, row.position) == (entry.run_id, entry.step, entry.position)
        return Conflict(run_id=row.run_id, action_id=row.action_id or "", changed=same)


def _open() -> Any:
    return ledger.c.status.in_(("begun", "unknown", "failed"))


def _newest(attempt: int) -> Any:
    return (ledger.c.status == "begun") & (ledger.c.attempts == attempt)


def _standing(row: Row[Any], *, sent: bool | None = None) -> Standing:
    return Standing(
        status=row.status,
        sent=row.status == "begun" if sent is None else sent,
        result=row.result if row.status == "done" else None,
        attempts=row.attempts,
        failures=row.failures,
        began_at=row.began_at,
        last_sent_at=row.last_sent_at or row.began_at,
    )
