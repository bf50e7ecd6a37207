"""The runner: any tool as an activity, with its deadline, its errors, its ledger row and its cleaned result."""

import asyncio
import contextvars
import inspect
import json
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import BaseModel, ValidationError
from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from activities import cleaning
from activities.heartbeat import beating
from activities.tool import Arguments, Context, Outcome, Tool
from domain import actions, errors
from domain.request import explain
from domain.tool import Effect, ToolCall, ToolResult
from store import blobs, crash
from store.database import Database
from store.ledger import Begun, Entry, Ledger
from store.settings import Settings

THREADS = 64
# An effect whose attempts keep failing, or keep taking their worker down, is given back to the model, and to a person,
# after this many.
MOST_EFFECT_FAILURES = 5

Act = Callable[[ToolCall], Coroutine[Any, Any, ToolResult]]


class Runner:
    """Runs tools: reading ones again and again, effects through the ledger."""

    def __init__(self, settings: Settings, database: Database, ledger: Ledger) -> None:
        self._settings = settings
        self._database = database
        self._ledger = ledger
        self._secrets = cleaning.known_secrets(settings)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tool")

    def activities(self, tools: Mapping[str, Tool]) -> list[Callable[..., Any]]:
        """One activity for each tool, named as the tool, and one that answers for tools that are gone."""
        return [*(self._activity(tool) for tool in tools.values()), missing]

    def _activity(self, tool: Tool) -> Act:
        @activity.defn(name=tool.name)
        async def act(call: ToolCall) -> ToolResult:
            async with beating():
                return await self.run(tool, call)

        return act

    async def run(self, tool: Tool, call: ToolCall) -> ToolResult:
        """One attempt of one action."""
        try:
            arguments = tool.arguments.model_validate_json(json.dumps(call.arguments), strict=True)
        except ValidationError as error:
            return self._failed(f"The arguments are not right: {explain(error)}. Nothing was done.")
        context = self._context(call)
        if isinstance(tool.declares, Effect):
            return await self._effect(tool, tool.declares, call, arguments, context)
        result = await self._read(tool, arguments, context)
        crash.point("read.done")
        return result

    async def _read(self, tool: Tool, arguments: Arguments, context: Context) -> ToolResult:
        try:
            return await self._done(await self._attempt(tool, arguments, context))
        except errors.ToolFailed as error:
            return self._failed(str(error))
        except TimeoutError:
            return self._failed(f"The tool gave no answer within {tool.declares.deadline_s:g} seconds.")
        except (Exception, SystemExit) as error:
            activity.logger.error("tool failed\n%s", self._clean(traceback.format_exc()))
            return self._failed(f"The tool failed: {type(error).__name__}: {error}")

    async def _effect(
        self, tool: Tool, declares: Effect, call: ToolCall, arguments: Arguments, context: Context
    ) -> ToolResult:
        """Once: the row first, then the effect, then the row's end, then the answer."""
        crash.point("effect.begin")
        entry = self._entry(tool, declares, call, arguments, context)
        try:
            begun = await self._ledger.begin(entry)
        except errors.ArgumentsChanged as error:
            raise ApplicationError(str(error), type="changed arguments", non_retryable=True) from error
        if begun.result is not None:
            return ToolResult.model_validate(begun.result).model_copy(update={"from_ledger": True})
        lost = begun.attempt - 1 - begun.failures
        if lost >= MOST_EFFECT_FAILURES:
            await self._ledger.fail(entry.key, "lost", attempt=begun.attempt)
            return self._in_doubt(f"{entry.name} was cut off {lost} times, with its worker", begun.attempt)
        crash.point("effect.begun")
        return await _to_its_end(self._once(tool, arguments, context, entry, begun))

    async def _once(self, tool: Tool, arguments: Arguments, context: Context, entry: Entry, begun: Begun) -> ToolResult:
        """The effect, and the row's end."""
        try:
            result = await self._done(await self._attempt(tool, arguments, context), attempts=begun.attempt)
        except errors.ToolFailed as error:
            await self._ledger.fail(entry.key, self._clean(str(error)), attempt=begun.attempt)
            return self._failed(str(error), attempts=begun.attempt)
        except errors.ArgumentsChanged as error:
            await self._ledger.fail(entry.key, str(error), attempt=begun.attempt)
            raise ApplicationError(str(error), type="changed arguments", non_retryable=True) from error
        except (Exception, SystemExit) as error:
            return await self._unsettled(entry, error, begun.attempt, begun.failures + 1)
        crash.point("effect.committed")
        stored = await self._ledger.finish(entry.key, result.model_dump(mode="json"), attempt=begun.attempt)
        crash.point("effect.done")
        return ToolResult.model_validate(stored)

    async def _unsettled(self, entry: Entry, error: BaseException, attempt: int, failures: int) -> ToolResult:
        """An effect that broke: tried again with the same key, and after some failures told to the model."""
        await self._ledger.fail(entry.key, type(error).__name__, attempt=attempt)
        if failures < MOST_EFFECT_FAILURES:
            # No cause: it would carry the uncleaned words into the history.
            raise ApplicationError(self._clean(f"{type(error).__name__}: {error}"), type="effect failed") from None
        return self._in_doubt(f"{entry.name} broke {failures} times ({type(error).__name__})", attempt)

    def _in_doubt(self, why: str, attempt: int) -> ToolResult:
        return self._failed(f"{why}; it may or may not have happened.", attempts=attempt)

    async def _attempt(self, tool: Tool, arguments: Arguments, context: Context) -> Outcome:
        async with asyncio.timeout(tool.declares.deadline_s):
            if inspect.iscoroutinefunction(tool.run):
                outcome: Outcome = await tool.run(arguments, context)
                return outcome
            work = contextvars.copy_context().run
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, work, _shielded, tool.run, arguments, context
            )

    def _context(self, call: ToolCall) -> Context:
        info = activity.info()
        return Context(
            settings=self._settings,
            database=self._database,
            namespace=info.namespace,
            run_id=info.workflow_id or "",
            action_id=call.action_id,
            idempotency_key=call.idempotency_key or "",
            attempt=info.attempt,
        )

    def _entry(self, tool: Tool, declares: Effect, call: ToolCall, arguments: Arguments, context: Context) -> Entry:
        intent = tool.intent(arguments, context) if tool.intent else None
        return Entry(
            key=context.idempotency_key,
            kind="effect",
            namespace=context.namespace,
            run_id=context.run_id,
            step=call.step,
            position=call.position,
            name=tool.name,
            digest=actions.arguments_digest(tool.name, call.arguments),
            intent=intent,
            holds=intent if declares.held_intent == "person" else None,
        )

    async def _done(self, outcome: Outcome, attempts: int = 1) -> ToolResult:
        """In a thread, since a large outcome takes its time and the heartbeats must go on."""
        return await asyncio.to_thread(self._cleaned, outcome, attempts)

    def _cleaned(self, outcome: Outcome, attempts: int) -> ToolResult:
        cleaned = cleaning.clean(_text(outcome), self._secrets)
        return ToolResult(content=cleaned.text, attempts=attempts, blob=self._blob(cleaned.whole))

    def _blob(self, whole: str | None) -> str | None:
        """A full disk does not undo what the tool did: its result stands without the blob."""
        try:
            return blobs.put(self._settings.home, whole.encode()) if whole else None
        except OSError as error:
            activity.logger.warning("the whole result could not be kept: %s", error)
            return None

    def _failed(self, why: str, attempts: int = 1) -> ToolResult:
        return ToolResult(content=self._clean(why), is_error=True, attempts=attempts)

    def _clean(self, text: str) -> str:
        return cleaning.clean(text, self._secrets).text


@activity.defn(dynamic=True)
async def missing(args: Sequence[RawValue]) -> ToolResult:
    """Answers for a tool that a run still knows and this worker does not have."""
    name = activity.info().activity_type
    return ToolResult(content=f"The tool {name!r} is not available.", is_error=True)


async def _to_its_end(effect: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """A cancelled run waits for an effect that has begun: it must not run on unseen."""
    going = asyncio.ensure_future(effect)
    try:
        return await asyncio.shield(going)
    except asyncio.CancelledError:
        return await going


def _shielded(run: Callable[[Any, Context], Any], arguments: Arguments, context: Context) -> Any:
    """A tool that calls sys.exit must not take the worker along."""
    try:
        return run(arguments, context)
    except SystemExit as error:
        raise errors.ToolFailed(f"The tool tried to exit ({error.code}).") from None


def _text(outcome: Outcome) -> str:
    if isinstance(outcome, str):
        return outcome
    if isinstance(outcome, BaseModel):
        return outcome.model_dump_json()
    return json.dumps(outcome, ensure_ascii=False, default=str)
