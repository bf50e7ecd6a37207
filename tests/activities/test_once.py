"""Once: an effect through the ledger, whatever is lost on the way; real stores, and a destination that keeps count."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.once import LONGEST_HELD, MOST_ATTEMPTS, MOST_REFUSED
from activities.runner import Runner
from activities.tool import Arguments, Happened, Tool, Verdict
from domain import actions, errors
from domain.tool import Conflict, Effect, Grant, Preparation, ToolCall
from store import database
from store.effects import Effects
from store.ledger import Entry, Ledger
from store.settings import Settings

NOT_LISTED = "not on the list: DAYFLOW_APPROVERS names the file of those who may approve"
BELOW = "below the needed role: it needs 'lead'"

SENTINEL = "tok_SENTINEL_9"
KEY, KEY_2 = "dayflow-1", "dayflow-2"
LEAD, CLERK, DESK = "lead@example.com", "clerk@example.com", "desk@example.com"
# Deadlines: one that is waited for, and one that does not pass by chance.
SOON = 0.3
FOR_LONG = 30.0

STAFF = f"""
[[approvers]]
name = "{LEAD}"
roles = ["lead"]
max_amount = {{ lead = "500.00" }}

[[approvers]]
name = "{CLERK}"
roles = ["clerk"]
"""


class Amount(Arguments):
    """Pay an amount."""

    amount: int = 5


class Destination:
    """Whatever an effect changes: one commit for each key that it knows, and faults that are played in turn.

    before, after: cut before or after the commit. no: refused. busy: nothing was taken. other: it knows the key with
    other arguments. unsure: it cannot be said.
    """

    def __init__(self, *faults, says=None):
        self.faults = list(faults)
        self.says = says
        self.sent = []
        self.asked = []
        self.commits = []

    async def pay(self, arguments, context):
        """Commit, unless the key was committed."""
        self.sent.append(context.idempotency_key)
        fault = self.faults.pop(0) if self.faults else None
        self._before(fault)
        if context.idempotency_key not in self.commits:
            self.commits.append(context.idempotency_key)
        if fault == "after":
            raise ConnectionError("cut after the commit")
        return {"paid": arguments.amount}

    def _before(self, fault):
        if fault == "before":
            raise ConnectionError("cut before the commit")
        if fault == "no":
            raise errors.ToolFailed("There is no such account.")
        if fault == "busy":
            raise errors.Again("503")
        if fault == "unsure":
            raise errors.Uncertain("504")
        if fault == "other":
            raise errors.ArgumentsChanged("it was 7")

    async def reconcile(self, arguments, context):
        """Say what became of a key."""
        self.asked.append(context.idempotency_key)
        if self.says is not None:
            return self.says
        happened = context.idempotency_key in self.commits
        return Happened({"paid": arguments.amount}) if happened else Verdict.DID_NOT_HAPPEN


def tool(destination, safety="key", reconcile=True, deadline_s=FOR_LONG, **more):
    """The tool of a destination."""

    async def pay(arguments, context):
        return await destination.pay(arguments, context)

    names = {"key_lifetime_s", "held_intent"} & set(more)
    return Tool(
        run=pay,
        arguments=Amount,
        declares=Effect(safety=safety, deadline_s=deadline_s, **{name: more.pop(name) for name in names}),
        reconcile=destination.reconcile if reconcile else None,
        **more,
    )


def step(key):
    """Each key is of an action of its own."""
    return 1 if key == KEY else 2


def call(key=KEY, grant=None, **arguments):
    return ToolCall(
        step=step(key),
        position=1,
        action_id="s1.1-abcdef",
        tool="pay",
        arguments={"amount": 5} | arguments,
        idempotency_key=key,
        grant=grant,
    )


def grant(approver=LEAD, **changed):
    return Grant(**{"approver": approver, "role": "lead", "amount": Decimal(5), "requested_by": DESK} | changed)


@pytest.fixture
def approvers(tmp_path):
    """The approvers file."""
    path = tmp_path / "approvers.toml"
    path.write_text(STAFF)
    return path


@pytest.fixture
async def store(tmp_path):
    opened = await database.connect(Settings(DAYFLOW_HOME=tmp_path))
    yield opened
    await opened.close()


@pytest.fixture
def environment():
    """The activity's own world."""
    made = ActivityEnvironment()
    made.info = dataclasses.replace(made.info, workflow_id="b1")
    return made


