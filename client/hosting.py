"""A worker in the foreground: waits for its server, runs until it is told to stop."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from temporalio.client import Client
from temporalio.service import RPCError

from client import connection, contact, output
from domain import errors
from store.settings import Settings

Host = Callable[[Client, Settings, str], AbstractAsyncContextManager[None]]
AGAIN_S = 0.2


async def serve(host: Host, settings: Settings, task_queue: str, wait: float) -> None:
    """Run a worker until SIGTERM or SIGINT; a second one ends it at once."""
    stop = _stop_on_signals()
    client = await _connected(settings, wait, stop)
    if client is None:
        return
    address = connection.address(settings)
    try:
        async with host(client, settings, task_queue):
            output.say(f"worker ready: task queue {task_queue}, {address}, pid {os.getpid()}")
            await stop.wait()
            output.say("worker stopping: what it works on is given back, and goes on elsewhere or later")
    except (RuntimeError, ValueError, RPCError) as error:
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        raise errors.DayflowError(
            f"the worker for {task_queue!r} at {address} cannot run: {error}{cause}. `dayflow doctor` checks its needs."
        ) from error


async def _connected(settings: Settings, wait: float, stop: asyncio.Event) -> Client | None:
    """A client, once the server answers; None when told to stop before."""
    deadline, told = time.monotonic() + wait, False
    while not stop.is_set():
        try:
            return await contact.probe(settings)
        except (errors.Unreachable, errors.BadSetting) as error:
            if time.monotonic() >= deadline:
                raise
            if not told:
                output.note(f"{error} Trying again for {wait:.0f} s.")
            told = True
            await _pause(stop, AGAIN_S)
    return None


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def _stop_on_signals() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def told() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    return stop
