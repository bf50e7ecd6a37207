"""Commands that let agents run each day by themselves: schedule AGENT, list, show, pause, resume, now, remove."""

import asyncio
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer
from typer.core import TyperGroup

from client import output
from client.commands import common, runs
from client.commands.runs import Calendar, Inbox, Model, Seconds, Steps, Tokens, Usd
from domain import agent, commands, errors, timetable
from domain.timetable import CATCH_UP, HOUR, Timetable
from store import settings as environment

if TYPE_CHECKING:
    from client.dayflow import Dayflow
    from client.run import Run
    from client.timetable import Standing, Timetables, Took

ANY = "AGENT"
# How long `now` waits for the run to be there.
STARTED_S = 15.0
LOOKS_EVERY_S = 0.1

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name, as `list` shows it.")]


class Group(TyperGroup):
    """A word that is no command is the name of an agent."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, else the one that lets this agent run each day."""
        found = super().get_command(ctx, cmd_name)
        return found if found or cmd_name.startswith("-") else self.commands[ANY]


class Missed(StrEnum):
    """What becomes of a run that could not start in time."""

    CATCH_UP = "catch-up"
    SKIP = "skip"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        subcommand_metavar="AGENT --at HH:MM [OPTIONS] | COMMAND [ARGS]",
        help="Let an agent run each day by itself: `dayflow schedule brief --at 07:30 --tz Europe/Berlin`.\n\n"
        "There is one run a day, whatever fires, under an id such as brief-2026-11-30. "
        "It takes a server and a worker that are up at that time: `dayflow up`.",
    )
    group.command(ANY)(put)
    group.command("list")(list_schedules)
    for command in (show, now, pause, resume, remove):
        group.command()(command)
    app.add_typer(group, name="schedule")


def put(
    ctx: typer.Context,
    at: Annotated[str | None, typer.Option(metavar="HH:MM", help="The time of day, with 24 hours. Needed.")] = None,
    tz: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Whose time, as in Europe/Berlin (default: DAYFLOW_TIMEZONE).")
    ] = None,
    days: Annotated[
        str | None, typer.Option(metavar="DAYS", help="Such as mon-fri, or mon,wed,sat (default: every day).")
    ] = None,
    missed: Annotated[
        Missed,
        typer.Option(help=f"If nothing was up then: start it up to {CATCH_UP // HOUR} hours late, or not that day."),
    ] = Missed.CATCH_UP,
    task: Annotated[str | None, typer.Option(help="What to do, in words (default: the agent's own task).")] = None,
    inbox: Inbox = None,
    calendar: Calendar = None,
    model: Model = None,
    steps: Steps = None,
    tokens: Tokens = None,
    usd: Usd = None,
    seconds: Seconds = None,
    requested_by: Annotated[
        str | None, typer.Option(help="Who asks for its runs, and may not decide about them (default: the schedule).")
    ] = None,
    name: Annotated[str | None, typer.Option(help="For a second schedule of the same agent.")] = None,
    json: Json = False,
) -> None:
    """Let this agent run each day at that time. Said again, it changes what is there, and says what.

    The command says all of the schedule: what you leave out takes its default.
    The times are those of the zone, summer and winter.

    Example: `dayflow schedule brief --at 07:30 --tz Europe/Berlin --days mon-fri`
    """
    agent_name = _known(str(ctx.info_name))
    if at is None:
        output.fail(f"say when: dayflow schedule {agent_name} --at 07:30; `dayflow schedule list` shows what is there")
    runs.check_paths(inbox=inbox, calendar=calendar)
    name = timetable.name(name or agent_name)
    request = {
        "agent": agent_name,
        "task": task,
        "model": model,
        "limits": runs.limits(steps, tokens, usd, seconds),
        "requested_by": requested_by or f"schedule {name}",
    }
    common.check(request, '--task "…"')
    given = {
        "name": name,
        "at": timetable.clock(at),
        "days": timetable.days(days or "mon-sun"),
        "time_zone": _zone(tz),
        "missed": missed.value,
        "request": request,
        "inbox": str(inbox.expanduser().absolute()) if inbox else None,
        "calendar": str(calendar.expanduser().absolute()) if calendar else None,
    }
    common.run_async(_put(timetable.parse([given]), json))


def list_schedules(json: Json = False) -> None:
    """List the schedules: when each runs next, and what it started last."""
    common.run_async(_list(json))


