"""A tool as an activity: whatever it does, there is one result, and of an effect one row. See also test_once."""

import asyncio
import concurrent.futures
import dataclasses
import hashlib
import itertools
import sys
import threading
import time
from datetime import timedelta

import pytest
from pydantic import Field
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.cleaning import MAX_RESULT_BYTES, REDACTED
from activities.heartbeat import beating
from activities.runner import Runner
from activities.tool import Arguments, Tool
from activities.tools import create_task
from client.converter import CONVERTER
from domain import actions, errors
from domain.tool import Effect, Preparation, Read, ToolCall
from store import database, seal
from store.blobs import Blobs
from store.effects import Effects
from store.ledger import Entry, Ledger
from store.settings import Settings
from store.tasks import Tasks

SENTINEL = "tok_SENTINEL_9"
KEY = "dayflow-1"


class Any_(Arguments):
    """Take whatever a test wants to say."""

    amount: int = Field(1, gt=0)
    to: str = "acme"


def tool(run, effect=False, deadline_s=30.0, **more):
    """A tool around a function."""
    declares = Effect(safety="key", deadline_s=deadline_s) if effect else Read(deadline_s=deadline_s)
    return Tool(run=run, arguments=Any_, declares=declares, **more)


def call(name="look", key=None, **arguments):
    return ToolCall(step=1, position=1, action_id="s1.1-abcdef", tool=name, arguments=arguments, idempotency_key=key)


@pytest.fixture
async def store(tmp_path):
    opened = await database.connect(Settings(DAYFLOW_HOME=tmp_path))
    yield opened
    await opened.close()


@pytest.fixture
def ledger(store):
    return Ledger(store)


@pytest.fixture
def environment():
    """The activity's own world."""
    made = ActivityEnvironment()
    made.info = dataclasses.replace(made.info, workflow_id="b1")
    return made


@pytest.fixture
def runner(tmp_path, store):
    return Runner(Settings(DAYFLOW_HOME=tmp_path, ANTHROPIC_API_KEY=SENTINEL), store)


@pytest.fixture
def act(runner, environment):
    """Run one attempt of a tool, as a worker would."""

    async def act(one, called):
        activity, _, _ = runner.activities({one.name: one})
        return await environment.run(activity, called)

    return act


async def rows(ledger):
    return await ledger.rows("default", "b1")


def in_history(error):
    """All that Temporal would write down of an error."""
    failure = Failure()
    converter = DataConverter.default
    converter.failure_converter.to_failure(error, converter.payload_converter, failure)
    return str(failure)


class Destination:
    """A stand-in for whatever an effect changes: it checks keys, and can break before or after it has committed."""

    def __init__(self):
        self.sent = []
        self.commits = {}
        self.breaks = []

    def pay(self, arguments, context):
        """Commit once for each key."""
        self.sent.append(context.idempotency_key)
        fault = self.breaks.pop(0) if self.breaks else None
        if fault == "before":
            raise ConnectionError("cut before the commit")
        self.commits.setdefault(context.idempotency_key, arguments.amount)
        if fault == "after":
            raise ConnectionError("cut after the commit")
        return {"paid": self.commits[context.idempotency_key]}


@pytest.fixture
def destination():
    return Destination()


@pytest.fixture
def pay(destination):
    def pay(arguments, context):
        return destination.pay(arguments, context)

    return tool(pay, effect=True)


# What a reading tool gives back


def look_text(arguments, context):
    return f"sent to {arguments.to}"


async def look_later(arguments, context):
    await asyncio.sleep(0)
    return {"to": arguments.to, "ü": [1, None]}


def look_model(arguments, context):
    return Any_(amount=2)


def look_empty(arguments, context):
    return ""


def look_dirty(arguments, context):
    return "a\x00b\x1b[31mc\ud800"


def look_environment(arguments, context):
    return {"environment": {"KEY": context.settings.anthropic_api_key.get_secret_value()}}


# The tool, what the model reads.
OUTCOMES = [
    (look_text, "sent to acme"),
    (look_later, '{"to": "acme", "ü": [1, null]}'),
    (look_model, '{"amount":2,"to":"acme"}'),
    (look_empty, ""),
    (look_dirty, "abc\ufffd"),
    (look_environment, f'{{"environment": {{"KEY": "{REDACTED}"}}}}'),
]


