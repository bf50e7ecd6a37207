"""Tokens and dollars, from a dated table; what is not known is None, never 0."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.spend import PRICES, SANDBOX_MODEL, PossiblyPaid, Price, Totals, Usage

quick = settings(deadline=None, max_examples=50)

SONNET = PRICES["claude-sonnet-5-5"]
HAIKU = PRICES["claude-haiku-5-5"]
COUNTS = st.integers(0, 10**7)
USAGES = st.builds(
    lambda fresh, out, read, short, long: Usage(
        input_tokens=fresh,
        output_tokens=out,
        cache_read_tokens=read,
        cache_write_tokens=short + long,
        cache_write_1h_tokens=long,
    ),
    *(COUNTS,) * 5,
)

# The published list: model, input, output, cache write 5m, cache write 1h, cache read; dollars per million tokens.
PUBLISHED = [
    ("claude-opus-5-5", "4", "20", "5", "8", "0.20"),
    ("claude-opus-5", "5", "25", "6.25", "10", "0.50"),
    ("claude-sonnet-5-5", "2", "10", "2.50", "4", "0.10"),  # the read price since 2026-10-07
    ("claude-sonnet-5", "2", "10", "2.50", "4", "0.20"),
    ("claude-haiku-5-5", "0.10", "0.50", "0.125", "0.20", "0.01"),  # prompts up to 100k tokens
    ("claude-haiku-4-5", "1", "5", "1.25", "2", "0.10"),
]


@pytest.mark.parametrize("row", PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_the_table_says_what_was_published(row):
    price = PRICES[row[0]]

    rates = (price.input, price.output, price.cache_write, price.cache_write_1h, price.cache_read)
    assert rates == tuple(map(Decimal, row[1:]))


def test_above_100k_tokens_haiku_has_its_dearer_price():
    limit, dearer = HAIKU.above

    rates = (dearer.input, dearer.output, dearer.cache_write, dearer.cache_write_1h, dearer.cache_read)
    assert limit == 100_000
    assert rates == tuple(map(Decimal, ("0.50", "2.50", "0.625", "1.00", "0.05")))


def test_the_table_holds_nothing_else_than_the_published_models_and_the_sandbox():
    assert set(PRICES) == {row[0] for row in PUBLISHED} | {SANDBOX_MODEL}


@pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)
def test_each_price_has_a_date_and_only_the_sandbox_is_simulated(price):
    assert date(2026, 9, 1) <= date.fromisoformat(price.since) <= date(2026, 11, 29)
    assert price.simulated == (price.model == SANDBOX_MODEL)


# Each counter is a million tokens by itself; what it costs with Sonnet.
COUNTERS = [
    ({"input_tokens": 10**6}, "2"),
    ({"output_tokens": 10**6}, "10"),
    ({"cache_read_tokens": 10**6}, "0.10"),
    ({"cache_write_tokens": 10**6}, "2.50"),  # all of it for 5 minutes
    ({"cache_write_tokens": 10**6, "cache_write_1h_tokens": 10**6}, "4"),  # all of it for an hour
    ({"cache_write_tokens": 10**6, "cache_write_1h_tokens": 400_000}, "3.10"),  # 0.6 × 2.50 + 0.4 × 4
    ({}, "0"),
]


@pytest.mark.parametrize(("counted", "dollars"), COUNTERS)
def test_each_counter_has_its_own_rate(counted, dollars):
    assert SONNET.cost(Usage(**counted)) == Decimal(dollars)


# Uncached, read, written tokens; whether the dearer tier holds: cache reads and writes count.
TIERS = [
    (100_000, 0, 0, False),
    (100_001, 0, 0, True),
    (1, 100_000, 0, True),
    (1, 0, 100_000, True),
    (40_000, 30_000, 30_000, False),
    (40_000, 30_000, 30_001, True),
]


@pytest.mark.parametrize(("fresh", "read", "written", "dearer"), TIERS)
def test_a_long_prompt_makes_the_whole_request_dearer(fresh, read, written, dearer):
    used = Usage(input_tokens=fresh, cache_read_tokens=read, cache_write_tokens=written, output_tokens=1_000_000)

    cost = HAIKU.cost(used)

    rates = HAIKU.above[1] if dearer else HAIKU
    expected = fresh * rates.input + read * rates.cache_read + written * rates.cache_write + 10**6 * rates.output
    assert cost == expected / 10**6


def test_output_alone_never_reaches_the_dearer_tier():
    assert HAIKU.cost(Usage(output_tokens=10**6)) == Decimal("0.50")


@quick
@given(USAGES, USAGES)
def test_two_calls_cost_what_they_cost_one_by_one(first, second):
    totals = Totals()

    totals.add(first, SONNET)
    totals.add(second, SONNET)

    assert totals.cost_usd == SONNET.cost(first) + SONNET.cost(second)
    assert totals.usage == first + second
    assert totals.usage.total == first.total + second.total


@quick
@given(USAGES)
def test_the_prompt_is_the_uncached_the_read_and_the_written_tokens(used):
    assert used.prompt == used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
    assert used.total == used.prompt + used.output_tokens


@quick
@given(USAGES, st.sampled_from([SONNET, HAIKU]))
def test_what_the_cache_saved_is_the_difference_to_a_prompt_paid_in_full(used, price):
    totals = Totals()

    totals.add(used, price)

    full = Usage(input_tokens=used.prompt, output_tokens=used.output_tokens)
    assert totals.cost_usd + totals.saved_usd == price.cost(full)


def test_a_call_without_a_price_makes_the_cost_unknown_for_ever_after():
    totals = Totals()
    totals.add(Usage(input_tokens=10), SONNET)

    totals.add(Usage(input_tokens=10), None)
    totals.add(Usage(input_tokens=10), SONNET)

    assert totals.cost_usd is None
    assert totals.usage.input_tokens == 30


def test_an_unknown_cost_stays_unknown_over_a_round_trip_through_json():
    totals = Totals()
    totals.add(Usage(input_tokens=10), None)

    again = Totals.model_validate_json(totals.model_dump_json())
    again.add(Usage(), SONNET)

    assert again.cost_usd is None


def test_no_call_costs_nothing():
    assert Totals().cost_usd == 0


def test_dollars_survive_a_round_trip_through_json_to_the_last_digit():
    totals = Totals()
    totals.add(Usage(input_tokens=1, cache_read_tokens=1), HAIKU)

    again = Totals.model_validate_json(totals.model_dump_json())

    assert again.cost_usd == totals.cost_usd == Decimal("0.00000011")
    assert Price.model_validate_json(HAIKU.model_dump_json()) == HAIKU


def test_attempts_without_an_answer_are_shown_with_what_they_had_reached_and_hold_what_was_reserved():
    maybe, reserved = PossiblyPaid(), Usage(input_tokens=10, output_tokens=100)

    maybe.add([Usage(input_tokens=5), Usage()], reserved, SONNET)
    maybe.add([Usage(output_tokens=2)], reserved, SONNET)

    assert (maybe.calls, maybe.usage) == (3, Usage(input_tokens=5, output_tokens=2))
    assert maybe.held == Usage(input_tokens=30, output_tokens=300)
    assert maybe.held_usd == 3 * SONNET.most(reserved)


@quick
@given(USAGES, st.integers(0, 10**6))
def test_no_call_without_an_hour_of_cache_costs_more_than_the_most_of_its_tokens(used, written):
    plain = used.model_copy(update={"cache_write_tokens": written, "cache_write_1h_tokens": 0})

    for price in (SONNET, HAIKU):
        assert price.cost(plain) <= price.most(plain)


def test_two_totals_share_nothing():
    first, second = Totals(), Totals()

    first.add(Usage(input_tokens=1), SONNET)
    first.possibly_paid.add([Usage()], Usage(), SONNET)

    assert second == Totals()
