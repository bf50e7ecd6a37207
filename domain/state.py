"""The state: everything that a run knows about itself, in one object. Record, steps and actions are views of it."""

from datetime import datetime
from itertools import takewhile
from typing import Any

from pydantic import BaseModel

from domain import actions, budget, loop, transcript
from domain.actions import Action, Actions
from domain.actions import Status as ActionStatus
from domain.agent import Definition, Limits
from domain.budget import Clock, Measured, Reservation, Used, Wanted
from domain.compaction import Compaction
from domain.decisions import Rulings
from domain.guards import Guards
from domain.messages import BadMessages, Message
from domain.model import ModelAnswer, ModelCall
from domain.plan import Plan
from domain.spend import Totals, Usage
from domain.status import CLOSED, WAITING, Status, allowed
from domain.step import Ask, Step
from domain.tool import Read, ToolResult
from domain.transcript import Transcript

KEPT_HEARD = 50
KEPT_REFUSED = 100
KEPT_COMPACTIONS = 100
LARGEST_MAX_TOKENS = 64_000
SAVED_ONCE = "The plan of this run is saved already; it is saved once."
# What the next execution is told of the steps before it: enough to know how often the model paused in a row.
CARRIED_STEPS = 10

_BEFORE_RUNNING = {Status.RECEIVED, Status.PLANNING}


class RunError(BaseModel):
    """Why a run stands still or failed."""

    kind: str
    message: str
    step: int
    request_id: str | None = None


