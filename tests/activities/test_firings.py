"""due_run: says which run is due, and where that one reads from; as often as it is asked, the same."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from homes import Home
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.firings import Firings
from domain.request import RunRequest
from domain.timetable import Firing, Timetable
from store import database
from store.runs import Runs

MORNING = datetime(2026, 11, 30, 6, 30, tzinfo=UTC)
RUN = "brief-2026-11-30"


@pytest_asyncio.fixture
async def store(tmp_path):
    opened = await database.connect(Home(tmp_path).settings)
    yield opened
    await opened.close()


@pytest.fixture
def runs(store):
    return Runs(store, ActivityEnvironment().info.namespace)


def firing(now=MORNING, **more):
    given = {"name": "brief", "at": "07:30", "time_zone": "Europe/Berlin", "request": RunRequest(agent="brief")}
    return Firing(timetable=Timetable(**{**given, **more}), at=MORNING, now=now)


async def due(store, asked):
    return await ActivityEnvironment().run(Firings(store).due, asked)


async def test_the_run_of_the_day_reads_where_the_schedule_says_however_often_it_is_asked(store, runs):
    answers = [await due(store, firing(inbox="/mail", calendar="/days.ics")) for _ in range(2)]

    assert [one.run_id for one in answers] == [RUN, RUN]
    assert await runs.sources(RUN) == (Path("/mail"), Path("/days.ics"))


async def test_a_run_that_has_begun_goes_on_reading_where_it_did(store, runs):
    await due(store, firing(inbox="/mail"))
    await runs.claim(RUN, "first")

    again = await due(store, firing(inbox="/other"))

    assert again.run_id == RUN
    assert await runs.sources(RUN) == (Path("/mail"), None)


async def test_of_a_run_that_is_too_late_nothing_is_noted(store, runs):
    late = await due(store, firing(now=datetime(2026, 12, 1, tzinfo=UTC), inbox="/mail"))

    assert late.missed
    assert await runs.sources(RUN) == (None, None)


async def test_a_zone_that_this_worker_does_not_know_is_refused_for_good(store):
    with pytest.raises(ApplicationError, match="no IANA time zone") as refused:
        await due(store, firing(time_zone="Europe/Atlantis"))

    assert refused.value.non_retryable
