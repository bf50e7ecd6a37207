"""The activities of a clean-up: what may go is found page by page, and then deleted by its name.

Each may be done again: what is found stands in history before anything of it is deleted, so that a clean-up that was
killed comes to the same end, with the same report.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from temporalio import activity
from temporalio.client import Client

from activities.executions import Executions
from domain import digest, errors, memory, retention
from domain.retention import Batch, Done, Found, Kind, Look, Mark, Plan, Verdict, Wanted
from store import crash, files, payloads, streams
from store.blobs import Blobs
from store.database import Database
from store.expiry import Expiry
from store.memory import Memory
from store.settings import Settings
from store.streams import Channel

PAGE = 100
PAGE_OF_ROWS = 500
GONE_WITHIN_S = 60.0
LONGEST_NAME = 200
ANOTHER_NAMESPACE = "another namespace uses the same folder"

# The file of a run, and whether it has all executions of the run.
Export = Callable[[str], Awaitable[tuple[bytes, bool]]]
# A page of rows with their runs: older than, behind this one, so many. A row of a person has no run.
Old = Callable[[datetime, str, int], Awaitable[Sequence[tuple[str, str | None]]]]


class Shelf(Protocol):
    """One kind of things that expire. Another one is an entry in `Retention` more."""

    async def find(self, look: Look) -> Found:
        """A page of what may go."""

    async def delete(self, batch: Batch) -> Done:
        """Let it go; what is gone already counts as gone."""


class Runs:
    """Runs and their histories."""

    def __init__(self, settings: Settings, executions: Executions, expiry: Expiry, export: Export) -> None:
        self._settings, self._executions, self._expiry, self._export = settings, executions, expiry, export

    async def find(self, look: Look) -> Found:
        """Runs that are closed for long, and hold nothing open."""
        token = base64.b64decode(look.cursor) if look.cursor else None
        page = await self._executions.closed(["AgentRun"], look.plan.before("runs"), PAGE, token)
        found = Found(cursor=base64.b64encode(page.next).decode() if page.next else None)
        for run, verdict in (await self.judged(page.runs, look.plan, among=page.executions)).items():
            if verdict:
                found.sort(run, verdict)
        return found

    async def delete(self, batch: Batch) -> Done:
        """Leave the export of each, if asked, and delete it from the server; looked at once more before."""
        done, left = Done(), []
        for run, verdict in (await self.judged(batch.names, batch.plan)).items():
            try:
                if verdict == "due":
                    await self._leave_export(run)
                    await self._executions.delete(run)
                    crash.point("retention.deleted")
            except errors.NotFound:
                pass  # another clean-up deletes it just now
            except (errors.DayflowError, OSError) as error:
                done.troubles[run] = str(error)
                continue
            left += [run] if verdict in ("due", None) else []
        done.exported = sum(self._has_export(run) for run in left)
        return await vanished(self._executions, left, done, self._expiry)

    async def gone(self, runs: Collection[str], plan: Plan) -> set[str]:
        """Which of these runs the server has no more; in a dry run, also those that it would have no more."""
        ends = (None, "due") if plan.dry_run else (None,)
        return {run for run, verdict in (await self.judged(runs, plan)).items() if verdict in ends}

    async def judged(
        self, runs: Collection[str], plan: Plan, among: Collection[str] | None = None
    ) -> dict[str, Verdict | None]:
        """How it stands with each; None for one that the server has no more.

        among: leave out whose newest execution is none of these, as another page has it.
        """
        marks, open_ = await self._expiry.marks(runs), await self._expiry.with_open_effects(runs)
        verdicts: dict[str, Verdict | None] = {}
        for run in dict.fromkeys(runs):
            newest = await self._executions.newest(run)
            if newest and among is not None and newest.run_id not in among:
                continue
            mark, unsure = marks.get(run, Mark()), run in open_
            verdicts[run] = retention.judge(newest.close_time, mark, plan, open_effects=unsure) if newest else None
        return verdicts

    async def _leave_export(self, run: str) -> None:
        if folder := self._settings.exports:
            (data, whole), seal = await self._export(run), self._settings.seal
            if whole or not self._has_export(run):  # what is half deleted must not take the place of the whole
                await asyncio.to_thread(_write, folder / file_name(run), seal.seal(data) if seal.on else data)

    def _has_export(self, run: str) -> bool:
        return self._settings.exports is not None and (self._settings.exports / file_name(run)).exists()


class Rows:
    """Rows of the store that are old, of runs that are gone."""

    def __init__(self, runs: Runs, old: Old, delete: Callable[[Sequence[str]], Awaitable[None]]) -> None:
        self._runs, self._old, self._delete = runs, old, delete

    async def find(self, look: Look) -> Found:
        """Those of one page of rows that are old."""
        rows = await self._old(look.plan.before(look.kind), look.cursor or "", PAGE_OF_ROWS)
        gone = await self._runs.gone({run for _, run in rows if run is not None}, look.plan)
        cursor = rows[-1][0] if len(rows) == PAGE_OF_ROWS else None
        return Found(due=[name for name, run in rows if run is None or run in gone], cursor=cursor)

    async def delete(self, batch: Batch) -> Done:
        """Delete them."""
        await self._delete(batch.names)
        return Done(gone=len(batch.names))


class Entries:
    """Entries of memory, by their ids: taken out at their end, deleted when nobody can put them back any more."""

    def __init__(self, kept: Memory) -> None:
        self._memory = kept

    async def find(self, look: Look) -> Found:
        """Those that time has done something to."""
        now = look.plan.at
        page = await self._memory.aged(now, int(look.cursor or 0), PAGE_OF_ROWS)
        found = Found(cursor=str(page[-1].id) if len(page) == PAGE_OF_ROWS else None)
        for entry in page:
            found.sort(str(entry.id), retention.judge_entry(entry, now))
        return found

    async def mark(self, names: Sequence[str], at: datetime) -> None:
        """Take them out."""
        await self._memory.expire([int(name) for name in names], at)

    async def delete(self, batch: Batch) -> Done:
        """Delete them with what they said before; one that was put back meanwhile stays."""
        return Done(gone=await self._memory.clear([int(name) for name in batch.names], batch.plan.at))


class Streams:
    """What models said to whoever watched, and no call of the same run has removed; by the run."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def find(self, look: Look) -> Found:
        """Runs of which nothing was said for long."""
        old = sorted(await self._old(look.plan, look.cursor or ""))
        due = old[:PAGE_OF_ROWS]
        return Found(due=due, cursor=due[-1] if len(old) > len(due) else None)

    async def delete(self, batch: Batch) -> Done:
        """Remove what was said; what a run says again meanwhile stays."""
        for run in await self._old(batch.plan) & set(batch.names):
            await self._channel.remove(run)
        return Done(gone=len(set(batch.names) - await self._old(batch.plan)))

    async def _old(self, plan: Plan, after: str = "") -> set[str]:
        return {run for run in await self._channel.old(plan.before("streams")) if run > after}


