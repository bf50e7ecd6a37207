"""Heartbeats from a timer, so that a silent model or a slow tool is not taken for a dead worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from temporalio import activity


@asynccontextmanager
async def beating() -> AsyncIterator[None]:
    """Beat three times in each heartbeat timeout, for as long as the block runs."""
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return
    beat = asyncio.create_task(_beat(timeout.total_seconds() / 3))
    try:
        yield
    finally:
        beat.cancel()
        with suppress(asyncio.CancelledError):
            await beat


async def _beat(interval: float) -> None:
    while True:
        await asyncio.sleep(interval)
        activity.heartbeat()
