"""Commands by which people look after tasks: the list, done, reopen. They need no server."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from client import output
from client.commands import common
from domain import errors

if TYPE_CHECKING:
    from store.tasks import Tasks

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Id = Annotated[int, typer.Argument(metavar="ID", help="The task's id, as `dayflow tasks` shows it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(invoke_without_command=True, callback=list_tasks)
    group.command()(done)
    group.command()(reopen)
    app.add_typer(group, name="tasks")


def list_tasks(
    ctx: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Done ones too.")] = False,
    json: Json = False,
) -> None:
    """List the open tasks, oldest first; or close one, or open it again.

    Example: `dayflow tasks done 3`
    """
    if ctx.invoked_subcommand is None:
        common.run_async(_list(everything, json))


def done(task_id: Id) -> None:
    """Mark a task as done; no new one is made of its source. `dayflow tasks reopen` undoes it."""
    common.run_async(_done(task_id))


def reopen(task_id: Id) -> None:
    """Open a task again that was done."""
    common.run_async(_reopen(task_id))


async def _list(everything: bool, json: bool) -> None:
    async with _tasks() as kept:
        rows, _ = await kept.list("all" if everything else "open", limit=10_000)
    if json:
        output.as_json(rows)
    elif not rows:
        output.say("No open tasks. `dayflow brief` makes them from the inbox and the calendar.")
    else:
        columns = ("id", "title", "due", "status", "source_id")
        output.table(columns, [[row[name] for name in columns] for row in rows])


async def _done(task_id: int) -> None:
    async with _tasks() as kept:
        task = (await kept.complete(f"person-{uuid.uuid4()}", task_id))["task"]
    output.say(f"done: task {task_id}, {task['title']}; `dayflow tasks reopen {task_id}` undoes it")


async def _reopen(task_id: int) -> None:
    async with _tasks() as kept:
        task = (await kept.reopen(f"person-{uuid.uuid4()}", task_id))["task"]
    output.say(f"open again: task {task_id}, {task['title']}")


@asynccontextmanager
async def _tasks() -> "AsyncIterator[Tasks]":
    """The tasks of the namespace that this machine is set to."""
    from client import connection
    from store.tasks import Tasks

    async with common.store() as database:
        try:
            yield Tasks(database, connection.namespace())
        except errors.ToolFailed as error:
            said = str(error).partition(";")[0]
            raise errors.Refused(f"{said}; `dayflow tasks --all` lists those that exist") from None
