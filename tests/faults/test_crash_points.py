"""A worker may die at any durable boundary: the next one finishes the run, and nothing is paid or done twice."""

from collections.abc import Iterator
from concurrent.futures import Future

import crashes
import pytest
from crashes import Case, Told, as_if_nothing_had_happened, on_time
from homes import Home

# Only a kill between the request and the ledger's `done` pays again.
ONCE = [
    Case(("load.done",)),
    Case(("model.begin",)),
    Case(("model.begun",), unknown=1),
    Case(("model.stream",), again={(1, 1): 1}),
    Case(("model.received",), again={(1, 1): 1}),
    Case(("model.done",)),
    Case(("read.done",)),
    Case(("step.end",)),
    Case(("effect.begin",)),
    Case(("effect.begun",)),
    Case(("effect.committed",)),
    Case(("effect.done",)),
]
# The recovery is killed as well, where the first worker was or further on; all pairs are in test_crash_pairs.py.
TWICE = [
    Case(("model.received", "model.received"), again={(1, 1): 2}),
    Case(("effect.committed", "effect.committed")),
    Case(("read.done", "effect.done")),
    Case(("model.done", "step.end"), cold=True),
]


@pytest.fixture(scope="module")
def told(home: Home) -> Iterator[dict[str, "Future[Told]"]]:
    with crashes.told(home, ONCE + TWICE) as told:
        yield told


@pytest.mark.parametrize("case", ONCE, ids=str)
def test_a_run_goes_on_after_a_kill_anywhere(told, case):
    shown = told[str(case)].result()

    as_if_nothing_had_happened(shown.seen, case)
    on_time(shown, case)


@pytest.mark.parametrize("case", TWICE, ids=str)
def test_a_kill_during_the_recovery_changes_nothing(told, case):
    shown = told[str(case)].result()

    as_if_nothing_had_happened(shown.seen, case)
    on_time(shown, case)


def test_every_point_is_met():
    assert {case.points[0] for case in ONCE} == set(crashes.MET)
