"""The task store: a destination that checks the idempotency key, and takes one task for each source."""

from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Row, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from domain import digest, errors
from store.database import Database
from store.schema import task_commits, tasks

LARGEST_ID = 2**31 - 1
# A longer one does not fit into an index entry of Postgres.
LONGEST_SOURCE_BYTES = 2_000

Shown = Literal["open", "done", "all"]


class Tasks:
    """The tasks of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def list(self, shown: Shown = "open", limit: int = 200) -> "tuple[list[dict[str, Any]], int]":
        """Tasks, oldest first, and how many are open in all."""
        mine = tasks.c.namespace == self._namespace
        wanted = select(tasks).where(mine).order_by(tasks.c.id).limit(limit)
        if shown != "all":
            wanted = wanted.where(tasks.c.status == shown)
        async with self._database.reading() as connection:
            rows = (await connection.execute(wanted)).all()
            open_ = (await connection.execute(select(func.count()).where(mine, tasks.c.status == "open"))).scalar_one()
        return [_shape(row) for row in rows], open_

    async def create(
        self, key: str, run_id: str, *, title: str, source_id: str, due: str | None, notes: str | None
    ) -> dict[str, Any]:
        """Create the task of a source, or give back the one that the source already has.

        The same key gives the same answer again; with other arguments it is an `errors.ArgumentsChanged`.
        """
        arguments = {"title": title, "source_id": source_id, "due": due, "notes": notes}
        if len(source_id.encode(errors="replace")) > LONGEST_SOURCE_BYTES:
            raise errors.ToolFailed(f"the source_id is longer than {LONGEST_SOURCE_BYTES} bytes")
        async with self._database.transaction(key, f"{self._namespace}\n{source_id}") as connection:
            if known := await self._known(connection, key, "create", arguments):
                return known
            row = await self._of_source(connection, source_id)
            created = row is None
            if row is None:
                row = await self._insert(connection, key, run_id, arguments)
            answer = {"task": _shape(row), "created": created}
            await self._commit(connection, key, "create", arguments, row.id, answer)
            return answer

    async def complete(self, key: str, task_id: int) -> dict[str, Any]:
        """Mark a task as done; an `errors.ToolFailed` if there is none of that id."""
        return await self._mark(key, "complete", task_id, "done", datetime.now(UTC))

    async def reopen(self, key: str, task_id: int) -> dict[str, Any]:
        """The other way round."""
        return await self._mark(key, "reopen", task_id, "open", None)

    async def answer(self, key: str) -> dict[str, Any] | None:
        """What a key was answered, if it was committed."""
        async with self._database.reading() as connection:
            wanted = select(task_commits.c.answer).where(task_commits.c.idempotency_key == key)
            found: dict[str, Any] | None = (await connection.execute(wanted)).scalar_one_or_none()
            return found

    async def _mark(
        self, key: str, operation: str, task_id: int, status: str, done_at: datetime | None
    ) -> dict[str, Any]:
        if task_id > LARGEST_ID:
            raise errors.ToolFailed(f"there is no task {task_id}; read_tasks lists those that exist")
        async with self._database.transaction(key, f"{self._namespace}\n{task_id}") as connection:
            if known := await self._known(connection, key, operation, {"task_id": task_id}):
                return known
            mine = (tasks.c.namespace == self._namespace) & (tasks.c.id == task_id)
            row = (await connection.execute(select(tasks).where(mine))).one_or_none()
            if row is None:
                raise errors.ToolFailed(f"there is no task {task_id}; read_tasks lists those that exist")
            if row.status != status:
                await connection.execute(update(tasks).where(mine).values(status=status, done_at=done_at))
                row = (await connection.execute(select(tasks).where(mine))).one()
            answer = {"task": _shape(row)}
            await self._commit(connection, key, operation, {"task_id": task_id}, task_id, answer)
            return answer

    async def _known(
        self, connection: AsyncConnection, key: str, operation: str, arguments: dict[str, Any]
    ) -> dict[str, Any] | None:
        row = (
            await connection.execute(select(task_commits).where(task_commits.c.idempotency_key == key))
        ).one_or_none()
        if row is None:
            return None
        if (row.operation, row.digest) != (operation, digest.sha256(arguments)):
            raise errors.ArgumentsChanged(f"the task store knows the key {key} with other arguments")
        answer: dict[str, Any] = row.answer
        return answer

    async def _of_source(self, connection: AsyncConnection, source_id: str) -> Row[Any] | None:
        mine = (tasks.c.namespace == self._namespace) & (tasks.c.source_id == source_id)
        return (await connection.execute(select(tasks).where(mine))).one_or_none()

    async def _insert(self, connection: AsyncConnection, key: str, run_id: str, arguments: dict[str, Any]) -> Row[Any]:
        values = {**arguments, "namespace": self._namespace, "idempotency_key": key, "run_id": run_id}
        new = insert(tasks).values(**values, status="open", created_at=datetime.now(UTC)).returning(tasks)
        row: Row[Any] = (await connection.execute(new)).one()
        return row

    async def _commit(
        self,
        connection: AsyncConnection,
        key: str,
        operation: str,
        arguments: dict[str, Any],
        task_id: int,
        answer: dict[str, Any],
    ) -> None:
        await connection.execute(
            insert(task_commits).values(
                idempotency_key=key,
                operation=operation,
                digest=digest.sha256(arguments),
                task_id=task_id,
                answer=answer,
                committed_at=datetime.now(UTC),
            )
        )


def _shape(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.id,
        "title": row.title,
        "status": row.status,
        "source_id": row.source_id,
        "due": row.due,
        "notes": row.notes,
        "created_at": row.created_at.isoformat(),
        "done_at": row.done_at.isoformat() if row.done_at else None,
    }
