"""Acting: one step's calls, side by side, each from its proposal to its end; people are asked where they have a say."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, RetryState, is_cancelled_exception

from domain import approvals, errors
from domain.actions import Action
from domain.state import RunState
from domain.tool import ToolResult, ToolSpec
from workflows import steps


class HandOver(Exception):
    """This execution is long enough: what only waits goes on waiting in the next one."""


class Acting:
    """The actions of one run. `publish` shows the state to people; `due` says when to hand over."""

    def __init__(self, state: RunState, publish: Callable[[], None], due: Callable[[], bool]) -> None:
        self._state = state
        self._publish = publish
        self._due = due

    async def run(self, actions: list[Action]) -> None:
        """Bring the actions of the newest step to their ends; the results go back in one turn, in call order.

        Raises HandOver once nothing runs and something waits.
        """
        outcomes = await asyncio.gather(*map(self._act, actions), return_exceptions=True)
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for outcome in sorted(failed, key=lambda error: isinstance(error, HandOver)):
            raise outcome
        self._state.answer_calls(actions, workflow.now())

    async def _act(self, action: Action) -> None:
        if not action.open:
            return
        if refusal := self._state.refusal(action):
            self._state.end_without_running(action, "failed", refusal, workflow.now())
            return
        tool = self._state.frozen().tool(action.tool)
        if tool is None:
            raise errors.Broken(f"action {action.action_id} names no tool of this run")
        if action.effect:
            await self._effect(action, tool)
        else:
            self._state.settle(action, await self._tool(action, tool), workflow.now())

    async def _effect(self, action: Action, tool: ToolSpec) -> None:
        """Ask whoever has a say, run it once, and hold what is unclear, until it has an end.

        A run that is cancelled meanwhile hears first what became of an effect that had begun.
        """
        while action.open:
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError
            if action.status == "unknown":
                self._publish()
                await self._wait(lambda: action.status != "unknown")
            elif await self._cleared(action):
                await self._wait(lambda: not self._state.paused or not action.open)
                if action.open:
                    self._outcome(action, await self._tool(action, tool))

    def _outcome(self, action: Action, result: ToolResult) -> None:
        """Settle an attempt, or let the action wait for a person."""
        now = workflow.now()
        match result.outcome:
            case "unknown" | "changed arguments":
                approvals.hold(self._state, action, result, now)
            case "conflict":
                approvals.contest(self._state, action, result.conflict, now)
            case "not entitled":
                approvals.void(self._state, action, result.content, now)
            case _:
                self._state.settle(action, result, now)

    async def _cleared(self, action: Action) -> bool:
        """Whether the action may run now; False when it ended, or changed and has to be looked at again."""
        if action.status != "awaiting_approval" and (seen := await self._looked_at(action)) is not None:
            return seen
        self._publish()
        await self._decided(action)
        self._publish()
        return action.status == "approved"

    async def _looked_at(self, action: Action) -> bool | None:
        """The same as far as no person is needed; None once one is asked."""
        if action.status == "approved":
            return True
        if action.rule is None and action.conflict is None:
            return True
        prepared = await steps.prepare_action(action.preparation())
        now = workflow.now()
        if not action.open:  # withdrawn meanwhile: a person said no to another action, and that ends the run
            return False
        if prepared.refusal:
            self._state.end_without_running(action, "failed", prepared.refusal, now)
            return False
        approvals.inform(action, prepared)
        if prepared.already:
            return True
        if prepared.conflict and prepared.conflict.changed:
            approvals.hold(self._state, action, _met(action), now)
            return False
        if not action.edit and (by := self._state.actions.refused_before(action)):
            approvals.refuse_again(self._state, action, by, now)
            return False
        if not approvals.needed(action):
            return True
        approvals.request(self._state, action, prepared, now)
        return None

    async def _decided(self, action: Action) -> None:
        """Wait for a person; the run's own clock says when it is too late."""
        asked = action.action_id
        try:
            await self._wait(
                lambda: action.status != "awaiting_approval" or action.action_id != asked, action.expires_at
            )
        except TimeoutError:
            approvals.expire(self._state, action, workflow.now())

    async def _wait(self, what: Callable[[], bool], end: datetime | None = None) -> None:
        """Wait for people until then, but in the next execution if this one gets too long."""
        left = end - workflow.now() if end else None
        await workflow.wait_condition(lambda: what() or self._due(), timeout=left, timeout_summary=steps.TOO_LATE)
        if not what():
            raise HandOver

    async def _tool(self, action: Action, tool: ToolSpec) -> ToolResult:
        action.status = "running"
        try:
            return await steps.run_tool(action.call(), tool)
        except ActivityError as error:
            if action.effect and _cut_short(error):
                return await self._between_attempts(action, tool)
            if is_cancelled_exception(error):
                raise
            cause = error.cause
            why = cause.message if isinstance(cause, ApplicationError) else str(cause or error)
            outcome = "unknown" if action.effect else "failed"
            return ToolResult.model_validate({"content": f"The tool did not finish: {why}", "outcome": outcome})

    async def _between_attempts(self, action: Action, tool: ToolSpec) -> ToolResult:
        """A cancel met an effect that has no answer yet: what had begun is run to its end, the rest not."""
        prepared = await steps.prepare_action(action.preparation())
        if prepared.begun or prepared.already:
            return await self._tool(action, tool)
        action.status = "proposed"
        raise asyncio.CancelledError


def _cut_short(error: ActivityError) -> bool:
    """Whether a cancel ended it, between two attempts or by letting none follow on one that failed."""
    return is_cancelled_exception(error) or error.retry_state is RetryState.CANCEL_REQUESTED


def _met(action: Action) -> ToolResult:
    text = f"This run carried {action.tool} out before in this place, with other arguments; nothing was sent now."
    return ToolResult(content=text, outcome="changed arguments", attempts=0, conflict=action.conflict)
