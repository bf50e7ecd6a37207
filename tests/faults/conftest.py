"""What the fault tests share: the session's home with one worker on its default task queue."""

from collections.abc import Iterator

import pytest
from homes import Home
from workers import working


@pytest.fixture(scope="session")
def staffed(home: Home) -> Iterator[Home]:
    """The session's home with a worker; nothing is killed here."""
    with working(home, "dayflow") as worker:
        worker.ready()
        yield home
