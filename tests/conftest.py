"""Fixtures that several folders of tests share."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import orders
import pytest
import stalls
from homes import Home, running
from postgres import Postgres

stalls.watch()
# A shell's background job ignores Ctrl-C, and so would all that these tests start from there.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def sample_orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of many orders, enough for each test to take its own."""
    return orders.written(tmp_path_factory.mktemp("orders") / "orders.json")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One Postgres for all tests that do not break it."""
    server = Postgres()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, sample_orders: Path) -> Iterator[Home]:
    """One home for all tests that do not break it."""
    with running(Home(tmp_path_factory.mktemp("home"), DAYFLOW_SAMPLE_ORDERS=str(sample_orders))) as home:
        yield home


@pytest.fixture
def new_home(tmp_path: Path, sample_orders: Path) -> Iterator[Callable[..., Home]]:
    """Homes of a test's own, with settings of their own."""
    with contextlib.ExitStack() as stack:

        def make(**settings: str) -> Home:
            path = tmp_path / f"home{len(list(tmp_path.iterdir()))}"
            return stack.enter_context(running(Home(path, **{"DAYFLOW_SAMPLE_ORDERS": str(sample_orders), **settings})))

        yield make
