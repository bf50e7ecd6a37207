"""Commands by which people decide: approvals, approve, deny, edit, decisions, resolve, raise, keys, reset."""

import asyncio
import json as jsons
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client import output
from client.commands import common
from client.commands.inspect import Execution
from client.commands.runs import above_zero
from client.output import Exit
from domain import actions as domain_actions
from domain import commands, errors, views

if TYPE_CHECKING:
    from client.dayflow import Dayflow
    from client.run import Run
    from domain.actions import Action
    from domain.decisions import Ruling
    from store.settings import Settings

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
ActionArgument = Annotated[
    str | None, typer.Argument(metavar="[ACTION]", help="The action's id; needless where only one waits.")
]
As = Annotated[str | None, typer.Option("--as", envvar="DAYFLOW_AS", help="Who decides: a name of the approvers file.")]
Comment = Annotated[str | None, typer.Option(help="Why; it stands in the record, and the model reads it on a no.")]
Again = Annotated[bool, typer.Option("--again", help="Approve although another action holds the same intent.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
UPDATE_S = 15.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(approvals)
    app.command()(approve)
    app.command()(deny)
    app.command()(edit)
    app.command()(decisions)
    app.command()(resolve)
    app.command("raise")(raise_limits)
    app.command()(reset)
    keys = typer.Typer(no_args_is_help=True, help="Keys: pairs by which decisions are signed, and one to encrypt with.")
    keys.command("new")(new_key)
    keys.command("encryption")(new_encryption_key)
    app.add_typer(keys, name="keys")


def approvals(json: Json = False) -> None:
    """List what waits for a person, over all runs: exactly what will run, and until when it waits."""
    common.run_async(_approvals(json))


def approve(
    run_id: RunArgument,
    action_id: ActionArgument = None,
    approver: As = None,
    again: Again = False,
    comment: Comment = None,
    json: Json = False,
) -> None:
    """Approve an action: it runs once, with exactly the arguments that were shown.

    Example: `dayflow approve r-1042 s3.1-3fa9c2 --as lead@example.com`
    """
    common.run_async(_decide("approve", run_id, action_id, approver, {"again": again, "comment": comment}, json))


def deny(
    run_id: RunArgument,
    action_id: ActionArgument = None,
    approver: As = None,
    comment: Comment = None,
    json: Json = False,
) -> None:
    """Say no to an action: it does not run, and is not asked again."""
    common.run_async(_decide("deny", run_id, action_id, approver, {"comment": comment}, json))


def edit(
    run_id: RunArgument,
    arguments: Annotated[str, typer.Argument(help='All arguments, as JSON: \'{"order_id": "1042", …}\'')],
    action_id: Annotated[str | None, typer.Option("--action", help="The action's id.")] = None,
    approver: As = None,
    comment: Comment = None,
    json: Json = False,
) -> None:
    """Give an action other arguments. It becomes another action with another id, and is decided about anew."""
    more = {"arguments": _read(arguments), "comment": comment}
    common.run_async(_decide("edit", run_id, action_id, approver, more, json))


def decisions(run_id: RunArgument, execution: Execution = None, json: Json = False) -> None:
    """List every decision about a run's actions, taken or refused, with its reason."""
    common.run_async(_decisions(run_id, execution, json))


def resolve(
    run_id: RunArgument,
    action_id: ActionArgument = None,
    done: Annotated[bool | None, typer.Option("--done/--not-done", help="Whether the effect happened.")] = None,
    result: Annotated[str | None, typer.Option(help="What came back, if you know it.")] = None,
    by: As = None,
) -> None:
    """Say whether an effect happened of which nobody knows. Look at the destination first.

    Example: `dayflow resolve r-1042 s3.1-3fa9c2 --done --as lead@example.com`
    """
    if done is None:
        output.fail("did it happen? Look at the destination, then add --done or --not-done")
    common.run_async(_resolve(run_id, action_id, "done" if done else "not_done", result, by))


def raise_limits(
    run_id: RunArgument,
    tokens: Annotated[int | None, typer.Option(min=1, help="New limit of tokens for the whole run.")] = None,
    usd: Annotated[float | None, typer.Option(callback=above_zero, help="New limit of dollars.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="New limit of steps.")] = None,
    seconds: Annotated[float | None, typer.Option(callback=above_zero, help="New limit of time.")] = None,
    by: Annotated[
        str | None, typer.Option("--by", "--as", envvar="DAYFLOW_AS", help="Who gives it (default: your user name).")
    ] = None,
) -> None:
    """Give a run new limits; they count for the whole run. One that is paused for its budget goes on.

    Example: `dayflow raise r-1042 --tokens 600000 --by lead@example.com`
    """
    given = {"tokens": tokens, "usd": usd, "steps": steps, "seconds": seconds}
    limits = {name: value for name, value in given.items() if value}
    if not limits:
        output.fail("name a new limit, such as --tokens 600000")
    common.run_async(_raise(run_id, by or common.user(), limits))


def reset(
    run_id: RunArgument,
    at: Annotated[int, typer.Option(min=1, help="Go on from this step.")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask the model anew, and pay for it.")] = False,
) -> None:
    """Let a run go on from an earlier step. Stored answers of the model are used again, and no effect happens twice.

    Example: `dayflow reset r-1042 --at 3 --fresh`
    """
    common.run_async(_reset(run_id, at, fresh))


def new_key(name: Annotated[str, typer.Argument(help="The approver's name in the approvers file.")]) -> None:
    """Make a key pair: the private key stays in this home, the line with the public key goes into the approvers file.

    Example: `dayflow keys new lead@example.com`
    """
    from client import keys
    from store import settings as environment

    made = keys.new(environment.load().home, name)
    output.say(f"private key: {made.file}")
    output.say(f"into the approvers file, at {name}:")
    output.say(made.public_line)


def new_encryption_key(
    key_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Its id, which stands in clear.", show_default="today's date")
    ] = None,
) -> None:
    """Print a new key for DAYFLOW_ENCRYPTION_KEYS. It is kept nowhere: without it what it encrypts is lost.

    Example: `export DAYFLOW_ENCRYPTION_KEYS="$(dayflow keys encryption)"`
    """
    from store import seal

    chosen = key_id or f"{datetime.now(UTC):k%Y%m%d}"
    if not seal.ID.fullmatch(chosen):
        raise errors.BadRequest(f"{chosen!r} cannot be the id of a key: letters, digits, '.', '_' and '-', 50 at most")
    output.say(seal.new_key(chosen))


def _read(arguments: str) -> Any:
    """The arguments of an edit, as any JSON reader would read them."""
    try:
        read = jsons.loads(arguments)
        jsons.dumps(read, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        output.fail(f"the arguments are no JSON: {error}")
    return read


async def _approvals(json: bool) -> None:
    _, dayflow = await common.connected()
    rows, lost = await dayflow.waiting()
    if json:
        output.as_json(rows)
    elif rows:
        _list_waiting(rows)
    elif not lost:
        output.say("Nothing waits for a person.")
    common.tell_lost(lost)


def _list_waiting(rows: list[dict[str, Any]]) -> None:
    shown = ("run_id", "action_id", "tool", "role", "conflict", "expires_at")
    for row in rows:
        row["conflict"] = row["conflict"] and f"{row['conflict']['run_id']} {row['conflict']['action_id']}"
    output.table(
        (*shown, "arguments"),
        [[*(row[name] for name in shown), common.short(common.compact(row["arguments"]))] for row in rows],
    )
    first = rows[0]
    verb = "approve" if first["status"] == "awaiting_approval" else "resolve"
    options = "--again --as NAME" if first["conflict"] and verb == "approve" else "--as NAME"
    command = commands.line(verb, first["run_id"], first["action_id"], options=options)
    output.say(f"next:   {common.with_notes(command, views.to_add(command))}")


async def _decide(
    verdict: str, run_id: str, action_id: str | None, approver: str | None, more: dict[str, Any], json: bool
) -> None:
    settings, dayflow = await common.connected()
    name = _name(approver)
    run = await dayflow.get(run_id)
    action = _waiting_action(run, action_id, "awaiting_approval")
    decision = {"action_id": action_id or (action.action_id if action else ""), "verdict": verdict, "approver": name}
    decision |= {key: value for key, value in more.items() if value not in (None, False)}
    decision["decision_id"] = str(uuid.uuid4())
    if action:
        _bind(settings, dayflow, run, action, decision)
    await _send(dayflow, run, decision, json)


async def _send(dayflow: "Dayflow", run: "Run", decision: dict[str, Any], json: bool) -> None:
    if not run.open or await dayflow.has_worker(run.task_queue):
        answer = await dayflow.decide(run.run_id, decision, seconds=UPDATE_S)
    else:
        await dayflow.signal(run.run_id, decision["verdict"], {k: v for k, v in decision.items() if k != "verdict"})
        answer = {"accepted": None, "reason": _unheard(run)}
    if json:
        output.as_json(answer)
    elif answer["accepted"]:
        show = commands.line("show", run.run_id)
        output.say(f"{run.run_id} {decision['action_id']}: {answer['reason']}. See `{show}`.")
    elif answer["accepted"] is None:
        output.say(f"{run.run_id} {decision['action_id']}: {answer['reason']}.")
    else:
        output.fail(f"not taken: {answer['reason']}", Exit.FAILED)
    if answer["accepted"] is False:
        raise SystemExit(int(Exit.FAILED))


def _unheard(run: "Run") -> str:
    return f"sent; it is judged when a worker is up (`{common.worker_command(run.run_id, run.task_queue)}`)"


def _bind(settings: "Settings", dayflow: "Dayflow", run: "Run", action: "Action", decision: dict[str, Any]) -> None:
    """Bind the decision to the arguments that were read just now, and sign it where this home has the key."""
    from client import keys
    from domain.signature import Statement

    sha256 = action.arguments_sha256
    if decision["verdict"] == "edit":
        sha256 = domain_actions.arguments_digest(action.tool, decision["arguments"])
    else:
        decision["arguments_sha256"] = sha256
    if run.state is None:
        return
    statement = Statement(
        namespace=dayflow.client.namespace,
        first_execution_run_id=run.state.first_execution_run_id,
        action_id=decision["action_id"],
        arguments_sha256=sha256,
        verdict=decision["verdict"],
        approver=decision["approver"],
        decision_id=decision["decision_id"],
    )
    if keys.exists(settings.home, decision["approver"]):
        decision["signature"] = keys.load(settings.home, decision["approver"]).sign(statement.signed)


def _waiting_action(run: "Run", action_id: str | None, status: Any) -> "Action | None":
    """The action that is meant: the one that is named, else the only one that waits."""
    if run.state is None:
        raise errors.NotFound(f"{run.run_id} has not begun: no worker has taken it up. Start one with `dayflow up`.")
    if action_id is not None:
        return run.state.actions.find(action_id)
    waiting = run.state.actions.of_status(status)
    if len(waiting) == 1:
        return waiting[0]
    named = ", ".join(one.action_id for one in waiting) or "none"
    raise errors.NotFound(f"name the action of {run.run_id}; these wait: {named}")


def _name(given: str | None) -> str:
    if given is None:
        output.fail("who decides? Name yourself with --as NAME (or DAYFLOW_AS), as in the approvers file")
    return given


async def _decisions(run_id: str, execution: str | None, json: bool) -> None:
    _, dayflow = await common.connected()
    run = await dayflow.last(run_id, execution)
    rows = views.decisions(run.state) if run.state else []
    if json:
        output.as_json(rows)
        return
    if rows:
        columns = ("action_id", "verdict", "approver", "accepted", "reason", "at")
        output.table(columns, [[row[name] for name in columns] for row in rows])
    else:
        output.say(f"No decisions about {run_id} yet.")
    for line in common.unheard_lines(run):
        output.say(line)


async def _resolve(run_id: str, action_id: str | None, outcome: str, result: str | None, by: str | None) -> None:
    _, dayflow = await common.connected()
    name = _name(by)
    run = await dayflow.get(run_id)
    action = _waiting_action(run, action_id, "unknown")
    content = {"action_id": action.action_id if action else action_id, "outcome": outcome, "by": name}
    said_before = len(_rulings(run, "resolve"))
    await dayflow.signal(run_id, "resolve", content | ({"result": result} if result else {}))
    if not await dayflow.has_worker(run.task_queue):
        output.say(f"{run_id}: {_unheard(run)}.")
        return
    ruling = await _heard(dayflow, run_id, "resolve", said_before)
    if not ruling.accepted:
        output.fail(f"not taken: {ruling.reason}", Exit.FAILED)
    output.say(f"{run_id} {ruling.action_id}: resolved as {ruling.reason}. See `{commands.line('show', run_id)}`.")


async def _raise(run_id: str, by: str, limits: dict[str, Any]) -> None:
    from domain.raises import VERDICT

    settings, dayflow = await common.connected()
    run = await dayflow.get(run_id)
    said_before = len(_rulings(run, VERDICT))
    await dayflow.signal(run_id, VERDICT, {"by": by, **limits, **_signed(settings, dayflow, run, by, limits)})
    if not await dayflow.has_worker(run.task_queue):
        output.say(f"{run_id}: {_unheard(run)}.")
        return
    ruling = await _heard(dayflow, run_id, VERDICT, said_before)
    if not ruling.accepted:
        output.fail(f"not taken: {ruling.reason}", Exit.FAILED)
    output.say(f"{run_id}: {ruling.reason}. If no worker is up, `{commands.line('resume', run_id)}` lets it go on.")


def _signed(settings: "Settings", dayflow: "Dayflow", run: "Run", by: str, limits: dict[str, Any]) -> dict[str, str]:
    """The signature of new limits, where this home has the key of whoever gives them."""
    from client import keys
    from domain.messages import RaiseBudget
    from domain.raises import ABOUT, VERDICT, limits_digest
    from domain.signature import Statement

    if run.state is None or not keys.exists(settings.home, by):
        return {}
    statement = Statement(
        namespace=dayflow.client.namespace,
        first_execution_run_id=run.state.first_execution_run_id,
        action_id=ABOUT,
        arguments_sha256=limits_digest(RaiseBudget(by=by, **limits).limits),
        verdict=VERDICT,
        approver=by,
    )
    return {"signature": keys.load(settings.home, by).sign(statement.signed)}


async def _heard(dayflow: "Dayflow", run_id: str, verdict: str, said_before: int) -> "Ruling":
    """What became of the word that was sent just now."""
    try:
        async with asyncio.timeout(UPDATE_S):
            async for run in dayflow.follow(run_id):
                if len(said := _rulings(run, verdict)) > said_before:
                    return said[-1]
    except TimeoutError:
        pass
    raise errors.Unreachable(
        f"{run_id} did not answer within {UPDATE_S:g} s. See that a worker is up (`dayflow up`); then "
        f"`{commands.line('decisions', run_id)}` shows what became of it"
    )


def _rulings(run: "Run", verdict: str) -> "list[Ruling]":
    return [ruling for ruling in run.state.rulings.all if ruling.verdict == verdict] if run.state else []


async def _reset(run_id: str, at: int, fresh: bool) -> None:
    from store.ledger import Ledger

    _, dayflow = await common.connected()
    execution, point = await dayflow.reset_point(run_id, at)
    if fresh:
        async with common.store() as store:
            dropped = await Ledger(store).forget(dayflow.client.namespace, run_id, at)
        output.say(f"{dropped} stored answers dropped: the model is asked, and paid, anew.")
    await dayflow.reset(run_id, execution, point)
    watch, resume = commands.line("watch", run_id), commands.line("resume", run_id)
    output.say(f"{run_id} goes on from step {at}. `{watch}` shows it, `{resume}` works on it.")
