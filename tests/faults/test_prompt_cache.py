"""Forty steps on the sandbox's own count: the prompt is nearly all read from the cache, whoever dies in between."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from checker import check
from homes import Home
from script import call, conversation, play, say, unique, use
from witness import Request, Witness, ends, start, witness
from workers import working

from domain.spend import PRICES, SANDBOX_MODEL, Usage

STEPS, KILLED_AT = 40, 20
# Compaction begins a new prefix; here there is one.
WHOLE = {"DAYFLOW_COMPACT_AT": "1000000"}
SHARE = Decimal("0.25")
UNHARMED, KILLED, HANDED_OVER = (unique(f"cache-{what}") for what in ("unharmed", "killed", "handed-over"))
CASES = pytest.mark.parametrize("task", [UNHARMED, KILLED, HANDED_OVER], ids=["unharmed", "killed", "handed over"])
PRICE = PRICES[SANDBOX_MODEL]
LOOK = use("read_calendar", {"range": "today"})


@pytest.fixture(scope="module")
def told(home: Home) -> Iterator[dict[str, "Future[Witness]"]]:
    """The runs side by side, each on a task queue of its own."""
    play(home, *map(forty_steps, (UNHARMED, KILLED, HANDED_OVER)))
    with ThreadPoolExecutor(3) as pool:
        yield {
            UNHARMED: pool.submit(through, home, UNHARMED),
            KILLED: pool.submit(killed, home, KILLED),
            HANDED_OVER: pool.submit(killed, home, HANDED_OVER, DAYFLOW_EVENTS="100"),
        }


def forty_steps(task: str) -> dict[str, Any]:
    """Mostly one call a step; now and then as many side by side as are run in one step. None is asked twice alike."""
    turns = [
        call(use("read_inbox", {"limit": step}), *[LOOK] * (15 if step % 10 == 0 else 0)) for step in range(1, STEPS)
    ]
    return conversation(task, *turns, say("Looked often enough."))


def through(home: Home, task: str) -> Witness:
    """The run, by one worker."""
    with working(home, task, **WHOLE):
        start(home, task, {"agent": "brief", "task": task, "limits": {"steps": 100, "tokens": 10**8}}, task)
        ends(home, task, seconds=100)
    return witness(home, task)


def killed(home: Home, task: str, **env: str) -> Witness:
    """The run, by two workers: the first is killed in the middle of an answer in the middle of the run."""
    start(home, task, {"agent": "brief", "task": task, "limits": {"steps": 100, "tokens": 10**8}}, task)
    with working(home, task, DAYFLOW_CRASH_AT=f"model.stream:{KILLED_AT}", **WHOLE, **env) as doomed:
        doomed.died(100)
    with working(home, task, **WHOLE, **env):
        ends(home, task, seconds=100)
    return witness(home, task)


@CASES
def test_forty_steps_cost_less_than_a_quarter_of_what_they_would_uncached(told, task):
    seen = told[task].result()

    assert seen.record["step"] == STEPS
    paid = sum(PRICE.cost(prompt(request)) for request in seen.requests)
    uncached = sum({one.place: PRICE.cost(Usage(input_tokens=prompt(one).prompt)) for one in seen.requests}.values())
    print(f"\n{task}: {len(seen.requests)} requests, ${paid:.4f} of ${uncached:.4f}, ratio {paid / uncached:.3f}")
    assert paid < SHARE * uncached


@CASES
def test_each_request_reads_all_that_the_one_before_has_kept(told, task):
    seen = told[task].result()

    for before, after in pairwise(map(prompt, seen.requests)):
        assert after.cache_read_tokens == before.cache_read_tokens + before.cache_write_tokens
        assert after.input_tokens == 0
    assert seen.record["cache_warning"] is None


def test_the_runs_were_as_they_were_meant(told):
    check(told[UNHARMED].result())
    check(told[KILLED].result(), again={(KILLED_AT, 1): 1})
    assert len(told[HANDED_OVER].result().requests) == STEPS + 1
    assert len(told[HANDED_OVER].result().run.other_executions) > 2


def test_the_record_says_what_the_cache_saved(told):
    totals = told[UNHARMED].result().record["totals"]

    used = Usage(**{name: totals[name] for name in ("input_tokens", "cache_read_tokens", "cache_write_tokens")})
    assert totals["cache_saved_usd"] == float(round(PRICE.saved(used), 6))
    assert totals["cache_saved_usd"] > totals["cost_usd"]


def prompt(request: Request) -> Usage:
    """What the sandbox counted of a request."""
    assert request.outcome is not None
    counted = request.outcome["usage"]
    return Usage(
        input_tokens=counted["input_tokens"],
        cache_read_tokens=counted["cache_read_input_tokens"],
        cache_write_tokens=counted["cache_creation_input_tokens"],
    )
