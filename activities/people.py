"""check_authority, check_raise and resolve_effect: whether a person may decide, looked up outside the run."""

import asyncio
from decimal import Decimal

from temporalio import activity

from domain import errors
from domain.decisions import Authority, Objection, Standing, same_person
from domain.raises import ABOUT, VERDICT, Raise
from domain.signature import Statement
from store import approvers, crash
from store.effects import Effects
from store.settings import Settings


class People:
    """Asks the approvers file."""

    def __init__(self, settings: Settings, effects: Effects) -> None:
        self._settings = settings
        self._effects = effects

    @activity.defn(name="check_authority")
    async def check_authority(self, asked: Authority) -> Objection:
        """Whether the approver is on the list, has the role for the amount, and has signed where a key is on file."""
        try:
            why = await asyncio.to_thread(self._objection, asked, activity.info().namespace)
        except errors.BadSetting as error:
            why = str(error)
        crash.point("check.done")
        return Objection(why=why)

    @activity.defn(name="check_raise")
    async def check_raise(self, asked: Raise) -> Objection:
        """Whether whoever gives new limits is on the list, has the role, and has signed where a key is on file."""
        try:
            return Objection(why=await asyncio.to_thread(self._against, asked, activity.info().namespace))
        except errors.BadSetting as error:
            return Objection(why=str(error))

    @activity.defn(name="resolve_effect")
    async def resolve_effect(self, asked: Standing) -> Objection:
        """Close an unknown effect as a person says, if they may."""
        by = asked.resolution.by
        if same_person(by, asked.requested_by):
            return Objection(why="own request: who asks for it may not resolve it")
        try:
            known = await asyncio.to_thread(approvers.load, self._settings)
        except errors.BadSetting as error:
            return Objection(why=str(error))
        if why := known.may(by, asked.role):
            return Objection(why=why)
        return Objection(why=await self._close(asked))

    async def _close(self, asked: Standing) -> str | None:
        """Commit what a person found; what the ledger knows better stands."""
        key, by = asked.idempotency_key, asked.resolution.by
        standing = await self._effects.standing(key)
        if standing is None:
            return None
        if asked.resolution.outcome == "done":
            text = asked.resolution.result or f"It happened, as {by} found."
            await self._effects.finish(key, {"content": text, "outcome": "done"})
        elif not await self._effects.fail(key, f"not done, says {by}") and not asked.changed:
            return "it happened: its answer came in the meantime; resolve it as done"
        return None

    def _against(self, asked: Raise, namespace: str) -> str | None:
        known = approvers.load(self._settings)
        if why := known.may(asked.by, asked.role):
            return why
        statement = Statement(
            namespace=namespace,
            first_execution_run_id=asked.run,
            action_id=ABOUT,
            arguments_sha256=asked.sha256,
            verdict=VERDICT,
            approver=asked.by,
        )
        return known.verify(asked.by, statement.signed, asked.signature)

    def _objection(self, asked: Authority, namespace: str) -> str | None:
        known, decision = approvers.load(self._settings), asked.decision
        amount = Decimal(asked.amount) if asked.amount is not None else None
        if why := known.may(decision.approver, asked.role, amount):
            return why
        statement = Statement(
            namespace=namespace,
            first_execution_run_id=asked.run,
            action_id=decision.action_id,
            arguments_sha256=asked.arguments_sha256,
            verdict=decision.verdict,
            approver=decision.approver,
            decision_id=decision.decision_id,
            expires_at=decision.expires_at,
        )
        return known.verify(decision.approver, statement.signed, decision.signature)
