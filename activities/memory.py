"""Memory as a destination: it remembers every key for ever, and can be asked."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from activities import cleaning
from activities.tool import Arguments, Context, Found, Happened, Verdict
from domain import errors, memory
from domain.memory import Said, Trust
from store.memory import Memory

Namespace = Annotated[
    str,
    Field(
        max_length=memory.LONGEST_NAMESPACE,
        description="Whose memory, and of what: names of [a-z0-9_-] with '/' between them, as in user_481/preferences.",
    ),
]
EntryId = Annotated[int, Field(description="The entry's id, as recall gave it.")]


def of(context: Context) -> Memory:
    """The memory of the namespace that this worker serves."""
    return Memory(context.database, context.namespace)


def now() -> datetime:
    """The time of what is done now."""
    return datetime.now(UTC)


async def trust(said_by: Said, context: Context) -> Trust:
    """What this run's word is worth at this step, whoever it says has said it."""
    heard = await of(context).heard(context.run_id, _step(context))
    return memory.lowest([memory.TRUST_OF[said_by], heard])


def refuse_known_secrets(text: str, context: Context) -> None:
    """No secret of this worker is stored, whatever its form."""
    if any(secret in text for secret in cleaning.known_secrets(context.settings)):
        raise errors.ToolFailed("The text holds a secret of this system, which is never stored. Nothing was stored.")


async def reconcile(arguments: Arguments, context: Context) -> Found:
    """Whether the memory store has a commit of this key."""
    answer = await of(context).answer(context.idempotency_key)
    return Verdict.DID_NOT_HAPPEN if answer is None else Happened(answer)


def _step(context: Context) -> int:
    """The step of an action's id, such as `s4.1-3fa9c2`."""
    return int(context.action_id.removeprefix("s").partition(".")[0])
