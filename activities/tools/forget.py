"""forget: takes an entry out of memory."""

from typing import Any

from activities import memory
from activities.memory import EntryId, Namespace
from activities.tool import Arguments, Context, Tool
from domain.tool import Effect


class Forget(Arguments):
    """Take an entry out of memory that is wrong or no longer needed. A person can undo it for some days.

    For a fact that has changed, `remember` with `updates` instead. Answers {"id", "forgotten": true}.
    """

    namespace: Namespace
    id: EntryId


async def forget(arguments: Forget, context: Context) -> dict[str, Any]:
    """Take it out in the memory store, which checks the key."""
    return await memory.of(context).forget(
        context.idempotency_key, context.run_id, memory.now(), scope=arguments.namespace, entry_id=arguments.id
    )


TOOL = Tool(run=forget, arguments=Forget, declares=Effect(safety="key"), reconcile=memory.reconcile)
