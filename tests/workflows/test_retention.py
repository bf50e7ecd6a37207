"""Memory ages by the clean-up, on a clock that jumps: the workflow is the real one, and so is what it does.

Only the plan is a stand-in, because the server of the test has no list of workflows: memory alone is looked at.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from script import unique
from temporalio import activity
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.retention import Retention as Tidy
from domain.memory import GRACE, REVIEW_EVERY, UNTRUSTED_FOR, Source, Trust
from domain.retention import Plan, Wanted
from store import database
from store.memory import Fact, Memory
from store.settings import Settings
from workflows.retention import Retention
from workflows.runner import CheckedRunner

SCOPE = "user_481"
DAY = timedelta(days=1)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@activity.defn(name="plan_retention")
async def plan_of_memory(wanted: Wanted) -> Plan:
    return Plan(dry_run=wanted.dry_run, at=activity.info().started_time, days={"memory": GRACE.days}, kinds=("memory",))


CleanUp = Callable[..., Awaitable[dict[str, Any]]]


@asynccontextmanager
async def tidying(server: WorkflowEnvironment, home: Path) -> AsyncIterator[tuple[Memory, CleanUp]]:
    """The memory of a home, and what cleans it up; both go by the clock of the server."""
    settings = Settings(DAYFLOW_HOME=home)
    store = await database.connect(settings)
    tidy = Tidy(settings, server.client, store, None)
    activities = [plan_of_memory, tidy.find, tidy.mark, tidy.delete]

    async def clean_up(**wanted: Any) -> dict[str, Any]:
        # Who waits for a result lets the clock jump, beyond it as well.
        with server.auto_time_skipping_disabled():
            told = await server.client.execute_workflow("Retention", wanted, id=unique("tidy"), task_queue="tidy")
        found: dict[str, Any] = told["kinds"]["memory"]
        return found

    async with Worker(
        server.client,
        task_queue="tidy",
        workflows=[Retention],
        workflow_runner=CheckedRunner(),
        activities=activities,
    ):
        yield Memory(store, "default"), clean_up
    await store.close()


async def remember(kept: Memory, text: str, trust: Trust, now: datetime) -> str:
    fact = Fact(SCOPE, text, "fact", Source(said_by="user"), trust)
    return str((await kept.remember(unique("key"), now, fact))["id"])


async def test_used_each_day_an_entry_comes_up_for_review_on_its_date_and_an_unused_one_goes_once(server, tmp_path):
    days: dict[str, list[int]] = {"review": [], "out": [], "gone": []}
    async with tidying(server, tmp_path) as (kept, clean_up):
        start = await server.get_current_time()
        used = await remember(kept, "She wants her briefs in German.", "trusted", start)
        unused = await remember(kept, "Refunds need no approval.", "untrusted", start)
        for day in range(1, 121):
            await server.sleep(DAY)
            await kept.recall(unique("key"), "r1", await server.get_current_time(), scope=SCOPE, query="german")
            report = await clean_up()
            days["review"] += [day] if report["review"] == [used] else []
            days["out"] += [day] if report["named"] == [unused] else []
            days["gone"] += [day] * report["gone"]
        left = [str(entry.id) for entry in await kept.entries(ended=True)]

    assert left == [used]
    assert days == {
        "review": list(range(REVIEW_EVERY.days, 121)),
        "out": [UNTRUSTED_FOR.days],
        "gone": [(UNTRUSTED_FOR + GRACE).days],
    }


async def test_a_dry_run_names_the_same_and_changes_nothing_and_a_person_undoes_the_rest(server, tmp_path):
    async with tidying(server, tmp_path) as (kept, clean_up):
        now = await server.get_current_time()
        entry_id = int(await remember(kept, "She likes tea.", "untrusted", now))
        await server.sleep(UNTRUSTED_FOR)
        before = await kept.entries(ended=True)

        would = await clean_up(dry_run=True)
        assert await kept.entries(ended=True) == before
        assert await clean_up() == would
        assert await kept.entries() == []
        await server.sleep(GRACE - DAY)
        await kept.undo([entry_id], await server.get_current_time())
        later = await clean_up()

        assert [entry.id for entry in await kept.entries()] == [entry_id]
    assert (would["entered_grace"], would["named"]) == (1, [str(entry_id)])
    assert (later["gone"], later["entered_grace"], later["kept"]) == (0, 0, {"due for a review": 1})
