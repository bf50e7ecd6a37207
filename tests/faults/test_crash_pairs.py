"""The recovery of a model call may die at any durable boundary, too: never more than one repeated request a kill."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future

import crashes
import pytest
from crashes import Case, Told, as_if_nothing_had_happened, on_time
from homes import Home

AROUND_THE_CALL = ("model.begin", "model.begun", "model.stream", "model.received", "model.done")


def pair(first: str, second: str) -> Case:
    """What two kills cost: each one at most the request that it cut off. A second worker goes on with the step."""
    again: Counter[tuple[int, int]] = Counter()
    step = 2 if first == "model.done" else 1
    for point, asked in ((first, 1), (second, step)):
        if point in ("model.stream", "model.received"):
            again[asked, 1] += 1
    return Case((first, second), again=dict(again), unknown=[first, second].count("model.begun"))


PAIRS = [pair(first, second) for first in AROUND_THE_CALL for second in crashes.MET]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def told(home: Home) -> Iterator[dict[str, "Future[Told]"]]:
    with crashes.told(home, PAIRS) as told:
        yield told


@pytest.mark.parametrize("case", PAIRS, ids=str)
def test_a_kill_at_any_point_of_the_recovery_pays_at_most_its_own_request(told, case):
    shown = told[str(case)].result()

    as_if_nothing_had_happened(shown.seen, case)
    on_time(shown, case)
