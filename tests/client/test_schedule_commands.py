"""`dayflow schedule`: made, changed, shown, paused and removed by people; what cannot be is refused in one line."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from google.protobuf.timestamp_pb2 import Timestamp
from homes import Home, until
from pydantic import SecretStr
from schedules import scheduled, told
from script import unique
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import Client
from typer.testing import CliRunner

from client.cli import app
from client.converter import converter
from client.output import Exit
from client.timetable import PREFIX, Timetables
from domain import errors
from domain.request import RunRequest
from domain.timetable import Timetable
from store.payloads import reference


@pytest.fixture
def name():
    return unique("each-day")


@pytest_asyncio.fixture
async def client(home):
    return await Client.connect(f"127.0.0.1:{home.port}")


def test_said_again_it_changes_nothing_and_said_otherwise_it_says_what_it_changes(home, name):
    brief = ("--at", "07:30", "--tz", "Europe/Berlin", "--missed", "skip")
    made = scheduled(home, "brief", name, *brief)
    again = scheduled(home, "brief", name, *brief)
    otherwise = ("--at", "8:00", "--tz", "Europe/Berlin", "--days", "fri-mon")
    other = home.dayflow("schedule", "brief", "--name", name, *otherwise)

    assert [made["outcome"], again["outcome"]] == ["made", "unchanged"]
    assert made["request"] == {**made["request"], "agent": "brief", "requested_by": f"schedule {name}"}
    lines = other.stdout.splitlines()
    assert lines[0] == f"changed: schedule {name}, brief at 08:00 Europe/Berlin, mon,fri-sun"
    assert [line.strip() for line in lines[1:4]] == [
        "at: 07:30 → 08:00",
        "days: every day → mon,fri-sun",
        "missed: skip → catch-up",
    ]
    assert f"as brief-{name}-" in lines[4]


async def test_what_is_not_changed_is_left_alone(home, name, client):
    """An update would drop what the server has not caught up with."""
    nightly = ("--at", "02:30", "--tz", "Europe/Berlin", "--days", "mon-fri", "--task", "x" * 2_000)
    scheduled(home, "brief", name, *nightly)
    before = await client.get_schedule_handle(PREFIX + name).describe()

    scheduled(home, "brief", name, *nightly)

    after = await client.get_schedule_handle(PREFIX + name).describe()
    assert after.info.last_updated_at == before.info.last_updated_at


async def test_what_its_runs_are_asked_stays_with_the_server_whatever_its_size(home, name, client):
    """No run refers to it, so retention would delete the file that it was kept in."""
    large = ("--at", "07:30", "--name", name, "--task", "x" * 2_000)
    home.dayflow("schedule", "brief", *large, env={"DAYFLOW_PAYLOAD_BYTES": "1000"})

    [given] = (await client.get_schedule_handle(PREFIX + name).describe()).schedule.action.args

    assert reference(given) is None
    assert b"x" * 2_000 in given.data


async def test_under_a_missing_key_it_is_neither_read_nor_changed_and_said_again_it_is_under_the_new_key(home, name):
    old, new = (f"{id_}:{base64.b64encode(bytes([n] * 32)).decode()}" for n, id_ in enumerate(("old", "new")))
    wanted = Timetable(name=name, at="07:30", time_zone="Asia/Tokyo", request=RunRequest(agent="brief", task="Hush."))
    try:
        await (await tables(home, old)).put(wanted, 2026)

        for other in (wanted, wanted.model_copy(update={"at": "08:00"})):
            with pytest.raises(errors.MissingKey, match="'old'"):
                await (await tables(home)).put(other, 2026)

        listed = home.dayflow("schedule", "list", code=int(Exit.FAILED))
        assert f"the schedule {name} cannot be read" in listed.stderr
        assert "'old'" in listed.stderr
        assert await (await tables(home, new, old)).put(wanted, 2026) == wanted
        assert (await (await tables(home, new)).get(name)).timetable == wanted
    finally:
        home.dayflow("schedule", "remove", name)


async def tables(home: Home, *keys: str) -> Timetables:
    """The schedules, as a command with these keys sees them."""
    settings = home.settings.model_copy(update={"encryption_keys": SecretStr(",".join(keys)) if keys else None})
    return Timetables(await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(settings)))


def test_it_is_listed_paused_resumed_and_removed(home, name):
    scheduled(home, "brief", name, "--at", "07:30", "--tz", "Europe/Berlin", "--usd", "0.5", "--task", "All of it.")
    home.dayflow("schedule", "pause", name)
    # A schedule that was made just now is listed a moment later.
    until_listed(home, name)
    listed = home.dayflow("schedule", "list").stdout
    [row] = [line for line in listed.splitlines() if line.startswith(name)]
    assert "paused by " in row

    resumed = home.dayflow("schedule", "resume", name).stdout
    shown = home.dayflow("schedule", "show", name).stdout
    assert "next:   " in resumed
    assert all(words in shown for words in ("All of it.", "0.5", "every day", "Europe/Berlin", "catch-up"))
    assert not told(home, name).paused

    home.dayflow("schedule", "remove", name)
    gone = home.dayflow("schedule", "show", name, code=2)
    assert gone.stderr == f"error: there is no schedule '{name}'; `dayflow schedule list` lists them\n"


def until_listed(home: Home, name: str) -> None:
    until("it is listed", lambda: name in [one["name"] for one in home.json("schedule", "list")])


async def test_it_is_due_at_the_hour_of_its_zone_and_an_hour_later_where_that_is_left_out(home, name, client):
    morning, night = f"{name}-morning", f"{name}-night"
    scheduled(home, "brief", morning, "--at", "07:30", "--tz", "Europe/Berlin")
    scheduled(home, "brief", night, "--at", "02:30", "--tz", "Europe/Berlin")
    year = datetime.now(UTC).year + 1
    spring, autumn = last_sunday(year, 3), last_sunday(year, 10)

    # UTC: an hour earlier in summer.
    assert await times(client, morning, spring) == ["06:30", "05:30", "05:30"]
    assert await times(client, morning, autumn) == ["05:30", "06:30", "06:30"]
    # 02:30 in winter, 03:30 in summer time on the day that has no 02:30, and then 02:30 in summer.
    assert await times(client, night, spring) == ["01:30", "01:30", "00:30"]
    # On the day that has it twice, this server takes the second one alone.
    assert await times(client, night, autumn) == ["00:30", "01:30", "01:30"]


async def times(client: Client, name: str, middle: datetime) -> list[str]:
    """When the server would fire it from the day before to the day after."""
    start, end = Timestamp(), Timestamp()
    start.FromDatetime(middle - timedelta(days=1))
    end.FromDatetime(middle + timedelta(days=2))
    found = await client.workflow_service.list_schedule_matching_times(
        ListScheduleMatchingTimesRequest(
            namespace=client.namespace, schedule_id=PREFIX + name, start_time=start, end_time=end
        )
    )
    return [f"{one.ToDatetime():%H:%M}" for one in found.start_time]


def last_sunday(year: int, month: int) -> datetime:
    day = datetime(year, month, 31, tzinfo=UTC)
    return day - timedelta(days=(day.weekday() + 1) % 7)


# What is typed, and what the one line says.
REFUSED = [
    (("brief", "--at", "25:00"), "'25:00' is no time of day"),
    (("brief", "--at", "07:30", "--tz", "Europe/Berlni"), "such as Europe/Berlin"),
    (("brief", "--at", "07:30", "--days", "weekdays"), "write them as mon-fri"),
    (("brief", "--at", "07:30", "--name", "My brief"), "no name for a schedule"),
    (("brief", "--at", "07:30", "--task", " "), "task: "),
    (("breif", "--at", "07:30"), "there is no agent 'breif'; known agents: brief"),
    (("refund", "--at", "07:30"), "needs a task: --task"),
]


@pytest.mark.parametrize(("arguments", "why"), REFUSED)
def test_what_cannot_be_is_refused_before_a_server_is_asked(arguments, why):
    result = CliRunner().invoke(app, ["schedule", *arguments])

    assert isinstance(result.exception, errors.Refused)
    assert why in str(result.exception)


def test_without_a_time_it_says_how_to_say_one():
    result = CliRunner().invoke(app, ["schedule", "brief"])

    assert result.exit_code == 2


def test_its_help_teaches_and_that_of_an_agent_is_its_own():
    group, brief = (CliRunner().invoke(app, ["schedule", *more, "--help"]).output for more in ((), ("brief",)))

    assert "dayflow schedule brief --at 07:30 --tz Europe/Berlin" in " ".join(group.split())
    assert {"list", "show", "now", "pause", "resume", "remove"} <= set(group.split())
    assert "schedule brief [OPTIONS]" in brief
    assert "--missed" in brief


def test_without_a_server_it_says_what_starts_one(tmp_path):
    told = Home(tmp_path).dayflow("schedule", "list", code=5)

    assert "dayflow up" in told.stderr
    assert told.stdout == ""
