"""A budget: as much is reserved as the limits leave room for, and never more."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import budget
from domain.agent import Limits
from domain.budget import Bound, Clock, Used, Wanted
from domain.spend import PRICES
from domain.transcript import assistant, tool_result, user, user_text
from sandbox import tokens
from sandbox.request import Request

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
SONNET = PRICES["claude-sonnet-5-5"]  # 2 dollars in, 2.50 written, 10 out
WANTED = Wanted(input_tokens=200, max_tokens=100, least=100)
ROOMY = Wanted(input_tokens=1_000, max_tokens=8_192, least=512)


def used(tokens=0, usd=0, **more):
    return Used(
        **{"steps": 0, "seconds": 0.0, "tokens": tokens, "usd": None if usd is None else Decimal(str(usd))} | more
    )


def reserve(limits, spent=None, wanted=WANTED, price=SONNET):
    return budget.reserve(limits, spent or used(), wanted, price)


def test_900_of_1000_are_used_and_the_next_call_may_take_300():
    reserved = reserve(Limits(tokens=1_000), used(900))

    assert reserved.max_tokens == 0
    assert str(reserved.bound) == "tokens: 900 of 1,000 used, and the next call may take 300"


# The limits, what is used, what is wanted, the room for the answer.
ROOMS = [
    (Limits(), used(10**9), ROOMY, 8_192),
    (Limits(tokens=1_000), used(700), WANTED, 100),
    (Limits(tokens=1_000), used(701), WANTED, 0),
    (Limits(tokens=10_000), used(808), ROOMY, 8_192),
    (Limits(tokens=10_000), used(809), ROOMY, 8_191),
    (Limits(tokens=10_000), used(8_488), ROOMY, 512),
    (Limits(tokens=10_000), used(8_489), ROOMY, 0),
    (Limits(usd=0.1), used(), ROOMY, 8_192),
    (Limits(usd=0.1), used(usd=0.09), ROOMY, 750),  # a cent is left: 0.0025 for the input, 0.0075 for the answer
    (Limits(usd=0.1), used(usd=0.093), ROOMY, 0),
    (Limits(usd=0.1), used(usd=0.2), ROOMY, 0),
    (Limits(usd=0.1, tokens=2_000), used(usd=0.09), ROOMY, 750),
    (Limits(usd=0.1, tokens=1_600), used(usd=0.09), ROOMY, 600),
    (Limits(steps=2), used(steps=1), WANTED, 100),
    (Limits(steps=2), used(steps=2), WANTED, 0),
    (Limits(seconds=60), used(seconds=59.9), WANTED, 100),
    (Limits(seconds=60), used(seconds=60.0), WANTED, 0),
    (Limits(usd=1.7e308), used(), ROOMY, 8_192),
    (Limits(usd=5e-324), used(), ROOMY, 0),
]


@pytest.mark.parametrize(("limits", "spent", "wanted", "room"), ROOMS)
def test_the_answer_gets_what_is_wanted_or_what_is_left_or_the_call_is_not_sent(limits, spent, wanted, room):
    reserved = reserve(limits, spent, wanted)

    assert reserved.max_tokens == room
    assert reserved.lowered == (room < wanted.max_tokens)
    assert (reserved.cut is not None) == reserved.lowered


def test_a_cost_that_is_not_known_leaves_no_room_in_dollars():
    assert reserve(Limits(usd=100.0), used(usd=None)).max_tokens == 0
    assert reserve(Limits(usd=100.0), price=None).max_tokens == 0
    assert str(reserve(Limits(usd=1.0), used(usd=None)).bound).startswith("usd: an unknown amount of 1 used")


def test_the_dearer_tier_of_a_long_prompt_is_what_is_reserved():
    haiku, long = PRICES["claude-haiku-5-5"], Wanted(input_tokens=100_001, max_tokens=1_000, least=512)

    assert reserve(Limits(usd=0.0625), wanted=long, price=haiku).max_tokens == 0
    assert reserve(Limits(usd=0.066), wanted=long, price=haiku).max_tokens == 1_000


@given(
    limit=st.integers(1, 10**6),
    spent=st.integers(0, 10**6),
    wanted=st.integers(0, 10**5),
    most=st.integers(1, 64_000),
    lost=st.integers(0, 5),
)
def test_whatever_is_sent_stays_within_the_limit_lost_attempts_too(limit, spent, wanted, most, lost):
    reserved = reserve(
        Limits(tokens=limit), used(spent), Wanted(input_tokens=wanted, max_tokens=most, least=min(most, 512))
    )

    if reserved.max_tokens and lost <= reserved.most_lost:
        assert spent + (1 + lost) * reserved.usage.total <= limit


@given(limit=st.floats(0.001, 100), spent=st.floats(0, 100), wanted=st.integers(0, 10**6))
def test_whatever_is_sent_stays_within_the_dollars(limit, spent, wanted):
    before = used(usd=round(spent, 6))
    asked = Wanted(input_tokens=wanted, max_tokens=8_192, least=512)

    for price in PRICES.values():
        reserved = reserve(Limits(usd=limit), before, asked, price)
        if reserved.max_tokens:
            assert before.usd + (1 + reserved.most_lost) * price.most(reserved.usage) <= Decimal(str(limit))


def test_the_proposed_limit_lets_the_run_go_on():
    for limits, spent in ((Limits(tokens=1_000), used(900)), (Limits(usd=0.001), used(usd=0.0009))):
        bound = reserve(limits, spent, ROOMY).bound

        raised = Limits.model_validate_json(json.dumps({bound.limit: json.loads(bound.proposal)}))

        assert reserve(raised, spent, ROOMY).max_tokens == ROOMY.max_tokens


def test_what_was_lost_is_said_where_it_counts():
    told = str(Bound(limit="tokens", used=9_000, most=9_500, needs=1_000, lost=2))

    assert told == (
        "tokens: 9,000 of 9,500 used (2 calls that may have been paid count as paid), and the next call may take 1,000"
    )


def test_the_clock_stops_while_a_run_stands_still():
    clock = Clock()
    clock.turn(NOW, waits=False)
    clock.turn(NOW, waits=True)
    clock.turn(NOW, waits=True)

    assert clock.worked(NOW, NOW) == 0
    assert Clock.model_validate_json(clock.model_dump_json()) == clock


PROSE = "Ana writes that the stage is late, and that somebody has to ring her before Friday. " * 30
TABLE = json.dumps(
    [{"id": f"m{n}", "from": "ana@example.com", "subject": "The stage", "unread": True} for n in range(40)]
)
CALL = {"type": "tool_use", "id": "toolu_0123456789abcdef01234567", "name": "read_inbox", "input": {"about": "x" * 300}}
CORPUS = {
    "prose": [user_text(PROSE)],
    "JSON": [user([tool_result(CALL["id"], TABLE, is_error=False)])],
    "prose of a tool": [user([tool_result(CALL["id"], PROSE, is_error=True)])],
    "many results": [user([tool_result(CALL["id"], "done", is_error=False)] * 16)],
    "a call": [assistant([{"type": "text", "text": "I look."}, CALL])],
    "umlauts": [user_text("Über die Bühne für Köln, Größe prüfen. " * 50)],
    "all": [user_text(PROSE), assistant([CALL]), user([tool_result(CALL["id"], TABLE, is_error=False)])],
}


@pytest.mark.parametrize("messages", CORPUS.values(), ids=CORPUS)
def test_the_estimate_is_never_below_the_sandboxs_own_count_and_not_far_above(messages):
    counted = sum(piece.tokens for piece in Request({"model": "m", "messages": messages}).pieces)

    estimated = budget.estimate(messages)

    assert counted <= estimated <= 1.25 * counted + len(messages) * (budget.WRAPPING + 1) + 16 * budget.WRAPPING


def test_writing_without_spaces_and_latin_letters_is_not_taken_for_short():
    chinese = "请在周五之前给安娜回电话。" * 20

    assert budget.estimate([user_text(chinese)]) > 0.8 * len(chinese) > tokens.of_text(chinese)
