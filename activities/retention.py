"""The activities of a clean-up: what may go is found page by page, and then deleted by its name.

Each may be done again: what is found stands in history before anything of it is deleted, so that a clean-up that was
killed comes to the same end, with the same report.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from temporalio import activity
from temporalio.client import Client

from activities.executions import Executions
from activities.heartbeat import beating
from domain import digest, errors, retention
from domain.retention import Batch, Done, Found, Kind, Look, Mark, Plan, Verdict, Wanted
from store import crash, files, payloads
from store.blobs import Blobs
from store.database import Database
from store.expiry import Expiry
from store.settings import Settings

PAGE = 100
PAGE_OF_ROWS = 500
GONE_WITHIN_S = 60.0
LONGEST_NAME = 200
ANOTHER_NAMESPACE = "another namespace uses the same folder"

# The file of a run, and whether it has all executions of the run.
Export = Callable[[str], Awaitable[tuple[bytes, bool]]]


class Shelf(Protocol):
    """One kind of things that expire. Another one, such as facts with an expiry, is an entry in `Retention` more."""

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
        page = await self._executions.closed("AgentRun", look.plan.before("runs"), PAGE, token)
        found = Found(cursor=base64.b64encode(page.next).decode() if page.next else None)
        for run, verdict in (await self.judged(page.runs, look.plan)).items():
            match verdict:
                case "due":
                    found.due.append(run)
                case "new":
                    found.new.append(run)
                case "open" | "young" | None:
                    pass
                case why:
                    found.kept[why] = found.kept.get(why, 0) + 1
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

    async def judged(self, runs: Collection[str], plan: Plan) -> dict[str, Verdict | None]:
        """How it stands with each; None for one that the server has no more."""
        marks, open_ = await self._expiry.marks(runs), await self._expiry.with_open_effects(runs)
        verdicts: dict[str, Verdict | None] = {}
        for run in dict.fromkeys(runs):
            newest = await self._executions.newest(run)
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


class Calls:
    """The ledger's rows of model calls."""

    def __init__(self, runs: Runs, expiry: Expiry) -> None:
        self._runs, self._expiry = runs, expiry

    async def find(self, look: Look) -> Found:
        """Rows that ended long ago, of runs that are gone."""
        rows = await self._expiry.old_calls(look.plan.before("model_calls"), look.cursor or "", PAGE_OF_ROWS)
        return await of_gone_runs(self._runs, look.plan, rows)

    async def delete(self, batch: Batch) -> Done:
        """Delete the rows."""
        await self._expiry.delete_calls(batch.names)
        return Done(gone=len(batch.names))


class Effects:
    """The ledger's rows of effects: the idempotency records. One that is begun or unknown never goes."""

    def __init__(self, runs: Runs, expiry: Expiry) -> None:
        self._runs, self._expiry = runs, expiry

    async def find(self, look: Look) -> Found:
        """Rows that ended long ago, of runs that are gone."""
        rows = await self._expiry.old_effects(look.plan.before("effects"), look.cursor or "", PAGE_OF_ROWS)
        return await of_gone_runs(self._runs, look.plan, rows)

    async def delete(self, batch: Batch) -> Done:
        """Delete the rows, and what the task store answered under their keys."""
        await self._expiry.delete_effects(batch.names)
        return Done(gone=len(batch.names))


class Claims:
    """Claims on run ids: free again when nothing is known of the run any more."""

    def __init__(self, runs: Runs, expiry: Expiry) -> None:
        self._runs, self._expiry = runs, expiry

    async def find(self, look: Look) -> Found:
        """Claims of runs that are gone, with all that the ledger had of them."""
        ids = await self._expiry.old_claims(look.plan.before("claims"), look.cursor or "", PAGE_OF_ROWS)
        return await of_gone_runs(self._runs, look.plan, [(run, run) for run in ids])

    async def delete(self, batch: Batch) -> Done:
        """Delete them."""
        await self._expiry.delete_claims(batch.names)
        return Done(gone=len(batch.names))


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
    """Clean-ups of long ago, whose results are their reports."""

    def __init__(self, executions: Executions, expiry: Expiry) -> None:
        self._executions, self._expiry = executions, expiry

    async def find(self, look: Look) -> Found:
        """Those that were closed long ago."""
        page = await self._executions.closed("Retention", look.plan.before("reports"), PAGE, None)
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
        self._expiry = Expiry(database, client.namespace)
        executions = Executions(client)
        runs = Runs(settings, executions, self._expiry, export)
        self._shelves: dict[Kind, Shelf] = {
            "runs": runs,
            "model_calls": Calls(runs, self._expiry),
            "effects": Effects(runs, self._expiry),
            "claims": Claims(runs, self._expiry),
            "reports": Reports(executions, self._expiry),
            "payloads": Payloads(runs, executions, self._expiry, Blobs(settings.blobs)),
        }

    @activity.defn(name="plan_retention")
    async def plan(self, wanted: Wanted) -> Plan:
        """What the clean-up goes by: what was asked for, and for the rest the settings of this worker."""
        days = self._settings.ages.model_dump() | wanted.ages.model_dump(exclude_none=True)
        return Plan(dry_run=wanted.dry_run, at=datetime.now(UTC), days=days)

    @activity.defn(name="find_expired")
    async def find(self, look: Look) -> Found:
        """A page of what may go."""
        async with beating():
            return await self._shelves[look.kind].find(look)

    @activity.defn(name="mark_expired")
    async def mark(self, batch: Batch) -> Done:
        """Let the grace period of runs begin."""
        await self._expiry.mark(batch.names, batch.plan.at)
        return Done()

    @activity.defn(name="delete_expired")
    async def delete(self, batch: Batch) -> Done:
        """Delete what was found."""
        async with beating():
            return await self._shelves[batch.kind].delete(batch)


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


async def of_gone_runs(runs: Runs, plan: Plan, rows: list[tuple[str, str]]) -> Found:
    """What belongs to runs that are gone, from one page of names, each with its run."""
    gone = await runs.gone({run for _, run in rows}, plan)
    cursor = rows[-1][0] if len(rows) == PAGE_OF_ROWS else None
    return Found(due=[name for name, run in rows if run in gone], cursor=cursor)


def file_name(run: str) -> str:
    """The file of a run's export: its id, as far as a file can be called so."""
    name = quote(run, safe=" @+=,")
    if len(name) > LONGEST_NAME or name.startswith("."):
        name = f"{name.lstrip('.')[:LONGEST_NAME]}-{digest.sha256(run)[:12]}"
    return f"{name}.json"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.write(path, data)
