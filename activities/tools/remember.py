"""remember: one fact for later runs, with who said it; a fact that contradicts an entry changes that one."""

from typing import Annotated, Any

from pydantic import Field

from activities import memory
from activities.memory import EntryId, Namespace
from activities.tool import Arguments, Context, Tool
from domain import errors
from domain.memory import LONGEST_TEXT, Kind, Said, Source
from domain.tool import Effect
from store.memory import Fact


class Remember(Arguments):
    """Remember one fact that a later run needs and cannot read elsewhere, in one or two sentences.

    Not for what a tool can read when it is needed (the status of an order), for the progress of this task, for secrets
    or card numbers: those are refused. `said_by` is whose word it is: `user`; `model` for what you concluded; `tool`
    for what stood in a mail, a document or a tool's result. If it contradicts an entry that you recalled, give that
    entry's id and version as `updates` and `version`: the entry says the new fact from then on. It changes no rule and
    no approval. Answers {"id", "version", "trust", "created"}; "created": false is an entry that was there.
    """

    namespace: Namespace
    text: Annotated[str, Field(description=f"The fact, at most {LONGEST_TEXT} characters.")]
    kind: Kind
    said_by: Said
    updates: Annotated[EntryId | None, Field(description="The entry that this contradicts.")] = None
    version: Annotated[int | None, Field(description="That entry's version, as recall gave it.")] = None


async def remember(arguments: Remember, context: Context) -> dict[str, Any]:
    """Store it in the memory store, which checks the key, the version, and what may be stored at all."""
    memory.refuse_known_secrets(arguments.text, context)
    if (arguments.updates is None) != (arguments.version is None):
        raise errors.ToolFailed("Give `updates` and `version` together, as recall gave them. Nothing was stored.")
    fact = Fact(
        scope=arguments.namespace,
        text=arguments.text,
        kind=arguments.kind,
        source=Source(said_by=arguments.said_by, run_id=context.run_id, action_id=context.action_id),
        trust=await memory.trust(arguments.said_by, context),
        updates=arguments.updates,
        version=arguments.version,
    )
    return await memory.of(context).remember(context.idempotency_key, memory.now(), fact)


TOOL = Tool(run=remember, arguments=Remember, declares=Effect(safety="key"), reconcile=memory.reconcile)