class Payloads:
    """Files of payloads, and of the whole of long results."""

    def __init__(self, runs: Runs, executions: Executions, expiry: Expiry, blobs: Blobs) -> None:
        self._runs, self._executions, self._expiry, self._blobs = runs, executions, expiry, blobs

    async def find(self, look: Look) -> Found:
        """Files that are old and that nothing refers to which the server still has."""
        before, after = look.plan.before("payloads"), look.cursor or ""
        old = await asyncio.to_thread(lambda: {one.name for one in self._blobs.all() if one.put_at < before})
        old = {name for name in old if name > after}
        if old and await self._expiry.other_namespaces():
            return Found(kept={ANOTHER_NAMESPACE: len(old)})
        if old:
            old -= await self._referred(look.plan)
        due = sorted(old)[:PAGE_OF_ROWS]
        return Found(due=due, cursor=due[-1] if len(old) > len(due) else None)

    async def delete(self, batch: Batch) -> Done:
        """Delete them; one that was put again meanwhile stays."""
        before = batch.plan.before("payloads")
        gone = [await asyncio.to_thread(self._blobs.delete, name, before) for name in batch.names]
        return Done(gone=sum(gone))

    async def _referred(self, plan: Plan) -> set[str]:
        referred: dict[str, set[str]] = {}
        async for run, message in self._executions.told():
            for found in payloads.references([message]):
                referred.setdefault(run, set()).add(found.claim_data[payloads.SHA256])
        going = await self._runs.gone(referred, plan) if plan.dry_run else set()
        return {name for run, names in referred.items() if run not in going for name in names}


