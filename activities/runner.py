"""The runner: any tool as an activity, with its deadline, its errors and its cleaned result."""

import asyncio
import contextvars
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import BaseModel, ValidationError
from temporalio import activity
from temporalio.common import RawValue

from activities import cleaning
from activities.once import Doing, Once
from activities.tool import Arguments, Context, Outcome, Tool
from domain import errors
from domain.request import explain
from domain.tool import Effect, Preparation, Prepared, ToolCall, ToolResult
from store import crash, logs
from store.blobs import Blobs
from store.database import Database
from store.effects import Effects
from store.settings import Settings

THREADS = 64

Act = Callable[[ToolCall], Coroutine[Any, Any, ToolResult]]


class Runner:
    """Runs tools: reading ones again and again, effects through the ledger."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._blobs = Blobs(settings.blobs)
        self._seal = settings.seal
        self._secrets = cleaning.known_secrets(settings)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tool")
        self._once = Once(settings, Effects(database), self.attempt, self.done)

    def activities(self, tools: Mapping[str, Tool]) -> list[Callable[..., Any]]:
        """One activity for each tool, named as the tool, and one that answers for tools that are gone."""
        return [*(self._activity(tool) for tool in tools.values()), self._preparation(tools), self._missing()]

    def _activity(self, tool: Tool) -> Act:
        @activity.defn(name=tool.name)
        async def act(call: ToolCall) -> ToolResult:
            return await self.run(tool, call)

        return act

    def _preparation(self, tools: Mapping[str, Tool]) -> Callable[[Preparation], Coroutine[Any, Any, Prepared]]:
        @activity.defn(name="prepare_action")
        async def prepare(wanted: Preparation) -> Prepared:
            prepared = await self.prepare(tools.get(wanted.tool), wanted)
            crash.point("prepare.done")
            return prepared

        return prepare

    def _missing(self) -> Callable[[Sequence[RawValue]], Coroutine[Any, Any, ToolResult]]:
        @activity.defn(dynamic=True)
        async def missing(args: Sequence[RawValue]) -> ToolResult:
            """Answers for a tool that a run still knows and this worker does not have; it may have done its effect."""
            told = self._failed(f"The tool {activity.info().activity_type!r} is not available.")
            call = activity.payload_converter().from_payload(args[0].payload, ToolCall) if args else None
            begun = await self._once.begun(call.idempotency_key) if call and call.idempotency_key else None
            return begun or told

        return missing

    async def prepare(self, tool: Tool | None, wanted: Preparation) -> Prepared:
        """What is known of an effect before a person is asked about it."""
        if tool is None or not isinstance(tool.declares, Effect):
            return Prepared(refusal=f"The tool {wanted.tool!r} is not available.")
        try:
            arguments = tool.arguments.model_validate_json(json.dumps(wanted.arguments), strict=True)
            call = ToolCall.model_validate(wanted.model_dump())
            by = (wanted.editor, wanted.role)
            return await self._once.prepare(Doing(tool, tool.declares, call, arguments, self._context(call), *by))
        except ValidationError as error:
            return Prepared(refusal=self._clean(f"The arguments are not right: {explain(error)}. Nothing was done."))
        except errors.ToolFailed as error:
            return Prepared(refusal=self._clean(str(error)))

    async def run(self, tool: Tool, call: ToolCall) -> ToolResult:
        """One attempt of one action."""
        try:
            arguments = tool.arguments.model_validate_json(json.dumps(call.arguments), strict=True)
        except ValidationError as error:
            return self._failed(f"The arguments are not right: {explain(error)}. Nothing was done.")
        context = self._context(call)
        if isinstance(tool.declares, Effect):
            return await self._once.run(Doing(tool, tool.declares, call, arguments, context))
        result = await self._read(tool, arguments, context)
        crash.point("read.done")
        return result

    async def _read(self, tool: Tool, arguments: Arguments, context: Context) -> ToolResult:
        try:
            return await self.done(await self.attempt(tool, arguments, context))
        except errors.ToolFailed as error:
            return self._failed(str(error))
        except TimeoutError:
            return self._failed(f"The tool gave no answer within {tool.declares.deadline_s:g} seconds.")
        except errors.Unreachable:  # the store: a part of ours, of which no model need know
            raise
        except Exception as error:
            activity.logger.error("tool failed\n%s", self._clean(logs.told(error)))
            return self._failed(f"The tool failed: {type(error).__name__}: {error}")

    async def attempt(self, tool: Tool, arguments: Arguments, context: Context) -> Outcome:
        """The tool itself, within its deadline. Whatever it raises is an error of its own, and no end of the worker."""
        try:
            async with asyncio.timeout(tool.declares.deadline_s):
                return await self._outcome(tool, arguments, context)
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            raise _escape(error) from None
        except (KeyboardInterrupt, SystemExit) as error:
            raise _escape(error) from None

    async def _outcome(self, tool: Tool, arguments: Arguments, context: Context) -> Outcome:
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
            nth=call.nth,
        )

    async def done(self, outcome: Outcome, attempts: int = 1) -> ToolResult:
        """The outcome as the model reads it; in a thread, since a large one takes time and heartbeats must go on."""
        return await asyncio.to_thread(self._cleaned, outcome, attempts)

    def _cleaned(self, outcome: Outcome, attempts: int) -> ToolResult:
        cleaned = cleaning.clean(_text(outcome), self._secrets)
        return ToolResult(content=cleaned.text, attempts=attempts, blob=self._blob(cleaned.whole))

    def _blob(self, whole: str | None) -> str | None:
        """A full disk does not undo what the tool did: its result stands without the blob."""
        try:
            return self._blobs.put(self._kept(whole.encode())) if whole else None
        except OSError as error:
            activity.logger.warning("the whole result could not be kept: %s", error)
            return None

    def _kept(self, data: bytes) -> bytes:
        return self._seal.seal(data) if self._seal.on else data

    def _failed(self, why: str, attempts: int = 1) -> ToolResult:
        return ToolResult(content=self._clean(why), outcome="failed", attempts=attempts)

    def _clean(self, text: str) -> str:
        return cleaning.clean(text, self._secrets).text


def _shielded(run: Callable[[Any, Context], Any], arguments: Arguments, context: Context) -> Any:
    """What ends a process, a task or a generator is an error like any other when a tool raises it."""
    try:
        return run(arguments, context)
    except SystemExit as error:
        raise RuntimeError(f"The tool tried to exit ({error.code}).") from None
    except (KeyboardInterrupt, asyncio.CancelledError, StopIteration) as error:
        raise _escape(error) from None


def _escape(error: BaseException) -> RuntimeError:
    """The tool may have done anything before it raised that: whether an effect happened is not known."""
    return RuntimeError(f"The tool raised {type(error).__name__}: {error}")


def _text(outcome: Outcome) -> str:
    if isinstance(outcome, str):
        return outcome
    if isinstance(outcome, BaseModel):
        return outcome.model_dump_json()
    return json.dumps(outcome, ensure_ascii=False, default=str)
