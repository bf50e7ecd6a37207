"""Commands for the processes of a home: up, down, status, logs, open, worker, doctor."""

import contextlib
import os
import platform
import time
import webbrowser
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client import output
from client.commands import common
from client.output import Exit
from domain import errors
from store import logs as log_lines
from store import settings as environment

if TYPE_CHECKING:
    from client.doctor import Check
    from client.processes import PartStatus
    from store.settings import Settings

FOLLOW_S = 0.2
WAIT_S = 60.0
NAMED_RUNS = 10
MARKS = {"ok": "✓ ok", "off": "· off", "warn": "! look", "broken": "✗ broken"}
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class PartName(StrEnum):
    """The parts that run in the background."""

    SERVER = "server"
    SANDBOX = "sandbox"
    CODEC = "codec"
    WORKER = "worker"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(up)
    app.command()(down)
    app.command()(status)
    app.command()(logs)
    app.command("open")(open_ui)
    app.command()(worker)
    app.command()(codec)
    app.command()(doctor)


def up(
    worker: Annotated[bool, typer.Option(help="Start a worker too, or leave that to `dayflow worker`.")] = True,
) -> None:
    """Start the Temporal server, the sandbox and a worker in the background; what runs already stays as it is.

    With a worker up, runs go on by themselves: after a crash, after an approval, at night.
    The sandbox is started only if it stands in for something, the server only if no TEMPORAL_ADDRESS is set.

    Example: `dayflow up && dayflow brief`

    A second home beside the first: `DAYFLOW_HOME=~/other DAYFLOW_PORT=7333 DAYFLOW_UI_PORT=8333
    DAYFLOW_SANDBOX_PORT=8334 dayflow up`
    """
    common.run_async(_up(worker))


def down() -> None:
    """Stop what `dayflow up` started: the worker first, the server last. Runs that are open go on at the next `up`.

    Example: `dayflow down && dayflow up` starts everything anew, with the variables as they are now.
    """
    common.run_async(_down())


def status(json: Json = False) -> None:
    """Show which parts run, where, and since when. Exit code: 0 all run, 5 the server does not, 1 another does not.

    Example: `dayflow status --json`
    """
    common.run_async(_status(json))


