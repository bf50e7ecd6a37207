"""Heartbeats from a timer, so that a silent model or a slow tool is not taken for a dead worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

# How long an attempt that begins late listens for the server's word that it was given up.
LISTENS_S = 1.0


class Heartbeats(Interceptor):
    """Beats for each activity that has a heartbeat timeout."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Stand before each activity."""
        return _Beating(next)


class _Beating(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        async with beating():
            return await super().execute_activity(input)


@asynccontextmanager
async def beating() -> AsyncIterator[None]:
    """Beat three times in each heartbeat timeout, for as long as the block runs.

    An attempt that was handed to a stopped process is given up before it begins: it is cancelled here, and sends
    nothing.
    """
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return
    if datetime.now(UTC) - activity.info().started_time > timeout:
        activity.heartbeat()
        await asyncio.sleep(LISTENS_S)
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
