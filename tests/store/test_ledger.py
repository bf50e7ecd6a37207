"""The ledger of model calls: a row before anything leaves, each attempt counted, and the first answer stands."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from domain import errors
from store.ledger import Entry, Ledger, compaction_key, model_key

CALL = Entry(
    key="model-1",
    kind="model",
    namespace="default",
    run_id="b1",
    step=1,
    position=1,
    name="m",
    digest="a" * 64,
)


@pytest.fixture
def ledger(store):
    return Ledger(store)


async def row(ledger, entry=CALL):
    (found,) = [row for row in await ledger.rows(entry.namespace, entry.run_id) if row["key"] == entry.key]
    return found


# One key


async def test_a_first_attempt_begins_a_row_before_anything_leaves(ledger):
    before = datetime.now(UTC)

    begun = await ledger.begin(CALL)

    assert (begun.attempt, begun.result, begun.possibly_paid, begun.failures) == (1, None, [], 0)
    assert before <= begun.began_at <= datetime.now(UTC)
    assert (await row(ledger))["status"] == "begun"


async def test_of_fifty_at_once_one_is_the_first_and_each_has_a_number_of_its_own(ledger):
    begun = await asyncio.gather(*(ledger.begin(CALL) for _ in range(50)))

    assert sorted(one.attempt for one in begun) == list(range(1, 51))
    assert (await row(ledger))["attempts"] == 50


async def test_fifty_keys_at_once_do_not_wait_for_each_other_for_ever(ledger):
    keys = [replace(CALL, key=f"model-{n}") for n in range(50)]

    begun = await asyncio.gather(*map(ledger.begin, keys))

    assert {one.attempt for one in begun} == {1}


async def test_of_fifty_answers_at_once_one_stands_and_everyone_gets_that_one(ledger):
    await ledger.begin(CALL)

    answers = await asyncio.gather(*(ledger.finish(CALL.key, {"n": n}) for n in range(50)))

    assert all(answer == answers[0] for answer in answers)
    assert (await row(ledger))["result"] == answers[0]


async def test_an_answer_is_the_answer_of_every_later_attempt(ledger):
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, {"content": "paid"}, {"input_tokens": 5})

    again = await ledger.begin(CALL)

    assert again.result == {"content": "paid"}
    assert again.attempt == 1
    assert (await row(ledger))["usage"] == {"input_tokens": 5}


async def test_an_attempt_that_comes_back_late_does_not_replace_the_answer(ledger):
    await ledger.begin(CALL)
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, "first", {"input_tokens": 1})

    told = await ledger.finish(CALL.key, "late", {"input_tokens": 2})

    assert told == "first"
    kept = await row(ledger)
    assert kept["result"] == "first"
    assert kept["possibly_paid"][-1] == {"input_tokens": 2}


async def test_an_attempt_that_fails_late_does_not_undo_the_answer(ledger):
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, "done")

    await ledger.fail(CALL.key, "TimeoutError")

    assert (await ledger.begin(CALL)).result == "done"


# A crash leaves the row as it was; the next attempt finds it.


async def test_an_attempt_that_never_came_back_may_have_been_paid(ledger):
    await ledger.begin(CALL)

    second = await ledger.begin(CALL)
    third = await ledger.begin(CALL)

    assert (second.attempt, second.possibly_paid) == (2, [{}])
    assert (third.attempt, third.possibly_paid) == (3, [{}, {}])
    assert third.began_at == second.began_at


async def test_what_an_attempt_was_seen_to_use_survives_it(ledger):
    await ledger.begin(CALL)
    await ledger.saw(CALL.key, {"input_tokens": 7})

    again = await ledger.begin(CALL)

    assert again.possibly_paid == [{"input_tokens": 7}]


async def test_the_usage_of_one_attempt_is_not_taken_for_that_of_the_next(ledger):
    await ledger.begin(CALL)
    await ledger.saw(CALL.key, {"input_tokens": 7})
    await ledger.begin(CALL)

    third = await ledger.begin(CALL)

    assert third.possibly_paid == [{"input_tokens": 7}, {}]


async def test_an_attempt_that_failed_before_it_was_sent_is_not_counted_as_paid(ledger):
    await ledger.begin(CALL)
    await ledger.fail(CALL.key, "ConnectionError")

    again = await ledger.begin(CALL)

    assert (again.attempt, again.failures, again.possibly_paid) == (2, 1, [])


async def test_an_attempt_that_failed_in_the_middle_is_counted_once(ledger):
    await ledger.begin(CALL)
    await ledger.saw(CALL.key, {"input_tokens": 7})
    await ledger.fail(CALL.key, "ReadError", {"input_tokens": 7})

    again = await ledger.begin(CALL)

    assert again.possibly_paid == [{"input_tokens": 7}]
    assert (await row(ledger))["status"] == "begun"


async def test_failures_add_up_and_crashes_do_not_count_among_them(ledger):
    for _ in range(3):
        await ledger.begin(CALL)
        await ledger.fail(CALL.key, "RuntimeError")
        await ledger.begin(CALL)  # and a crash

    assert (await ledger.begin(CALL)).failures == 3


# The words of a request are not bound to the key.


async def test_a_stored_answer_is_the_answer_whatever_the_words_of_the_request(ledger):
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, "old", {"input_tokens": 3})

    anew = await ledger.begin(replace(CALL, digest="b" * 64))

    assert (anew.attempt, anew.result, anew.possibly_paid) == (1, "old", [])
    assert (await row(ledger))["digest"] == "a" * 64


@pytest.mark.parametrize("end", ["begun", "failed"])
async def test_a_call_without_an_answer_may_be_worded_anew(ledger, end):
    await ledger.begin(CALL)
    if end == "failed":
        await ledger.fail(CALL.key, "ConnectionError")

    anew = await ledger.begin(replace(CALL, digest="b" * 64))

    assert (anew.attempt, anew.result) == (2, None)
    assert (await row(ledger))["digest"] == "b" * 64


# The course that an answer counts for


async def test_an_answer_counts_for_the_course_that_it_was_asked_in_and_no_other(ledger):
    asked = replace(CALL, outline="a" * 64)
    await ledger.begin(asked)
    await ledger.finish(CALL.key, "old", {"input_tokens": 3})

    same = await ledger.begin(asked)
    other = await ledger.begin(replace(asked, outline="b" * 64))

    assert same.result == "old"
    assert (other.attempt, other.result, other.possibly_paid) == (2, None, [{"input_tokens": 3}])
    assert (await row(ledger))["outline"] == "b" * 64


# Attempts that were given up, and come back


@pytest.mark.parametrize("first", [1, 2])
async def test_each_lost_attempt_is_counted_once_whoever_answers_first(ledger, first):
    await ledger.begin(CALL)
    await ledger.begin(CALL)

    for attempt in (first, 3 - first):
        await ledger.finish(CALL.key, f"answer {attempt}", {"input_tokens": attempt}, attempt=attempt)

    ended = await ledger.ended(CALL.key)
    assert ended.result == f"answer {first}"
    assert len(ended.possibly_paid) == 1


async def test_an_answer_whose_commit_nobody_heard_of_is_written_down_again_and_counted_once(ledger):
    await ledger.begin(CALL)

    answers = [await ledger.finish(CALL.key, "answer", {"input_tokens": 1}, attempt=1) for _ in range(2)]

    assert answers == ["answer", "answer"]
    assert (await ledger.ended(CALL.key)).possibly_paid == []


async def test_a_zombie_that_fails_says_nothing_about_the_attempt_after_it(ledger):
    await ledger.begin(CALL)
    await ledger.begin(CALL)

    await ledger.fail(CALL.key, "ReadError", {"input_tokens": 1}, attempt=1)

    kept = await row(ledger)
    assert (kept["status"], kept["failures"], len(kept["possibly_paid"])) == ("begun", 0, 1)


async def test_what_a_zombie_was_seen_to_use_does_not_change_an_answer(ledger):
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, "answer", {"input_tokens": 1})

    await ledger.saw(CALL.key, {"input_tokens": 9})

    assert (await row(ledger))["usage"] == {"input_tokens": 1}


# Answers that are to be paid for again


async def test_the_answers_from_a_step_on_are_forgotten_and_nothing_else_is(ledger):
    for step in (1, 2, 3):
        await ledger.begin(replace(CALL, key=f"model-{step}", step=step))
        await ledger.finish(f"model-{step}", f"answer {step}", {"input_tokens": step})
    await ledger.begin(replace(CALL, key="begun", step=4))
    for changed in ({"key": "other run", "run_id": "b2"}, {"key": "an effect", "kind": "effect"}):
        await ledger.begin(replace(CALL, step=3, **changed))
        await ledger.finish(changed["key"], "kept")

    forgotten = await ledger.forget("default", "b1", 2)

    assert forgotten == 2
    kept = [*await ledger.rows("default", "b1"), *await ledger.rows("default", "b2")]
    assert {row["key"]: row["result"] for row in kept} == {
        "model-1": "answer 1",
        "model-2": None,
        "model-3": None,
        "begun": None,
        "other run": "kept",
        "an effect": "kept",
    }


async def test_a_forgotten_answer_is_asked_for_anew_and_what_it_cost_is_not_forgotten(ledger):
    await ledger.begin(CALL)
    await ledger.finish(CALL.key, "answer", {"input_tokens": 7})
    await ledger.forget("default", "b1", 1)

    anew = await ledger.begin(CALL)

    assert (anew.attempt, anew.result, anew.possibly_paid) == (2, None, [{"input_tokens": 7}])


# Rows and keys


async def test_the_rows_of_a_run_come_in_the_order_of_its_steps_and_are_nobody_elses(ledger):
    for step, position in [(2, 1), (1, 2), (1, 1)]:
        await ledger.begin(replace(CALL, key=f"k{step}{position}", step=step, position=position))
    await ledger.begin(replace(CALL, key="other run", run_id="b2"))
    await ledger.begin(replace(CALL, key="other namespace", namespace="prod"))

    assert [row["key"] for row in await ledger.rows("default", "b1")] == ["k11", "k12", "k21"]


async def test_an_end_without_a_beginning_is_a_contradiction(ledger):
    with pytest.raises(errors.Broken, match="no row"):
        await ledger.finish("nothing", "x")


async def test_an_answer_that_is_not_there_is_a_contradiction(ledger):
    await ledger.begin(CALL)

    with pytest.raises(errors.Broken, match="no answer"):
        await ledger.ended(CALL.key)


async def test_a_failure_without_a_beginning_changes_nothing(ledger):
    await ledger.fail("nothing", "x")

    assert await ledger.rows("default", "b1") == []


def test_each_ask_of_each_step_of_each_run_has_its_own_key_and_it_never_changes():
    places = [(run, step, ask) for run in ("a", "b") for step in (1, 11) for ask in (1, 11)]

    assert len({of(*place) for place in places for of in (model_key, compaction_key)}) == 16
    assert model_key("run", 1, 1) == "model-1711426337658e91d890b3a4fed105b92219a726e3a5e5d18f112ad9ac4dd8af"


# Words of the model, a mail or an error that a database could choke on.
WORDS = ["\x00", "\ud800", "a\x00b\udfffc", "é👋\u202e", "'; DROP TABLE ledger; --", "x" * 100_000]


@pytest.mark.parametrize("words", WORDS, ids=["NUL", "surrogate", "both", "unicode", "SQL", "long"])
async def test_any_words_can_be_kept(ledger, words):
    await ledger.begin(replace(CALL, intent=words))
    await ledger.fail(CALL.key, words)
    await ledger.finish(CALL.key, {"content": words})

    assert (await ledger.begin(CALL)).result == {"content": words}
    assert (await row(ledger))["intent"] == words.replace("\x00", "\ufffd").replace("\ud800", "\ufffd").replace(
        "\udfff", "\ufffd"
    )
