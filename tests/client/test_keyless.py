"""Without the key of some runs and clean-ups: those are named with the key, and the others are shown."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from homes import Home
from script import unique
from temporalio import workflow
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import ActivityTaskFailedEventAttributes, HistoryEvent
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from client.codec import SealingCodec
from client.converter import converter
from domain import errors
from domain.retention import KINDS, Plan, Report
from store import seal
from store.settings import Settings

FAILED = 1
KEY = seal.new_key("one")
MISSING = "the encryption key 'one' is missing"
STATUS = SearchAttributeKey.for_keyword("DayflowStatus")


@workflow.defn(name="Retention")
class Reported:
    """A clean-up that has this report."""

    @workflow.run
    async def run(self, report: Any) -> Any:
        """The report."""
        return report


async def connected(home: Home, *keys: str) -> Client:
    settings = Settings.model_validate({**home.env, "DAYFLOW_ENCRYPTION_KEYS": ",".join(keys) or None})
    return await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(settings))


async def listed(client: Client, query: str) -> None:
    """Wait until the server's list has one of these."""
    async with asyncio.timeout(10):
        while not (await client.count_workflows(query)).count:  # noqa: ASYNC110  a list is all that there is
            await asyncio.sleep(0.02)


def action(status: str) -> dict[str, Any]:
    """What a run publishes of an action that waits."""
    given = dict.fromkeys(("conflict", "expires_at", "role", "intent", "why", "idempotency_key"))
    return given | {
        "action_id": "s1.1-abcdef",
        "tool": "pay",
        "status": status,
        "arguments": {},
        "requested_at": "2026",
    }


@contextmanager
def waiting(home: Home, status: str, *keys: str) -> Iterator[str]:
    """A run that waits for a person, as its worker with these keys published it."""
    run_id = unique("waits")

    async def begin() -> None:
        client = await connected(home, *keys)
        await client.start_workflow(
            "AgentRun",
            {"agent": "brief"},
            id=run_id,
            task_queue=run_id,
            memo={"pending": [action(status)]},
            search_attributes=TypedSearchAttributes([SearchAttributePair(STATUS, "awaiting_approval")]),
        )
        await listed(client, f'WorkflowId = "{run_id}"')

    asyncio.run(begin())
    try:
        yield run_id
    finally:
        home.temporal("workflow", "terminate", "--workflow-id", run_id)


@pytest.mark.parametrize(
    ("command", "status"), [(("approvals",), "awaiting_approval"), (("actions", "--unknown"), "unknown")], ids=str
)
def test_one_run_that_cannot_be_read_is_named_and_hides_none_of_the_others(
    home: Home, command: tuple[str, ...], status: str
) -> None:
    with waiting(home, status) as clear, waiting(home, status, KEY) as sealed:
        told = home.dayflow(*command, code=FAILED)
        listed = home.json(*command, code=FAILED)
        known = home.dayflow(*command, env={"DAYFLOW_ENCRYPTION_KEYS": KEY})

    assert clear in told.stdout
    assert f"{sealed} cannot be read: {MISSING}" in told.stderr
    assert [row["run_id"] for row in listed if row["run_id"] in {clear, sealed}] == [clear]
    assert {clear, sealed} <= set(known.stdout.split())


def clean_ups(home: Home, *reports: tuple[bool, datetime], keys: tuple[str, ...] = ()) -> None:
    """Clean-ups that came to their end one after the other: whether each was a dry run, and when."""

    async def go() -> None:
        client, queue = await connected(home, *keys), unique("reports")
        runner = UnsandboxedWorkflowRunner()
        async with Worker(client, task_queue=queue, workflows=[Reported], workflow_runner=runner):
            for dry, at in reports:
                plan = Plan(dry_run=dry, at=at, days=dict.fromkeys((*KINDS, "grace"), 30.0))
                run_id = unique("tidy")
                await client.execute_workflow("Retention", Report(plan=plan), id=run_id, task_queue=queue)
                await listed(client, f'WorkflowId = "{run_id}" AND ExecutionStatus = "Completed"')

    asyncio.run(go())


def test_the_last_clean_up_is_one_that_deleted_and_later_dry_runs_are_named(home: Home) -> None:
    first = datetime(2031, 5, 6, 7, 8, tzinfo=UTC)
    clean_ups(home, *((dry, first + timedelta(hours=n)) for n, dry in enumerate([False, True, True])))

    told = home.dayflow("retention", "--last")

    assert "clean-up at 2031-05-06 07:08 UTC" in told.stdout
    assert "A dry run was later, at 2031-05-06 09:08 UTC" in told.stderr


def test_the_report_of_a_clean_up_under_another_key_names_the_key(home: Home) -> None:
    clean_ups(home, (False, datetime.now(UTC)), keys=(KEY,))

    told = home.dayflow("retention", "--last", code=FAILED)
    clean_ups(home, (False, datetime.now(UTC)))

    assert MISSING in told.stderr
    assert len(told.stderr.splitlines()) == 1


async def test_a_run_that_was_refused_under_another_key_names_the_key() -> None:
    mine, failure = converter(Settings.model_validate({"DAYFLOW_ENCRYPTION_KEYS": KEY})), Failure()
    await mine.encode_failure(ApplicationError("no such agent"), failure)
    event = HistoryEvent(activity_task_failed_event_attributes=ActivityTaskFailedEventAttributes(failure=failure))

    with pytest.raises(errors.MissingKey, match="'one'"):
        SealingCodec(Settings.model_validate({}).seal).check([event])
