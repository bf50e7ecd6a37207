"""What the contract test has to know of `recall`."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select

from activities.tool import Context
from domain.memory import Source
from store.memory import Fact, Memory
from store.schema import memory_commits

ARGUMENTS: dict[str, Any] = {"namespace": "user_481/preferences", "query": "briefs"}
OTHER_ARGUMENTS: dict[str, Any] = {"namespace": "user_481/preferences", "query": "German"}


async def arrange(context: Context) -> None:
    """An entry to recall."""
    fact = Fact("user_481/preferences", "Mara wants her briefs in German.", "fact", Source(said_by="user"), "trusted")
    await Memory(context.database, context.namespace).remember("arranged", datetime.now(UTC), fact)


async def commits(context: Context) -> int:
    """The commits of this key."""
    mine = memory_commits.c.idempotency_key == context.idempotency_key
    async with context.database.reading() as connection:
        return int((await connection.execute(select(func.count()).where(mine))).scalar_one())
