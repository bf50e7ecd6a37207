"""Commands that start runs and let them go on: brief, run, resume, watch, cancel, pause, message."""

import asyncio
import math
import os
import secrets
import threading
from collections.abc import Coroutine
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from client import live, logfile, output
from client.commands import common
from client.output import Exit
from domain import commands, messages
from domain import request as requests
from store import crash

if TYPE_CHECKING:
    from client.dayflow import Dayflow
    from client.run import Run
    from store.settings import Settings

LAST_WORDS_S = 10.0
LOOK_S = 2.0

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print what the model says as it comes, and each step.")]
CrashAfter = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Die by SIGKILL once step N is recorded, to see `dayflow resume` go on."),
]
RunId = Annotated[str | None, typer.Option("--id", help="The run's id (default: made from the agent and the time).")]
Json = Annotated[bool, typer.Option("--json", help="Print the record as JSON instead.")]
Model = Annotated[str | None, typer.Option(help="Model id (default: DAYFLOW_MODEL, else the agent's).")]
Steps = Annotated[int | None, typer.Option(min=1, help="Pause after this many steps (default: the agent's limit).")]
Inbox = Annotated[Path | None, typer.Option(help="A Maildir, an mbox file or a folder of .eml files.")]
Calendar = Annotated[Path | None, typer.Option(help="An .ics file or a folder of them.")]
Tokens = Annotated[int | None, typer.Option(min=1, help="Pause before more tokens than this are used.")]


def above_zero(value: float | None) -> float | None:
    """A limit that was typed, which leaves room for something."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"it has to be above 0, and {value:g} is not.")
    return value


Usd = Annotated[
    float | None, typer.Option(callback=above_zero, help="Pause before more dollars than this are used; above 0.")
]
Seconds = Annotated[
    float | None, typer.Option(callback=above_zero, help="Pause after so much time, above 0; waiting does not count.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(brief)
    app.command()(run)
    app.command()(resume)
    app.command()(watch)
    app.command()(cancel)
    app.command()(pause)
    app.command()(message)


def brief(
    ctx: typer.Context,
    verbose: Verbose = False,
    inbox: Inbox = None,
    calendar: Calendar = None,
    model: Model = None,
    steps: Steps = None,
    tokens: Tokens = None,
    usd: Usd = None,
    seconds: Seconds = None,
    run_id: RunId = None,
    crash_after: CrashAfter = None,
    json: Json = False,
) -> None:
    """Write today's brief from the inbox, the calendar and the task list, and create tasks.

    Starts what is missing. Without ANTHROPIC_API_KEY the sandbox answers: rules, not a language model.

    Example: `dayflow brief -v --inbox ~/Maildir --calendar ~/calendar.ics`
    """
    request = {"agent": "brief", "model": model, "limits": limits(steps, tokens, usd, seconds)}
    common.run_async(_start(ctx.obj, request, run_id, verbose, crash_after, json, inbox, calendar))


def run(
    ctx: typer.Context,
    agent: Annotated[str, typer.Argument(help="The agent's name: a file of domain/agents/.")],
    task: Annotated[str | None, typer.Argument(help="What to do, in words.")] = None,
    verbose: Verbose = False,
    model: Model = None,
    steps: Steps = None,
    tokens: Tokens = None,
    usd: Usd = None,
    seconds: Seconds = None,
    requested_by: Annotated[str | None, typer.Option(help="Who asks for it.")] = None,
    run_id: RunId = None,
    crash_after: CrashAfter = None,
    json: Json = False,
) -> None:
    """Run any agent on a task, in this process; `dayflow resume` goes on if the process dies.

    Example: `dayflow run brief "What does Ana wait for?"`
    """
    given = limits(steps, tokens, usd, seconds)
    request = {"agent": agent, "task": task, "model": model, "limits": given, "requested_by": requested_by}
    common.run_async(_start(ctx.obj, request, run_id, verbose, crash_after, json, None, None))


def resume(
    ctx: typer.Context,
    run_id: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Default: the newest unfinished run.")] = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Let a run go on from its last recorded step: after a crash, a pause or a failure.

    Nothing that is recorded is paid or done again. A finished run prints its result and calls nothing.
    """
    common.run_async(_resume(ctx.obj, run_id, verbose, json))


