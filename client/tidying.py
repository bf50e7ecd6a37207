"""Clean-ups by hand: one started and waited for, and the report of the last one."""

import secrets
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowFailureError

from client.dayflow import TASK_QUEUE
from domain import errors
from domain.retention import Report, Wanted
from store.settings import Settings
from workflows.steps import TASK_TIMEOUT

DONE = 'WorkflowType = "Retention" AND ExecutionStatus = "Completed"'


async def clean_up(client: Client, settings: Settings, *, dry_run: bool) -> Report:
    """Start one that goes by these settings, and wait for its report."""
    wanted = Wanted(dry_run=dry_run, ages=settings.ages)
    now = datetime.now(UTC)
    try:
        told = await client.execute_workflow(
            "Retention",
            wanted.model_dump(exclude_none=True),
            id=f"dayflow-retention-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            task_queue=TASK_QUEUE,
            task_timeout=TASK_TIMEOUT,
        )
    except WorkflowFailureError as error:
        raise errors.DayflowError(f"the clean-up failed: {error.cause}") from None
    return Report.model_validate(told)


async def last(client: Client) -> Report | None:
    """The report of the newest one that came to its end; None if there is none."""
    async for found in client.list_workflows(DONE, limit=1):
        told = await client.get_workflow_handle(found.id, run_id=found.run_id).result()
        return Report.model_validate(told)
    return None
