"""What the contract test has to know of `complete_task`."""

from typing import Any

from sqlalchemy import func, select

from activities.tool import Context
from store.schema import task_commits
from store.tasks import Tasks

ARGUMENTS: dict[str, Any] = {"task_id": 1}
OTHER_ARGUMENTS: dict[str, Any] = {"task_id": 2}


async def arrange(context: Context) -> None:
    """Two tasks."""
    for n in (1, 2):
        told = {"title": f"Task {n}", "source_id": f"mail-{n}", "due": None, "notes": None}
        await Tasks(context.database, context.namespace).create(f"arranged-{n}", context.run_id, **told)


async def commits(context: Context) -> int:
    """The journal of the task store."""
    made = select(func.count()).where(task_commits.c.idempotency_key == context.idempotency_key)
    async with context.database.reading() as connection:
        return int((await connection.execute(made)).scalar_one())
