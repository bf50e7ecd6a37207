"""Commands by which people look after memory: list, show, add, edit, review, forget, restore, export."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from client import output
from client.commands import common
from domain import errors
from domain import memory as rules
from domain.memory import Entry, Kind, Source

if TYPE_CHECKING:
    from store.memory import Memory

KINDS = ", ".join(get_args(Kind))
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Id = Annotated[int, typer.Argument(metavar="ID", help="The entry's id.")]
Below = Annotated[
    str | None, typer.Argument(metavar="[NAMESPACE]", help="A namespace, with those below it; none is all.")
]
Until = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="When it ends, as YYYY-MM-DD.")]
KindOf = Annotated[str | None, typer.Option("--kind", help=f"What it is: {KINDS}.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Memory: what later runs need to know, and who said it.")
    group.command("list")(list_entries)
    for command in (show, add, edit, review, forget, restore, export):
        group.command()(command)
    app.add_typer(group, name="memory")


def list_entries(
    namespace: Below = None,
    ended: Annotated[bool, typer.Option("--ended", help="With those that expired or were forgotten.")] = False,
    json: Json = False,
) -> None:
    """List entries, with who said them and what that is worth."""
    common.run_async(_list(namespace, ended, json))


def show(entry_id: Id, json: Json = False) -> None:
    """Show an entry, and what it said before."""
    common.run_async(_show(entry_id, json))


def add(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", help="Whose memory, as in user_481/preferences.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The fact, in one or two sentences.")],
    kind: KindOf = "fact",
    expires: Until = None,
    json: Json = False,
) -> None:
    """Store a fact. It is trusted: you say it.

    Example: `dayflow memory add user_481/preferences "Mara wants her briefs in German."`
    """
    common.run_async(_add(namespace, text, _kind(kind), expires, json))


def edit(
    entry_id: Id,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What it says from now on.")] = None,
    kind: KindOf = None,
    expires: Until = None,
    version: Annotated[int | None, typer.Option(help="Only if this is still its version.")] = None,
    json: Json = False,
) -> None:
    """Change an entry; what it said stays in its history. Whoever writes its text anew vouches for it."""
    if text is None and kind is None and expires is None:
        output.fail("say what is to change: a text, --kind or --expires")
    common.run_async(_edit(entry_id, text, _kind(kind), expires, version, json))


def review(
    namespace: Below = None,
    keep: Annotated[list[int] | None, typer.Option(metavar="ID", help="You looked at this entry, and keep it.")] = None,
    json: Json = False,
) -> None:
    """List what is due for a look, however often it is used; with --keep say that an entry stays."""
    common.run_async(_review(namespace, keep or [], json))


def forget(
    entry_id: Id,
    for_good: Annotated[
        bool, typer.Option("--for-good", help="Delete it with its history; nobody can undo it.")
    ] = False,
) -> None:
    """Take an entry out of memory. `dayflow memory restore` undoes it for some time."""
    common.run_async(_forget(entry_id, for_good))


def restore(entry_id: Id) -> None:
    """Put back what has expired or was forgotten."""
    common.run_async(_restore(entry_id))


def export(namespace: Below = None) -> None:
    """Print everything that is kept, one JSON object a line, each with its history and those that were taken out."""
    common.run_async(_export(namespace))


async def _list(namespace: str | None, ended: bool, json: bool) -> None:
    async with _memory() as kept:
        found = await kept.entries(namespace, ended=ended)
    now = datetime.now(UTC)
    where = f"in {namespace}" if namespace else "yet"
    none = f"Nothing is remembered {where}. `dayflow memory add NAMESPACE TEXT` stores a fact."
    _print([one for one in found if ended or rules.is_live(one, now)], json, now, none)


async def _show(entry_id: int, json: bool) -> None:
    async with _memory() as kept:
        entry, before = await kept.show(entry_id)
    if json:
        output.as_json(_whole(entry, before))
        return
    _print([entry], json, datetime.now(UTC))
    for one in reversed(before):
        output.say(f"before, version {one.version} of {one.changed:%Y-%m-%d}, {one.trust}: {one.text}")


async def _add(namespace: str, text: str, kind: Kind | None, expires: datetime | None, json: bool) -> None:
    from store.memory import Fact

    fact = Fact(namespace, text, kind or "fact", Source(said_by="user"), "trusted", expires=_until(expires))
    async with _memory() as kept:
        stored = await kept.remember(f"person-{uuid.uuid4()}", datetime.now(UTC), fact)
    if json:
        output.as_json(stored)
        return
    output.say(f"{'stored' if stored['created'] else 'known already'}: memory {stored['id']} in {namespace}")


async def _edit(
    entry_id: int, text: str | None, kind: Kind | None, expires: datetime | None, version: int | None, json: bool
) -> None:
    async with _memory() as kept:
        entry = await kept.edit(
            entry_id, datetime.now(UTC), text=text, kind=kind, expires=_until(expires), version=version
        )
    if json:
        output.as_json(entry.model_dump(mode="json"))
        return
    output.say(f"changed: memory {entry.id} is version {entry.version} now, {entry.trust}")


async def _review(namespace: str | None, keep: list[int], json: bool) -> None:
    now = datetime.now(UTC)
    async with _memory() as kept:
        looked_at = [await kept.keep(entry_id, now) for entry_id in keep]
        due = [one for one in await kept.entries(namespace) if rules.is_live(one, now) and rules.is_due(one, now)]
    for one in looked_at:
        output.note(f"kept: memory {one.id} is due again on {one.review_after:%Y-%m-%d}")
    if keep:
        return
    _print(due, json, now, "Nothing is due for a look.")
    if due and not json:
        output.note(f"next:   dayflow memory review --keep {due[0].id}, or edit or forget it")


async def _forget(entry_id: int, for_good: bool) -> None:
    async with _memory() as kept:
        entry, _ = await kept.show(entry_id)
        if for_good:
            await kept.delete(entry_id)
        else:
            key = f"person-{uuid.uuid4()}"
            await kept.forget(key, None, datetime.now(UTC), scope=entry.namespace, entry_id=entry_id)
    again = "" if for_good else f"; dayflow memory restore {entry_id} undoes it for {rules.GRACE.days} days"
    output.say(f"{'deleted' if for_good else 'forgotten'}: memory {entry_id}{again}")


async def _restore(entry_id: int) -> None:
    async with _memory() as kept:
        [entry] = await kept.undo([entry_id], datetime.now(UTC))
    output.say(f"memory {entry.id} is in {entry.namespace} again")


async def _export(namespace: str | None) -> None:
    async with _memory() as kept:
        for entry in await kept.entries(namespace, ended=True):
            output.as_json_line(_whole(*await kept.show(entry.id)))


@asynccontextmanager
async def _memory() -> "AsyncIterator[Memory]":
    """The memory of the namespace that this machine is set to; what it refuses is the fault of what was typed."""
    from client import connection
    from store.memory import Memory

    async with common.store() as database:
        try:
            yield Memory(database, connection.namespace())
        except errors.ToolFailed as error:
            raise errors.Refused(str(error)) from None


def _print(found: list[Entry], json: bool, now: datetime, none: str = "") -> None:
    if json:
        output.as_json([one.model_dump(mode="json") for one in found])
        return
    if not found:
        output.say(none)
        return
    columns = ("id", "namespace", "text", "kind", "said by", "trust", "changed", "last used", "review", "ends")
    output.table(columns, [_row(one, now) for one in found])


def _row(entry: Entry, now: datetime) -> tuple[object, ...]:
    said_by = entry.source.said_by + (f" in {entry.source.run_id}" if entry.source.run_id else "")
    used = f"{entry.last_used:%Y-%m-%d}" if entry.last_used else None
    review = "due" if rules.is_due(entry, now) else f"{entry.review_after:%Y-%m-%d}"
    ends = f"{entry.ended_as} {entry.ended:%Y-%m-%d}" if entry.ended else f"{rules.ends(entry):%Y-%m-%d}"
    what = (entry.id, entry.namespace, common.short(entry.text), entry.kind)
    return (*what, said_by, entry.trust, f"{entry.changed:%Y-%m-%d}", used, review, ends)


def _whole(entry: Entry, before: list[Entry]) -> dict[str, object]:
    return {**entry.model_dump(mode="json"), "history": [one.model_dump(mode="json") for one in before]}


def _kind(text: str | None) -> Kind | None:
    known: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
    if text is not None and text not in known:
        output.fail(f"{text!r} is no kind; kinds are {KINDS}")
    return known[text] if text else None


def _until(day: datetime | None) -> datetime | None:
    """The end of an entry, which is still to come."""
    end = day.replace(tzinfo=UTC) if day else None
    if end and end <= datetime.now(UTC):
        output.fail(f"--expires: {end:%Y-%m-%d} has begun, so nothing would be kept; name a later day")
    return end
