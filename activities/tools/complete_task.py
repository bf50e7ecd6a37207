"""complete_task: marks a task as done."""

from typing import Annotated, Any

from pydantic import Field

from activities import tasks
from activities.tool import Arguments, Context, Tool
from domain.tool import Effect
from store.tasks import Tasks


class CompleteTask(Arguments):
    """Mark a task as done. Answers {"task": {...}}; to complete a task that is done changes nothing."""

    task_id: Annotated[int, Field(gt=0, description="The id of the task, as read_tasks gives it.")]


async def complete_task(arguments: CompleteTask, context: Context) -> dict[str, Any]:
    """Complete it in the task store, which checks the key."""
    return await Tasks(context.database, context.namespace).complete(context.idempotency_key, arguments.task_id)


TOOL = Tool(
    run=complete_task,
    arguments=CompleteTask,
    declares=Effect(safety="key", held_intent="destination"),
    intent=lambda arguments, context: f"complete-task:{arguments.task_id}",
    reconcile=tasks.reconcile,
)
