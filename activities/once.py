"""Once: an effect through the ledger. The row first, then the effect, then the row's end, then the answer."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.tool import Arguments, Context, Happened, Outcome, Tool, Verdict
from domain import actions, digest, errors
from domain.decisions import same_person
from domain.tool import Conflict, Effect, Grant, Prepared, ToolCall, ToolResult
from store import approvers, crash
from store.effects import Effects, Standing
from store.ledger import Entry
from store.settings import Settings

# After this many attempts without an answer, as when the worker died, the destination is asked what happened, and
# nothing is sent again.
MOST_ATTEMPTS = 5
# A destination that is out of reach, so that nothing was sent, is tried for some minutes.
MOST_REFUSED = 20
# A check has to end before the step that looks things up does.
CHECK_S = 20.0
LONGEST_HELD = 500
# A key is not trusted to the last second of its lifetime.
KEY_MARGIN = timedelta(minutes=10)


@dataclass(frozen=True)
class Doing:
    """One action about to be carried out, or looked at. editor, role: who wrote its arguments, if a person did."""

    tool: Tool
    declares: Effect
    call: ToolCall
    arguments: Arguments
    context: Context
    editor: str | None = None
    role: str | None = None


class Once:
    """Carries effects out. `attempt` runs the tool, `done` makes its outcome fit for the model."""

    def __init__(
        self,
        settings: Settings,
        effects: Effects,
        attempt: Callable[[Tool, Arguments, Context], Awaitable[Outcome]],
        done: Callable[[Outcome, int], Awaitable[ToolResult]],
    ) -> None:
        self._settings = settings
        self._effects = effects
        self._attempt = attempt
        self._done = done

    async def prepare(self, doing: Doing) -> Prepared:
        """Intent, amount, and who stands in the way, before anyone is asked and before anything is sent.

        What a model asks for beside a conflict is for a person to see, and not checked; what a person writes always is.
        """
        entry = _entry(doing)
        amount = doing.tool.amount(doing.arguments) if doing.tool.amount else None
        if doing.editor and (why := await asyncio.to_thread(self._may_not, doing.editor, doing.role, amount)):
            raise errors.ToolFailed(why)
        conflict = await self._effects.holder(entry)
        standing = await self._effects.standing(entry.key)
        already = conflict is None and standing is not None and standing.status == "done"
        if standing is None and (conflict is None or doing.editor):
            await self._check(doing)
        begun = standing is not None and standing.status in ("begun", "unknown")
        return Prepared(already=already, begun=begun, intent=entry.intent, amount=amount, conflict=conflict)

    async def _check(self, doing: Doing) -> None:
        """Let `errors.ToolFailed` through; a destination that cannot be asked now is asked when the effect is sent."""
        if doing.tool.check is None:
            return
        try:
            async with asyncio.timeout(min(doing.declares.deadline_s, CHECK_S)):
                await doing.tool.check(doing.arguments, doing.context)
        except errors.ToolFailed:
            raise
        except Exception as error:
            activity.logger.warning("%s could not be checked: %s", doing.tool.name, type(error).__name__)

    async def run(self, doing: Doing) -> ToolResult:
        """One attempt of an effect: at most one commit at the destination, however often it is run."""
        crash.point("effect.begin")
        entry = _entry(doing)
        grant = doing.call.grant
        if grant and (why := await self._objection(grant, entry)):
            return _told("not entitled", why, entry)
        try:
            standing = await self._effects.begin(entry, again=grant.again if grant else False)
        except errors.IntentHeld as held:
            outcome = "changed arguments" if held.conflict.changed else "conflict"
            return _told(outcome, str(held), entry, held.conflict)
        except errors.ArgumentsChanged as error:
            return _told("changed arguments", str(error), entry, await self._effects.holder(entry))
        if (known := _known(standing)) is not None:
            return known
        crash.point("effect.begun")
        return await _to_its_end(self._carry_out(doing, entry, standing))

    async def begun(self, key: str) -> ToolResult | None:
        """What is known of an effect whose tool is gone; None when nothing of it was sent."""
        standing = await self._effects.standing(key)
        if standing is None or standing.status == "failed":
            return None
        await self._effects.unknown(key, "It was sent, no answer came, and its tool is gone.")
        standing = await self._effects.standing(key)
        return _known(standing) if standing else None

    async def _carry_out(self, doing: Doing, entry: Entry, standing: Standing) -> ToolResult:
        attempts = standing.attempts
        if standing.sent:
            settled = await self._before(doing, entry, standing)
            if settled is not None:
                return settled
            attempts = await self._effects.sending(entry.key)
        try:
            outcome = await self._attempt(doing.tool, doing.arguments, doing.context)
        except errors.ToolFailed as error:
            return await self._refused(doing, entry, standing, attempts, str(error))
        except errors.ArgumentsChanged as error:
            why = f"The destination knows its key with other arguments: {error}"
            return await self._unknown(entry, why, attempts)
        except Exception as error:
            return await self._broke(entry, standing, attempts, error)
        crash.point("effect.committed")
        return await self._finish(doing, entry, outcome, attempts)

    async def _broke(self, entry: Entry, standing: Standing, attempts: int, error: Exception) -> ToolResult:
        """An attempt without an answer: come back, with the same key, unless it has been enough."""
        why = (await self._done(f"{type(error).__name__}: {error}"[:500], attempts)).content
        if not isinstance(error, errors.Again) or standing.sent:
            await self._effects.stumble(entry.key, why)
            raise _again(error) from None
        if standing.failures + 1 >= MOST_REFUSED:
            away = f"The destination was out of reach {standing.failures + 1} times; nothing was sent."
            return await self._failed(entry, away, attempts)
        await self._effects.unsent(entry.key, why, attempts)
        raise _again(error) from None

    async def _before(self, doing: Doing, entry: Entry, standing: Standing) -> ToolResult | None:
        """What became of attempts that gave no answer; None when it may be sent again with the same key."""
        if _key_holds(doing.declares, standing) and standing.attempts < MOST_ATTEMPTS:
            return None
        if doing.tool.reconcile is None:
            asked = "It was sent, no answer came, and the destination cannot be asked."
            return await self._unknown(entry, asked, standing.attempts)
        _wait_for_zombies(doing.declares, standing)
        found = await self._found(doing)
        if isinstance(found, Happened):
            return await self._finish(doing, entry, found.outcome, standing.attempts)
        if found is Verdict.UNSURE:
            asked = "It was sent, no answer came, and the destination is not sure."
            return await self._unknown(entry, asked, standing.attempts)
        if standing.attempts >= MOST_ATTEMPTS:
            why = f"{standing.attempts} attempts gave no answer."
            if doing.declares.safety == "key":  # what it keeps under the key is no answer, so its list is no proof
                shown = f"{why} The destination does not show it; look there."
                return await self._unknown(entry, shown, standing.attempts)
            return await self._failed(entry, f"It did not happen: {why}", standing.attempts)
        return None

    async def _refused(self, doing: Doing, entry: Entry, standing: Standing, attempts: int, why: str) -> ToolResult:
        """The destination says no to this attempt; one before it may have come through all the same."""
        if standing.sent:
            found = await self._found(doing)
            if isinstance(found, Happened):
                return await self._finish(doing, entry, found.outcome, attempts)
            if found is Verdict.UNSURE:
                unsure = f"An attempt gave no answer, and the next one was refused: {why}"
                return await self._unknown(entry, unsure, attempts)
            if _left(doing.declares, standing) > timedelta(0):
                # What may still be sending is the attempt before; this one has come to its end.
                await self._effects.stumble(entry.key, "refused", last_sent_at=standing.last_sent_at)
                _wait_for_zombies(doing.declares, standing)
        return await self._failed(entry, why, attempts)

    async def _found(self, doing: Doing) -> Happened | Verdict:
        if doing.tool.reconcile is None:
            return Verdict.UNSURE
        try:
            async with asyncio.timeout(doing.declares.deadline_s):
                return await doing.tool.reconcile(doing.arguments, doing.context)
        except Exception as error:
            activity.logger.warning("the destination cannot be asked: %s", type(error).__name__)
            return Verdict.UNSURE

    async def _finish(self, doing: Doing, entry: Entry, outcome: Outcome, attempts: int) -> ToolResult:
        told = {"intent": entry.intent, "grant": doing.call.grant}
        result = (await self._done(outcome, attempts)).model_copy(update=told)
        stored = await self._effects.finish(entry.key, result.model_dump(mode="json"))
        crash.point("effect.done")
        return ToolResult.model_validate(stored)

    async def _failed(self, entry: Entry, why: str, attempts: int) -> ToolResult:
        """It did not happen, unless a later attempt knows better: then this one has nothing to say."""
        told = await self._done(why, attempts)
        if not await self._effects.fail(entry.key, told.content, attempts):
            raise _again(errors.Uncertain("another attempt has begun"))
        return told.model_copy(update={"outcome": "failed", "intent": entry.intent})

    async def _unknown(self, entry: Entry, why: str, attempts: int) -> ToolResult:
        told = await self._done(why, attempts)
        if not await self._effects.unknown(entry.key, told.content):
            raise _again(errors.Uncertain("it has an end already"))
        return told.model_copy(update={"outcome": "unknown", "intent": entry.intent})

    async def _objection(self, grant: Grant, entry: Entry) -> str | None:
        """Why the approver may not approve it any more, if so; what has begun already is brought to its end."""
        standing = await self._effects.standing(entry.key)
        if standing is not None and standing.status != "failed":
            return None
        return await asyncio.to_thread(self._not_entitled, grant)

    def _not_entitled(self, grant: Grant) -> str | None:
        if same_person(grant.approver, grant.requested_by):
            return "own request"
        return self._may_not(grant.approver, grant.role, grant.amount)

    def _may_not(self, approver: str, role: str | None, amount: Decimal | None) -> str | None:
        try:
            return approvers.load(self._settings).may(approver, role, amount)
        except errors.BadSetting as error:
            return str(error)


def _entry(doing: Doing) -> Entry:
    call, context = doing.call, doing.context
    intent = doing.tool.intent(doing.arguments, context) if doing.tool.intent else None
    return Entry(
        key=context.idempotency_key,
        kind="effect",
        namespace=context.namespace,
        run_id=context.run_id,
        step=call.step,
        position=call.position,
        name=doing.tool.name,
        digest=actions.arguments_digest(doing.tool.name, call.arguments),
        action_id=call.action_id,
        arguments=call.arguments,
        intent=intent,
        holds=_held(intent) if intent and doing.declares.held_intent == "person" else None,
    )


def _held(intent: str) -> str:
    """What the ledger's index of holders keeps; an index of Postgres takes some 2,700 bytes."""
    return intent if len(intent) <= LONGEST_HELD else digest.sha256(intent)


