"""Retention: deletes what is old, kind by kind and page by page; its result is the report."""

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from domain import errors, retention
from domain.retention import Batch, Found, Kind, Look, Report
from workflows import steps

# What one clean-up looks at; the next one goes on.
MOST_PAGES = 600


@workflow.defn(name="Retention")
class Retention:
    """One clean-up. In a dry run nothing is deleted, and the report says what would be."""

    @workflow.run
    async def run(self, *raw: Any) -> dict[str, Any]:
        """Look at each page of each kind, and let go what may go."""
        try:
            wanted = retention.parse(raw)
        except errors.Refused as error:
            raise ApplicationError(str(error), type="refused") from None
        report = Report(plan=await steps.plan_retention(wanted))
        pages = 0
        for kind in report.plan.kinds:
            cursor, first = None, True
            while first or cursor:
                if pages == MOST_PAGES:
                    report.more = True
                    break
                found = await steps.find_expired(Look(kind=kind, plan=report.plan, cursor=cursor))
                await self._take(kind, found, report)
                cursor, first, pages = found.cursor, False, pages + 1
        return report.model_dump(mode="json")

    async def _take(self, kind: Kind, found: Found, report: Report) -> None:
        """Count a page, and unless it is a dry run do what it calls for."""
        tally, plan = report.kinds[kind], report.plan
        tally.saw(found)
        if plan.dry_run:
            return
        if found.new:
            await steps.mark_expired(Batch(kind=kind, plan=plan, names=found.new))
        if found.due:
            tally.did(await steps.delete_expired(Batch(kind=kind, plan=plan, names=found.due)))
