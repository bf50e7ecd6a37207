"""Commands that look: runs, show, steps, actions, transcript, replay, export. They need no worker."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client import chain, output
from client.commands import common
from client.output import Exit
from domain import agent as agents
from domain import commands, errors, views
from store import files, seal, settings

if TYPE_CHECKING:
    from client.run import Run
    from domain.state import RunState

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, which is its Temporal workflow id.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

Execution = Annotated[
    str | None,
    typer.Option(
        metavar="ID", help="An older execution of this id, as `dayflow show` lists them (default: the newest)."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("runs")(list_runs)
    app.command()(show)
    app.command()(steps)
    app.command()(actions)
    app.command()(transcript)
    app.command("replay")(replay_run)
    app.command("export")(export_run)
    app.command()(unseal)


def list_runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at the most.")] = 20,
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.")] = None,
    json: Json = False,
) -> None:
    """List the newest runs first: status, steps, tokens, cost."""
    common.run_async(_runs(limit, agent, json))


def show(run_id: RunArgument, execution: Execution = None, json: Json = False) -> None:
    """Show one run's record: where it stands, what it used, what it waits for, how it ended."""
    common.run_async(_show(run_id, execution, json))


def steps(run_id: RunArgument, execution: Execution = None, json: Json = False) -> None:
    """Show one row for each step: stop reason, what the model said and called, what came back, tokens."""
    common.run_async(_steps(run_id, execution, json))


def actions(
    run_id: Annotated[str | None, typer.Argument(metavar="[RUN]", help="The run's id.")] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Over all runs: effects that wait for `dayflow resolve`, and why.")
    ] = False,
    execution: Execution = None,
    json: Json = False,
) -> None:
    """Show one row for each tool call: id, tool, status, attempts, idempotency key.

    Example: `dayflow actions --unknown`
    """
    if unknown == (run_id is not None):
        output.fail("name a run, or ask for `--unknown` ones over all runs")
    common.run_async(_unknown(json) if run_id is None else _actions(run_id, execution, json))


def transcript(run_id: RunArgument, execution: Execution = None) -> None:
    """Print the exact `messages` list of the next model call, as JSON."""
    common.run_async(_transcript(run_id, execution))


def replay_run(run_id: RunArgument, json: Json = False) -> None:
    """Replay a run's history against today's code: ok, or where they part ways (exit 1)."""
    common.run_async(_replay(run_id, json))


def export_run(
    run_id: RunArgument,
    execution: Execution = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it to this file instead.")] = None,
) -> None:
    """Print all of a run as one JSON object: record, definition, steps, actions, decisions, costs.

    It can be read without a server, and stands in clear, with encryption too.

    Example: `dayflow export RUN --out run.json`
    """
    common.run_async(_export(run_id, execution, out))


