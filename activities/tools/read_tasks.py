"""read_tasks: the task list."""

from typing import Any, Literal

from pydantic import Field

from activities.tool import Arguments, Context, Tool
from domain.tool import Read
from store.tasks import Tasks


class ReadTasks(Arguments):
    """Read the task list, oldest first.

    Answers {"open": how many are open in all, "tasks": [{"id", "title", "status", "source_id", "due", "notes",
    "created_at", "done_at"}]}. `source_id` is the message or event that a task came from.
    """

    status: Literal["open", "done", "all"] = Field("open", description="Which tasks to list.")


async def read_tasks(arguments: ReadTasks, context: Context) -> dict[str, Any]:
    """List them."""
    rows, open_ = await Tasks(context.database, context.namespace).list(arguments.status)
    return {"open": open_, "tasks": rows}


TOOL = Tool(run=read_tasks, arguments=ReadTasks, declares=Read())
