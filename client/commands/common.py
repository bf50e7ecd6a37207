"""What the commands share: connecting, following a run on the screen, and how its end is shown."""

import asyncio
import getpass
import os
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self
from urllib.parse import quote

from rich.status import Status as Spinner

from client import live, output
from client.live import Partial
from client.output import Exit
from domain import commands, errors, views
from domain.model import Attempt, Event
from domain.status import Status
from store import settings as environment

if TYPE_CHECKING:
    from client.dayflow import Dayflow
    from client.run import Run
    from domain.step import Step
    from store.database import Database
    from store.settings import Settings

ENDED = {Status.DONE, Status.CANCELLED}
EXIT_CODES = {
    Status.DONE: Exit.DONE,
    Status.FAILED: Exit.FAILED,
    Status.CANCELLED: Exit.FAILED,
    Status.PAUSED: Exit.PAUSED,
    Status.AWAITING_APPROVAL: Exit.WAITING,
    Status.AWAITING_RESOLUTION: Exit.WAITING,
}
SHOWN_CHARACTERS = 160
# What is tried again may mend itself for so long; then one line says so.
PATIENCE_S = 3.0
# A server that does not answer for so long is gone.
LOST_S = 4.0
# What a worker in this process gives its activities then, which can tell nobody of their end.
LEAVE_S = 3.0


def user() -> str:
    """Who types, as the system knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def run_async(work: Coroutine[Any, Any, None]) -> None:
    """Run a command's work."""
    asyncio.run(work)


def check(wanted: dict[str, Any], example: str) -> None:
    """Refuse what no run could begin with, before anything is started. example: how this command is given a task."""
    from domain import agent, request

    if not wanted["agent"].strip():
        raise errors.BadRequest(f"name an agent; known agents: {', '.join(sorted(agent.discover()))}")
    checked = request.check(wanted)
    agent.find(checked.agent).task_for(checked.task, example)


async def connected() -> "tuple[Settings, Dayflow]":
    """The settings, and a client of the server that is up."""
    from temporalio.service import RetryConfig

    from client import connection
    from client.dayflow import Dayflow

    settings, retries = environment.load(), RetryConfig(max_elapsed_time_millis=int(LOST_S * 1000))
    return settings, Dayflow(await connection.connect(settings, retry_config=retries))


async def ready() -> "tuple[Settings, Dayflow]":
    """The same, with the server and the sandbox started if they are missing."""
    from client import processes

    await processes.ensure(environment.load(), progress=output.note)
    return await connected()


@asynccontextmanager
async def hosted(host: Any, settings: "Settings", dayflow: "Dayflow", task_queue: str) -> AsyncIterator[None]:
    """A worker in this process, for as long as the block runs."""
    async with AsyncExitStack() as stack:
        with output.slow("loading the worker that this process hosts"):
            await stack.enter_async_context(host(dayflow.client, settings, task_queue))
        yield


def queue_for(run_id: str, *, alone: bool) -> str:
    """The task queue of a run; one that is to crash has it to itself."""
    from client.dayflow import TASK_QUEUE

    return f"{TASK_QUEUE}-{run_id}" if alone else TASK_QUEUE


async def set_sources(
    settings: "Settings", dayflow: "Dayflow", run_id: str, inbox: Path | None, calendar: Path | None
) -> None:
    """Tell the store where this run reads from, so that every worker and every resume reads there."""
    from store.runs import Runs

    resolved = [path.expanduser().absolute() if path else None for path in (inbox, calendar)]
    async with store(settings) as database:
        await Runs(database, dayflow.client.namespace).set_sources(run_id, *resolved)


@asynccontextmanager
async def store(settings: "Settings | None" = None) -> "AsyncIterator[Database]":
    """The store, for as long as the block runs."""
    from store import database

    opened = await database.connect(settings or environment.load())
    try:
        yield opened
    finally:
        await opened.close()


@contextmanager
def detachable(run_id: str, *, begun: bool = True) -> "Iterator[Detachable]":
    """Ctrl-C leaves the run as it is, and says how to look again."""
    run = Detachable(run_id, begun)
    try:
        yield run
    except (KeyboardInterrupt, asyncio.CancelledError):
        output.note(("\ndetached: " if run.begun else "\n") + run.left)
        raise SystemExit(130) from None