def unseal(file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of the home.")]) -> None:
    """Print what an encrypted file holds, as the whole of a long result; one that is not encrypted as it is.

    Example: `dayflow unseal "$DAYFLOW_HOME/payloads/3f/3fa9c2…"`
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        output.fail(f"{file} cannot be read: {error.strerror}")
    opened = settings.load().seal.open(data) if seal.key_of(data) else data
    output.say(opened.decode(errors="replace"))


async def _runs(limit: int, agent: str | None, json: bool) -> None:
    _, dayflow = await common.connected()
    found, lost = await dayflow.runs(limit, agent=agent)
    if json:
        output.as_json([_row(run) for run in found])
    elif not found and not lost:
        output.say(_none(agent))
    else:
        columns = ("run", "agent", "status", "steps", "tokens", "cost", "started")
        output.table(columns, [_cells(run) for run in found])
    common.tell_lost(lost)


def _none(agent: str | None) -> str:
    if agent is None:
        return "No runs yet. Start one with `dayflow brief`."
    known = agents.discover()
    if agent not in known:
        return f"No runs of {agent!r}, which is no agent here; known agents: {', '.join(sorted(known))}."
    return f"No runs of {agent} yet."


def _row(run: "Run") -> dict[str, Any]:
    record = run.record()
    wanted = ("run_id", "agent", "status", "reason", "step", "totals", "waiting_for", "started_at", "updated_at")
    return {name: record[name] for name in wanted} | {"warning": run.warning}


def _cells(run: "Run") -> tuple[Any, ...]:
    record = run.record()
    why = record["reason"] or ", ".join(f"tries {one['activity']} again" for one in run.retrying)
    status = record["status"] + (f": {why}" if why else "")
    used = run.state.totals.usage.total if run.state else 0
    started = common.ago(run.started_at)
    return run.run_id, record["agent"], status, record["step"], f"{used:,}", common.cost(record), started


async def _show(run_id: str, execution: str | None, json: bool) -> None:
    settings, dayflow = await common.connected()
    run = await dayflow.get(run_id, execution)
    record = run.record()
    if json:
        output.as_json(record)
        return
    facts = ("run_id", "agent", "model", "requested_by", "task_queue", "started_at", "updated_at", "warning")
    output.table(("", ""), [(name, record[name]) for name in facts if record[name] is not None])
    told = (_plan_lines, _people_lines, _compacted, _spend_lines, _trouble_lines)
    for lines in told:
        for line in lines(record):
            output.say(line)
    for line in common.unheard_lines(run):
        output.say(line)
    if run.other_executions:
        output.say(f"other executions of this id, for --execution: {', '.join(run.other_executions)}")
    output.say()
    common.show_end(settings, run, staffed=await common.staffed(dayflow, run))


def _plan_lines(record: dict[str, Any]) -> list[str]:
    """The plan, and how far it has come."""
    if not record["plan"]:
        return []
    marks = {"done": "✓", "open": "·"}
    items = [f"  {marks[item['status']]} {item['title']} ({item['tool']})" for item in record["step_results"]]
    return [f"plan, at {record['current_step']}:", *items]


def _people_lines(record: dict[str, Any]) -> list[str]:
    """What waits for a person, and who approved what."""
    lines = []
    for one in record["pending_actions"]:
        waits = _waits(one)
        role = f" by {one['role']}" if one["role"] else ""
        lines.append(f"{one['action_id']} {one['tool']} {waits}{role}: {common.compact(one['arguments'])}")
        if one["why"]:
            lines.append(f"  {one['why']}")
        if conflict := one["conflict"]:
            what = "this, with other arguments" if conflict["changed"] else "the same"
            lines.append(f"  conflict: {conflict['run_id']} {conflict['action_id']} did, or is doing, {what}")
    lines += [f"{one['action_id']} was approved by {one['approver']} at {one['at']}" for one in record["approved_by"]]
    return lines


def _waits(pending: dict[str, Any]) -> str:
    if pending["status"] == "awaiting_approval":
        return "waits for approval"
    changed = pending["conflict"] and pending["conflict"]["changed"]
    return "was sent before with other arguments" if changed else "may or may not have happened"


def _compacted(record: dict[str, Any]) -> list[str]:
    """How often the transcript was made shorter, and why it was not, the last time."""
    found = record["compactions"]
    done = [one for one in found if not one["skipped"]]
    lines = [f"compacted {len(done)} times, last before step {done[-1]['step']}"] if done else []
    if found and found[-1]["skipped"]:
        lines.append(f"not compacted before step {found[-1]['step']}: {found[-1]['skipped']}")
    return lines


def _spend_lines(record: dict[str, Any]) -> list[str]:
    """What the run cost, what the prompt cache saved of it, and what may have been paid twice."""
    totals = record["totals"]
    spent, saved, maybe = totals["cost_usd"], totals["cache_saved_usd"], totals["possibly_paid"]
    line = f"spent {common.cost(record)}"
    if spent and saved:
        share = abs(saved) / (spent + saved)
        line += f"; the prompt cache {'saved' if saved > 0 else 'added'} ${abs(saved):.4f} ({share:.0%})"
    lines = [line] if record["step"] else []
    if maybe["calls"]:
        most = "cost unknown" if maybe["held_usd"] is None else f"at most ${maybe['held_usd']:.4f}"
        lines.append(f"possibly paid besides: {maybe['calls']} call{'s' if maybe['calls'] > 1 else ''}, {most}")
    return lines


def _trouble_lines(record: dict[str, Any]) -> list[str]:
    bad, again = record["refused_messages"], record["retrying"]
    lines = [f"{one['activity']} is tried again by itself, attempt {one['attempt']}: {one['error']}" for one in again]
    lines += [f"warning: {record['cache_warning']}"] if record["cache_warning"] else []
    return lines + [f"refused message {one['name']!r}: {one['why']}" for one in bad["last"]]


async def _steps(run_id: str, execution: str | None, json: bool) -> None:
    taken = chain.steps(await _states(run_id, execution))
    if json:
        output.as_json([views.step(step) for step in taken])
        return
    if not taken:
        output.say(f"No steps: {run_id} has not asked the model. See `{commands.line('show', run_id)}`.")
    for step in taken:
        output.say(common.step_line(step))
        for line in [*common.call_lines(step, last=True), *common.result_lines(step)]:
            output.say(line)


async def _actions(run_id: str, execution: str | None, json: bool) -> None:
    rows = [views.action(action) for action in chain.actions(await _states(run_id, execution))]
    if json:
        output.as_json(rows)
        return
    if not rows:
        output.say(f"No actions: {run_id} has called no tool. See `{commands.line('steps', run_id)}`.")
        return
    columns = ("action_id", "tool", "status", "attempts", "intent", "idempotency_key")
    output.table(columns, [[row[name] for name in columns] for row in rows])


async def _unknown(json: bool) -> None:
    from client import unresolved

    _, dayflow = await common.connected()
    async with common.store() as store:
        rows, lost = await unresolved.find(dayflow, store)
    if json:
        output.as_json(rows)
    elif not rows and not lost:
        output.say("No effect waits for a person to say whether it happened.")
    else:
        for row in rows:
            what = row["intent"] or common.compact(row["arguments"])
            output.say(common.short(f"{row['run_id']} {row['action_id']} {row['tool']}: {what}"))
            output.say(f"  {common.short(row['why'] or '')}")
            output.say(f"  next:   {_answer(row['command'])}")
    common.tell_lost(lost)


def _answer(command: str | None) -> str:
    if command is None:
        return "look at the destination; the server has forgotten this run"
    return common.with_notes(command, views.to_add(command))


async def _transcript(run_id: str, execution: str | None) -> None:
    output.as_json((await _state(run_id, execution)).transcript.messages)


async def _replay(run_id: str, json: bool) -> None:
    _, dayflow = await common.connected()
    divergence = await dayflow.divergence(run_id)
    if json:
        output.as_json({"run_id": run_id, "ok": divergence is None, "divergence": divergence})
    elif divergence is None:
        output.say(f"{run_id}: ok, today's code goes the way of its history")
    else:
        output.say(f"{run_id}: today's code leaves its history: {divergence}")
    if divergence is not None:
        raise SystemExit(int(Exit.FAILED))


async def _export(run_id: str, execution: str | None, out: Path | None) -> None:
    from client import export

    _, dayflow = await common.connected()
    exported = await export.run(dayflow, run_id, execution)
    if out is None:
        output.as_json(exported)
        return
    try:
        files.write(out, export.encode(exported))
    except OSError as error:
        output.fail(f"{out} cannot be written: {error.strerror}; name another --out")
    output.say(f"{run_id}: {len(exported['steps'])} steps, {len(exported['actions'])} actions, in {out}")


async def _state(run_id: str, execution: str | None) -> "RunState":
    """The state of the newest execution."""
    _, dayflow = await common.connected()
    return _begun(await dayflow.last(run_id, execution))


async def _states(run_id: str, execution: str | None) -> "list[RunState]":
    """The states of all executions that the run went through, oldest first."""
    _, dayflow = await common.connected()
    return [_begun(run) for run in await dayflow.executions(run_id, execution)]


def _begun(run: "Run") -> "RunState":
    if run.state is None:
        raise errors.NotFound(f"{run.run_id} has not begun: no worker has taken it up. Start one with `dayflow up`.")
    return run.state
