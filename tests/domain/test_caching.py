"""Breakpoints stand where the next request finds what the one before has kept, and no prompt is dear in silence."""

import copy

import pytest

from domain import caching
from domain.spend import Usage
from domain.transcript import assistant, tool_result, user, user_text

LOOKBACK = 20
MOST = 3
UNCACHED, WRITTEN, READ = (
    Usage(input_tokens=9_000),
    Usage(cache_write_tokens=9_000),
    Usage(cache_write_tokens=1_000, cache_read_tokens=8_000),
)


def step(calls, thinking=0):
    said = [{"type": "thinking", "thinking": "", "signature": "s"}] * thinking
    said += [{"type": "text", "text": "Now."}]
    said += [{"type": "tool_use", "id": f"t{n}", "name": "look", "input": {}} for n in range(calls)]
    return [assistant(said), user([tool_result(f"t{n}", "seen", is_error=False) for n in range(calls)])]


def blocks(messages):
    return [block for message in messages for block in message["content"]]


def places(messages):
    return [at for at, block in enumerate(blocks(caching.marked(messages))) if "cache_control" in block]


@pytest.mark.parametrize("thinking", [0, 1, 5])
@pytest.mark.parametrize("calls", [1, 2, 8, 9, 16, 17, 25, 40, 100])
def test_a_breakpoint_finds_what_the_request_before_has_kept(calls, thinking):
    before = [user_text("Look."), *step(2)]
    kept = places(before)[-1]

    marks = places([*before, *step(calls, thinking)])

    assert len(marks) <= MOST
    assert marks[-1] == len(blocks([*before, *step(calls, thinking)])) - 1
    assert any(0 <= mark - kept < LOOKBACK for mark in marks)


def test_a_big_turn_has_a_breakpoint_about_every_fifteen_blocks():
    messages = [user_text("Look."), *step(16)]

    assert places(messages) == [3, 18, 33]


def test_a_small_turn_has_one_breakpoint():
    assert places([user_text("Look.")]) == [0]
    assert places([user_text("Look."), *step(3)]) == [7]


def test_a_turn_that_the_model_paused_keeps_its_breakpoint_on_the_user_turn():
    messages = [user_text("Look."), *step(1), assistant([{"type": "text", "text": "More to come."}])]

    assert places(messages) == [3]


def test_words_of_a_person_behind_the_results_are_marked_too():
    assert places([user_text("Look."), *step(1), user_text("Hurry.")]) == [4]


def test_marks_are_all_that_is_added_and_what_was_given_is_left_alone():
    messages = [user_text("Look."), *step(16, thinking=1)]
    given = copy.deepcopy(messages)

    marked = copy.deepcopy(caching.marked(messages))
    for block in blocks(marked):
        block.pop("cache_control", None)

    assert marked == messages == given


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([UNCACHED] * 3, "neither written nor read"),
        ([READ, UNCACHED, UNCACHED, UNCACHED], "neither written nor read"),
        ([WRITTEN] * 3, "written and never read"),
    ],
)
def test_a_long_prompt_that_never_hits_is_warned_of(calls, why):
    assert why in (caching.warning(calls) or "")


@pytest.mark.parametrize(
    "calls",
    [[], [UNCACHED] * 2, [UNCACHED, UNCACHED, READ], [WRITTEN, READ, READ], [Usage(input_tokens=4_000)] * 3],
    ids=["no call", "two calls", "a hit", "as it should be", "short"],
)
def test_a_prompt_that_is_short_or_new_or_hits_is_not_warned_of(calls):
    assert caching.warning(calls) is None