def show(name: NameArgument, json: Json = False) -> None:
    """Show a schedule: what its runs are asked, when they are due, and what came of the last ones."""
    common.run_async(_show(name, json))


def now(name: NameArgument, json: Json = False) -> None:
    """Start the run of today now, if there is none yet; also while the schedule is paused."""
    common.run_async(_now(name, json))


def pause(name: NameArgument) -> None:
    """Let a schedule start nothing until it is resumed; the days in between are not made up for."""
    common.run_async(_pause(name))


def resume(name: NameArgument) -> None:
    """Let a paused schedule go on with the next day that is due."""
    common.run_async(_resume(name))


def remove(name: NameArgument) -> None:
    """Remove a schedule. The runs that it started stay."""
    common.run_async(_remove(name))


def _known(name: str) -> str:
    """The agent that is meant."""
    try:
        return agent.find(name).name
    except errors.BadRequest as error:
        raise errors.BadRequest(f"{error}. `dayflow schedule --help` shows the commands") from None


def _zone(name: str | None) -> str:
    try:
        return environment.zone(name).key if name else environment.load().timezone.key
    except ValueError as error:
        raise errors.BadRequest(str(error)) from None


async def _opened() -> "tuple[Dayflow, Timetables]":
    from client.timetable import Timetables

    _, dayflow = await common.connected()
    return dayflow, Timetables(dayflow.client)


async def _put(wanted: Timetable, json: bool) -> None:
    dayflow, tables = await _opened()
    before = await tables.put(wanted, _today(wanted).year)
    made = "made" if before is None else "unchanged" if before == wanted else "changed"
    standing = await tables.get(wanted.name, firings=0)
    if json:
        output.as_json({"outcome": made, **_record(standing)})
        return
    output.say(f"{made}: schedule {wanted.name}, {_when(wanted)}")
    for line in _changes(before, wanted) if before else []:
        output.say(f"  {line}")
    output.say(_state(standing))
    await _warn_if_unstaffed(dayflow)


async def _list(json: bool) -> None:
    _, tables = await _opened()
    found, lost = await tables.all()
    if json:
        output.as_json([_record(one) for one in found])
    elif found:
        columns = ("schedule", "agent", "at", "days", "time zone", "next", "last")
        output.table(columns, [_row(one) for one in found])
    elif not lost:
        output.say("No schedules yet. Make one: dayflow schedule brief --at 07:30")
    common.tell_lost(lost)


async def _show(name: str, json: bool) -> None:
    dayflow, tables = await _opened()
    standing = await tables.get(name)
    if json:
        output.as_json(_record(standing))
        return
    output.table(("", ""), [(fact, value) for fact, value in _facts(standing.timetable).items() if value is not None])
    output.say(_state(standing))
    if standing.missed:
        output.say(f"{standing.missed} times the server was not up in time")
    if standing.took:
        output.table(("due", "run", "what came of it"), [_took(one, _zone_of(standing)) for one in standing.took])
    await _warn_if_unstaffed(dayflow)


async def _now(name: str, json: bool) -> None:
    dayflow, tables = await _opened()
    table = (await tables.get(name, firings=0)).timetable
    run_id = table.run_id(_today(table).date())
    run, started = await _found(dayflow, run_id), False
    if run is None:
        await tables.fire(name)
        run = await _appeared(dayflow, run_id)
        started = run is not None
    if json:
        output.as_json({"run_id": run_id, "started": started, "status": run.status.value if run else None})
    elif run is None:
        output.say(f"{run_id} starts once a worker takes it up.")
        await _warn_if_unstaffed(dayflow)
    elif started:
        output.say(f"{run_id} is started.\nnext:   {commands.line('watch', run_id)}")
    else:
        again = commands.line("run", *filter(None, (table.request.agent, table.request.task)))
        output.say(f"{run_id} is there already ({run.status.value}): one run a day. Another one: {again}")
        output.say(f"next:   {commands.line('show', run_id)}")


async def _pause(name: str) -> None:
    _, tables = await _opened()
    await tables.pause(name, common.user())
    output.say(f"{name} is paused; `{commands.line('schedule resume', name)}` lets it go on.")


async def _resume(name: str) -> None:
    dayflow, tables = await _opened()
    await tables.resume(name, common.user())
    output.say(f"{name} goes on. {_state(await tables.get(name, firings=0))}")
    await _warn_if_unstaffed(dayflow)