class Reports:
    """Clean-ups and firings of schedules, whose results are their reports."""

    def __init__(self, executions: Executions, expiry: Expiry) -> None:
        self._executions, self._expiry = executions, expiry

    async def find(self, look: Look) -> Found:
        """Those that were closed long ago."""
        page = await self._executions.closed(["Retention", "ScheduledStart"], look.plan.before("reports"), PAGE, None)
        return Found(due=page.runs)

    async def delete(self, batch: Batch) -> Done:
        """Delete them from the server."""
        for name in batch.names:
            await self._executions.delete(name)
        return await vanished(self._executions, batch.names, Done(), self._expiry)


class Retention:
    """What a worker does for a clean-up."""

    def __init__(self, settings: Settings, client: Client, database: Database, export: Export) -> None:
        self._settings = settings
        expiry, executions = Expiry(database, client.namespace), Executions(client)
        runs, entries = Runs(settings, executions, expiry, export), Entries(Memory(database, client.namespace))
        self._shelves: dict[Kind, Shelf] = {
            "runs": runs,
            "model_calls": Rows(runs, expiry.old_calls, expiry.delete_calls),
            "effects": Rows(runs, expiry.old_effects, expiry.delete_effects),
            "memory_commits": Rows(runs, expiry.old_commits, expiry.delete_commits),
            "claims": Rows(runs, expiry.old_claims, expiry.delete_claims),
            "memory": entries,
            "streams": Streams(streams.of(settings, database)),
            "reports": Reports(executions, expiry),
            "payloads": Payloads(runs, executions, expiry, Blobs(settings.blobs)),
        }
        self._marks: dict[Kind, Callable[[Sequence[str], datetime], Awaitable[None]]] = {
            "runs": expiry.mark,
            "memory": entries.mark,
        }

    @activity.defn(name="plan_retention")
    async def plan(self, wanted: Wanted) -> Plan:
        """What the clean-up goes by: what was asked for, and for the rest the settings of this worker."""
        days = self._settings.ages.model_dump() | wanted.ages.model_dump(exclude_none=True)
        days |= {"memory": memory.GRACE.days, "streams": streams.KEPT.days}
        return Plan(dry_run=wanted.dry_run, at=_now(), days=days)

    @activity.defn(name="find_expired")
    async def find(self, look: Look) -> Found:
        """A page of what may go."""
        return await self._shelves[look.kind].find(look)

    @activity.defn(name="mark_expired")
    async def mark(self, batch: Batch) -> Done:
        """Let the grace period of these begin: now, however long ago they were found."""
        await self._marks[batch.kind](batch.names, _now())
        crash.point("retention.marked")
        return Done()

    @activity.defn(name="delete_expired")
    async def delete(self, batch: Batch) -> Done:
        """Delete what was found."""
        done = await self._shelves[batch.kind].delete(batch)
        crash.point("retention.cleared")
        return done


async def vanished(executions: Executions, names: list[str], done: Done, expiry: Expiry) -> Done:
    """Wait until the server has none of these any more; the rest is for the next clean-up."""
    try:
        async with asyncio.timeout(GONE_WITHIN_S):
            for name in names:
                await executions.gone(name)
                await expiry.forget(name)
                done.gone += 1
    except TimeoutError:
        done.troubles |= dict.fromkeys(names[done.gone :], "it is deleted, and the server still has it")
    return done


def file_name(run: str) -> str:
    """The file of a run's export: its id, as far as a file can be called so."""
    name = quote(run, safe=" @+=,")
    if len(name) > LONGEST_NAME or name.startswith("."):
        name = f"{name.lstrip('.')[:LONGEST_NAME]}-{digest.sha256(run)[:12]}"
    return f"{name}.json"


def _now() -> datetime:
    """The server's time: a machine whose clock is wrong lets nothing expire."""
    return activity.info().started_time


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.write(path, data)