@pytest.fixture
def runner(tmp_path, store, approvers):
    return Runner(Settings(DAYFLOW_HOME=tmp_path, DAYFLOW_APPROVERS=approvers, ANTHROPIC_API_KEY=SENTINEL), store)


@pytest.fixture
def act(runner, environment):
    """One attempt, as a worker makes it."""

    async def act(one, called=None):
        return await environment.run(runner.run, one, called or call())

    return act


@pytest.fixture
def cut(act):
    """One attempt that gives no answer, so that Temporal makes another."""

    async def cut(one, called=None):
        with pytest.raises(ApplicationError) as caught:
            await act(one, called)
        assert not caught.value.non_retryable
        return caught.value

    return cut


@pytest.fixture
def prepare(runner, environment):
    """What is known before a person is asked."""

    async def prepare(one, key=KEY, editor=None, **arguments):
        wanted = Preparation(
            step=step(key),
            position=1,
            action_id="s1.1-abcdef",
            tool="pay",
            arguments={"amount": 5} | arguments,
            idempotency_key=key,
            editor=editor,
            role="lead",
        )
        return await environment.run(runner.prepare, one, wanted)

    return prepare


@pytest.fixture
def row(store):
    """The row of a key."""

    async def row(key=KEY):
        (found,) = [one for one in await Ledger(store).rows("default", "b1") if one["key"] == key]
        return found

    return row


async def lost(store, one, attempts=1, **arguments):
    """Attempts of which nothing was heard again, as when the worker was killed in the middle of each."""
    given = {"amount": 5} | arguments
    entry = Entry(
        key=KEY,
        kind="effect",
        namespace="default",
        run_id="b1",
        step=1,
        position=1,
        name=one.name,
        digest=actions.arguments_digest(one.name, given),
        action_id="s1.1-abcdef",
        arguments=given,
    )
    await Effects(store).begin(entry)
    for _ in range(attempts - 1):
        await Effects(store).sending(KEY)


async def long_ago(store, seconds=FOR_LONG):
    """Let the last attempt have been sent so long ago."""
    await Effects(store).stumble(KEY, "lost", last_sent_at=datetime.now(UTC) - timedelta(seconds=seconds))


# A destination that takes keys


@pytest.mark.parametrize("fault", ["before", "after", "unsure"])
async def test_an_effect_without_an_answer_is_sent_again_with_its_key_and_commits_once(act, cut, row, fault):
    destination = Destination(fault)
    one = tool(destination)

    error = await cut(one)
    result = await act(one)

    assert error.type == "effect failed"
    assert destination.sent == [KEY, KEY]
    assert destination.commits == [KEY]
    assert destination.asked == []
    assert (result.outcome, result.content, result.attempts) == ("done", '{"paid": 5}', 2)
    assert ((await row())["status"], (await row())["failures"]) == ("done", 1)


async def test_an_effect_whose_worker_died_is_sent_again_with_its_key(act, store):
    destination = Destination()
    one = tool(destination)
    await lost(store, one)

    result = await act(one)

    assert destination.sent == [KEY]
    assert (result.outcome, result.attempts) == ("done", 2)


async def test_four_attempts_at_once_commit_once_and_have_one_answer(act):
    destination = Destination()

    results = await asyncio.gather(*(act(tool(destination)) for _ in range(4)))

    assert destination.commits == [KEY]
    assert {result.content for result in results} == {'{"paid": 5}'}


async def test_an_answer_that_is_stored_is_the_answer_and_nothing_is_sent(act):
    destination = Destination()
    first = await act(tool(destination))

    second = await act(tool(destination))

    assert destination.sent == [KEY]
    assert (first.from_ledger, second.from_ledger) == (False, True)
    assert second.content == first.content


