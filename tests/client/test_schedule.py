"""Workers keep one schedule of the nightly clean-up, as the settings say, however many start and whatever was there."""

import asyncio
import json

import pytest
import pytest_asyncio
from homes import until
from temporalio.client import Client, ScheduleCalendarSpec, ScheduleRange, ScheduleUpdate
from temporalio.service import RPCError
from workers import working

from client import schedule
from client.converter import converter


@pytest_asyncio.fixture
async def client(home):
    return await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(home.settings))


@pytest.fixture
def settings(home):
    return home.settings


def spec(found):
    """The hours at which it begins, and the zone in which they are meant."""
    calendars = found.schedule.spec.calendars
    return [hour.start for one in calendars for hour in one.hour], found.schedule.spec.time_zone_name


async def described(client):
    return await client.get_schedule_handle(schedule.ID).describe()


async def test_twenty_workers_that_start_at_once_make_one_schedule_each_night(client, settings):
    await asyncio.gather(*(schedule.keep(client, settings) for _ in range(20)))

    found = await described(client)
    assert spec(found) == ([3], "Europe/Berlin")
    assert (found.schedule.action.workflow, found.schedule.action.task_queue) == ("Retention", "dayflow")


async def test_one_that_was_changed_is_mended_and_one_that_was_paused_stays_paused(client, settings):
    await schedule.keep(client, settings)
    handle = client.get_schedule_handle(schedule.ID)

    def change(found):
        found.description.schedule.spec.calendars = [ScheduleCalendarSpec(hour=[ScheduleRange(12)])]
        return ScheduleUpdate(found.description.schedule)

    await handle.update(change)
    await handle.pause(note="by hand")
    await schedule.keep(client, settings)

    found = await described(client)
    assert spec(found)[0] == [3]
    assert (found.schedule.state.paused, found.schedule.state.note) == (True, "by hand")
    await handle.unpause()


async def test_one_that_is_as_it_should_be_is_left_alone(client, settings):
    """An update would drop the clean-up of last night, if the server was just started and has not caught up."""
    await schedule.keep(client, settings)
    before = (await described(client)).info.last_updated_at

    await schedule.keep(client, settings)

    assert (await described(client)).info.last_updated_at == before


async def test_switched_off_there_is_none_and_switched_on_there_is_one_again(client, settings):
    off = settings.model_copy(update={"retention": "off"})
    await schedule.keep(client, settings)

    await asyncio.gather(*(schedule.keep(client, off) for _ in range(3)))

    with pytest.raises(RPCError, match="not found"):
        await described(client)
    await schedule.keep(client, settings)
    assert spec(await described(client))[0] == [3]


def test_what_the_schedule_starts_goes_by_the_settings_of_the_worker_and_leaves_its_report(new_home):
    home = new_home()
    with working(home, "dayflow", DAYFLOW_KEEP_RUNS_DAYS="41") as worker:
        worker.ready()
        home.temporal("schedule", "trigger", "--schedule-id", schedule.ID)
        report = until("there is a report", lambda: last(home))

    assert report["plan"]["days"]["runs"] == 41
    assert report["plan"]["dry_run"] is False
    assert report["kinds"]["runs"]["gone"] == 0


def last(home):
    """The report of the last clean-up, if there was one."""
    told = home.dayflow("retention", "--last", "--json", code=None)
    return json.loads(told.stdout) if told.returncode == 0 else None
