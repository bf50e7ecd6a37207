"""What the store keeps of a run besides its history: the claim on its id, and where it reads from."""

from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from domain import errors
from store.database import Database
from store.schema import claims, sources


class Runs:
    """Claims and sources of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def claim(self, run_id: str, first_execution_run_id: str) -> None:
        """Take the run id for this run, once and for ever; `errors.BadRequest` if another run had it."""
        values = {"namespace": self._namespace, "run_id": run_id, "first_execution_run_id": first_execution_run_id}
        try:
            async with self._database.transaction() as connection:
                await connection.execute(insert(claims).values(**values, claimed_at=datetime.now(UTC)))
        except IntegrityError:
            holder = await self._holder(run_id)
            if holder != first_execution_run_id:
                raise _used(run_id, holder) from None

    async def set_sources(self, run_id: str, inbox: Path | None, calendar: Path | None) -> None:
        """Say where a run reads its inbox and calendar, before it starts; `errors.BadRequest` if it has begun."""
        if (holder := await self._holder(run_id)) is not None:
            raise _used(run_id, holder)
        mine = (sources.c.namespace == self._namespace) & (sources.c.run_id == run_id)
        values = {"inbox": str(inbox) if inbox else None, "calendar": str(calendar) if calendar else None}
        async with self._database.transaction(f"{self._namespace}\n{run_id}") as connection:
            await connection.execute(delete(sources).where(mine))
            await connection.execute(insert(sources).values(namespace=self._namespace, run_id=run_id, **values))

    async def sources(self, run_id: str) -> tuple[Path | None, Path | None]:
        """Inbox and calendar of a run, where it has its own."""
        mine = (sources.c.namespace == self._namespace) & (sources.c.run_id == run_id)
        async with self._database.reading() as connection:
            row = (await connection.execute(select(sources).where(mine))).one_or_none()
        if row is None:
            return None, None
        return (Path(row.inbox) if row.inbox else None), (Path(row.calendar) if row.calendar else None)

    async def _holder(self, run_id: str) -> str | None:
        mine = (claims.c.namespace == self._namespace) & (claims.c.run_id == run_id)
        async with self._database.reading() as connection:
            return (await connection.execute(select(claims.c.first_execution_run_id).where(mine))).scalar_one_or_none()


def _used(run_id: str, holder: str | None) -> errors.BadRequest:
    return errors.BadRequest(
        f"the workflow id {run_id!r} was used by an earlier run ({holder}); start with another --workflow-id"
    )
