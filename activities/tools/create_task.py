"""create_task: one task for one message or event, never two."""

from datetime import date
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from activities import tasks
from activities.tool import Arguments, Context, Tool
from domain.tool import Effect
from store.tasks import Tasks

Text = StringConstraints(strip_whitespace=True, min_length=1)


class CreateTask(Arguments):
    """Create a task for a message or an event. There is one task for each source at the most.

    Answers {"task": {...}, "created": true}, or the task that the source already has with "created": false.
    """

    title: Annotated[str, Text, Field(max_length=200, description="What is to be done, in a few words.")]
    source_id: Annotated[
        str, Text, Field(max_length=1000, description="The id of the message or event, exactly as it was read.")
    ]
    due: Annotated[date | None, Field(description="Until when, as YYYY-MM-DD, if the source says so.")] = None
    notes: Annotated[str | None, Field(max_length=2000, description="What helps to do it.")] = None


async def create_task(arguments: CreateTask, context: Context) -> dict[str, Any]:
    """Create it in the task store, which checks the key and the source."""
    return await Tasks(context.database, context.namespace).create(
        context.idempotency_key,
        context.run_id,
        title=arguments.title,
        source_id=arguments.source_id,
        due=arguments.due.isoformat() if arguments.due else None,
        notes=arguments.notes,
    )


def intent(arguments: CreateTask, context: Context) -> str:
    """The source says which task it is, whatever words the model picks."""
    return f"task:{arguments.source_id}"


TOOL = Tool(
    run=create_task,
    arguments=CreateTask,
    declares=Effect(safety="key", held_intent="destination"),
    intent=intent,
    reconcile=tasks.reconcile,
)
