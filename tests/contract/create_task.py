"""What the contract test has to know of `create_task`."""

from typing import Any

from sqlalchemy import func, select

from activities.tool import Context
from store.schema import tasks

ARGUMENTS: dict[str, Any] = {"title": "Call Ana back", "source_id": "mail-1", "due": "2026-12-01"}
OTHER_ARGUMENTS: dict[str, Any] = {"title": "Call Ben back", "source_id": "mail-2"}


async def commits(context: Context) -> int:
    """The tasks that this key made."""
    made = select(func.count()).where(tasks.c.idempotency_key == context.idempotency_key)
    async with context.database.reading() as connection:
        return int((await connection.execute(made)).scalar_one())
