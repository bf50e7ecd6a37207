"""One call of one effect, as a worker makes it; in a process of its own it can be killed at any crash point."""

import asyncio
import dataclasses
import os
from typing import Any

from homes import FOREIGN
from temporalio.testing import ActivityEnvironment

from activities.runner import Runner
from activities.tool import Context
from activities.tools import discover
from domain.tool import ToolCall, ToolResult
from store import database, settings
from store.database import Database
from store.settings import Settings

RUN, ACTION = "contract", "s1.1-abcdef"


def context(wanted: Settings, store: Database, key: str) -> Context:
    """What the tool knows of the action."""
    return Context(
        settings=wanted,
        database=store,
        namespace="default",
        run_id=RUN,
        action_id=ACTION,
        idempotency_key=key,
        attempt=1,
    )


async def carry_out(wanted: Settings, store: Database, name: str, key: str, arguments: dict[str, Any]) -> ToolResult:
    """One attempt, through the ledger."""
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, workflow_id=RUN, namespace="default")
    call = ToolCall(step=1, position=1, action_id=ACTION, tool=name, arguments=arguments, idempotency_key=key)
    result: ToolResult = await environment.run(Runner(wanted, store).run, discover()[name], call)
    return result


def program(env: dict[str, str], name: str, key: str, arguments: dict[str, Any]) -> None:
    """One attempt in this process, with these variables and no others of ours."""
    for variable in [one for one in os.environ if one.startswith(FOREIGN)]:
        del os.environ[variable]
    os.environ.update(env)
    asyncio.run(_call(name, key, arguments))


async def _call(name: str, key: str, arguments: dict[str, Any]) -> None:
    wanted = settings.load()
    store = await database.connect(wanted)
    try:
        await carry_out(wanted, store, name, key, arguments)
    finally:
        await store.close()
