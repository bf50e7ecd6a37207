"""Postgres is killed, shut down, full, or cut off in a commit, under workers that go on: the runs do, too."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path

import psycopg
import pytest
from homes import until
from office import Office, office
from postgres import Cut, Postgres, Wire
from refunds import asked
from script import unique
from witness import retried, rows

CONNECTIONS = 30


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A Postgres that may be broken, with room for two workers and few others."""
    made = Postgres()
    made.execute(f"ALTER SYSTEM SET max_connections = {CONNECTIONS}")
    made.shut_down("fast")
    made.start()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def staffed(server: Postgres, tmp_path_factory: pytest.TempPathFactory, sample_orders: Path) -> Iterator[Office]:
    """An office on it with two workers."""
    with (
        office(tmp_path_factory.mktemp("office"), server.database(), sample_orders) as made,
        made.machine("dayflow") as one,
        made.machine("dayflow") as other,
    ):
        one.ready()
        other.ready()
        yield made
        assert (one.wait(0), other.wait(0)) == (None, None)


# How it goes away.
WAYS = {"killed": Postgres.kill, "shut down at once": lambda server: server.shut_down("immediate")}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS)
def test_runs_go_on_when_the_server_is_back(staffed, server, way):
    refund = staffed.refund("dayflow")
    asked(staffed.home, refund)
    briefs = [staffed.brief("dayflow") for _ in range(4)]
    until("effects are under way", lambda: rows(staffed.home, "SELECT * FROM tasks WHERE run_id = ?", briefs[0]))

    WAYS[way](server)
    staffed.approve(refund)
    server.start()

    for run in (refund, *briefs):
        staffed.finished(run)


def test_commits_of_which_nobody_knows_lose_and_double_nothing(staffed):
    """Every fourth one that writes: by turns it gets lost itself, or the word that it is there does.

    But none of a mail, which is not sent again before the time for sending it is over.
    """
    ways: Iterator[Cut] = cycle([None, None, None, "before", None, None, None, "after"])
    queue = unique("cut")

    def cut(said: bytes) -> Cut:
        return next(ways) if b"mail" not in said and (b"INSERT" in said or b"UPDATE" in said) else None

    with (
        Wire(staffed.home.env["DAYFLOW_DATABASE_URL"], cut) as wire,
        staffed.machine(queue, DAYFLOW_DATABASE_URL=wire.address) as worker,
    ):
        worker.ready()
        brief, refund = staffed.brief(queue), staffed.refund(queue)
        staffed.approve(refund)
        for run in (brief, refund):
            staffed.finished(run)

    assert wire.cuts >= 4


@contextmanager
def full(server: Postgres) -> Iterator[None]:
    """Somebody else has every connection of this server, for as long as the block runs."""
    with ExitStack() as stack:

        def take_all() -> None:
            with suppress(psycopg.OperationalError):
                while True:
                    stack.enter_context(psycopg.connect(server.address, autocommit=True))

        first = stack.enter_context(psycopg.connect(server.address, autocommit=True))
        take_all()
        first.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE 'test%'")
        take_all()
        yield


@pytest.mark.long
def test_a_server_without_room_for_a_connection_is_waited_for_and_the_record_says_so(staffed, server):
    with full(server):
        brief = staffed.brief("dayflow")
        told = retried(staffed.home, brief, "load_agent", attempt=2)

    assert "too many clients" in told or "connection slots" in told
    assert "Raise its max_connections" in told
    staffed.finished(brief)
