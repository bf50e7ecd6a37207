"""What the store keeps of runs that are over: found by age, and deleted; and which of them people keep."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from domain.retention import Mark
from store.database import Database
from store.schema import claims, expiries, ledger, memory_commits, sources, task_commits

# What an effect's row may say when it goes: whether it happened is certain.
SETTLED = ("done", "failed")

_ENDED_AT = func.coalesce(ledger.c.ended_at, ledger.c.last_sent_at, ledger.c.began_at)


class Expiry:
    """The expiry of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def marks(self, runs: Collection[str]) -> dict[str, Mark]:
        """What is noted of these runs."""
        async with self._database.reading() as connection:
            rows = (await connection.execute(select(expiries).where(self._these(expiries, runs)))).all()
        return {row.run_id: Mark(marked_at=row.marked_at, kept_by=row.kept_by) for row in rows}

    async def mark(self, runs: Sequence[str], at: datetime) -> None:
        """Let the grace period of these runs begin; done twice, it begins once."""
        for run in runs:
            async with self._database.transaction(self._lock(run)) as connection:
                await self._note(connection, run, marked_at=at)

    async def keep(self, run: str, by: str | None) -> None:
        """Let a run be kept, whatever its age, until None keeps it."""
        async with self._database.transaction(self._lock(run)) as connection:
            # Its grace period begins anew where nobody keeps it any more.
            await self._note(connection, run, kept_by=by, marked_at=None)

    async def forget(self, run: str) -> None:
        """Drop what is noted of a run that is gone."""
        async with self._database.transaction(self._lock(run)) as connection:
            await connection.execute(delete(expiries).where(self._these(expiries, [run])))

    async def with_open_effects(self, runs: Collection[str]) -> set[str]:
        """Which of these runs have an effect that may or may not have happened."""
        wanted = select(ledger.c.run_id).where(self._these(ledger, runs), _effect(), ledger.c.status.not_in(SETTLED))
        async with self._database.reading() as connection:
            return set((await connection.execute(wanted)).scalars())

    async def old_calls(self, before: datetime, after: str, limit: int) -> list[tuple[str, str]]:
        """Key and run of model calls that ended before, by their keys."""
        return await self._old(ledger.c.kind == "model", before, after, limit)

    async def old_effects(self, before: datetime, after: str, limit: int) -> list[tuple[str, str]]:
        """The same for effects of which it is certain whether they happened."""
        return await self._old(_effect() & ledger.c.status.in_(SETTLED), before, after, limit)

    async def old_commits(self, before: datetime, after: str, limit: int) -> list[tuple[str, str | None]]:
        """Key and run of what memory committed before; a person has no run, and one of an open effect stays."""
        mine, key = memory_commits.c.namespace == self._namespace, memory_commits.c.idempotency_key
        unsure = select(ledger.c.key).where(ledger.c.key == key, ledger.c.status.not_in(SETTLED))
        old = mine & (memory_commits.c.committed_at < before) & (key > after) & ~unsure.exists()
        wanted = select(key, memory_commits.c.run_id).where(old).order_by(key).limit(limit)
        async with self._database.reading() as connection:
            return [(row.idempotency_key, row.run_id) for row in await connection.execute(wanted)]

    async def old_claims(self, before: datetime, after: str, limit: int) -> list[tuple[str, str]]:
        """Run ids that were claimed before, and under which the ledger has nothing any more; twice, as run and name."""
        rows = select(ledger.c.key).where(ledger.c.namespace == self._namespace, ledger.c.run_id == claims.c.run_id)
        mine = (claims.c.namespace == self._namespace) & (claims.c.claimed_at < before) & (claims.c.run_id > after)
        wanted = select(claims.c.run_id).where(mine, ~rows.exists()).order_by(claims.c.run_id).limit(limit)
        async with self._database.reading() as connection:
            return [(run, run) for run in (await connection.execute(wanted)).scalars()]

    async def delete_calls(self, keys: Sequence[str]) -> None:
        """Delete the rows of model calls."""
        async with self._database.transaction() as connection:
            await connection.execute(delete(ledger).where(ledger.c.key.in_(keys), ledger.c.kind == "model"))

    async def delete_effects(self, keys: Sequence[str]) -> None:
        """Delete the rows of effects, with what the task store answered under their keys."""
        settled = _effect() & ledger.c.status.in_(SETTLED)
        async with self._database.transaction(*keys) as connection:
            await connection.execute(delete(ledger).where(ledger.c.key.in_(keys), settled))
            left = select(ledger.c.key).where(ledger.c.key == task_commits.c.idempotency_key)
            answers = task_commits.c.idempotency_key.in_(keys) & ~left.exists()
            await connection.execute(delete(task_commits).where(answers))

    async def delete_commits(self, keys: Sequence[str]) -> None:
        """Delete what memory has noted under these keys; the entries stay."""
        async with self._database.transaction(*keys) as connection:
            await connection.execute(delete(memory_commits).where(memory_commits.c.idempotency_key.in_(keys)))

    async def delete_claims(self, runs: Sequence[str]) -> None:
        """Let run ids be used again."""
        async with self._database.transaction(*map(self._lock, runs)) as connection:
            await connection.execute(delete(sources).where(self._these(sources, runs)))
            await connection.execute(delete(claims).where(self._these(claims, runs)))

    async def other_namespaces(self) -> set[str]:
        """Which other namespaces have runs in this store."""
        wanted = select(claims.c.namespace).where(claims.c.namespace != self._namespace).distinct()
        async with self._database.reading() as connection:
            return set((await connection.execute(wanted)).scalars())

    async def _old(self, which: ColumnElement[bool], before: datetime, after: str, limit: int) -> list[tuple[str, str]]:
        mine = (ledger.c.namespace == self._namespace) & (ledger.c.key > after) & (before > _ENDED_AT)
        wanted = select(ledger.c.key, ledger.c.run_id).where(mine, which).order_by(ledger.c.key).limit(limit)
        async with self._database.reading() as connection:
            return [(row.key, row.run_id) for row in await connection.execute(wanted)]

    async def _note(self, connection: AsyncConnection, run: str, **values: Any) -> None:
        mine = self._these(expiries, [run])
        known = (await connection.execute(select(expiries).where(mine))).one_or_none()
        if known is None:
            names = {"namespace": self._namespace, "run_id": run, "noted_at": datetime.now(UTC)}
            await connection.execute(insert(expiries).values(**names, **values))
        else:
            await connection.execute(update(expiries).where(mine).values(**values))

    def _these(self, table: Any, runs: Collection[str]) -> ColumnElement[bool]:
        found: ColumnElement[bool] = (table.c.namespace == self._namespace) & table.c.run_id.in_(runs)
        return found

    def _lock(self, run: str) -> str:
        return f"{self._namespace}\n{run}"


def _effect() -> ColumnElement[bool]:
    return ledger.c.kind == "effect"