def watch(
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line for each event instead.")] = False,
) -> None:
    """Print what the model says as it comes, and each step when it is recorded, without taking part in the run.

    Ctrl-C stops watching, not the run. When a worker dies, it goes on with the one that takes over.

    Example: `dayflow watch brief-1 --json`
    """
    common.run_async(_watch(run_id, json))


def cancel(run_id: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """Stop a run for good; an effect that is under way comes to its end first."""
    common.run_async(_cancel(run_id))


def pause(run_id: Annotated[str, typer.Argument(metavar="RUN")]) -> None:
    """Let a run stand still at its next step; `dayflow resume` lets it go on."""
    common.run_async(_send(run_id, "pause", {"by": common.user()}, "pauses at its next step"))


def message(
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    text: Annotated[str, typer.Argument(help="What to say to the agent.")],
) -> None:
    """Say something to a run's agent; it hears it at its next step."""
    content = {"text": text, "from": common.user()}
    messages.parse(messages.Message, [content])  # the run would refuse it, and nobody here would be told
    common.run_async(_send(run_id, "message", content, "hears it at its next step"))


def limits(steps: int | None, tokens: int | None, usd: float | None, seconds: float | None) -> dict[str, Any] | None:
    """The limits that were typed, if any."""
    given = {"steps": steps, "tokens": tokens, "usd": usd, "seconds": seconds}
    return {name: value for name, value in given.items() if value is not None} or None


async def _start(
    host: Any,
    request: dict[str, Any],
    run_id: str | None,
    verbose: bool,
    crash_after: int | None,
    json: bool,
    inbox: Path | None,
    calendar: Path | None,
) -> None:
    common.check(request, commands.line("run", request["agent"], options='"…"'))
    if run_id is not None:
        requests.check_run_id(run_id, "--id")
    check_paths(inbox=inbox, calendar=calendar)
    settings, dayflow = await common.ready()
    if run_id is not None:
        await dayflow.check_unused(run_id)
    run_id = run_id or f"{request['agent']}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"  # noqa: DTZ005  local, for people
    queue = common.queue_for(run_id, alone=crash_after is not None)
    if crash_after:
        os.environ["DAYFLOW_CRASH_AT"] = f"step.end:{crash_after}"
        output.note(f"this process kills itself once step {crash_after} is recorded; then: dayflow resume -v")
    if inbox or calendar:
        await common.set_sources(settings, dayflow, run_id, inbox, calendar)
    wanted = {name: value for name, value in request.items() if value is not None}
    with common.detachable(run_id, begun=False) as followed:
        async with common.hosted(host, settings, dayflow, queue):
            followed.begun = None
            await dayflow.start(run_id, wanted, queue)
            followed.begun = True
            await _see_through(settings, dayflow, run_id, verbose=verbose, json=json, dies=crash_after is not None)


async def _resume(host: Any, run_id: str | None, verbose: bool, json: bool) -> None:
    settings, dayflow = await common.ready()
    run_id = await dayflow.newest(unfinished=True) if run_id is None else run_id
    if run_id is None:
        output.fail("no run is unfinished; `dayflow runs` lists them all, `dayflow resume RUN` takes a failed one up")
    standing = await dayflow.get(run_id)
    if standing.status in common.ENDED:
        if not json:
            output.say(f"{run_id} had ended before: nothing is done or paid again.")
        await _show_end(settings, dayflow, standing, json=json)
    stood = _stands_on(standing, quiet=json)
    if standing.lost:
        output.note(f"waiting until the lost attempt of {', '.join(standing.lost)} is noticed (up to {_noticed_s()} s)")
    with common.detachable(run_id):
        async with common.hosted(host, settings, dayflow, standing.task_queue):
            await _wake(dayflow, standing)
            await _see_through(settings, dayflow, run_id, verbose=verbose, json=json, after=stood)


def _noticed_s() -> int:
    from workflows import steps

    return int(steps.HEARTBEAT.total_seconds())


async def _wake(dayflow: "Dayflow", run: "Run") -> None:
    """What a run needs to go on, besides a worker."""
    if not run.open:
        await dayflow.reset_failed(run)
    elif run.held:
        await dayflow.signal(run.run_id, "resume", {"by": common.user()})


async def _see_through(
    settings: "Settings",
    dayflow: "Dayflow",
    run_id: str,
    *,
    verbose: bool,
    json: bool,
    after: int = 0,
    dies: bool = False,
) -> None:
    """Follow a run until it ends or waits for a person, and show how it stands then.

    dies: a crash point ends this process before.
    """
    progress = common.Progress(verbose=verbose and not json, after=after)
    if dies:
        crash.say_before(lambda: _in_a_thread(_show_once(settings, run_id, progress)))
    if last := await _followed(settings, dayflow, run_id, progress):
        await _show_end(settings, dayflow, last, json=json)


async def _followed(settings: "Settings", dayflow: "Dayflow", run_id: str, progress: common.Progress) -> "Run | None":
    """Follow a run until it ends or waits for a person; how it stands then."""
    from temporalio.service import RPCError

    last = None
    try:
        with logfile.retries(run_id, output.note, progress.patience), progress:
            async with live.listening(settings, progress.hear) as named:
                async for last in dayflow.follow(run_id):
                    progress.show(last)
                    named(last)
                    if last.waits:
                        break
    except RPCError as error:
        common.lost(run_id, error.message)
    return last


async def _show_once(settings: "Settings", run_id: str, progress: common.Progress) -> None:
    """Show what is recorded at this moment."""
    from client import connection
    from client.dayflow import Dayflow

    progress.show(await Dayflow(await connection.connect(settings)).get(run_id))


def _in_a_thread(work: Coroutine[Any, Any, None]) -> None:
    """Do this to its end while the event loop of this thread stands still."""
    thread = threading.Thread(target=asyncio.run, args=(work,))
    thread.start()
    thread.join(LAST_WORDS_S)


async def _show_end(settings: "Settings", dayflow: "Dayflow", run: "Run", *, json: bool) -> NoReturn:
    if json:
        output.as_json(run.record())
    else:
        common.show_end(settings, run, staffed=await common.staffed(dayflow, run))
    raise SystemExit(int(common.exit_code(run)))


def _stands_on(run: "Run", *, quiet: bool) -> int:
    steps = run.state.step if run.state else 0
    tokens = run.state.totals.usage.total if run.state else 0
    if not quiet:
        output.say(f"{run.run_id}: goes on from {steps} recorded steps and {tokens:,} tokens; none is paid again.")
    return steps


async def _watch(run_id: str, json: bool) -> None:
    settings, dayflow = await common.connected()
    run = await dayflow.get(run_id)
    alone = asyncio.create_task(_say_when_alone(settings, dayflow, run))
    with common.detachable(run_id):
        try:
            if json:
                await _report(settings, dayflow, run_id)
            else:
                await _see_through(settings, dayflow, run_id, verbose=True, json=False)
        finally:
            alone.cancel()


async def _say_when_alone(settings: "Settings", dayflow: "Dayflow", run: "Run") -> None:
    """Say once that no worker is up, as soon as that is so."""
    from client import contact

    while run.open and await dayflow.has_worker(run.task_queue):  # noqa: ASYNC110  the server tells nobody
        await asyncio.sleep(LOOK_S)
    if run.open and await contact.reach(settings):  # where the server is gone, that is what is said
        resume = commands.line("resume", run.run_id)
        output.note(f"no worker polls {run.task_queue!r}: the run stands still. `{resume}` lets it go on.")


async def _report(settings: "Settings", dayflow: "Dayflow", run_id: str) -> None:
    """The same as JSON lines; the last one is the record."""
    if last := await _followed(settings, dayflow, run_id, common.Report()):
        output.as_json_line({"event": "run", **last.record()})
        raise SystemExit(int(common.exit_code(last)))


async def _cancel(run_id: str) -> None:
    _, dayflow = await common.connected()
    await dayflow.cancel(run_id)
    await _say_sent(dayflow, run_id, "is asked to stop")


async def _send(run_id: str, name: str, content: dict[str, Any], then: str) -> None:
    _, dayflow = await common.connected()
    await dayflow.signal(run_id, name, content)
    await _say_sent(dayflow, run_id, then)


async def _say_sent(dayflow: "Dayflow", run_id: str, then: str) -> None:
    """What a run does with what was sent to it, and whether a worker is missing for that."""
    queue = await dayflow.queue(run_id)
    if not await dayflow.has_worker(queue):
        then += f"; it does so when a worker is up (`{common.worker_command(run_id, queue)}`)"
    output.say(f"{run_id} {then}. See `{commands.line('show', run_id)}`.")


def check_paths(**paths: Path | None) -> None:
    """End where nothing is at a path that was typed."""
    for name, path in paths.items():
        if path is not None and not path.expanduser().exists():
            output.fail(f"--{name}: there is nothing at {path}", Exit.USAGE)