@pytest.mark.parametrize(("run", "content"), OUTCOMES)
async def test_what_a_tool_gives_back_is_what_the_model_reads(act, run, content):
    result = await act(tool(run), call())

    assert (result.content, result.is_error, result.blob) == (content, False, None)


# Arguments that are not right, a part of what the model reads of it.
BAD = [
    ({"amount": "5"}, "amount: it has to be a whole number"),
    ({"amount": True}, "amount: it has to be a whole number"),
    ({"amount": 1.5}, "amount: it has to be a whole number"),
    ({"amount": 0}, "amount: it has to be greater than 0"),
    ({"amount": None}, "amount: it has to be a whole number"),
    ({"more": 1}, "more: Extra inputs are not permitted"),
    ({"to": ["acme"]}, "to: it has to be a string"),
    ({"to": "\ud800"}, "Invalid JSON"),
]


@pytest.mark.parametrize(("arguments", "told"), BAD)
@pytest.mark.parametrize("effect", [True, False])
async def test_arguments_that_are_not_right_are_told_and_nothing_is_done(act, ledger, arguments, told, effect):
    ran = []

    result = await act(tool(lambda arguments, context: ran.append(1), effect=effect), call(key=KEY, **arguments))

    assert result.is_error
    assert told in result.content
    assert "Nothing was done" in result.content
    assert ran == []
    assert await rows(ledger) == []


# Tools that break


def fails(arguments, context):
    raise errors.ToolFailed("there is no such order")


def raises(arguments, context):
    raise RuntimeError(f"denied with {SENTINEL}\x00\ud800")


def exits(arguments, context):
    sys.exit(3)


async def exits_later(arguments, context):
    sys.exit(3)


async def raises_later(arguments, context):
    raise RuntimeError("denied")


def interrupts(arguments, context):
    raise KeyboardInterrupt


async def interrupts_later(arguments, context):
    raise KeyboardInterrupt


def cancels(arguments, context):
    raise asyncio.CancelledError


async def cancels_later(arguments, context):
    raise asyncio.CancelledError


def cancels_as_threads_do(arguments, context):
    raise concurrent.futures.CancelledError


def stops(arguments, context):
    return next(iter(()))


def answers_nonsense(arguments, context):
    loop = []
    loop.append(loop)
    return loop


# The tool, a part of what the model reads.
BREAKS = [
    (fails, "there is no such order"),
    (raises, f"The tool failed: RuntimeError: denied with {REDACTED}\ufffd"),
    (raises_later, "The tool failed: RuntimeError: denied"),
    (exits, "The tool tried to exit (3)"),
    (exits_later, "The tool raised SystemExit: 3"),
    (interrupts, "The tool raised KeyboardInterrupt"),
    (interrupts_later, "The tool raised KeyboardInterrupt"),
    (cancels, "The tool raised CancelledError"),
    (cancels_later, "The tool raised CancelledError"),
    (cancels_as_threads_do, "The tool raised CancelledError"),
    (stops, "The tool raised StopIteration"),
    (answers_nonsense, "The tool failed: ValueError: Circular reference"),
]


@pytest.mark.parametrize(("run", "told"), BREAKS)
async def test_a_reading_tool_that_breaks_is_told_to_the_model(act, run, told):
    result = await act(tool(run), call())

    assert result.is_error
    assert told in result.content


async def test_a_store_that_cannot_be_used_is_not_told_to_the_model_but_tried_again(act):
    def away(arguments, context):
        raise errors.Unreachable("the store cannot be used")

    with pytest.raises(errors.Unreachable):
        await act(tool(away), call())


# What a tool raises that would end a task, a loop or a process, were it let through.
ESCAPES = [exits, exits_later, interrupts, interrupts_later, cancels, cancels_later, cancels_as_threads_do, stops]


@pytest.mark.parametrize("run", ESCAPES)
async def test_an_effect_that_raises_what_ends_a_worker_may_have_happened_and_is_tried_again(act, ledger, run):
    with pytest.raises(ApplicationError) as caught:
        await act(tool(run, effect=True), call(key=KEY))

    assert (caught.value.type, caught.value.non_retryable) == ("effect failed", False)
    assert [row["status"] for row in await rows(ledger)] == ["begun"]


