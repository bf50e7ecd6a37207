"""The moves that a run may make, against the design's own line."""

import pytest

from domain.status import CLOSED, MOVES, Status, allowed

OPEN = [status for status in Status if status not in CLOSED]

# received → planning? → running → done; running ⇄ awaiting_*; any open one ⇄ paused; any open one → failed | cancelled;
# awaiting_approval → cancelled; failed → running.
DESIGNED = {
    ("received", "planning"),
    ("received", "running"),  # planning is optional
    ("planning", "running"),
    ("running", "done"),
    ("running", "awaiting_approval"),
    ("awaiting_approval", "running"),
    ("running", "awaiting_resolution"),
    ("awaiting_resolution", "running"),
    ("awaiting_approval", "cancelled"),  # the person said no
    ("failed", "running"),  # by `dayflow resume`
    *((status.value, "paused") for status in OPEN if status != Status.PAUSED),
    *(("paused", status.value) for status in OPEN if status != Status.PAUSED),
    *((status.value, "failed") for status in OPEN),
    *((status.value, "cancelled") for status in OPEN),
}


@pytest.mark.parametrize("start", Status)
@pytest.mark.parametrize("end", Status)
def test_a_move_is_allowed_exactly_if_it_is_designed(start, end):
    assert allowed(start, end) == ((start.value, end.value) in DESIGNED)


def test_every_status_has_its_row():
    assert set(MOVES) == set(Status)


def test_the_closed_ones_are_done_failed_and_cancelled():
    assert {status.value for status in CLOSED} == {"done", "failed", "cancelled"}


def test_every_status_can_be_reached_and_every_open_one_can_come_to_its_end():
    reached = {Status.RECEIVED}
    while new := {end for start in reached for end in MOVES[start]} - reached:
        reached |= new

    assert reached == set(Status)
    assert all(MOVES[status] & CLOSED for status in OPEN)
