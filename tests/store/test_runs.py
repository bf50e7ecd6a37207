"""A run id belongs to one run for ever; where a run reads from is said before it starts."""

import asyncio
from pathlib import Path

import pytest

from domain import errors
from store.runs import Runs


@pytest.fixture
def runs(store):
    return Runs(store, "default")


async def test_a_run_takes_its_id_and_may_ask_again(runs):
    await runs.claim("b1", "first")

    assert await runs.claim("b1", "first") is None


async def test_a_later_run_of_the_same_id_is_refused_with_what_to_do(runs):
    await runs.claim("b1", "first")

    with pytest.raises(errors.BadRequest, match=r"'b1' was used by an earlier run \(first\); .*another --workflow-id"):
        await runs.claim("b1", "second")


async def test_the_same_id_is_free_in_another_namespace_and_in_another_case(runs, store):
    await runs.claim("b1", "first")

    assert await Runs(store, "prod").claim("b1", "second") is None
    assert await runs.claim("B1", "third") is None


async def test_of_fifty_runs_at_once_one_gets_the_id(runs):
    claims = await asyncio.gather(*(runs.claim("b1", f"run {n}") for n in range(50)), return_exceptions=True)

    assert [claim for claim in claims if claim is None] == [None]
    assert all(isinstance(claim, errors.BadRequest) for claim in claims if claim is not None)


async def test_fifty_attempts_of_one_run_at_once_all_get_the_id(runs):
    claims = await asyncio.gather(*(runs.claim("b1", "first") for _ in range(50)))

    assert claims == [None] * 50


@pytest.mark.parametrize("run_id", ["утро", "x" * 200, "ü👋" * 100, "'; --"])
async def test_every_id_that_people_can_use_can_be_claimed(runs, run_id):
    await runs.claim(run_id, "first")

    with pytest.raises(errors.BadRequest):
        await runs.claim(run_id, "second")


# Inbox and calendar, as they are set and found.
SOURCES = [
    (Path("in"), Path("cal.ics")),
    (Path("in"), None),
    (None, Path("cal.ics")),
    (None, None),
    (Path("ü 👋"), None),
]


@pytest.mark.parametrize("paths", SOURCES)
async def test_a_run_reads_from_where_it_was_told_to(runs, paths):
    await runs.set_sources("b1", *paths)

    assert await runs.sources("b1") == paths


async def test_a_run_that_was_told_nothing_has_no_sources_of_its_own(runs, store):
    await Runs(store, "prod").set_sources("b1", Path("in"), None)

    assert await runs.sources("b1") == (None, None)


async def test_before_a_run_has_begun_its_sources_may_be_said_again(runs):
    await runs.set_sources("b1", Path("in"), Path("cal.ics"))

    await runs.set_sources("b1", Path("other"), None)

    assert await runs.sources("b1") == (Path("other"), None)


async def test_a_run_that_has_begun_keeps_its_sources(runs):
    await runs.set_sources("b1", Path("in"), None)
    await runs.claim("b1", "first")

    with pytest.raises(errors.BadRequest, match="another --workflow-id"):
        await runs.set_sources("b1", Path("other"), None)

    assert await runs.sources("b1") == (Path("in"), None)


async def test_fifty_at_once_can_say_the_sources_of_one_run(runs):
    await asyncio.gather(*(runs.set_sources("b1", Path(f"in{n}"), None) for n in range(50)))

    inbox, _ = await runs.sources("b1")
    assert inbox in {Path(f"in{n}") for n in range(50)}
