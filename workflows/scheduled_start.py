"""ScheduledStart: what a schedule starts when it fires. It starts the run of that day, if there is none yet."""

from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

from domain import errors, timetable
from domain.timetable import Fired, Firing
from workflows import steps

# The server says by it when a schedule was meant to fire, however late it does.
MEANT = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")


@workflow.defn(name="ScheduledStart")
class ScheduledStart:
    """One firing. Its id has the time of the firing, that of the run has the day: so two firings give one run."""

    @workflow.run
    async def run(self, *raw: Any) -> dict[str, Any]:
        """Find out which run is due, and start it; the result says what came of it."""
        try:
            table = timetable.parse(raw)
        except errors.Refused as error:
            raise ApplicationError(str(error), type="refused") from None
        info = workflow.info()
        meant = info.typed_search_attributes.get(MEANT) or info.workflow_start_time
        due = await steps.due_run(Firing(timetable=table, at=meant, now=workflow.now()))
        fired = Fired(run_id=due.run_id, day=due.day, outcome="missed" if due.missed else "started", why=due.missed)
        if not due.missed:
            try:
                await steps.start_run(due.run_id, table.request)
            except WorkflowAlreadyStartedError:
                fired.outcome = "there already"
        workflow.set_current_details(f"{fired.run_id}: {fired.outcome}")
        return fired.model_dump(mode="json", exclude_none=True)