async def test_what_breaks_in_a_tool_is_logged_without_its_secrets(act, caplog):
    await act(tool(raises), call())

    assert "RuntimeError: denied with" in caplog.text
    assert SENTINEL not in caplog.text


@pytest.mark.parametrize("kind", ["thread", "loop"])
async def test_a_reading_tool_that_hangs_is_told_to_the_model_at_its_deadline(act, kind):
    release = threading.Event()

    def hangs(arguments, context):
        release.wait(30)

    async def hangs_later(arguments, context):
        await asyncio.Event().wait()

    result = await act(tool(hangs if kind == "thread" else hangs_later, deadline_s=0.1), call())
    release.set()

    assert result.is_error
    assert result.content == "The tool gave no answer within 0.1 seconds."


async def test_a_tool_that_hangs_in_a_thread_does_not_hold_up_another(act):
    release = threading.Event()

    def hangs(arguments, context):
        release.wait(30)

    slow = asyncio.create_task(act(tool(hangs), call()))
    quick = await act(tool(look_text), call())
    still = not slow.done()
    release.set()
    await slow

    assert quick.content == "sent to acme"
    assert still


# Large outcomes


async def test_fifty_megabytes_are_clipped_and_kept_while_the_heartbeats_go_on(runner, environment, tmp_path):
    beats = [time.monotonic()]
    environment.info = dataclasses.replace(environment.info, heartbeat_timeout=timedelta(seconds=0.06))
    environment.on_heartbeat = lambda *details: beats.append(time.monotonic())

    async def beaten(activity, called):
        async with beating():
            return await activity(called)

    def large(arguments, context):
        return "\n".join(["x" * 79] * 650_000)

    one = tool(large)
    activity, _, _ = runner.activities({one.name: one})
    result = await environment.run(beaten, activity, call())

    assert len(result.content.encode()) <= MAX_RESULT_BYTES + 100
    kept = Blobs(tmp_path / "payloads").get(result.blob)
    assert hashlib.sha256(kept).hexdigest() == result.blob
    assert len(beats) > 1
    assert max(later - sooner for sooner, later in itertools.pairwise([*beats, time.monotonic()])) < 3


async def test_with_keys_the_whole_of_a_long_result_is_kept_sealed(environment, tmp_path, store):
    settings = Settings(DAYFLOW_HOME=tmp_path, DAYFLOW_ENCRYPTION_KEYS=seal.new_key("k1"))
    one = tool(lambda arguments, context: "SENTINEL " * MAX_RESULT_BYTES)
    activity, _, _ = Runner(settings, store).activities({one.name: one})

    result = await environment.run(activity, call())

    kept = Blobs(settings.blobs).get(result.blob)
    assert b"SENTINEL" not in kept
    assert settings.seal.open(kept).decode() == "SENTINEL " * MAX_RESULT_BYTES


async def test_a_tool_that_prints_fifty_megabytes_does_not_show_them_to_the_model(act, capfd):
    def prints(arguments, context):
        for _ in range(50):
            print("x" * 1_000_000)
        return "done"

    result = await act(tool(prints), call())
    capfd.readouterr()

    assert result.content == "done"


async def test_a_blob_that_cannot_be_kept_does_not_undo_what_was_done(act, tmp_path, destination, ledger):
    (tmp_path / "payloads").write_text("in the way")

    def pay_much(arguments, context):
        destination.pay(arguments, context)
        return "x" * (MAX_RESULT_BYTES + 1)

    result = await act(tool(pay_much, effect=True), call(key=KEY))

    assert (result.is_error, result.blob) == (False, None)
    assert [row["status"] for row in await rows(ledger)] == ["done"]


# Effects: once


async def test_an_effect_stands_in_the_ledger_before_it_is_done_and_with_its_result_after(act, ledger):
    seen = []

    async def look_at_the_ledger(arguments, context):
        seen.extend(await rows(ledger))
        return "paid"

    await act(tool(look_at_the_ledger, effect=True), call(key=KEY, amount=5))

    (before,), (after,) = seen, await rows(ledger)
    assert (before["status"], before["result"]) == ("begun", None)
    assert (after["status"], after["result"]["content"]) == ("done", "paid")
    assert before["digest"] == actions.arguments_digest("look_at_the_ledger", {"amount": 5})


