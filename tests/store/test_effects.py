"""Effects in the ledger: one holder for each intent, nothing sent twice unseen, and what is known stands."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from domain import errors
from domain.tool import Conflict
from store.effects import Effects
from store.ledger import Entry, Ledger

REFUND = Entry(
    key="dayflow-1",
    kind="effect",
    namespace="default",
    run_id="b1",
    step=4,
    position=1,
    name="issue_refund",
    digest="a" * 64,
    action_id="s4.1-aaaaaa",
    arguments={"amount": "40.00"},
    intent="refund:order-1042",
    holds="refund:order-1042",
)
# The same wish in another run.
OTHER = replace(REFUND, key="dayflow-2", run_id="b2", action_id="s3.1-aaaaaa")
CHANGED = replace(REFUND, digest="b" * 64, arguments={"amount": "50.00"})
RESULT = {"content": "re_1", "outcome": "done"}


@pytest.fixture
def effects(store):
    return Effects(store)


@pytest.fixture
def rows(store):
    """The row of an entry."""

    async def row(entry=REFUND):
        (found,) = [one for one in await Ledger(store).rows(entry.namespace, entry.run_id) if one["key"] == entry.key]
        return found

    return row


async def bring(effects, entry, status):
    """A row of this status."""
    begun = await effects.begin(entry)
    if status == "done":
        await effects.finish(entry.key, RESULT)
    if status == "failed":
        await effects.fail(entry.key, "refused")
    if status == "unsent":
        await effects.unsent(entry.key, "out of reach", begun.attempts)
    if status == "unknown":
        await effects.unknown(entry.key, "no answer")


# One key


async def test_a_first_attempt_begins_a_row_before_anything_leaves(effects, rows):
    before = datetime.now(UTC)

    begun = await effects.begin(REFUND)

    assert (begun.status, begun.sent, begun.result, begun.attempts, begun.failures) == ("begun", False, None, 1, 0)
    assert before <= begun.began_at <= begun.last_sent_at <= datetime.now(UTC)
    row = await rows()
    assert (row["status"], row["arguments"], row["holds"]) == ("begun", REFUND.arguments, REFUND.holds)


async def test_of_fifty_attempts_at_once_one_is_the_first_and_the_others_know_that_it_was_sent(effects, rows):
    begun = await asyncio.gather(*(effects.begin(REFUND) for _ in range(50)))

    assert sorted(one.sent for one in begun) == [False, *[True] * 49]
    assert (await rows())["attempts"] == 1  # nobody else has sent anything yet


async def test_what_is_begun_again_was_sent(effects):
    await effects.begin(REFUND)

    again = await effects.begin(REFUND)

    assert (again.status, again.sent, again.attempts) == ("begun", True, 1)


async def test_each_further_attempt_has_a_number_and_a_time(effects):
    first = await effects.begin(REFUND)

    numbers = [await effects.sending(REFUND.key) for _ in range(3)]

    again = await effects.begin(REFUND)
    assert numbers == [2, 3, 4]
    assert again.attempts == 4
    assert again.last_sent_at > first.last_sent_at
    assert again.began_at == first.began_at


async def test_the_standing_of_a_key_that_was_never_used_is_none(effects):
    assert await effects.standing("dayflow-9") is None


# The status, what is stored, whether an attempt went out without an answer.
STANDINGS = [
    ("begun", None, True),
    ("done", RESULT, False),
    ("failed", None, False),
    ("unsent", None, False),
    ("unknown", None, False),
]


@pytest.mark.parametrize(("status", "result", "sent"), STANDINGS)
async def test_a_standing_says_what_is_known(effects, status, result, sent):
    await bring(effects, REFUND, status)

    standing = await effects.standing(REFUND.key)

    assert (standing.status, standing.result, standing.sent) == (
        "failed" if status == "unsent" else status,
        result,
        sent,
    )


@pytest.mark.parametrize("status", ["begun", "done", "failed", "unknown"])
async def test_a_key_with_other_arguments_is_an_error_by_name_and_changes_nothing(effects, rows, status):
    await bring(effects, REFUND, status)
    before = await rows()

    with pytest.raises(errors.ArgumentsChanged, match="issue_refund was carried out before with other arguments"):
        await effects.begin(CHANGED)

    assert await rows() == before


async def test_the_first_answer_stands_and_is_what_everyone_gets(effects, rows):
    await effects.begin(REFUND)

    answers = await asyncio.gather(*(effects.finish(REFUND.key, {"content": str(n)}) for n in range(50)))

    assert all(answer == answers[0] for answer in answers)
    assert (await rows())["result"] == answers[0]


async def test_an_answer_without_a_row_is_a_contradiction(effects):
    with pytest.raises(errors.Broken, match="no row"):
        await effects.finish("dayflow-9", RESULT)


async def test_a_further_attempt_without_a_row_is_a_contradiction(effects):
    with pytest.raises(errors.Broken, match="no row"):
        await effects.sending("dayflow-9")


# From one status to another: what is said, whether it counts.
MOVES = [
    ("begun", "done", "done"),
    ("begun", "failed", "failed"),
    ("begun", "unknown", "unknown"),
    ("unknown", "done", "done"),  # an answer that comes late, or a person
    ("unknown", "failed", "failed"),  # a person
    ("unknown", "unknown", "unknown"),
    ("failed", "done", "done"),  # it happened after all: that is the truth
    ("failed", "unknown", "failed"),  # a late doubt is none
    ("done", "failed", "done"),
    ("done", "unknown", "done"),
]


@pytest.mark.parametrize(("start", "said", "end"), MOVES)
async def test_what_is_known_of_an_effect_is_never_less_than_before(effects, rows, start, said, end):
    await bring(effects, REFUND, start)

    if said == "done":
        await effects.finish(REFUND.key, RESULT)
    elif said == "failed":
        await effects.fail(REFUND.key, "not done, says ann")
    else:
        await effects.unknown(REFUND.key, "no answer")

    row = await rows()
    assert row["status"] == end
    assert row["result"] == (RESULT if end == "done" else None)


# The status, whether "it did not happen" and "nobody knows" can be said of it.
SAYABLE = [("begun", True, True), ("unknown", True, False), ("done", False, False)]


@pytest.mark.parametrize(("status", "failed", "unknown"), SAYABLE)
async def test_who_says_something_is_told_whether_it_counts(effects, status, failed, unknown):
    await bring(effects, REFUND, status)

    assert await effects.unknown(REFUND.key, "no answer") is unknown
    assert await effects.fail(REFUND.key, "not done, says ann") is failed


# An attempt that comes back late, as from a worker that was given up


async def test_an_attempt_cannot_say_that_nothing_happened_once_another_one_has_begun(effects, rows):
    first = await effects.begin(REFUND)
    second = await effects.sending(REFUND.key)

    await effects.unsent(REFUND.key, "out of reach", first.attempts)
    said = await effects.fail(REFUND.key, "refused", first.attempts)
    standing = await effects.standing(REFUND.key)

    assert said is False
    assert (standing.status, standing.sent) == ("begun", True)
    assert await effects.fail(REFUND.key, "refused", second) is True


async def test_an_attempt_cannot_say_that_nothing_happened_once_nobody_knows(effects):
    first = await effects.begin(REFUND)
    await effects.unknown(REFUND.key, "no answer")

    await effects.unsent(REFUND.key, "out of reach", first.attempts)
    said = await effects.fail(REFUND.key, "refused", first.attempts)

    assert said is False
    assert (await effects.standing(REFUND.key)).status == "unknown"


async def test_a_stumble_leaves_the_row_begun_and_counts(effects, rows):
    await effects.begin(REFUND)

    for _ in range(3):
        await effects.stumble(REFUND.key, "ConnectionError")

    row = await rows()
    assert (row["status"], row["failures"], row["error"]) == ("begun", 3, "ConnectionError")


async def test_an_attempt_that_ended_leaves_the_one_before_it_as_the_last_that_may_still_be_sending(effects):
    first = await effects.begin(REFUND)
    await effects.sending(REFUND.key)

    await effects.stumble(REFUND.key, "refused", last_sent_at=first.last_sent_at)

    assert (await effects.standing(REFUND.key)).last_sent_at == first.last_sent_at


async def test_a_late_stumble_does_not_undo_an_answer(effects, rows):
    await bring(effects, REFUND, "done")

    await effects.stumble(REFUND.key, "ConnectionError")

    assert ((await rows())["status"], (await rows())["failures"]) == ("done", 0)


# Intents: at most one row that is begun, unknown or done holds one in a namespace.


async def test_of_fifty_runs_that_want_the_same_at_once_one_has_it_and_the_others_know_which(effects):
    entries = [replace(REFUND, key=f"dayflow-{n}", run_id=f"b{n}", action_id=f"s4.1-{n:06}") for n in range(50)]

    ends = await asyncio.gather(*map(effects.begin, entries), return_exceptions=True)

    (holder,) = [entry for entry, end in zip(entries, ends, strict=True) if not isinstance(end, BaseException)]
    held = [end for end in ends if isinstance(end, BaseException)]
    assert {type(end) for end in held} == {errors.IntentHeld}
    assert {end.conflict for end in held} == {Conflict(run_id=holder.run_id, action_id=holder.action_id)}


@pytest.mark.parametrize("status", ["begun", "unknown", "done"])
async def test_what_an_effect_holds_no_other_can_begin(effects, status):
    await bring(effects, REFUND, status)

    with pytest.raises(errors.IntentHeld, match=r"b1 holds the same intent by its action s4\.1-aaaaaa"):
        await effects.begin(OTHER)

    assert await effects.standing(OTHER.key) is None
    assert await effects.holder(OTHER) == Conflict(run_id="b1", action_id="s4.1-aaaaaa")


@pytest.mark.parametrize("status", ["failed", "unsent"])
async def test_an_effect_that_did_not_happen_releases_its_intent(effects, status):
    await bring(effects, REFUND, status)

    begun = await effects.begin(OTHER)

    assert (begun.status, begun.sent) == ("begun", False)
    assert await effects.holder(REFUND) is None  # of itself nothing is in the way, as far as the row tells


async def test_an_effect_that_was_not_sent_begins_anew_as_if_nothing_was(effects):
    await bring(effects, REFUND, "unsent")

    again = await effects.begin(REFUND)

    assert (again.sent, again.attempts, again.failures) == (False, 2, 1)


async def test_an_effect_that_was_not_sent_finds_its_intent_taken_in_the_meantime(effects):
    await bring(effects, REFUND, "unsent")
    await effects.begin(OTHER)

    with pytest.raises(errors.IntentHeld) as caught:
        await effects.begin(REFUND)

    assert caught.value.conflict == Conflict(run_id="b2", action_id="s3.1-aaaaaa")


async def test_who_saw_the_conflict_may_do_it_again_and_holds_it_too(effects):
    await bring(effects, REFUND, "done")

    begun = await effects.begin(OTHER, again=True)

    assert begun.sent is False
    third = replace(REFUND, key="dayflow-3", run_id="b3")
    await effects.finish(OTHER.key, RESULT)
    assert await effects.holder(third) == Conflict(run_id="b1", action_id="s4.1-aaaaaa")  # the oldest is named
    with pytest.raises(errors.IntentHeld):
        await effects.begin(third)


async def test_again_is_no_leave_to_send_the_same_key_twice(effects):
    await bring(effects, REFUND, "done")
    await effects.begin(OTHER, again=True)

    again = await effects.begin(OTHER, again=True)

    assert again.sent is True


# What is otherwise in the second effect.
APART = [
    {"namespace": "prod"},
    {"intent": "refund:order-1043", "holds": "refund:order-1043"},
    {"intent": None, "holds": None},
    {"holds": None},  # its destination answers itself when the same is wanted twice
]


@pytest.mark.parametrize("changed", APART)
async def test_another_wish_is_in_nobodys_way(effects, changed):
    await bring(effects, REFUND, "done")

    in_the_way = await effects.holder(replace(OTHER, **changed))
    begun = await effects.begin(replace(OTHER, **changed))

    assert in_the_way is None
    assert begun.sent is False


async def test_what_happened_is_kept_although_another_run_has_taken_the_intent_meanwhile(effects, rows):
    """A person said that it had not happened, another run did it, and then the lost attempt came back."""
    await bring(effects, REFUND, "unknown")
    await effects.fail(REFUND.key, "not done, says ann")
    await bring(effects, OTHER, "done")

    stored = await effects.finish(REFUND.key, {"content": "re_late", "outcome": "done"})

    assert stored["content"] == "re_late"
    assert [(await rows(one))["status"] for one in (REFUND, OTHER)] == ["done", "done"]
    with pytest.raises(errors.IntentHeld):
        await effects.begin(replace(REFUND, key="dayflow-3", run_id="b3"))


# Who stands in the way of an action before it runs


async def test_nobody_is_in_the_way_of_the_first(effects):
    assert await effects.holder(REFUND) is None


@pytest.mark.parametrize("status", ["begun", "unknown", "done", "failed"])
async def test_an_action_is_not_in_its_own_way(effects, status):
    await bring(effects, REFUND, status)

    assert await effects.holder(REFUND) is None


@pytest.mark.parametrize("status", ["begun", "unknown", "done", "failed"])
async def test_an_action_that_was_carried_out_with_other_arguments_is_in_its_own_way(effects, status):
    await bring(effects, REFUND, status)

    conflict = await effects.holder(CHANGED)

    assert conflict == Conflict(run_id="b1", action_id="s4.1-aaaaaa", changed=True)


# What nobody knows


async def test_the_effects_of_which_nobody_knows_are_listed_oldest_first(effects):
    for n in (2, 1, 3):
        entry = replace(REFUND, key=f"dayflow-{n}", run_id=f"b{n}", intent=None, holds=None)
        await bring(effects, entry, "unknown")
    await bring(effects, replace(REFUND, key="dayflow-4"), "done")
    await bring(effects, replace(REFUND, key="dayflow-5", namespace="prod"), "unknown")

    listed = await effects.unknowns("default")

    assert [row["run_id"] for row in listed] == ["b2", "b1", "b3"]
    assert {row["error"] for row in listed} == {"no answer"}


# Words that a database could choke on.
WORDS = ["\x00", "\ud800", "a\x00b\udfffc", "é👋\u202e", "'; DROP TABLE ledger; --"]


@pytest.mark.parametrize("words", WORDS, ids=["NUL", "surrogate", "both", "unicode", "SQL"])
async def test_an_intent_of_any_words_is_held(effects, words):
    entry = replace(REFUND, intent=words, holds=words, arguments={"reason": words})
    await effects.begin(entry)
    await effects.unknown(entry.key, words)
    await effects.finish(entry.key, {"content": words})

    with pytest.raises(errors.IntentHeld):
        await effects.begin(replace(entry, key="dayflow-2"))

    assert (await effects.begin(entry)).result == {"content": words}


async def test_times_are_aware_and_in_utc(effects):
    await effects.begin(REFUND)

    standing = await effects.standing(REFUND.key)

    assert standing.began_at.utcoffset() == standing.last_sent_at.utcoffset() == timedelta(0)