async def test_a_key_that_the_destination_may_have_forgotten_is_not_sent_again(act, store):
    """Shorter than its margin, the lifetime of this key is over at once."""
    destination = Destination()
    destination.commits.append(KEY)
    one = tool(destination, key_lifetime_s=60.0)
    await lost(store, one)
    await long_ago(store)

    result = await act(one)

    assert (destination.asked, destination.sent) == ([KEY], [])
    assert (result.outcome, result.content) == ("done", '{"paid": 5}')


async def test_a_key_of_which_the_destination_says_that_nothing_happened_is_sent_again(act, store):
    destination = Destination()
    one = tool(destination, key_lifetime_s=60.0)
    await lost(store, one)
    await long_ago(store)

    result = await act(one)

    assert (destination.asked, destination.sent) == ([KEY], [KEY])
    assert (result.outcome, result.attempts) == ("done", 2)


async def test_a_key_that_outlives_everything_is_trusted(act, store):
    destination = Destination(says=Verdict.UNSURE)
    one = tool(destination, key_lifetime_s=24 * 3600.0)
    await lost(store, one)

    result = await act(one)

    assert (destination.asked, result.outcome) == ([], "done")


# Whatever its key, an effect is sent so often and no more. What the destination says then, what is made of it.
BOUNDS = [
    (None, "done", '{"paid": 5}'),  # it shows it: one of them came through
    (Verdict.UNSURE, "unknown", "the destination is not sure"),
    (Verdict.DID_NOT_HAPPEN, "unknown", "5 attempts gave no answer. The destination does not show it"),
]


@pytest.mark.parametrize(("says", "outcome", "told"), BOUNDS)
async def test_an_effect_that_never_answers_is_sent_five_times_and_then_asked_about(
    act, cut, store, row, says, outcome, told
):
    destination = Destination(*["after"] * 99, says=says)
    one = tool(destination)

    for _ in range(MOST_ATTEMPTS):
        await cut(one)
    waits = await cut(one)
    await long_ago(store)
    result = await act(one)

    assert destination.sent == [KEY] * MOST_ATTEMPTS
    assert waits.type == "effect waits"
    assert (result.outcome, result.attempts) == (outcome, MOST_ATTEMPTS)
    assert told in result.content
    assert (await row())["status"] == outcome


async def test_an_effect_that_takes_its_worker_along_each_time_is_not_sent_for_ever(act, store):
    destination = Destination()
    one = tool(destination, reconcile=False)
    await lost(store, one, attempts=MOST_ATTEMPTS)

    result = await act(one)

    assert destination.sent == []
    assert (result.outcome, result.attempts) == ("unknown", MOST_ATTEMPTS)
    assert "the destination cannot be asked" in result.content


# A destination that can be asked


async def test_nothing_is_asked_while_a_lost_attempt_may_still_be_sending(act, cut, store):
    destination = Destination()
    one = tool(destination, safety="lookup")
    await lost(store, one)

    error = await cut(one)

    assert (destination.asked, destination.sent) == ([], [])
    assert error.type == "effect waits"
    assert timedelta(0) < error.next_retry_delay <= timedelta(seconds=FOR_LONG)


# What the destination says of a lost attempt; what is made of it, how often it is sent.
FOUND = [
    (Happened({"paid": 5}), "done", '{"paid": 5}', 0),
    (Verdict.DID_NOT_HAPPEN, "done", '{"paid": 5}', 1),
    (Verdict.UNSURE, "unknown", "It was sent, no answer came, and the destination is not sure.", 0),
]


@pytest.mark.parametrize(("says", "outcome", "content", "sent"), FOUND)
async def test_what_became_of_a_lost_attempt_is_what_the_destination_says(
    act, store, row, says, outcome, content, sent
):
    destination = Destination(says=says)
    one = tool(destination, safety="lookup")
    await lost(store, one)
    await long_ago(store)

    result = await act(one)

    assert destination.asked == [KEY]
    assert len(destination.sent) == sent
    assert (result.outcome, result.content) == (outcome, content)
    assert (await row())["status"] == outcome


