"""What the contract test has to know of `forget`."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select

from activities.tool import Context
from domain.memory import Source
from store.memory import Fact, Memory
from store.schema import memory

ARGUMENTS: dict[str, Any] = {"namespace": "user_481", "id": 1}
OTHER_ARGUMENTS: dict[str, Any] = {"namespace": "user_481", "id": 2}


async def arrange(context: Context) -> None:
    """Two entries."""
    for text in ("Mara likes tea.", "Jun likes coffee."):
        fact = Fact("user_481", text, "fact", Source(said_by="user"), "trusted")
        await Memory(context.database, context.namespace).remember(text, datetime.now(UTC), fact)


async def commits(context: Context) -> int:
    """The entries that were taken out."""
    async with context.database.reading() as connection:
        return int((await connection.execute(select(func.count()).where(memory.c.ended.is_not(None)))).scalar_one())