def lost(run_id: str, why: str) -> NoReturn:
    """The server went away while a run was followed: say so, and leave soon, even if a worker here cannot end well."""
    asyncio.get_running_loop().call_later(LEAVE_S, output.leave, int(Exit.NO_SERVER))
    output.fail(f"the Temporal server is gone ({why}). {Detachable(run_id, begun=True).left}", Exit.NO_SERVER)


@dataclass
class Detachable:
    """A run that goes on without us. begun: whether it is there; None while that cannot be told."""

    run_id: str
    begun: bool | None

    @property
    def left(self) -> str:
        """What is left when nobody follows it any more, and what to do."""
        show, resume, watch = (commands.line(verb, self.run_id) for verb in ("show", "resume", "watch"))
        if self.begun is None:
            return f"{self.run_id} was just being started: `{show}` says whether it is there."
        if not self.begun:
            return f"{self.run_id} was not started; nothing of it is there."
        return (
            f"{self.run_id} is recorded up to its last step. It goes on where a worker is up (`dayflow up`), "
            f"or here with `{resume}`. Look with `{show}` or "
            f"`{watch}`."
        )


class Progress:
    """A run on the screen: each step, and what the model says just now, when verbose; else what it does now."""

    def __init__(self, *, verbose: bool, after: int = 0) -> None:
        self._shown = after
        self._answered = after
        self._partial = Partial(live.screen(), after) if verbose else None
        self._spinner = Spinner("starting", console=output.err) if sys.stderr.isatty() and not verbose else None
        self.hear: live.Hear | None = self._partial.hear if self._partial else None
        self.patience = 0.0 if verbose else PATIENCE_S

    def __enter__(self) -> Self:
        if self._spinner:
            self._spinner.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._spinner:
            self._spinner.stop()
        if self._partial:
            self._partial.clear()

    def show(self, run: "Run") -> None:
        """Show what is new."""
        if run.warning:
            output.note(f"the worker cannot go on with {run.run_id}: {run.warning}")
        if run.state is None:
            return
        if self._spinner:
            self._spinner.update(output.escape(f"{run.run_id}: {run.status.value}, step {run.state.step}"))
        if self._partial and (lines := self._new_lines(run.state.steps)):
            self._partial.clear()
            for line in lines:
                output.say(line)
            self._partial.reach(self._shown, ready=self._answered == self._shown)

    def _new_lines(self, steps: "list[Step]") -> list[str]:
        """Each step with what it called, and right below it what came back, once that is known."""
        lines = []
        for step in (step for step in steps if step.n > self._answered):
            if step.n > self._shown:
                lines += [step_line(step), *call_lines(step)]
                self._shown = step.n
            if is_answered(step):
                lines += result_lines(step)
                self._answered = step.n
        return lines


class Report(Progress):
    """A run as JSON lines: `heard` as it is said, `step` and `results` when they are recorded."""

    def __init__(self, after: int = 0) -> None:
        super().__init__(verbose=False, after=after)
        self.hear = self._heard

    def show(self, run: "Run") -> None:
        """Print what is new."""
        super().show(run)

        for step in run.state.steps if run.state else []:
            if step.n > self._shown:
                self._shown = step.n
                output.as_json_line({"event": "step", **views.step(step)})
            if step.n > self._answered and is_answered(step):
                self._answered = step.n
                output.as_json_line({"event": "results", "n": step.n, "tool_results": step.tool_results})

    def _heard(self, attempt: Attempt, event: Event) -> None:
        if attempt.step > self._shown:
            output.as_json_line({"event": "heard", **attempt._asdict(), **event})


def is_answered(step: "Step") -> bool:
    """Whether nothing of this step is still to come."""
    return bool(step.tool_results) or step.stop_reason != "tool_use"


def step_line(step: "Step") -> str:
    """`step 2  tool_use  1,234 in, 56 out`."""
    line = f"step {step.n}  {step.stop_reason}  {step.usage.prompt:,} in, {step.usage.output_tokens:,} out"
    return line + (f"  ({step.possibly_paid} possibly paid before)" if step.possibly_paid else "")


def call_lines(step: "Step", *, last: bool = False) -> list[str]:
    """The text and the calls of a step. last: the words of a last answer, too, which no result follows here."""
    lines = []
    for block in step.assistant:
        if block.get("type") == "text" and (last or step.stop_reason == "tool_use"):
            lines.append(f"  {short(block['text'])}")
        if block.get("type") == "tool_use":
            lines.append(f"  → {block['name']} {short(compact(block['input']))}")
    return lines


