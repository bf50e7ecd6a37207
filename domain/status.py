"""Status: the moves that a run may make, as one table."""

from enum import StrEnum


class Status(StrEnum):
    """Where a run stands; `reason` beside it says why."""

    RECEIVED = "received"
    PLANNING = "planning"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    AWAITING_RESOLUTION = "awaiting_resolution"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


_ENDS = {Status.FAILED, Status.CANCELLED}

MOVES: dict[Status, set[Status]] = {
    Status.RECEIVED: {Status.PLANNING, Status.RUNNING, Status.PAUSED, *_ENDS},
    Status.PLANNING: {Status.RUNNING, Status.PAUSED, *_ENDS},
    Status.RUNNING: {Status.AWAITING_APPROVAL, Status.AWAITING_RESOLUTION, Status.PAUSED, Status.DONE, *_ENDS},
    Status.AWAITING_APPROVAL: {Status.RUNNING, Status.PAUSED, *_ENDS},
    Status.AWAITING_RESOLUTION: {Status.RUNNING, Status.PAUSED, *_ENDS},
    Status.PAUSED: {
        Status.RECEIVED,
        Status.PLANNING,
        Status.RUNNING,
        Status.AWAITING_APPROVAL,
        Status.AWAITING_RESOLUTION,
        *_ENDS,
    },
    Status.FAILED: {Status.RUNNING},
    Status.DONE: set(),
    Status.CANCELLED: set(),
}

WAITING = {Status.PAUSED, Status.AWAITING_APPROVAL, Status.AWAITING_RESOLUTION}
CLOSED = {Status.DONE, Status.FAILED, Status.CANCELLED}


def allowed(start: Status, end: Status) -> bool:
    """Whether a run may go from one status to the other."""
    return end in MOVES[start]
