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
        told: Report = await client.execute_workflow(
            "Retention",
            wanted.model_dump(exclude_none=True),
            id=f"dayflow-retention-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            task_queue=TASK_QUEUE,
            task_timeout=TASK_TIMEOUT,
            result_type=Report,
        )
    except WorkflowFailureError as error:
        raise errors.DayflowError(f"the clean-up failed: {error.cause}") from None
    return told


async def last(client: Client) -> tuple[Report | None, datetime | None]:
    """The report of the newest one that deleted what it may, if there is one; and when a dry run was, if later."""
    rehearsed = None
    async for found in client.list_workflows(DONE):
        handle = client.get_workflow_handle(found.id, run_id=found.run_id, result_type=Report)
        report: Report = await handle.result()
        if not report.plan.dry_run:
            return report, rehearsed
        rehearsed = rehearsed or report.plan.at
    return None, rehearsed