def result_lines(step: "Step") -> list[str]:
    """What the tools answered, in a few words each."""
    lines = []
    for result in step.tool_results:
        text = " ".join(block.get("text", "") for block in result["content"])
        mark = "✗" if result.get("is_error") else "✓"
        lines.append(f"  {mark} {short(text)}")
    return lines


async def staffed(dayflow: "Dayflow", run: "Run") -> bool:
    """Whether a worker goes on with the run when this process has ended."""
    from client import workers

    return await dayflow.has_worker(run.task_queue, besides=workers.own())


def worker_command(run_id: str, task_queue: str) -> str:
    """The command that gives the run a worker."""
    from client.dayflow import TASK_QUEUE

    return "dayflow up" if task_queue == TASK_QUEUE else commands.line("resume", run_id)


def unheard_lines(run: "Run") -> list[str]:
    """What was said to a run, and no worker has worked in yet."""
    start = worker_command(run.run_id, run.task_queue)
    return [f"sent, and not judged yet: {name} (a worker does: `{start}`)" for name in run.unheard if run.open]


def show_end(settings: "Settings", run: "Run", *, staffed: bool) -> None:
    """The result or the reason, what it took, and the one next step. staffed: a worker goes on with it."""
    record = run.record()
    if record["result"]:
        output.say(record["result"])
        output.say()
    output.say(summary(record))
    if record["error"]:
        output.say(f"reason: {record['error']['message']}")
    if record["simulated"]:
        output.say("The sandbox answered (rules, not a language model); set ANTHROPIC_API_KEY for a real one.")
    if address := run_address(settings, run):
        output.say(f"web UI: {address}")
    output.say(f"next:   {_next(run, record['next_command'], staffed=staffed)}")


def _next(run: "Run", answer: str | None, *, staffed: bool) -> str:
    """The next command; a word that only a worker hears needs one first."""
    start, alone = worker_command(run.run_id, run.task_queue), "no worker is up to go on with it"
    if answer is None and run.open and not staffed:
        return with_notes(start, alone)
    if answer is None:
        return commands.line("watch" if run.open else "steps", run.run_id)
    if staffed or answer.startswith("dayflow resume"):
        return with_notes(answer, views.to_add(answer))
    if run.unheard:
        return with_notes(start, "a worker judges what was sent")
    both = f"{start} && {answer}" if start == "dayflow up" else f"{answer}, then {start}"
    return with_notes(both, views.to_add(answer), alone)


def with_notes(command: str, *notes: str) -> str:
    """A command, and what has to be known besides; a line that is pasted whole is refused by the shell."""
    return f"{command}    ({'; '.join(filter(None, notes))})" if any(notes) else command


def summary(record: dict[str, Any]) -> str:
    """One line: id, status, steps, tokens, cost."""
    totals = record["totals"]
    tokens = sum(totals[name] for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"))
    why = f" ({record['reason']})" if record["reason"] else ""
    line = f"run {record['run_id']}: {record['status']}{why}, {record['step']} steps, {tokens:,} tokens, {cost(record)}"
    maybe = totals["possibly_paid"]["calls"]
    return line + (f", {maybe} call{'s' if maybe > 1 else ''} possibly paid besides" if maybe else "")


def cost(record: dict[str, Any]) -> str:
    """`$0.0123`, or that it is not known."""
    amount = record["totals"]["cost_usd"]
    if amount is None:
        return "cost unknown"
    return f"${amount:.4f}" + (" (simulated)" if record["simulated"] else "")


def run_address(settings: "Settings", run: "Run") -> str | None:
    """The run's timeline in the web UI, where that is known."""
    from client import connection

    base = connection.known_ui(settings)
    place = f"{connection.namespace()}/workflows/{quote(run.run_id, safe='')}/{run.execution}"
    return base and f"{base}/namespaces/{place}/timeline"


def tell_lost(lost: list[str]) -> None:
    """Name what a list could not read, after the rest of it, and end."""
    for line in lost:
        output.note(line)
    if lost:
        raise SystemExit(int(Exit.FAILED))


def exit_code(run: "Run") -> Exit:
    """How a command that followed a run ends."""
    return EXIT_CODES.get(run.status, Exit.DONE)


def ago(moment: Any) -> str:
    """How long ago, in the largest whole unit."""
    seconds = max(0, int(time.time() - moment.timestamp()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def compact(value: Any) -> str:
    """JSON in one line."""
    import json

    return json.dumps(value, ensure_ascii=False)


def short(text: str) -> str:
    """One line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"