async def test_an_effect_that_is_asked_for_twice_is_done_once(act, pay, destination, ledger):
    first = await act(pay, call(key=KEY, amount=5))
    second = await act(pay, call(key=KEY, amount=5))

    assert destination.sent == [KEY]
    assert (first.from_ledger, second.from_ledger) == (False, True)
    assert second.content == first.content == '{"paid": 5}'
    assert [row["attempts"] for row in await rows(ledger)] == [1]


async def test_an_effect_whose_answer_was_lost_is_sent_again_with_its_key_and_commits_once(act, pay, destination):
    destination.breaks = ["after"]
    with pytest.raises(ApplicationError):
        await act(pay, call(key=KEY, amount=5))

    result = await act(pay, call(key=KEY, amount=5))

    assert destination.sent == [KEY, KEY]
    assert destination.commits == {KEY: 5}
    assert (result.content, result.attempts) == ('{"paid": 5}', 2)


async def test_two_effects_with_two_keys_are_two(act, pay, destination):
    await act(pay, call(key="dayflow-1"))
    await act(pay, call(key="dayflow-2"))

    assert destination.commits == {"dayflow-1": 1, "dayflow-2": 1}


async def test_four_attempts_at_once_commit_once_and_have_one_answer(act, pay, destination):
    results = await asyncio.gather(*(act(pay, call(key=KEY, amount=5)) for _ in range(4)))

    assert destination.commits == {KEY: 5}
    assert {result.content for result in results} == {'{"paid": 5}'}


async def test_an_effect_that_cannot_be_done_is_told_to_the_model_at_once(act, ledger):
    result = await act(tool(fails, effect=True), call(key=KEY))

    assert (result.is_error, result.content) == (True, "there is no such order")
    assert [(row["status"], row["error"]) for row in await rows(ledger)] == [("failed", "there is no such order")]


async def test_no_secret_of_a_broken_effect_reaches_history_or_ledger(act, ledger):
    def denied(arguments, context):
        raise errors.ToolFailed(f"denied with {SENTINEL}\x00\ud800")

    with pytest.raises(ApplicationError) as caught:
        await act(tool(raises, effect=True), call(key="dayflow-1"))
    result = await act(tool(denied, effect=True), call(key="dayflow-2"))

    assert "denied" not in in_history(caught.value)  # only what kind of error it was
    assert "RuntimeError" in in_history(caught.value)
    assert SENTINEL not in result.content
    assert REDACTED in result.content
    assert SENTINEL not in str(await rows(ledger))


# Cancelled


async def test_an_effect_that_has_begun_is_seen_through_when_its_run_is_cancelled(act, environment, ledger):
    begun, release = threading.Event(), threading.Event()

    def pay(arguments, context):
        begun.set()
        release.wait(30)
        return "paid"

    going = asyncio.create_task(act(tool(pay, effect=True), call(key=KEY)))
    await asyncio.to_thread(begun.wait)
    environment.cancel()
    done, _ = await asyncio.wait({going}, timeout=0.2)
    release.set()
    result = await going

    assert not done
    assert result.content == "paid"
    assert [row["status"] for row in await rows(ledger)] == ["done"]


async def test_a_read_is_given_up_when_its_run_is_cancelled(act, environment):
    begun = asyncio.Event()

    async def reads(arguments, context):
        begun.set()
        await asyncio.Event().wait()

    going = asyncio.create_task(act(tool(reads), call()))
    await begun.wait()
    environment.cancel()

    with pytest.raises(asyncio.CancelledError):
        await going


# Intents


async def test_an_effect_says_what_it_does_in_words_of_no_model(act, ledger, store):
    title, source = "In the model's words", "m1"
    called = call(key=KEY, title=title, source_id=source)

    await act(create_task.TOOL, called)

    (row,) = await rows(ledger)
    assert (row["intent"], row["holds"]) == ("task:m1", None)
    assert (await Tasks(store, "default").list())[1] == 1