async def _remove(name: str) -> None:
    _, tables = await _opened()
    await tables.remove(name)
    output.say(f"{name} is removed; the runs that it started stay.")


async def _found(dayflow: "Dayflow", run_id: str) -> "Run | None":
    try:
        return await dayflow.get(run_id)
    except errors.NotFound:
        return None


async def _appeared(dayflow: "Dayflow", run_id: str) -> "Run | None":
    """The run, once it is there; None if it is not in time, or nobody is there to start it."""
    from client.dayflow import TASK_QUEUE

    wait = STARTED_S if await dayflow.has_worker(TASK_QUEUE) else 0.0
    try:
        async with asyncio.timeout(wait):
            while True:
                if run := await _found(dayflow, run_id):
                    return run
                await asyncio.sleep(LOOKS_EVERY_S)
    except TimeoutError:
        return None


async def _warn_if_unstaffed(dayflow: "Dayflow") -> None:
    from client.dayflow import TASK_QUEUE

    if not await dayflow.has_worker(TASK_QUEUE):
        output.note("no worker is up: nothing starts until one is. `dayflow up` starts one in the background")


def _zone_of(standing: "Standing") -> ZoneInfo:
    return environment.zone(standing.timetable.time_zone)


def _today(table: Timetable) -> datetime:
    return datetime.now(environment.zone(table.time_zone))


def _when(table: Timetable) -> str:
    return f"{table.request.agent} at {table.at} {table.time_zone}, {timetable.in_words(table.days)}"


def _state(standing: "Standing") -> str:
    """When it is due next, and as which run; or who paused it."""
    if standing.paused:
        resume = commands.line("schedule resume", standing.timetable.name)
        return f"paused ({standing.note or 'nobody said by whom'}); `{resume}` lets it go on"
    if not standing.next:
        return "next:   never"
    at = standing.next[0].astimezone(_zone_of(standing))
    return f"next:   {_moment(at)}, as {standing.timetable.run_id(at.date())}"


def _moment(at: datetime) -> str:
    return f"{at:%a %Y-%m-%d %H:%M}"


def _facts(table: Timetable) -> dict[str, Any]:
    """What a schedule is, in words of its own command."""
    asked = table.request.model_dump(exclude_none=True)
    limits = asked.pop("limits", {})
    return {
        "schedule": table.name,
        **asked,
        "at": table.at,
        "days": timetable.in_words(table.days),
        "tz": table.time_zone,
        "missed": table.missed,
        "inbox": table.inbox,
        "calendar": table.calendar,
        **limits,
    }


def _changes(before: Timetable, wanted: Timetable) -> list[str]:
    old, new = _facts(before), _facts(wanted)
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    return [f"{name}: {_shown(old.get(name))} → {_shown(new.get(name))}" for name in names]


def _shown(value: Any) -> str:
    return "–" if value is None else common.short(str(value))


def _row(standing: "Standing") -> tuple[Any, ...]:
    table, zone = standing.timetable, _zone_of(standing)
    due = f"paused {standing.note or ''}".strip() if standing.paused else None
    if not due and standing.next:
        due = _moment(standing.next[0].astimezone(zone))
    last = " ".join(filter(None, _took(standing.took[0], zone)[1:])) if standing.took else None
    return table.name, table.request.agent, table.at, timetable.in_words(table.days), table.time_zone, due, last


def _took(one: "Took", zone: ZoneInfo) -> tuple[str, str | None, str | None]:
    at = _moment(one.meant.astimezone(zone))
    if one.fired is None:
        return at, None, one.why
    return at, one.fired.run_id, one.fired.outcome + (f": {one.fired.why}" if one.fired.why else "")


def _record(standing: "Standing") -> dict[str, Any]:
    firings = [
        {
            "workflow_id": one.workflow_id,
            "due": one.meant.isoformat(),
            **(one.fired.model_dump(mode="json") if one.fired else {"why": one.why}),
        }
        for one in standing.took
    ]
    return {
        **standing.timetable.model_dump(mode="json"),
        "paused": standing.paused,
        "note": standing.note,
        "next": [at.astimezone(_zone_of(standing)).isoformat() for at in standing.next],
        "server_missed": standing.missed,
        "firings": firings,
    }