async def test_an_effect_that_was_sent_again_is_waited_for_anew(act, cut, store):
    destination = Destination("before", says=Verdict.DID_NOT_HAPPEN)
    one = tool(destination, safety="lookup")
    await lost(store, one)
    await long_ago(store)
    await cut(one)

    error = await cut(one)

    assert error.type == "effect waits"
    assert destination.sent == [KEY]


async def breaks(arguments, context):
    raise RuntimeError(f"denied with {SENTINEL}")


async def hangs(arguments, context):
    await asyncio.Event().wait()


@pytest.mark.parametrize("reconcile", [breaks, hangs])
async def test_a_destination_that_cannot_be_asked_is_not_sure(act, store, caplog, reconcile):
    destination = Destination()
    destination.reconcile = reconcile
    one = tool(destination, safety="lookup", deadline_s=SOON)
    await lost(store, one)
    await long_ago(store)

    result = await act(one)

    assert (result.outcome, destination.sent) == ("unknown", [])
    assert SENTINEL not in caplog.text


# A destination that can do neither


async def test_an_effect_of_which_nobody_can_tell_is_never_sent_again(act, cut, row):
    destination = Destination("before")
    one = tool(destination, safety="none", reconcile=False)
    await cut(one)

    first = await act(one)
    second = await act(one)

    assert destination.sent == [KEY]
    assert (first.outcome, second.outcome) == ("unknown", "unknown")
    assert (first.attempts, second.attempts) == (1, 1)
    assert first.content == "It was sent, no answer came, and the destination cannot be asked."
    assert (await row())["status"] == "unknown"


async def test_an_answer_that_comes_after_nobody_could_tell_is_kept(act, cut, store, row):
    destination = Destination("before")
    one = tool(destination, safety="none", reconcile=False)
    await cut(one)
    await act(one)

    await Effects(store).finish(KEY, {"content": "late", "outcome": "done"})

    assert (await act(one)).content == "late"


# A destination that says no


async def test_a_no_to_the_first_attempt_is_told_and_releases_the_intent(act, row):
    destination = Destination("no")

    result = await act(tool(destination, intent=lambda arguments, context: "pay:acme"))

    assert (result.outcome, result.content, result.attempts) == ("failed", "There is no such account.", 1)
    assert (result.intent, destination.asked) == ("pay:acme", [])
    assert ((await row())["status"], (await row())["error"]) == ("failed", "There is no such account.")


# What the destination says of the attempt before; what is made of the no to the one after.
NOES = [
    (Happened({"paid": 5}), "done", '{"paid": 5}'),
    (Verdict.DID_NOT_HAPPEN, "failed", "There is no such account."),
    (
        Verdict.UNSURE,
        "unknown",
        "An attempt gave no answer, and the next one was refused: There is no such account.",
    ),
]


@pytest.mark.parametrize(("says", "outcome", "content"), NOES)
async def test_a_no_after_a_lost_attempt_says_nothing_of_that_one(act, store, row, says, outcome, content):
    destination = Destination("no", says=says)
    one = tool(destination)
    await lost(store, one)
    await long_ago(store)

    result = await act(one)

    assert destination.asked == [KEY]
    assert (result.outcome, result.content, result.attempts) == (outcome, content, 2)
    assert (await row())["status"] == outcome


async def test_a_no_while_a_lost_attempt_may_still_be_sending_waits_for_that_one_only(act, cut, store):
    destination = Destination("no", "no")
    one = tool(destination)
    await lost(store, one)
    await long_ago(store, FOR_LONG - SOON)

    error = await cut(one)
    await asyncio.sleep(error.next_retry_delay.total_seconds())
    result = await act(one)

    assert error.type == "effect waits"
    assert (result.outcome, result.content) == ("failed", "There is no such account.")
    assert len(destination.sent) == 2