def _told(outcome: Any, why: str, entry: Entry, conflict: Conflict | None = None) -> ToolResult:
    return ToolResult(content=why, outcome=outcome, attempts=0, intent=entry.intent, conflict=conflict)


def _known(standing: Standing) -> ToolResult | None:
    """What the ledger knows of an effect, so that nothing has to be sent."""
    if standing.result is not None:
        return ToolResult.model_validate(standing.result).model_copy(update={"from_ledger": True})
    if standing.status == "unknown":
        why = "It is not known whether it happened."
        return ToolResult(content=why, outcome="unknown", attempts=standing.attempts)
    return None


def _key_holds(declares: Effect, standing: Standing) -> bool:
    """Whether the destination still knows the key."""
    if declares.safety != "key":
        return False
    age = datetime.now(UTC) - standing.began_at
    return declares.key_lifetime_s is None or age < timedelta(seconds=declares.key_lifetime_s) - KEY_MARGIN


def _wait_for_zombies(declares: Effect, standing: Standing) -> None:
    """Nothing is looked up while a lost attempt may still be sending: come back when its deadline has passed."""
    left = _left(declares, standing)
    if left > timedelta(0):
        raise ApplicationError("an earlier attempt may still be sending", type="effect waits", next_retry_delay=left)


def _left(declares: Effect, standing: Standing) -> timedelta:
    return standing.last_sent_at + timedelta(seconds=declares.deadline_s) - datetime.now(UTC)


def _again(error: BaseException) -> ApplicationError:
    """No cause and no words of the destination: they would go into the history uncleaned."""
    return ApplicationError(f"the effect gave no answer: {type(error).__name__}", type="effect failed")


async def _to_its_end(effect: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """A cancelled run waits for an effect that has begun: it must not run on unseen."""
    going = asyncio.ensure_future(effect)
    while True:
        try:
            return await asyncio.shield(going)
        except asyncio.CancelledError:
            if going.cancelled():
                raise
