"""The command that cleans up: retention, its dry run, its last report, and what people keep."""

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client import output
from client.commands import common
from domain import errors

if TYPE_CHECKING:
    from domain.retention import Report

LABELS = {
    "runs": "closed runs",
    "model_calls": "model calls in the ledger",
    "effects": "effects in the ledger, with their keys",
    "memory_commits": "calls that memory knows again",
    "claims": "claims on run ids",
    "memory": "entries of memory that were taken out",
    "streams": "words of models, for watchers",
    "reports": "reports of clean-ups and schedules",
    "payloads": "payload files",
}
# What has a grace period: how many days of it the plan names, and the command that saves it in this time.
UNDONE: dict[Any, tuple[str, str]] = {
    "runs": ("grace", "dayflow retention --keep RUN"),
    "memory": ("memory", "dayflow memory restore ID"),
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(retention)


def retention(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing; say what would be.")] = False,
    last: Annotated[bool, typer.Option("--last", help="Print the report of the last clean-up instead.")] = False,
    keep: Annotated[
        str | None, typer.Option(metavar="RUN", help="Keep this run, whatever its age: undoes its expiry.")
    ] = None,
    unkeep: Annotated[str | None, typer.Option(metavar="RUN", help="Keep it no longer.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Delete what is old, as a worker does each night by itself, and print the report.

    What is open, and effects of which nobody is sure, stay. DAYFLOW_KEEP_… say for how long each is kept.

    Example: `dayflow retention --dry-run`
    """
    if sum((dry_run, last, keep is not None, unkeep is not None)) > 1:
        output.fail("take one of --dry-run, --last, --keep and --unkeep")
    if run := keep or unkeep:
        common.run_async(_keep(run, common.user() if keep else None))
    else:
        common.run_async(_last(json) if last else _clean_up(ctx.obj, dry_run, json))


async def _clean_up(host: Any, dry_run: bool, json: bool) -> None:
    from client import tidying
    from client.dayflow import TASK_QUEUE

    settings, dayflow = await common.ready()
    async with common.hosted(host, settings, dayflow, TASK_QUEUE):
        report = await tidying.clean_up(dayflow.client, settings, dry_run=dry_run)
    _show(report, json)


async def _last(json: bool) -> None:
    from client import tidying

    _, dayflow = await common.connected()
    report, rehearsed = await tidying.last(dayflow.client)
    if report is None:
        raise errors.NotFound("there was no clean-up yet; `dayflow retention --dry-run` says what one would delete")
    _show(report, json)
    if rehearsed:
        output.note(f"A dry run was later, at {_moment(rehearsed)}; it deleted nothing.")


async def _keep(run_id: str, by: str | None) -> None:
    from store.expiry import Expiry

    settings, dayflow = await common.connected()
    await dayflow.get(run_id)
    async with common.store(settings) as store:
        await Expiry(store, dayflow.client.namespace).keep(run_id, by)
    if by:
        output.say(f"{run_id} is kept, whatever its age, until `dayflow retention --unkeep {shlex.quote(run_id)}`.")
    else:
        output.say(f"{run_id} is kept no longer than other runs.")


def _show(report: "Report", json: bool) -> None:
    if json:
        output.as_json(report.model_dump(mode="json"))
        return
    plan = report.plan
    at = _moment(plan.at)
    output.say(f"dry run at {at}: nothing was deleted" if plan.dry_run else f"clean-up at {at}")
    columns = ("what", "older than", "would go" if plan.dry_run else "gone", "enter grace", "stay though old")
    output.table(columns, [_cells(report, kind) for kind in report.kinds])
    if exported := report.kinds["runs"].exported:
        output.say(f"{exported} runs left their export.")
    for kind, (days, undo) in UNDONE.items():
        if (tally := report.kinds.get(kind)) and tally.named:
            go = f"{'would go' if plan.dry_run else 'go'} in {_days(plan.days[days])}"
            output.say(f"{go}, unless `{undo}`: {', '.join(tally.named)}")
    for kind, tally in report.kinds.items():
        if tally.review:
            output.say(f"due for a look, by `dayflow memory review`: {', '.join(tally.review)}")
        for name, why in tally.troubles.items():
            output.say(f"stays, in {LABELS[kind]}: {name}: {common.short(why)}")
    if report.more:
        output.say("There is more: the next clean-up goes on.")


def _cells(report: "Report", kind: Any) -> tuple[Any, ...]:
    tally, plan = report.kinds[kind], report.plan
    kept = ", ".join(f"{count} ({why})" for why, count in sorted(tally.kept.items()))
    went = tally.due if plan.dry_run else tally.gone
    return LABELS[kind], _days(plan.age(kind)), went, tally.entered_grace, kept or None


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _days(count: float) -> str:
    return f"{count:g} day{'' if count == 1 else 's'}"