async def test_a_no_without_anyone_to_ask_after_a_lost_attempt_is_unknown(act, store):
    destination = Destination("no")
    one = tool(destination, reconcile=False)
    await lost(store, one)

    assert (await act(one)).outcome == "unknown"


# A destination that is away


async def test_an_effect_that_was_not_taken_is_not_sent_and_tried_again(act, cut, row):
    destination = Destination("busy", "busy")
    one = tool(destination, safety="none", reconcile=False)

    for _ in range(2):
        error = await cut(one)
        assert error.type == "effect failed"
        assert ((await row())["status"], (await row())["error"]) == ("failed", "Again: 503")
    result = await act(one)

    assert (result.outcome, result.attempts) == ("done", 3)
    assert destination.commits == [KEY]


async def test_an_effect_that_is_never_taken_fails_in_the_end(act, cut, row):
    destination = Destination(*["busy"] * 99)
    one = tool(destination)

    for _ in range(MOST_REFUSED - 1):
        await cut(one)
    result = await act(one)

    assert len(destination.sent) == MOST_REFUSED
    assert (result.outcome, result.attempts) == ("failed", MOST_REFUSED)
    assert result.content == "The destination was out of reach 20 times; nothing was sent."
    assert (await row())["status"] == "failed"


async def test_a_destination_that_is_away_after_a_lost_attempt_says_nothing_of_that_one(cut, store, row):
    destination = Destination("busy")
    one = tool(destination)
    await lost(store, one)

    await cut(one)

    assert (await row())["status"] == "begun"


# The same key with other arguments


@pytest.mark.parametrize("fault", [None, "after"])
async def test_a_key_that_was_used_with_other_arguments_sends_nothing_and_goes_to_a_person(act, cut, fault):
    destination = Destination(fault)
    one = tool(destination)
    await (cut(one) if fault else act(one))

    result = await act(one, call(amount=500))

    assert destination.sent == [KEY]
    assert (result.outcome, result.attempts) == ("changed arguments", 0)
    assert result.conflict == Conflict(run_id="b1", action_id="s1.1-abcdef", changed=True)
    assert "pay was carried out before with other arguments" in result.content


async def test_a_destination_that_knows_the_key_with_other_arguments_is_heard_too(act, row):
    result = await act(tool(Destination("other")))

    assert result.outcome == "unknown"
    assert result.content == "The destination knows its key with other arguments: it was 7"
    assert (await row())["status"] == "unknown"


# Intents


def intended(destination, **more):
    return tool(destination, intent=lambda arguments, context: f"pay:{arguments.amount}", **more)


async def test_what_another_action_holds_is_a_conflict_and_nothing_is_sent(act, row):
    destination = Destination()
    await act(intended(destination))

    result = await act(intended(destination), call(KEY_2))

    assert destination.sent == [KEY]
    assert (result.outcome, result.attempts, result.intent) == ("conflict", 0, "pay:5")
    assert result.conflict == Conflict(run_id="b1", action_id="s1.1-abcdef")


async def test_what_was_done_in_the_same_place_under_an_edit_is_no_other_action(act, prepare):
    await act(intended(Destination()))
    here = call(KEY_2).model_copy(update={"step": 1})

    result = await act(intended(Destination()), here)

    assert result.outcome == "changed arguments"
    assert result.conflict == Conflict(run_id="b1", action_id="s1.1-abcdef", changed=True)


async def test_a_person_who_saw_the_conflict_may_have_it_done_again(act):
    destination = Destination()
    await act(intended(destination))

    without = await act(intended(destination), call(KEY_2, grant()))
    again = await act(intended(destination), call(KEY_2, grant(again=True)))

    assert (without.outcome, again.outcome) == ("conflict", "done")
    assert destination.commits == [KEY, KEY_2]


async def test_what_the_destination_itself_holds_is_no_conflict(act, row):
    destination = Destination()
    await act(intended(destination, held_intent="destination"))

    result = await act(intended(destination, held_intent="destination"), call(KEY_2))

    assert result.outcome == "done"
    assert ((await row())["intent"], (await row())["holds"]) == ("pay:5", None)