async def test_an_intent_that_only_a_person_may_repeat_is_held(act, ledger):
    one = tool(look_text, effect=True, intent=lambda arguments, context: f"refund:{arguments.amount}")

    await act(one, call(key=KEY))

    assert [row["holds"] for row in await rows(ledger)] == ["refund:1"]


async def test_words_that_no_database_can_keep_make_a_task_all_the_same(act):
    result = await act(create_task.TOOL, call(key=KEY, title="a\x00b", source_id="m\x00"))

    assert not result.is_error


# Tools that this worker has not


@pytest.fixture
def gone(runner, environment):
    """Call a tool that this worker does not have."""
    environment.info = dataclasses.replace(environment.info, activity_type="fly")
    environment.payload_converter = CONVERTER.payload_converter

    async def gone(*inputs):
        _, missing = runner.activities({})
        payloads = CONVERTER.payload_converter.to_payloads(inputs)
        return await environment.run(missing, [RawValue(payload) for payload in payloads])

    return gone


async def begin(store, key):
    entry = Entry(key, "effect", "default", "b1", 1, 1, "fly", "a" * 64)
    await Effects(store).begin(entry)


@pytest.mark.parametrize("inputs", [[], [call("fly")], [call("fly", key=KEY)]], ids=["no input", "read", "effect"])
async def test_a_tool_that_is_gone_is_answered_for(gone, inputs):
    result = await gone(*inputs)

    assert (result.outcome, result.content) == ("failed", "The tool 'fly' is not available.")


async def test_an_effect_that_was_sent_before_its_tool_went_waits_for_a_person(gone, store, ledger):
    await begin(store, KEY)

    first = await gone(call("fly", key=KEY))
    again = await gone(call("fly", key=KEY))

    assert (first.outcome, again.outcome) == ("unknown", "unknown")
    assert [row["status"] for row in await rows(ledger)] == ["unknown"]


async def test_an_effect_that_was_done_before_its_tool_went_has_its_answer(gone, store):
    await begin(store, KEY)
    await Effects(store).finish(KEY, {"content": "flown", "outcome": "done"})

    result = await gone(call("fly", key=KEY))

    assert (result.outcome, result.content, result.from_ledger) == ("done", "flown", True)


async def test_an_effect_that_did_not_happen_before_its_tool_went_has_failed(gone, store):
    await begin(store, KEY)
    await Effects(store).fail(KEY, "refused")

    assert (await gone(call("fly", key=KEY))).outcome == "failed"


# Before a person is asked


def wanted(name="look", **arguments):
    return Preparation(step=1, position=1, action_id="a", tool=name, arguments=arguments, idempotency_key=KEY)


# The tool, its arguments, a part of why there is nothing to ask about.
UNPREPARED = [
    (None, {}, "The tool 'fly' is not available."),
    (tool(look_text), {}, "The tool 'fly' is not available."),  # it only reads now
    (tool(look_text, effect=True), {"amount": "5"}, "amount: it has to be a whole number"),
    (tool(look_text, effect=True), {"to": "\ud800"}, "The arguments are not right: Invalid JSON"),
]


@pytest.mark.parametrize(("one", "arguments", "told"), UNPREPARED)
async def test_nobody_is_asked_about_what_cannot_be_run(runner, environment, one, arguments, told):
    prepared = await environment.run(runner.prepare, one, wanted("fly", **arguments))

    assert told in prepared.refusal


async def test_what_a_check_says_is_told_without_its_secrets(runner, environment):
    async def check(arguments, context):
        raise errors.ToolFailed(f"denied with {SENTINEL}")

    prepared = await environment.run(runner.prepare, tool(look_text, effect=True, check=check), wanted())

    assert prepared.refusal == f"denied with {REDACTED}"


async def test_a_tool_knows_its_run_its_key_and_its_attempt(act, environment):
    environment.info = dataclasses.replace(environment.info, attempt=3)
    seen = []

    await act(tool(lambda arguments, context: seen.append(context) or "ok", effect=True), call(key=KEY))

    (context,) = seen
    assert (context.run_id, context.namespace, context.idempotency_key) == ("b1", "default", KEY)
    assert (context.attempt, context.action_id) == (3, "s1.1-abcdef")
