"""What the contract test has to know of `remember`."""

from typing import Any

from sqlalchemy import func, select

from activities.tool import Context
from store.schema import memory, memory_commits

ARGUMENTS: dict[str, Any] = {
    "namespace": "user_481/preferences",
    "text": "Mara wants her briefs in German.",
    "kind": "preference",
    "said_by": "user",
}
OTHER_ARGUMENTS: dict[str, Any] = ARGUMENTS | {"text": "Mara wants her briefs in French."}


async def commits(context: Context) -> int:
    """The commits of this key; there are never more entries than those."""
    mine = memory_commits.c.idempotency_key == context.idempotency_key
    async with context.database.reading() as connection:
        count = int((await connection.execute(select(func.count()).where(mine))).scalar_one())
        assert count == (await connection.execute(select(func.count()).select_from(memory))).scalar_one()
    return count
