"""Runs that are asked how they stand, until they stand as wanted."""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio.client import WorkflowHandle


async def until(handle: WorkflowHandle[Any, Any], look: Callable[[Any], Any], query: str = "record") -> Any:
    """Wait until the record, or what else is asked for, is as wanted."""
    async with asyncio.timeout(30):
        while not look(answer := await handle.query(query)):  # noqa: ASYNC110  a query is all that there is
            await asyncio.sleep(0.02)
    return answer