def logs(
    part: Annotated[PartName | None, typer.Argument(help="Only this part.", show_default="all of them")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many lines of each.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines as they come, until Ctrl-C.")] = False,
) -> None:
    """Print the end of the logs of what runs in the background.

    Example: `dayflow logs worker -n 100 -f`
    """
    ends = {file: _size(file) for file in _logs(environment.load(), part)}
    for file in ends:
        if file.exists():
            _heading(file, only=len(ends) == 1)
            for line in _whole_lines(file, 0, ends)[-lines:] if lines else ():
                output.say(line)
    if not follow and not any(ends.values()):
        output.note("No log yet: `dayflow up` starts what writes it.")
    if follow:
        _follow(ends)


def open_ui(
    only_print: Annotated[bool, typer.Option("--print", help="Print the address and open nothing.")] = False,
) -> None:
    """Open Temporal's web UI, where each run shows its steps as a timeline.

    Example: `dayflow open --print`
    """
    from client import connection

    settings = environment.load()
    address = connection.known_ui(settings)
    if address is None:
        output.fail("Dayflow does not know the web UI of your own server: set TEMPORAL_UI_ADDRESS, as http://host:port")
    output.say(address)
    if settings.seal.on:
        address = _codec_link(settings)
    if not only_print and not _opened(address):
        output.note("No browser could be opened from here: open the address by hand.")


def worker(
    context: typer.Context,
    task_queue: Annotated[str | None, typer.Option(help="Task queue.", show_default="dayflow")] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for a server that is not there yet.")] = WAIT_S,
) -> None:
    """Run a worker here, in the foreground, until Ctrl-C or SIGTERM: it does the steps of all runs.

    Start as many as you like, on as many machines; with a TEMPORAL_ADDRESS they work for your own server.
    More than one machine needs one DAYFLOW_DATABASE_URL for all.

    Example: `dayflow worker`

    Example: `TEMPORAL_ADDRESS=temporal.example.com:7233 TEMPORAL_NAMESPACE=agents dayflow worker`
    """
    common.run_async(_worker(context.obj, task_queue, wait))


def codec(
    print_token: Annotated[bool, typer.Option("--print-token", help="Print the token and serve nothing.")] = False,
) -> None:
    """Run the codec server here, by which the web UI and the Temporal CLI read encrypted runs; `dayflow up` does, too.

    Example: `temporal workflow show --workflow-id RUN --codec-endpoint http://127.0.0.1:8237/dayflow-codec
    --codec-auth "Bearer $(dayflow codec --print-token)"`
    """
    from client import codec_server

    settings = environment.load()
    if print_token:
        codec_server.check(settings)
        output.say(settings.codec_token)
    else:
        log_lines.begin()
        common.run_async(codec_server.serve(settings))


def doctor(
    json: Json = False,
    crash_points: Annotated[
        bool, typer.Option("--crash-points", help="List the points at which DAYFLOW_CRASH_AT can kill a worker.")
    ] = False,
) -> None:
    """Check all that Dayflow needs, and say what to do about what is missing; then list every setting.

    Exit code: 0, or 1 if something that is needed is broken. Keys and passwords are never printed.

    Example: `dayflow doctor`

    Example: `DAYFLOW_CRASH_AT=model.received:2 dayflow run brief`, then `dayflow resume RUN`
    """
    if crash_points:
        _crash_points(json)
    else:
        common.run_async(_doctor(json))


def _codec_link(settings: "Settings") -> str:
    """A link that lets this browser read what is encrypted, and leads on to the web UI."""
    from client import codec_server, connection

    try:
        link = codec_server.link(settings)
    except errors.Unreachable as error:
        output.note(str(error))
        return connection.ui_address(settings)
    output.note(f"to read encrypted runs there, open this once, within {codec_server.TICKET_S:.0f} s: {link}")
    output.note(
        f"and tell the page once, by its glasses: use my browser setting, {codec_server.endpoint(settings)}, "
        "include cross-origin credentials."
    )
    return link


async def _up(worker: bool) -> None:
    from client import connection, processes

    settings = environment.load()
    found = await processes.ensure(settings, worker=worker, progress=output.note)
    if not any(one.started for one in found):
        output.say("Dayflow is up already.")
    rows = [(one.part, "started" if one.started else "was running", one.address, one.pid) for one in found]
    output.table(("part", "", "address", "pid"), rows)
    output.say()
    output.say(f"home    {settings.home}")
    if ui := connection.known_ui(settings):
        output.say(f"web UI  {ui}    (`dayflow open`)")
    if address := _another_address(settings):
        output.say(f"CLI     temporal … {address}")
    output.say(await _next(settings))


async def _next(settings: "Settings") -> str:
    """What to do next: what waits for a person goes first."""
    from temporalio.service import RPCError

    from client import connection
    from client.dayflow import Dayflow

    waiting: tuple[list[Any], list[str]] = [], []
    with contextlib.suppress(errors.DayflowError, RPCError):  # a server of one's own may be down, or keep no list
        waiting = await Dayflow(await connection.connect(settings)).waiting()
    return f"next:   dayflow {'approvals' if any(waiting) else 'brief'}"


def _another_address(settings: "Settings") -> str | None:
    """What Temporal's own command has to be told to find the server of this home; None where it finds it alone."""
    from client import connection

    usual = type(settings).model_fields["port"].default
    return f"--address {connection.address(settings)}" if connection.embedded() and settings.port != usual else None


async def _down() -> None:
    from client import processes

    settings = environment.load()
    for line in [*await _open_runs(settings), *await _other_workers(settings)]:
        output.note(line)
    stopped = await processes.down(settings, output.note)
    output.say(f"stopped: {', '.join(stopped)}" if stopped else "Nothing was running that `dayflow up` started.")


async def _open_runs(settings: "Settings") -> list[str]:
    """What goes on when the server is up again, where it is ours and up now."""
    from client import connection, contact
    from client.dayflow import Dayflow

    client = await contact.reach(settings) if connection.embedded() else None
    found = await Dayflow(client).unfinished(NAMED_RUNS + 1) if client else []
    more = " and more" if len(found) > NAMED_RUNS else ""
    told = f"open, and going on at the next `dayflow up` or `dayflow resume`: {', '.join(found[:NAMED_RUNS])}{more}"
    return [told] if found else []


async def _other_workers(settings: "Settings") -> list[str]:
    """Those that lose their server, and are not stopped with it."""
    from client import connection
    from client.embedded import Worker

    found = await Worker(settings).others() if connection.embedded() else []
    told = f"not started by `dayflow up`, and left running (Ctrl-C where it runs ends it): worker {', '.join(found)}"
    return [told] if found else []


async def _status(json: bool) -> None:
    from client import processes

    settings = environment.load()
    found = await processes.status(settings)
    if json:
        output.as_json([vars(one) for one in found])
    else:
        rows = [(one.part, one.state, one.address, one.pid, _since(one.since)) for one in found]
        output.table(("part", "state", "address", "pid", "since"), rows)
        for one in found:
            if one.note:
                output.say(f"{one.part}: {one.note}")
        if address := _another_address(settings):
            output.say(f"Temporal's own command finds this server by `temporal … {address}`.")
    raise SystemExit(int(_code(found)))


def _since(moment: str | None) -> str | None:
    return common.ago(datetime.fromisoformat(moment)) if moment else None


def _code(found: "list[PartStatus]") -> Exit:
    down_ = {one.part for one in found if not one.running}
    if "server" in down_:
        return Exit.NO_SERVER
    return Exit.FAILED if down_ else Exit.DONE


def _logs(settings: "Settings", part: PartName | None) -> list[Path]:
    return [settings.home / "logs" / f"{name}.log" for name in ([part] if part else PartName)]


def _heading(file: Path, *, only: bool) -> None:
    if not only:
        output.say(f"==> {file.stem} <==")


def _follow(ends: dict[Path, int]) -> None:
    """Print what comes after these ends of the files."""
    last = next(iter(ends)) if len(ends) == 1 else None
    while True:
        for file, seen in list(ends.items()):
            size = _size(file)
            ends[file] = size
            # A log that has shrunk was put aside when it grew too large, and begun anew.
            for line in _whole_lines(file, seen if seen <= size else 0, ends):
                if last is not file:
                    _heading(file, only=False)
                last = file
                output.say(line)
        time.sleep(FOLLOW_S)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _whole_lines(file: Path, start: int, ends: dict[Path, int]) -> list[str]:
    """The lines from here to the end; a line that is half written is left, and the end set before it."""
    if ends[file] <= start:
        return []
    with file.open("rb") as log:
        log.seek(start)
        whole, newline, half = log.read(ends[file] - start).rpartition(b"\n")
    ends[file] -= len(half)
    return whole.decode(errors="replace").split("\n") if newline else []


def _opened(address: str) -> bool:
    """A text browser would take the terminal: without a display nothing is opened."""
    shown = platform.system() != "Linux" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    return shown and webbrowser.open(address)


async def _worker(host: Any, task_queue: str | None, wait: float) -> None:
    from client import hosting, logfile
    from client.dayflow import TASK_QUEUE

    logfile.begin_worker()
    await hosting.serve(host, environment.load(), task_queue or TASK_QUEUE, wait)


def _crash_points(json: bool) -> None:
    from store import crash

    if json:
        output.as_json(crash.POINTS)
        return
    output.table(("point", "where the worker dies"), crash.POINTS.items())
    output.say()
    output.say("DAYFLOW_CRASH_AT=NAME kills the worker's process there by SIGKILL, NAME:N at the N-th time.")


async def _doctor(json: bool) -> None:
    from client import doctor as doctors
    from client import variables

    checks, rows = await doctors.examine(), variables.listed()
    healthy = not any(check.state == "broken" for check in checks)
    if json:
        output.as_json(
            {"ok": healthy, "checks": [vars(one) for one in checks], "settings": [vars(row) for row in rows]}
        )
    else:
        _print_checks(checks)
        output.say()
        width = max(len(row.name) for row in rows)
        for row in rows:
            output.say(f"{row.name:<{width}}  {row.source:<7}  {row.value or '–'}  ({row.about})")
    raise SystemExit(int(Exit.DONE if healthy else Exit.FAILED))


def _print_checks(checks: "list[Check]") -> None:
    output.table(("part", "", "found"), [(one.name, MARKS[one.state], one.found) for one in checks])
    todo = [one for one in checks if one.todo and one.state != "ok"]
    if todo:
        output.say()
    for one in todo:
        output.say(f"{one.name}: {one.todo}")