async def test_an_intent_of_any_length_is_held_in_a_short_form(act, row):
    destination = Destination()
    one = tool(destination, intent=lambda arguments, context: "x" * 10_000)
    await act(one)

    result = await act(one, call(KEY_2))

    assert result.outcome == "conflict"
    assert len((await row())["holds"]) <= LONGEST_HELD
    assert (await row())["intent"] == "x" * 10_000


# Who may

# The grant, what the approvers file says of it.
UNENTITLED = [
    (grant("mallory@example.com"), NOT_LISTED),
    (grant(CLERK), BELOW),
    (grant(amount=Decimal(501)), "above their amount: as 'lead' at most 500.00"),
    (grant(requested_by=LEAD), "own request"),
    (grant(requested_by="Lead@Example.com"), "own request"),
]


@pytest.mark.parametrize(("given", "why"), UNENTITLED)
async def test_who_may_no_longer_approve_it_has_not_approved_it(act, store, given, why):
    destination = Destination()

    result = await act(tool(destination), call(grant=given))

    assert (result.outcome, result.content, result.attempts) == ("not entitled", why, 0)
    assert destination.sent == []
    assert await Effects(store).standing(KEY) is None


async def test_a_broken_approvers_file_entitles_nobody_and_says_where_it_is_broken(act, approvers):
    approvers.write_text("[[approvers]]\nname = 5\n")

    result = await act(tool(Destination()), call(grant=grant()))

    assert result.outcome == "not entitled"
    assert "DAYFLOW_APPROVERS" in result.content
    assert "approvers.0.name" in result.content


async def test_what_has_begun_is_brought_to_its_end_whoever_may_approve_by_then(act, cut, approvers):
    destination = Destination("after")
    await cut(tool(destination), call(grant=grant()))
    approvers.write_text("approvers = []\n")

    result = await act(tool(destination), call(grant=grant()))

    assert (result.outcome, destination.commits) == ("done", [KEY])


async def test_what_was_not_sent_is_not_begun_and_its_approver_is_looked_up_again(act, cut, approvers):
    destination = Destination("busy")
    await cut(tool(destination), call(grant=grant()))
    approvers.write_text("approvers = []\n")

    result = await act(tool(destination), call(grant=grant()))

    assert (result.outcome, destination.commits) == ("not entitled", [])


# Cancelled


async def test_an_effect_that_has_begun_is_seen_through_however_often_it_is_cancelled(act, environment, row):
    destination = Destination()
    begun, release = asyncio.Event(), asyncio.Event()

    async def pay(arguments, context):
        begun.set()
        await release.wait()
        return await destination.pay(arguments, context)

    one = dataclasses.replace(tool(destination), run=pay)
    going = asyncio.create_task(act(one))
    await begun.wait()
    for _ in range(3):
        environment.cancel()
        done, _ = await asyncio.wait({going}, timeout=0.05)
        assert not done
    release.set()
    result = await going

    assert (result.outcome, destination.commits) == ("done", [KEY])
    assert (await row())["status"] == "done"


# A late attempt, as from a worker that was given up


async def test_a_late_no_does_not_undo_what_a_later_attempt_sends(act, cut, store, row):
    """The zombie is refused when the attempt after it has sent: that one may have come through."""
    destination = Destination()
    at_it, release = asyncio.Event(), asyncio.Event()

    async def pay(arguments, context):
        at_it.set()
        await release.wait()
        raise errors.ToolFailed("There is no such account.")

    zombie = asyncio.create_task(act(dataclasses.replace(tool(destination), run=pay)))
    await at_it.wait()
    await Effects(store).sending(KEY)
    release.set()

    with pytest.raises(ApplicationError):
        await zombie

    assert (await row())["status"] == "begun"


# Before a person is asked


async def test_what_is_known_before_anyone_is_asked(prepare, store):
    destination = Destination()

    prepared = await prepare(intended(destination, amount=lambda arguments: Decimal(arguments.amount)))

    assert (prepared.intent, prepared.amount) == ("pay:5", Decimal(5))
    assert (prepared.refusal, prepared.conflict, prepared.already, prepared.begun) == (None, None, False, False)
    assert destination.sent == []
    assert await Effects(store).standing(KEY) is None