class RunState(BaseModel):
    """One run. Changed only through its methods, only by the workflow.

    reservation: what the newest model call may take, or why it is not sent. measured: what the API counted last.
    hearing: how many words of people are being judged right now.
    """

    namespace: str
    run_id: str
    first_execution_run_id: str
    status: Status = Status.RECEIVED
    reason: str | None = None
    before_pause: Status | None = None
    definition: Definition | None = None
    limits: Limits = Limits()
    transcript: Transcript = Transcript()
    steps: list[Step] = []
    actions: Actions = Actions()
    rulings: Rulings = Rulings()
    plan: Plan | None = None
    refused: list[Ask] = []
    asks: int = 0
    asks_in_a_row: int = 0
    nudged: bool = False
    max_tokens: int = 0
    totals: Totals = Totals()
    reservation: Reservation | None = None
    measured: Measured | None = None
    clock: Clock = Clock()
    guards: Guards = Guards()
    hearing: int = 0
    queued: list[Message] = []
    heard: list[Message] = []
    compactions: list[Compaction] = []
    pause_requested_by: str | None = None
    winding_up: str | None = None
    bad_messages: BadMessages = BadMessages()
    refused_moves: list[str] = []
    result: str | None = None
    error: RunError | None = None
    started_at: datetime
    updated_at: datetime

    @property
    def step(self) -> int:
        """The number of the newest step, from 1; 0 before the first."""
        return self.steps[-1].n if self.steps else 0

    @property
    def closed(self) -> bool:
        """Whether the run has come to its end."""
        return self.status in CLOSED

    @property
    def paused(self) -> bool:
        """Whether the run stands still, open."""
        return self.status == Status.PAUSED

    def frozen(self) -> Definition:
        """The definition; there is one from the first step on."""
        if self.definition is None:
            raise ValueError("the run has no definition yet")
        return self.definition

    def move(self, status: Status, now: datetime, reason: str | None = None) -> bool:
        """Go to another status if the table allows it; a refused move is recorded."""
        if status != self.status and not allowed(self.status, status):
            self.refused_moves = [*self.refused_moves, f"{self.status} → {status}"][-KEPT_REFUSED:]
            return False
        if status == Status.PAUSED and self.status != Status.PAUSED:
            self.before_pause = self.status
        self.status, self.reason, self.updated_at = status, reason, now
        self.clock.turn(now, waits=status in WAITING)
        return True

    def pause(self, reason: str, now: datetime, error: RunError | None = None) -> None:
        """Stand still, open, with a reason that a person can act on."""
        self.error = error
        self.move(Status.PAUSED, now, reason)

    def wish_to_pause(self, by: str, now: datetime) -> None:
        """Pause at the next step boundary; at once while nothing runs because a person is waited for."""
        self.pause_requested_by = by
        self._pause_where_it_waits(now)

    def _pause_where_it_waits(self, now: datetime) -> None:
        if self.pause_requested_by and self.status in (Status.AWAITING_APPROVAL, Status.AWAITING_RESOLUTION):
            self.pause(f"by {self.pause_requested_by}", now)

    def go_on(self, now: datetime) -> None:
        """A person lets the run go on."""
        self.pause_requested_by = None
        self.leave_pause(now)

    def leave_pause(self, now: datetime) -> None:
        """Let the run try again, with a fresh set of asks; where a person wished for a pause, another one comes."""
        self.error = None
        self.asks_in_a_row = 0
        self.guards = self.guards.after(self.reason)
        if self.status == Status.PAUSED:
            self.move(self.before_pause or Status.RUNNING, now)
            self.settle_status(now)

    def begin(self, definition: Definition, now: datetime) -> None:
        """Freeze the definition and open the transcript with the task."""
        # Limits that a person set before the run began stand over those of its definition.
        self.limits = definition.limits.over(self.limits)
        self.definition, self.max_tokens = definition, definition.max_tokens
        self.transcript.head = definition.sha256
        self.transcript.append(transcript.user_text(definition.task))
        self.move(Status.PLANNING if definition.plans else Status.RUNNING, now)

    def next_call(self) -> ModelCall:
        """The model call that comes next. A call that fails is asked again under the same number."""
        return ModelCall(
            step=self.step + 1,
            ask=self.asks + 1,
            epoch=self.transcript.epoch,
            length=len(self.transcript.messages),
            digest=self.transcript.head,
            max_tokens=self.reservation.max_tokens if self.reservation else self.max_tokens,
            most_lost=self.reservation.most_lost if self.reservation else None,
        )

    def used(self, now: datetime) -> Used:
        """What counts against the limits."""
        totals, lost = self.totals, self.totals.possibly_paid
        return Used(
            steps=self.step,
            tokens=totals.usage.total + lost.held.total,
            usd=None if totals.cost_usd is None else totals.cost_usd + lost.held_usd,
            seconds=self.clock.worked(self.started_at, now),
            lost=lost.calls,
        )

    def reserve(self, now: datetime) -> Reservation:
        """Hold as much for the next call as the limits leave room for."""
        wanted = Wanted(
            input_tokens=self._input_tokens(),
            max_tokens=self.max_tokens,
            least=min(self.frozen().max_tokens, budget.LEAST_ANSWER),
        )
        self.reservation = budget.reserve(self.limits, self.used(now), wanted, self.frozen().price)
        return self.reservation

    def _input_tokens(self) -> int:
        """About how many tokens the next request has: what was counted last, and an estimate of what came since."""
        known, messages = self.measured, self.transcript.messages
        if known is None or known.epoch != self.transcript.epoch:
            return budget.estimate_request(self.frozen(), messages)
        return known.tokens + budget.estimate(messages[known.length :])

    def count(self, answer: ModelAnswer) -> None:
        """Settle what an answer cost, and what may have been paid on the way to it."""
        self.asks += 1
        self.asks_in_a_row += 1
        self._measure(answer.usage.prompt)
        self.totals.add(answer.usage, self.frozen().price)
        reserved = self.reservation.usage if self.reservation else Usage()
        self.totals.possibly_paid.add(answer.possibly_paid, reserved, self.frozen().price)

    def _measure(self, tokens: int) -> None:
        self.measured = Measured(epoch=self.transcript.epoch, length=len(self.transcript.messages), tokens=tokens)

    @property
    def context(self) -> int:
        """Tokens that the newest step's request and answer had together."""
        return self.steps[-1].usage.total if self.steps else 0

    def facts(self) -> loop.Facts:
        """What bears on the meaning of the newest answer."""
        paused = 0
        for step in reversed(self.steps):
            if step.stop_reason != "pause_turn":
                break
            paused += 1
        return loop.Facts(
            asks=self.asks_in_a_row,
            nudged=self.nudged,
            continuations=paused,
            used_ids=self.transcript.tool_use_ids(),
            no_more_room=self.reservation.cut if self.reservation else None,
        )

    def drop(self, answer: ModelAnswer, why: str) -> None:
        """Keep an answer out of the transcript, and say why."""
        self.refused.append(Ask(ask=self.asks, stop_reason=answer.stop_reason, why=why, usage=answer.usage))

    def refuse(self, answer: ModelAnswer, move: loop.AskAgain) -> None:
        """Drop an answer; the same step is asked again."""
        self.drop(answer, move.why)
        if move.larger:
            self.max_tokens = min(self.max_tokens * 2, LARGEST_MAX_TOKENS)
        if move.nudge:
            self.nudged = True
            self.transcript.append(transcript.user_text(move.nudge))

    def take(self, answer: ModelAnswer, now: datetime) -> Step:
        """Accept an answer as the next step."""
        step = Step(
            n=self.step + 1,
            ask=self.asks,
            stop_reason=answer.stop_reason,
            assistant=answer.content,
            usage=answer.usage,
            model=answer.model,
            attempts=answer.attempts,
            possibly_paid=len(answer.possibly_paid),
            refused=self.refused,
            created_at=now,
        )
        self.steps.append(step)
        if answer.content:
            self.transcript.append(transcript.assistant(answer.content))
            self._measure(answer.usage.prompt + answer.usage.output_tokens)
        self.refused, self.asks, self.asks_in_a_row, self.nudged = [], 0, 0, False
        self.max_tokens = self.frozen().max_tokens
        self.updated_at = now
        return step

    def propose(self, calls: list[dict[str, Any]], now: datetime) -> list[Action]:
        """Turn the tool_use blocks of the newest step into actions, in call order."""
        proposed: list[Action] = []
        for position, call in enumerate(calls, start=1):
            nth = self.actions.next_of(call["name"]) + sum(one.tool == call["name"] for one in proposed)
            proposed.append(self._action(position, call, nth, now))
        self.actions.all.extend(proposed)
        return proposed

    def _action(self, position: int, call: dict[str, Any], nth: int, now: datetime) -> Action:
        step, tool = self.step, self.frozen().tool(call["name"])
        sha256 = actions.arguments_digest(call["name"], call["input"])
        effect = tool is not None and tool.declares.kind == "effect"
        where = (self.namespace, self.first_execution_run_id, step, position, call["name"])
        return Action(
            action_id=actions.action_id(step, position, sha256),
            step=step,
            position=position,
            nth=nth,
            tool=call["name"],
            tool_use_id=call["id"],
            proposed_arguments=call["input"],
            arguments=call["input"],
            arguments_sha256=sha256,
            effect=effect,
            rule=self.frozen().rule(call["name"]),
            idempotency_key=actions.idempotency_key(*where) if effect else None,
            requested_at=now,
        )

    def unanswered(self) -> list[Action]:
        """The actions of the newest step, if their results are not in the transcript yet."""
        mine = [action for action in self.actions.all if action.step == self.step]
        return mine if mine and not self.steps[-1].tool_results else []

    def carried(self) -> "RunState":
        """What the next execution begins with. Steps and actions that are over stay in the history of this one."""
        planned = self.plan.results(self.actions) if self.plan else []
        actions = self.actions.carried(self.step, {row["action_id"] for row in planned})
        return self.model_copy(update={"steps": self.steps[-CARRIED_STEPS:], "actions": actions})

    def refusal(self, action: Action) -> str | None:
        """Why an action is answered without being run, if so."""
        tool = self.frozen().tool(action.tool)
        known = [tool.name for tool in self.frozen().tools]
        if reason := loop.refuse_call(action.position, tool, action.tool, known):
            return reason
        if reason := self.guards.refusal(action):
            return reason
        if action.effect and self.status == Status.PLANNING:
            return "Not run: propose the plan first."
        if self.plan and self._saves_plan(action):
            return SAVED_ONCE
        return None

    def settle(self, action: Action, result: ToolResult, now: datetime) -> None:
        """Write down what became of an action."""
        action.status = "done" if result.outcome == "done" else "failed"
        action.result, action.attempts, action.finished_at = result.content, result.attempts, now
        action.intent, action.from_ledger = action.intent or result.intent, result.from_ledger
        action.grant = action.grant or result.grant
        if action.status == "done" and self._saves_plan(action):
            self._save_plan(action, now)
        self.settle_status(now)

    def end_without_running(self, action: Action, status: ActionStatus, why: str, now: datetime) -> None:
        """Close an action that people, or time, decided about; nothing was done."""
        action.status, action.result, action.finished_at = status, why, now
        self.settle_status(now)

    def settle_status(self, now: datetime) -> None:
        """Let the status follow what the actions wait for."""
        self.updated_at = now
        target = Status.RUNNING
        if self.actions.of_status("unknown"):
            target = Status.AWAITING_RESOLUTION
        elif self.actions.of_status("awaiting_approval"):
            target = Status.AWAITING_APPROVAL
        if self.paused:
            self.before_pause = self.before_pause if self.before_pause in _BEFORE_RUNNING else target
        elif self.status not in _BEFORE_RUNNING and not self.closed and target != self.status:
            self.move(Status.RUNNING, now)
            self.move(target, now)
            self._pause_where_it_waits(now)

    def _save_plan(self, action: Action, now: datetime) -> None:
        """Keep the first plan; one that ran beside it in the same step is none."""
        if self.plan:
            action.status, action.result = "failed", SAVED_ONCE
            return
        self.plan = Plan.model_validate(action.arguments)
        self.move(Status.RUNNING, now)

    def _saves_plan(self, action: Action) -> bool:
        tool = self.frozen().tool(action.tool)
        return tool is not None and isinstance(tool.declares, Read) and tool.declares.saves_plan

    def answer_calls(self, settled: list[Action], now: datetime) -> None:
        """Send all results of the newest step back in one user turn, in call order."""
        results = [
            transcript.tool_result(action.tool_use_id, action.result or "", is_error=action.status != "done")
            for action in settled
        ]
        self.steps[-1].tool_results = results
        self.transcript.append(transcript.user(results))
        self.guards.note(settled, {tool.name for tool in self.frozen().tools})
        self.updated_at = now

    def answer_strays(self, now: datetime) -> None:
        """Answer calls that are not run, so that the transcript can go on behind them."""
        calls = [block for block in self.steps[-1].assistant if block.get("type") == "tool_use"]
        if not calls:
            return
        proposed = self.propose(calls, now)
        for action in proposed:
            self.end_without_running(action, "failed", "Not run: the turn had ended.", now)
        self.answer_calls(proposed, now)

    def stuck(self) -> tuple[str, str] | None:
        """The reason and the words with which the run stands still behind its newest step, if it leads nowhere."""
        newest = takewhile(lambda action: action.step == self.step, reversed(self.actions.all))
        return self.guards.stuck(list(newest))

    def queue(self, message: Message) -> None:
        """Keep what a person said until the next step boundary."""
        self.queued.append(message)

    def hear(self) -> None:
        """Put what people said into the transcript; a turn that the model paused goes back with nothing behind it."""
        if self.steps and self.steps[-1].stop_reason == "pause_turn":
            return
        if self.queued:
            self.actions.denied = {}
            self.guards = Guards()
        for message in self.queued:
            self.transcript.append(transcript.user_text(f"Message from {message.sender}:\n{message.text}"))
        self.heard = [*self.heard, *self.queued][-KEPT_HEARD:]
        self.queued = []

    def finish(self, end: loop.Finish, now: datetime) -> None:
        """Close the run with its result."""
        self.result = end.result
        if self.status == Status.PLANNING:
            self.move(Status.RUNNING, now)
        self.move(Status.DONE, now, end.reason)

    def fail(self, error: RunError, now: datetime) -> None:
        """Close the run with the reason why it leads nowhere."""
        self.error = error
        self.move(Status.FAILED, now, error.kind)

    def wind_up(self, why: str, now: datetime) -> None:
        """A person's no ends the run: what waits is withdrawn, what runs comes to its end."""
        self.winding_up = why
        for action in self.actions.of_status("proposed", "awaiting_approval", "approved"):
            self.end_without_running(action, "cancelled", f"Not run: the run was {why}.", now)

    def cancel(self, reason: str | None, now: datetime) -> None:
        """Close the run; what may still be half done is told as unknown."""
        for action in self.actions.of_status("proposed", "awaiting_approval", "approved"):
            self.end_without_running(action, "cancelled", "Not run: the run was cancelled.", now)
        for action in self.actions.of_status("running"):
            action.status = "unknown" if action.effect else "cancelled"
        self.move(Status.CANCELLED, now, reason)
