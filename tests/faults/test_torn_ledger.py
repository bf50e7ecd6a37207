"""A ledger whose last record is torn opens with the one before it: no effect that had begun is lost."""

import asyncio
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from forks import forked

from store import database
from store.effects import Effects
from store.ledger import Entry
from store.settings import Settings

FIRST = Entry("first", "effect", "default", "r1", 4, 1, "pay", "a" * 64, "s4.1-aaaaaa", {"amount": "40.00"})
LAST = replace(FIRST, key="last", run_id="r2")
RESULT = {"content": "paid " * 3_000}
CUTS = 40


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A home whose writer was killed with -9, and how long its log was after each commit."""
    home = tmp_path_factory.mktemp("torn")
    assert forked(write, home).wait(60) == -signal.SIGKILL
    return home, [int(size) for size in (home / "sizes").read_text().split()]


def write(home: Path) -> None:
    """Begin two effects and finish the last one; die with the log as it is."""

    async def commits() -> list[int]:
        effects = Effects(await database.connect(Settings(DAYFLOW_HOME=home)))
        await effects.begin(FIRST)
        sizes = [log(home).stat().st_size]
        await effects.begin(LAST)
        sizes.append(log(home).stat().st_size)
        await effects.finish(LAST.key, RESULT)
        return [*sizes, log(home).stat().st_size]

    (home / "sizes").write_text(" ".join(map(str, asyncio.run(commits()))))
    os.kill(os.getpid(), signal.SIGKILL)


def log(home: Path) -> Path:
    return home / "dayflow.sqlite-wal"


def cuts(start: int, end: int) -> list[int]:
    """Places within a record: its edges, and others between them."""
    return sorted({start, start + 1, end - 1, *range(start, end, max(1, (end - start) // CUTS))})


async def statuses(home: Path, size: int, into: Path, *, filled: bool) -> dict[str, str | None]:
    """How the two rows stand once the log was cut here; filled: with zeros in place of what is missing."""
    copy = into / f"{size}-{filled}"
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("*-shm"))
    whole = log(copy).stat().st_size
    os.truncate(log(copy), size)
    if filled:
        os.truncate(log(copy), whole)
    store = await database.connect(Settings(DAYFLOW_HOME=copy))
    found = {key: await Effects(store).standing(key) for key in ("first", "last")}
    await store.close()
    return {key: one.status if one else None for key, one in found.items()}


@pytest.mark.parametrize("filled", [False, True], ids=["cut off", "zeros"])
async def test_a_torn_end_leaves_the_effect_begun(killed, tmp_path, filled):
    home, (_, begun, done) = killed

    found = [await statuses(home, size, tmp_path, filled=filled) for size in cuts(begun, done)]

    assert found == [{"first": "begun", "last": "begun"}] * len(found)
    assert (await statuses(home, done, tmp_path, filled=filled))["last"] == "done"


async def test_a_torn_beginning_is_as_if_nothing_had_begun_and_others_stand(killed, tmp_path):
    """Nothing has left: an effect is sent when its row is committed, and not before."""
    home, (first, begun, _) = killed

    found = [await statuses(home, size, tmp_path, filled=False) for size in cuts(first, begun)]

    assert found == [{"first": "begun", "last": None}] * len(found)
