"""Hearing: decisions, resolutions and raises, one after the other as they came; each leaves a trace."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from temporalio import workflow

from domain import approvals, decisions, errors, messages, raises
from domain.actions import Action
from domain.decisions import Decision, Resolution, Ruling, Verdict
from domain.messages import RaiseBudget
from domain.state import RunState
from workflows import steps


class Hearing:
    """What people decide about one run's actions and its budget."""

    def __init__(self, state: RunState, publish: Callable[[], None]) -> None:
        self._state = state
        self._publish = publish
        self._turn = asyncio.Lock()

    async def decide(self, verdict: Verdict | None, raw: Sequence[Any]) -> Ruling:
        """Take a decision or refuse it, with the reason; the same decision again changes nothing."""
        async with self._in_turn():
            ruling = await self._ruling(verdict, raw)
        self._publish()
        return ruling

    async def _ruling(self, verdict: Verdict | None, raw: Sequence[Any]) -> Ruling:
        try:
            decision = decisions.parse(verdict, raw)
        except errors.BadRequest as error:
            return approvals.malformed(self._state, verdict, list(raw), str(error), workflow.now())
        if known := self._state.rulings.known(decision):
            return known
        why = approvals.objection(self._state, decision, workflow.now())
        if why is None:
            why = await self._unauthorised(decision)
        if why is None and decision.verdict == "edit":
            why = (await steps.prepare_action(approvals.edited(self._state, decision))).refusal
        if why is None:  # while that was looked up, time went by
            why = approvals.objection(self._state, decision, workflow.now())
        if why is None:  # only who may decide is told of other runs
            why = approvals.unseen_conflict(self._state, decision)
        if why is not None:
            return approvals.rule(self._state, decision, why, workflow.now(), accepted=False)
        return approvals.take(self._state, decision, workflow.now())

    async def _unauthorised(self, decision: Decision) -> str | None:
        action = self._state.actions.find(decision.action_id)
        if action is None:
            return decisions.UNKNOWN_ACTION
        return (await steps.check_authority(approvals.authority(self._state, decision, action))).why

    async def resolve(self, raw: Sequence[Any]) -> None:
        """A person says whether an unknown effect happened."""
        try:
            resolution = messages.parse(Resolution, raw)
        except errors.BadRequest as error:
            self._state.bad_messages.add("resolve", list(raw), str(error), workflow.now())
            return
        async with self._in_turn():
            why = await self._resolved(resolution)
        if why is not None:
            approvals.resolved(self._state, resolution, why, workflow.now(), accepted=False)
        self._publish()

    async def _resolved(self, resolution: Resolution) -> str | None:
        """Carry a resolution out; else why not."""
        action = self._waiting(resolution)
        if action is None:
            return f"no action {resolution.action_id} waits for a resolution"
        objection = await steps.resolve_effect(approvals.standing(self._state, resolution, action))
        if objection.why is not None:
            return objection.why
        approvals.resolve(self._state, action, resolution, workflow.now())
        return None

    async def raise_budget(self, raw: Sequence[Any]) -> None:
        """A person gives the run new limits, once it is known who may."""
        try:
            wish = messages.parse(RaiseBudget, raw)
        except errors.BadRequest as error:
            self._state.bad_messages.add(raises.VERDICT, list(raw), str(error), workflow.now())
            return
        await workflow.wait_condition(lambda: self._state.definition is not None or self._state.closed)
        async with self._in_turn():
            why = await self._unraised(wish)
            if why is None:
                raises.take(self._state, wish, workflow.now())
            else:
                raises.rule(self._state, wish, why, workflow.now(), accepted=False)
        self._publish()

    async def _unraised(self, wish: RaiseBudget) -> str | None:
        """Why the limits stay as they are, if so."""
        why = raises.objection(self._state, wish, workflow.now())
        if why is not None or (asked := raises.to_check(self._state, wish)) is None:
            return why
        # While the role was looked up, more was used.
        return (await steps.check_raise(asked)).why or raises.objection(self._state, wish, workflow.now())

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        self._state.hearing += 1
        try:
            async with self._turn:
                yield
        finally:
            self._state.hearing -= 1

    def _waiting(self, resolution: Resolution) -> Action | None:
        action = self._state.actions.find(resolution.action_id)
        return action if action is not None and action.status == "unknown" else None
