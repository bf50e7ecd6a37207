"""A run as a person sees it: what its workers have recorded, and what only the server knows."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from domain import commands, views
from domain.state import RunState
from domain.status import Status


@dataclass
class Run:
    """One run as it stands: its newest execution, replayed.

    state is what its workers have recorded; None while none has taken it up. warning: why its worker cannot go on.
    lost: parts whose worker has ended while they ran; the server has not noticed yet.
    unheard, task_open: signals and a wish to cancel that no worker has worked in yet, and whether anything else is.
    came_from, went_on_in: the executions before and after this one, of a run that continued as new.
    retrying: parts of it that have failed and are tried again by themselves; its history does not know of them yet.
    """

    run_id: str
    execution: str
    task_queue: str
    open: bool
    started_at: datetime
    state: RunState | None
    forced_end: str | None = None
    warning: str | None = None
    lost: list[str] = field(default_factory=list)
    unheard: list[str] = field(default_factory=list)
    task_open: bool = False
    retrying: list[dict[str, Any]] = field(default_factory=list)
    other_executions: list[str] = field(default_factory=list)
    came_from: str | None = None
    went_on_in: str | None = None

    @property
    def status(self) -> Status:
        """The status, also where the run was ended from outside."""
        if self.forced_end:
            return Status.CANCELLED if self.forced_end == "cancelled" else Status.FAILED
        return self.state.status if self.state else Status.RECEIVED

    @property
    def waits(self) -> bool:
        """Whether nothing goes on until a person does something."""
        waiting = (Status.PAUSED, Status.AWAITING_APPROVAL, Status.AWAITING_RESOLUTION)
        if self.went_on_in or self.task_open or self.state is None or self.state.hearing:
            return False
        return self.status in waiting and not self.state.actions.of_status("running")

    @property
    def held(self) -> bool:
        """Whether it is paused, or will be once a worker has heard who wishes so."""
        wished = self.state is not None and (self.state.paused or self.state.pause_requested_by is not None)
        return wished or "pause" in self.unheard

    def record(self) -> dict[str, Any]:
        """The record, with what only the server knows."""
        known = views.record(self.state) if self.state else _blank(self)
        if self.forced_end:
            known |= {"status": self.status.value, "reason": self.forced_end}
            known |= {"next_command": commands.line("resume", self.run_id)}
        return {
            **known,
            "execution": self.execution,
            "other_executions": self.other_executions,
            "task_queue": self.task_queue,
            "warning": self.warning,
            "retrying": self.retrying,
        }


def _blank(run: Run) -> dict[str, Any]:
    """The record of a run that no worker has taken up yet."""
    started = run.started_at
    blank = RunState(
        namespace="", run_id=run.run_id, first_execution_run_id=run.execution, started_at=started, updated_at=started
    )
    return views.record(blank)
