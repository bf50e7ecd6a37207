"""AgentRun: any agent's run. The loop reads as the story; the state is in `domain/`, the steps are in `steps.py`."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from domain import errors, loop, messages, recap, request, views
from domain.actions import Action
from domain.budget import Clock
from domain.compaction import Compact, Summary
from domain.messages import Message, Pause, Resume
from domain.model import ModelAnswer
from domain.request import LoadRequest
from domain.state import RunError, RunState
from domain.status import Status
from workflows import steps
from workflows.acting import Acting, HandOver
from workflows.hearing import Hearing

AGENT = SearchAttributeKey.for_keyword("DayflowAgent")
STATUS = SearchAttributeKey.for_keyword("DayflowStatus")
WAITING_FOR = SearchAttributeKey.for_keyword("DayflowWaitingFor")
STEP = SearchAttributeKey.for_int("DayflowStep")
TOKENS = SearchAttributeKey.for_int("DayflowTokens")
KEYWORD_BYTES = 200
# The first of what is published says what the run does; the rest counts.
SAID = 3

# Failures of a model call that a person, or time, can mend: the run stands still and stays open.
PARKED = {"quota", "budget", "credentials", "needs repair", "model down"}
WINDOW = "window full"
NO_REPEATS = (
    "a run takes no retry policy and no cron schedule: the server would start it again with what it did before. "
    "`dayflow resume` tries a failed run again, and `dayflow schedule` starts a run each day"
)
FULL = "the answer was cut at the end of the model's context window"


@workflow.defn(name="AgentRun")
class AgentRun:
    """One run of one agent. Its event history is the checkpoint."""

    @workflow.init
    def __init__(self, *raw: Any) -> None:
        if key := request.missing_key(raw):
            raise errors.MissingKey(key)  # the task is tried again, until it comes to a worker that has the key
        info = workflow.info()
        self.state = _handed_over(raw) or RunState(
            namespace=info.namespace,
            run_id=info.workflow_id,
            first_execution_run_id=info.first_execution_run_id,
            started_at=info.workflow_start_time,
            updated_at=info.workflow_start_time,
            clock=Clock(since=info.workflow_start_time),  # until a worker has taken it up it waits
        )
        self._acting = Acting(self.state, self._publish, self._hand_over_due)
        self._hearing = Hearing(self.state, self._publish)
        self._published: tuple[Any, ...] = ()
        self._published_at = info.workflow_start_time
        # What another execution published is not known here.
        self._pending: list[dict[str, Any]] | None = None if info.continued_run_id else []

    @workflow.run
    async def run(self, *raw: Any) -> dict[str, Any]:
        """Load the agent, then step by step: hear people, ask the model, do what it calls for."""
        try:
            await self._live(raw)
        except workflow.NondeterminismError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            # Any other exception that escapes would retry this task for ever.
            if is_cancelled_exception(error):
                await self._cancelled()
                raise
            self._failed(error)
        return await self._end()

    async def _live(self, raw: Sequence[Any]) -> None:
        try:
            await self._begin(raw)
            while not self.state.closed:
                await self._boundary()
                await self._step()
        except HandOver:
            await self._hand_over()

    async def _begin(self, raw: Sequence[Any]) -> None:
        """A run begins by its agent; the next execution of one with what the last one left open."""
        if not _continued():
            await self._load(raw)
            return
        self._publish()
        if unanswered := self.state.unanswered():
            await self._act(unanswered)

    async def _load(self, raw: Sequence[Any]) -> None:
        if _repeated():
            raise ApplicationError(NO_REPEATS, type="refused")
        definition = await steps.load_agent(LoadRequest.of(self.state.first_execution_run_id, raw))
        self.state.begin(definition, workflow.now())

    async def _boundary(self) -> None:
        """Between two steps: the length of this execution, a wish to pause, and what people said."""
        while self._pause_if_due():
            self._publish()
            await self._paused()
        if self._hand_over_due():
            raise HandOver
        if asked := recap.due(self.state, workflow.now()):
            await self._compact(asked)
        self.state.hear()
        self._publish()

    def _pause_if_due(self) -> bool:
        if self.state.paused:
            return True
        if by := self.state.pause_requested_by:
            self.state.pause(f"by {by}", workflow.now())
        return self.state.paused

    async def _paused(self) -> None:
        waits = steps.MODEL_DOWN_PAUSE if self.state.reason == "model down" else None
        try:
            await workflow.wait_condition(
                lambda: not self.state.paused or self._hand_over_due(), timeout=waits, timeout_summary=steps.TRY_AGAIN
            )
        except TimeoutError:
            self.state.leave_pause(workflow.now())
        if self.state.paused:
            raise HandOver

    async def _step(self) -> None:
        answer = await self._ask()
        if answer is None:
            return
        self.state.count(answer)
        move = loop.decide(answer, self.state.facts())
        await self._follow(move, answer)

    async def _ask(self) -> ModelAnswer | None:
        """The model's answer; None when the limits have no room for it or it failed, and the run stands still."""
        reserved = self.state.reserve(workflow.now())
        if not reserved.max_tokens:
            self.state.pause("budget", workflow.now(), self._error("budget", str(reserved.bound)))
            return None
        try:
            return await steps.call_model(self.state.next_call())
        except ActivityError as error:
            cause = error.cause
            if not isinstance(cause, ApplicationError) or cause.type not in {*PARKED, WINDOW}:
                raise
            if cause.type == WINDOW:
                await self._make_room(cause.message, cause)
                return None
            self.state.pause(cause.type, workflow.now(), self._error(cause.type, cause.message, cause))
            return None

    async def _make_room(self, why: str, cause: ApplicationError | None = None) -> None:
        """The API says that the window is full: compact, or stand still if there is nothing left to cut."""
        while asked := recap.due(self.state, workflow.now(), full=True):
            if await self._compact(asked):
                return
        full = f"the model's context window is full and nothing more can be left out: {why}"
        self.state.pause("needs repair", workflow.now(), self._error("needs repair", full, cause))

    async def _compact(self, asked: Compact) -> bool:
        """Whether the transcript is shorter now. One that could not be summed up stays as it is."""
        try:
            summary = await steps.compact_transcript(asked)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            cause = error.cause
            summary = Summary(skipped=cause.message if isinstance(cause, ApplicationError) else str(cause or error))
        return recap.take(self.state, asked, summary, workflow.now())

    async def _follow(self, move: loop.Move, answer: ModelAnswer) -> None:
        """Do what the answer calls for."""
        match move:
            case loop.AskAgain():
                self.state.refuse(answer, move)
            case loop.MakeRoom():
                self.state.drop(answer, FULL)
                await self._make_room(FULL)
            case loop.Park(reason, detail):
                self.state.drop(answer, detail)
                self.state.pause(reason, workflow.now(), self._error(reason, detail))
            case loop.RunTools(calls):
                self.state.take(answer, workflow.now())
                await self._act(self.state.propose(calls, workflow.now()))
            case loop.Continue():
                self.state.take(answer, workflow.now())
            case loop.Finish():
                self.state.take(answer, workflow.now())
                self._finish(move)
            case loop.Fail(reason, detail):
                self.state.take(answer, workflow.now())
                self.state.fail(self._error(reason, detail), workflow.now())

    async def _act(self, actions: list[Action]) -> None:
        await self._acting.run(actions)
        if self.state.winding_up:
            self.state.cancel(self.state.winding_up, workflow.now())
        elif stuck := self.state.stuck():
            self.state.pause(stuck[0], workflow.now(), self._error(*stuck))

    def _finish(self, end: loop.Finish) -> None:
        """End the run, unless someone said something that is not heard yet."""
        if self.state.queued:
            self.state.answer_strays(workflow.now())
        else:
            self.state.finish(end, workflow.now())

    def _hand_over_due(self) -> bool:
        """Whether this execution is long enough; a replay of it, and its limits, stay small."""
        info, most = workflow.info(), self.state.frozen().events
        if most is None:
            return False
        return info.get_current_history_length() >= most or info.is_continue_as_new_suggested()

    async def _hand_over(self) -> None:
        """Continue as new, once all that people sent is worked in."""
        await self._hear_out()
        if workflow.cancellation_reason() is not None:  # a wish that the next execution would not know of
            raise asyncio.CancelledError
        workflow.continue_as_new(self.state.carried().model_dump(mode="json"))

    async def _hear_out(self) -> None:
        """The SDK runs what came with a task in two turns, signals first; after a timer, both were."""
        while True:
            await workflow.wait_condition(workflow.all_handlers_finished)
            await workflow.sleep(steps.LAST_LOOK, summary=steps.HEAR_OUT)
            if workflow.all_handlers_finished():
                return

    async def _cancelled(self) -> None:
        """The end that a person wanted; decisions that are being heard get their answer first."""
        if workflow.cancellation_reason() is None:
            return
        self._publish()  # goes no further where it is not the run that ends, but this copy of it that is dropped
        self.state.cancel(None, workflow.now())
        self._publish()
        await self._answered()

    async def _answered(self) -> None:
        """Decisions that are being heard get their answer; a cancel that comes meanwhile comes too late."""
        while True:
            with suppress(asyncio.CancelledError):
                await workflow.wait_condition(workflow.all_handlers_finished)
                return

    def _failed(self, error: BaseException) -> None:
        cause = error.cause if isinstance(error, ActivityError) and error.cause else error
        kind, message = type(cause).__name__, str(cause)
        if isinstance(cause, ApplicationError):
            kind, message = cause.type or kind, cause.message
        self.state.fail(self._error(kind, message), workflow.now())

    async def _end(self) -> dict[str, Any]:
        """The truthful end: Completed with the record, or Failed with the error and the last finished step."""
        self._publish()
        await self._answered()
        if self.state.status == Status.FAILED and self.state.error:
            error = self.state.error
            behind = f" (last finished step: {error.step})" if error.step else ""
            raise ApplicationError(error.message + behind, type=error.kind, non_retryable=True)
        return views.record(self.state)

    def _error(self, kind: str, message: str, cause: ApplicationError | None = None) -> RunError:
        detail = cause.details[0] if cause and cause.details and isinstance(cause.details[0], dict) else {}
        return RunError(kind=kind, message=message, step=self.state.step, request_id=detail.get("request_id"))

    def _publish(self) -> None:
        """Show the state in the web UI and to `temporal workflow list`."""
        workflow.set_current_details(views.details(self.state))
        definition = self.state.definition
        if definition is None or not definition.search_attributes:
            return
        shown = (
            AGENT.value_set(definition.agent),
            STATUS.value_set(self.state.status.value),
            WAITING_FOR.value_set(steps.cut(views.waiting_for(self.state), KEYWORD_BYTES)),
            STEP.value_set(self.state.step),
            TOKENS.value_set(self.state.totals.usage.total),
        )
        changed = [new for new in shown if new not in self._published]
        if changed and not self._only_counted(shown):
            workflow.upsert_search_attributes(changed)
            self._published, self._published_at = shown, workflow.now()
        pending = views.pending(self.state, brief=True)
        if pending != self._pending:
            workflow.upsert_memo({"pending": pending})
            self._pending = pending

    def _only_counted(self, shown: tuple[Any, ...]) -> bool:
        """Whether only step and tokens moved on, just after they were shown: each upsert costs the server a write."""
        lately = workflow.now() - self._published_at < steps.COUNTS_SHOWN_EVERY
        return lately and shown[:SAID] == self._published[:SAID]

    # Signals. Each takes whatever comes: a typed handler would fail the task for ever on one bad message.

    @workflow.signal
    def pause(self, *raw: Any) -> None:
        """`{by}`: stand still at the next step boundary, or at once while the run waits for a person."""
        if wish := self._parse("pause", Pause, raw):
            self.state.wish_to_pause(wish.by, workflow.now())
            self._publish()

    @workflow.signal
    def resume(self, *raw: Any) -> None:
        """`{by}`: go on from a pause."""
        if self._parse("resume", Resume, raw):
            self.state.go_on(workflow.now())
            self._publish()

    @workflow.signal
    def message(self, *raw: Any) -> None:
        """`{text, from}`: words for the model, heard at the next step boundary."""
        if said := self._parse("message", Message, raw):
            self.state.queue(said)

    @workflow.signal
    async def raise_budget(self, *raw: Any) -> None:
        """`{by, tokens?, usd?, steps?, seconds?, signature?}`: new limits; a run paused for its budget goes on."""
        await self._hearing.raise_budget(raw)

    @workflow.signal
    async def approve(self, *raw: Any) -> None:
        """`{action_id, approver, arguments_sha256?, again?, comment?, decision_id?, expires_at?, signature?}`."""
        await self._hearing.decide("approve", raw)

    @workflow.signal
    async def deny(self, *raw: Any) -> None:
        """The same fields: the action is not carried out."""
        await self._hearing.decide("deny", raw)

    @workflow.signal
    async def edit(self, *raw: Any) -> None:
        """The same fields and `arguments`: the action gets these arguments, and is decided about anew."""
        await self._hearing.decide("edit", raw)

    @workflow.signal
    async def resolve(self, *raw: Any) -> None:
        """`{action_id, outcome: done | not_done, result?, by}`: whether an unknown effect happened."""
        await self._hearing.resolve(raw)

    @workflow.update
    async def decide(self, *raw: Any) -> dict[str, Any]:
        """A decision with its `verdict`; answers `{accepted, reason}`. No validator: a refusal has to leave a trace."""
        ruling = await self._hearing.decide(None, raw)
        return {"accepted": ruling.accepted, "reason": ruling.reason}

    @workflow.signal(dynamic=True)
    def misnamed(self, name: str, args: Sequence[RawValue]) -> None:
        """Any other signal is kept as a bad message."""
        raw = workflow.payload_converter().from_payloads([arg.payload for arg in args])
        self.state.bad_messages.add(name, raw, "there is no such signal", workflow.now())

    def _parse(self, name: str, kind: type[messages.S], raw: Sequence[Any]) -> messages.S | None:
        try:
            if self.state.closed:
                raise errors.BadRequest(f"too late: the run is {self.state.status.value}")
            return messages.parse(kind, raw)
        except errors.BadRequest as error:
            self.state.bad_messages.add(name, list(raw), str(error), workflow.now())
            return None

    # Queries. Paged ones take `{from, to}` and answer at most one page.

    @workflow.query
    def record(self, *raw: Any) -> dict[str, Any]:
        """The run in one object."""
        return views.record(self.state)

    @workflow.query(name="steps")
    def step_rows(self, *raw: Any) -> dict[str, Any]:
        """Steps `from` to `to`, counted from 1; `next` is where the next page begins, or null."""
        return views.steps_page(self.state, *_range(raw, first=1))

    @workflow.query
    def transcript(self, *raw: Any) -> dict[str, Any]:
        """Messages `from` up to and without `to`, counted from 0."""
        return self.state.transcript.page(*_range(raw, first=0)).model_dump(mode="json")

    @workflow.query
    def definition(self, *raw: Any) -> dict[str, Any] | None:
        """The agent as this run knows it."""
        return self.state.definition.model_dump(mode="json") if self.state.definition else None

    @workflow.query
    def actions(self, *raw: Any) -> list[dict[str, Any]]:
        """Every tool call of the run."""
        return [views.action(action) for action in self.state.actions.all]

    @workflow.query
    def decisions(self, *raw: Any) -> list[dict[str, Any]]:
        """Every decision, taken or refused, with its reason."""
        return views.decisions(self.state)


def _repeated() -> bool:
    """Whether the server itself would start this again, with the input that somebody gave, as if it were continued."""
    info = workflow.info()
    return bool(info.cron_schedule) or info.retry_policy is not None


def _continued() -> bool:
    """Whether the execution before this one handed over to it."""
    return workflow.info().continued_run_id is not None and not _repeated()


def _handed_over(raw: Sequence[Any]) -> RunState | None:
    """The state that the execution before this one left. Nobody who starts a run can set it."""
    return RunState.model_validate(raw[0]) if _continued() else None


def _range(raw: Sequence[Any], first: int) -> tuple[int, int | None]:
    """`{from, to}` of a paged query; anything else means from the beginning to the end."""
    asked = raw[0] if raw and isinstance(raw[0], dict) else {}
    start, end = asked.get("from"), asked.get("to")
    return (
        start if isinstance(start, int) and start >= first else first,
        end if isinstance(end, int) else None,
    )
