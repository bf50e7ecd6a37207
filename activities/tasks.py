"""The task store as a destination: it remembers every key for ever, and can be asked."""

from activities.tool import Arguments, Context, Found, Happened, Verdict
from store.tasks import Tasks


async def reconcile(arguments: Arguments, context: Context) -> Found:
    """Whether the task store has a commit of this key."""
    answer = await Tasks(context.database, context.namespace).answer(context.idempotency_key)
    return Verdict.DID_NOT_HAPPEN if answer is None else Happened(answer)