async def test_who_holds_the_intent_is_known_before_anyone_is_asked(act, prepare):
    await act(intended(Destination()))

    prepared = await prepare(intended(Destination()), KEY_2)

    assert prepared.conflict == Conflict(run_id="b1", action_id="s1.1-abcdef")


# What the ledger has of the key; whether its answer is there, and whether it may have been sent.
PREPARED = [
    ("begun", False, True),
    ("unknown", False, True),
    ("done", True, False),
    ("failed", False, False),
]


@pytest.mark.parametrize(("status", "already", "begun"), PREPARED)
async def test_what_an_earlier_course_of_the_run_did_is_known(prepare, store, status, already, begun):
    one = tool(Destination())
    await lost(store, one)
    if status == "unknown":
        await Effects(store).unknown(KEY, "no answer")
    if status == "done":
        await Effects(store).finish(KEY, {"content": "paid"})
    if status == "failed":
        await Effects(store).fail(KEY, "refused")

    prepared = await prepare(one)

    assert (prepared.already, prepared.begun, prepared.conflict) == (already, begun, None)


async def test_other_arguments_under_the_key_are_known_before_anyone_is_asked(act, prepare):
    await act(tool(Destination()))

    prepared = await prepare(tool(Destination()), amount=500)

    assert prepared.conflict == Conflict(run_id="b1", action_id="s1.1-abcdef", changed=True)
    assert not prepared.already


# How a check ends, what it is told as.
async def says_no(arguments, context):
    raise errors.ToolFailed("More than is left.")


async def is_away(arguments, context):
    raise errors.Again("503")


CHECKS = [
    (says_no, "More than is left."),
    (is_away, None),  # what cannot be asked now is asked when it is sent
    (breaks, None),
    (hangs, None),
]


@pytest.mark.parametrize(("check", "refusal"), CHECKS)
async def test_a_check_refuses_or_lets_through_and_never_stands_in_the_way(prepare, caplog, check, refusal):
    prepared = await prepare(tool(Destination(), check=check, deadline_s=SOON))

    assert prepared.refusal == refusal
    assert SENTINEL not in caplog.text


async def test_what_a_person_writes_is_checked_beside_a_conflict_too(act, prepare):
    await act(intended(Destination()))
    one = intended(Destination(), check=says_no)

    assert (await prepare(one, KEY_2)).refusal is None
    assert (await prepare(one, KEY_2, editor=LEAD)).refusal == "More than is left."


async def test_what_a_person_writes_is_no_more_than_they_may_approve(prepare):
    one = intended(Destination(), amount=lambda arguments: Decimal(arguments.amount))

    more, enough = await prepare(one, editor=LEAD, amount=501), await prepare(one, editor=LEAD, amount=500)

    assert more.refusal == "above their amount: as 'lead' at most 500.00"
    assert (enough.refusal, enough.amount) == (None, Decimal(500))


async def test_what_was_begun_is_not_checked_again(prepare, store):
    one = tool(Destination(), check=says_no)
    await lost(store, one)

    assert (await prepare(one)).refusal is None


# Secrets


@pytest.mark.parametrize("outcome", ["failed", "unknown", "begun"])
async def test_no_words_of_a_destination_reach_ledger_or_model_uncleaned(act, store, row, outcome):
    async def pay(arguments, context):
        said = f"denied with {SENTINEL}\x00\ud800"
        raise RuntimeError(said) if outcome == "begun" else errors.ToolFailed(said)

    one = dataclasses.replace(tool(Destination(says=Verdict.UNSURE)), run=pay)
    if outcome == "unknown":
        await lost(store, one)

    told = (await asyncio.gather(act(one), return_exceptions=True))[0]

    assert (await row())["status"] == outcome
    assert SENTINEL not in str(await row())
    assert SENTINEL not in repr(told)
