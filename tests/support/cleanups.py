"""Clean-ups that tests start and wait for, and entries of memory that are older than the test."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from homes import Home
from script import unique
from temporalio.client import Client

from client.converter import converter
from domain.memory import Source
from store import database
from store.memory import Fact, Memory

QUEUE = "tidy"


async def client(home: Home) -> Client:
    """A client of the home's server."""
    return await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(home.settings))


def begun(home: Home, *, dry_run: bool = False, queue: str = QUEUE, **ages: float) -> str:
    """Start a clean-up; its id."""
    run_id = unique("tidy")

    async def go() -> None:
        wanted = {"dry_run": dry_run, "ages": ages}
        await (await client(home)).start_workflow("Retention", wanted, id=run_id, task_queue=queue)

    asyncio.run(go())
    return run_id


def result(home: Home, run_id: str) -> dict[str, Any]:
    """The report of a clean-up, once it has come to its end."""

    async def wait() -> dict[str, Any]:
        async with asyncio.timeout(90):
            told: dict[str, Any] = await (await client(home)).get_workflow_handle(run_id).result()
            return told

    return asyncio.run(wait())


def clean_up(home: Home, **how: Any) -> dict[str, Any]:
    """A whole clean-up; its report."""
    return result(home, begun(home, **how))


def remembered(home: Home, scope: str, days_ago: dict[str, float]) -> dict[str, int]:
    """Store facts that a person said so many days ago; the ids of their entries."""

    async def store() -> dict[str, int]:
        opened = await database.connect(home.settings)
        kept, ids = Memory(opened, "default"), {}
        for text, days in days_ago.items():
            fact = Fact(scope, text, "fact", Source(said_by="user"), "trusted")
            answer = await kept.remember(unique("long-ago"), datetime.now(UTC) - timedelta(days=days), fact)
            ids[text] = answer["id"]
        await opened.close()
        return ids

    return asyncio.run(store())


def forgotten(home: Home, entry_id: int, days_ago: float) -> None:
    """Take an entry out as of so many days ago."""

    async def forget() -> None:
        opened = await database.connect(home.settings)
        kept = Memory(opened, "default")
        entry, _ = await kept.show(entry_id)
        at = datetime.now(UTC) - timedelta(days=days_ago)
        await kept.forget(unique("long-ago"), None, at, scope=entry.namespace, entry_id=entry_id)
        await opened.close()

    asyncio.run(forget())
