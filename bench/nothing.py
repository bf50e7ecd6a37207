"""The floor: as many activities, in the same order, that do nothing."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow

FIRST, SECOND = "nothing", "nothing_beside"
TIMEOUT = timedelta(minutes=1)


@workflow.defn(name="Nothing")
class Nothing:
    """One activity, then two side by side, and so on; one more at the end, where a run gives its answer."""

    @workflow.run
    async def run(self, steps: int) -> None:
        """Do nothing, step by step."""
        for _ in range(steps):
            await self._activity(FIRST)
            await asyncio.gather(self._activity(SECOND), self._activity(SECOND))
        await self._activity(FIRST)

    async def _activity(self, name: str) -> Any:
        return await workflow.execute_activity(name, start_to_close_timeout=TIMEOUT)


@activity.defn(name=FIRST)
async def nothing() -> None:
    """Do nothing."""


@activity.defn(name=SECOND)
async def nothing_beside() -> None:
    """Do nothing, beside another."""
