"""One call of one effect, as a worker makes it; as a program it can be killed at any crash point.

`python one_call.py TOOL KEY ARGUMENTS` reads its settings from the environment, and prints the result.
"""

import asyncio
import dataclasses
import json
import sys
from typing import Any

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


async def main(name: str, key: str, arguments: str) -> None:
    """The program."""
    wanted = settings.load()
    store = await database.connect(wanted)
    try:
        print((await carry_out(wanted, store, name, key, json.loads(arguments))).model_dump_json())
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
