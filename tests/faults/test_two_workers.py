"""Two workers on one Postgres and one Temporal server: whichever is killed, the runs finish, each effect once."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from checker import cut_short
from office import Office, office
from postgres import Postgres
from script import unique
from stalls import stood_still
from witness import Witness

from store import crash

SIDE_BY_SIDE = 3
MOST_RUNS = 20
IN_A_TRANSACTION = [f"store.commit:{n}" for n in range(1, 17)]
# Between an effect and its record, before it, within a model call, and in a transaction that holds its locks.
CASES = ["effect.committed", "effect.begun", "model.received", "store.commit:6"]
LONG = [
    *("load.done", "prepare.done", "check.done"),
    *("model.begin", "model.begun", "model.stream", "model.received", "model.done", "read.done", "step.end"),
    *("effect.begin", "effect.begun", "effect.committed", "effect.done", "effect.committed:2", "mail.accepted"),
    *IN_A_TRANSACTION,
]
# What a kill may cost: requests beyond the first, and calls that may have been paid though nothing had left.
COSTS = {
    "model.begun": [[0, 1]],
    "model.stream": [[1, 0]],
    "model.received": [[1, 0]],
    "store.commit": [[0, 0], [1, 0]],
}


@pytest.fixture(scope="module")
def two(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory, sample_orders: Path) -> Iterator[Office]:
    """An office whose store is an empty database: the first workers make its tables, at once."""
    with office(tmp_path_factory.mktemp("office"), postgres.database(), sample_orders) as made:
        yield made


@pytest.fixture(scope="module")
def told(two: Office) -> Iterator[dict[str, "Future[list[Witness]]"]]:
    """The cases, side by side, each on a task queue of its own."""
    with ThreadPoolExecutor(len(CASES)) as pool:
        yield {point: pool.submit(killed, two, point) for point in CASES}


@pytest.fixture(scope="module")
def told_long(two: Office) -> Iterator[dict[str, "Future[list[Witness]]"]]:
    """All others, some side by side."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {point: pool.submit(killed, two, point, one_by_one=True) for point in LONG}


def killed(two: Office, point: str, *, one_by_one: bool = False) -> list[Witness]:
    """Two workers share runs until one of them has died at this point; the other one finishes all of them."""
    queue, seen, starts = unique("pair"), [], [two.brief, two.refund]
    with two.machine(queue, DAYFLOW_CRASH_AT=point) as doomed, two.machine(queue) as other:
        other.ready()
        while doomed.wait(0) is None:
            assert len(seen) < MOST_RUNS, f"{point} is never met"
            for batch in [[start] for start in starts] if one_by_one else [starts]:
                runs = [start(queue) for start in batch]
                seen += map(two.finished, runs)
            starts.reverse()  # or each worker might get one kind for ever
        doomed.died()
        assert other.wait(0) is None
    return seen


@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", CASES)
def test_a_worker_that_dies_is_replaced_by_the_other_one(told, point):
    """Of each run one call of the model at most was under way; that one is sent again."""
    cut = [cut_short(seen) for seen in told[point].result()]

    assert all(sum(again.values()) + unknown <= 1 for again, unknown in cut) or stood_still()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", LONG)
def test_a_worker_that_dies_anywhere_is_replaced_by_the_other_one(told_long, point):
    """One run at a time, so that it is known what the kill costs."""
    cut = [cut_short(seen) for seen in told_long[point].result()]

    again, unknown = sum(sum(again.values()) for again, _ in cut), sum(unknown for _, unknown in cut)
    assert [again, unknown] in COSTS.get(point.partition(":")[0], [[0, 0]]) or stood_still()


def test_every_point_is_met():
    """In the files of compaction, retention and memory those that no brief and no refund passes."""
    met = {point for point in crash.POINTS if not point.startswith(("compact.", "retention."))}

    assert {point.partition(":")[0] for point in CASES + LONG} == met


def test_a_worker_that_is_older_than_its_store_says_what_to_do_and_ends(two, postgres):
    address = postgres.database()
    newer = "CREATE TABLE alembic_version (version_num VARCHAR(32))", "INSERT INTO alembic_version VALUES ('9999')"
    postgres.execute(*newer, on=address)

    ended = two.home.dayflow("worker", env={"DAYFLOW_DATABASE_URL": address}, code=5)

    assert "newer version of Dayflow" in ended.stderr
    assert "Install here the version that the others have" in ended.stderr
    assert "Traceback" not in ended.stderr
