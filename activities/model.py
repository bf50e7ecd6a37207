"""call_model: one assistant turn from the Messages API, streamed, paid once."""

import asyncio
import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import anthropic
from anthropic.types import Message as ApiMessage
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities import cleaning, model_errors
from activities.model_errors import BadAnswer
from activities.pull import Transcripts
from domain import budget, caching, characters, compaction, digest, errors, transcript
from domain.agent import Definition
from domain.model import MAX_ANSWER_BYTES, Attempt, Event, ModelAnswer, ModelCall
from domain.spend import Usage
from domain.transcript import Message
from store import crash
from store.ledger import Begun, Entry, Ledger, model_key
from store.settings import Settings
from store.streams import Streams, Voice

# Seconds without one byte, pings included, after which a stream is taken for dead.
STALE_S = 120.0
CONNECT_S = 5.0
# A call that takes longer is a failure of the model, and counted as one: of an attempt that the server gives up, nobody
# would know why, and it would be paid again and again.
LONGEST_S = 29 * 60.0
# Of an answer that takes no longer than this only the final count of tokens is kept while it comes.
SHORT_S = 0.05
# Answers that a worker keeps for a store without room; it has no more calls than this under way.
MOST_UNWRITTEN = 100


class Model:
    """Calls the model; the ledger knows each call before it leaves and after it came back."""

    def __init__(self, settings: Settings, ledger: Ledger, transcripts: Transcripts, streams: Streams) -> None:
        self._settings = settings
        self._ledger = ledger
        self._transcripts = transcripts
        self._streams = streams
        self._secrets = cleaning.known_secrets(settings)
        self._client: anthropic.AsyncAnthropic | None = None
        # Answers that were paid and could not be written down yet, by the keys of their rows.
        self._unwritten: dict[str, ModelAnswer] = {}

    @activity.defn(name="call_model")
    async def call(self, call: ModelCall) -> ModelAnswer:
        """The answer to this ask of this step: from the ledger if it was paid for, else from the API."""
        definition, messages = await self._transcripts.pull(call)
        if call.step > 1 and call.ask == 1 and activity.info().attempt == 1:
            crash.point("step.end")
        request = body(definition, messages, call.max_tokens)
        return await self.ask(
            self._entry(call, definition, messages, request), request, call.most_lost, watched=definition.run
        )

    async def ask(
        self, entry: Entry, request: dict[str, Any], most_lost: int | None = None, *, watched: str | None = None
    ) -> ModelAnswer:
        """The answer to a request: from the ledger if it was paid for, else from the API.

        most_lost: how many attempts may be lost until the budget has no room for another. watched: the run whose
        watchers hear the answer as it comes.
        """
        if paid := self._unwritten.get(entry.key):
            return await self._write_down(entry.key, paid)
        crash.point("model.begin")
        begun = await self._ledger.begin(entry)
        if begun.result is not None:
            return _stored(begun)
        if most_lost is not None and len(begun.possibly_paid) > most_lost:
            await self._ledger.fail(entry.key, "budget", attempt=begun.attempt)
            raise _no_room(len(begun.possibly_paid))
        if watched is None:
            return await self._paid(entry, begun, request)
        attempt = Attempt(entry.step, entry.position, begun.attempt)
        async with self._streams.voice(watched, attempt, entry.name) as voice:
            return await self._paid(entry, begun, request, voice)

    def _entry(
        self, call: ModelCall, definition: Definition, messages: list[Message], request: dict[str, Any]
    ) -> Entry:
        info = activity.info()
        return Entry(
            key=model_key(definition.run, call.step, call.ask),
            kind="model",
            namespace=info.namespace,
            run_id=info.workflow_id or "",
            step=call.step,
            position=call.ask,
            name=definition.model,
            digest=digest.sha256(request),
            outline=compaction.outline(messages),
        )

    async def _paid(
        self, entry: Entry, begun: Begun, request: dict[str, Any], voice: Voice | None = None
    ) -> ModelAnswer:
        crash.point("model.begun")
        exchange = Exchange(self._ledger, entry.key, voice.say if voice else None)
        try:
            message = await exchange.run(self._api(), request, self._headers(entry, begun))
            answer = _answer(message, begun, request)
        except (asyncio.CancelledError, errors.Unreachable):
            raise  # a store that is away is no failure of the model
        except Exception as error:
            paid = {} if exchange.reached is None and model_errors.left_unanswered(error) else exchange.reached
            await self._ledger.fail(entry.key, type(error).__name__, paid, attempt=begun.attempt)
            failure = model_errors.failure(error, begun.failures + 1, self._secrets)
            if voice and not failure.non_retryable:
                voice.lose()
            # No cause: it would carry the body into the history.
            raise failure from None
        crash.point("model.received")
        return await self._write_down(entry.key, answer)

    async def _write_down(self, key: str, answer: ModelAnswer) -> ModelAnswer:
        """Commit an answer. One that the store cannot take now is kept for the next attempt, and not paid again."""
        self._keep(key, answer)
        mine, usage = answer.model_dump(mode="json"), answer.usage.model_dump(mode="json")
        stored = await self._ledger.finish(key, mine, usage, attempt=answer.attempts)
        self._unwritten.pop(key, None)
        crash.point("model.done")
        # Where another attempt answered first, this one is in the row as possibly paid.
        return answer if stored == mine else _stored(await self._ledger.ended(key))

    def _keep(self, key: str, answer: ModelAnswer) -> None:
        """Those of runs that were cancelled meanwhile are never asked for: the oldest goes when there are too many."""
        self._unwritten[key] = answer
        if len(self._unwritten) > MOST_UNWRITTEN:
            del self._unwritten[next(iter(self._unwritten))]

    def _api(self) -> anthropic.AsyncAnthropic:
        """The client: Temporal is the one retry owner, and the timeout is between two bytes."""
        if self._client is None:
            key = self._settings.anthropic_api_key
            self._client = anthropic.AsyncAnthropic(
                api_key=key.get_secret_value() if key else "sandbox",
                base_url=self._settings.messages_url,
                max_retries=0,
                timeout=anthropic.Timeout(STALE_S, connect=CONNECT_S),
            )
        return self._client

    def _headers(self, entry: Entry, begun: Begun) -> dict[str, str]:
        """Which ask this is; told to stand-ins only, which choose their turn by it."""
        if self._settings.anthropic_api_key:
            return {}
        return {
            "x-dayflow-run": quote(entry.run_id),
            "x-dayflow-step": str(entry.step),
            "x-dayflow-ask": str(entry.position),
            "x-dayflow-attempt": str(begun.attempt),
        }


class Exchange:
    """One request and its stream. `reached`: the usage known so far, None while nothing was paid.

    tell: is told each part of the answer as it comes. longest_s: how long it may take in all.
    """

    def __init__(
        self, ledger: Ledger, key: str, tell: Callable[[Event], None] | None = None, *, longest_s: float = LONGEST_S
    ) -> None:
        self._ledger = ledger
        self._key = key
        self._tell = tell or _unheard
        self._longest_s = longest_s
        self.reached: dict[str, int] | None = None
        # Beside the stream, which need not wait for it.
        self._saving: asyncio.Task[None] | None = None
        self._counted = asyncio.Event()
        # What came of the arguments of each call, by its block.
        self._arguments: dict[int, str] = {}

    async def run(
        self, client: anthropic.AsyncAnthropic, request: dict[str, Any], headers: dict[str, str]
    ) -> ApiMessage:
        """The whole message; a `BadAnswer` if the stream ended without its end."""
        try:
            async with asyncio.timeout(self._longest_s):
                return await self._stream(client, request, headers)
        except TimeoutError:
            raise BadAnswer(f"the answer did not come to its end within {self._longest_s:g} seconds") from None
        finally:  # before the row gets its end
            self._counted.set()
            if self._saving is not None:
                await self._saving

    async def _stream(
        self, client: anthropic.AsyncAnthropic, request: dict[str, Any], headers: dict[str, str]
    ) -> ApiMessage:
        stopped, open_blocks = False, 0
        async with client.messages.stream(**request, extra_headers=headers) as stream:
            async for event in stream:
                if event.type in ("message_start", "message_delta"):
                    self._count(stream.current_message_snapshot, last=event.type == "message_delta")
                match event.type:
                    case "content_block_start":
                        open_blocks += 1
                        self._tell(_begun_block(event.index, event.content_block))
                    case "content_block_delta":
                        self._hear(event.index, event.delta)
                    case "content_block_stop":
                        open_blocks -= 1
                    case "message_stop":
                        stopped = True
            if not stopped or open_blocks:
                raise BadAnswer("the stream ended without message_stop")
            for arguments in self._arguments.values():
                _check_whole(arguments)
            message = await stream.get_final_message()
        if not isinstance(message, ApiMessage) or message.stop_reason is None:
            raise BadAnswer("the answer is no finished message")
        return message

    def _hear(self, block: int, delta: Any) -> None:
        """A part of a block."""
        if delta.type == "input_json_delta":
            self._arguments[block] = self._arguments.get(block, "") + delta.partial_json
        if (words := _words(delta)) is not None:
            self._tell({"type": "text", "block": block, "text": words})

    def _count(self, message: ApiMessage, *, last: bool) -> None:
        """What the API says that it counted: in the beginning, and in the end."""
        self.reached = usage_of(message).model_dump(mode="json")
        if last:
            self._counted.set()
        else:
            self._saving = asyncio.create_task(self._save())

    async def _save(self) -> None:
        """Keep what is counted in the beginning, unless the answer is short, and what is counted in the end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._counted.wait(), SHORT_S)
        if not self._counted.is_set():
            await self._saw()
            await self._counted.wait()
        await self._saw()

    async def _saw(self) -> None:
        """A store without room for this may have some by the end of the answer, which is worth more."""
        with suppress(errors.Unreachable):
            await self._ledger.saw(self._key, self.reached or {})
        crash.point("model.stream")


def body(definition: Definition, messages: list[Message], max_tokens: int) -> dict[str, Any]:
    """The request. Its prefix is the same bytes in every step, worker and execution, so that the cache hits."""
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in definition.tools
    ]
    system = {"type": "text", "text": definition.instructions, "cache_control": caching.EPHEMERAL}
    return {
        "model": definition.model,
        "max_tokens": max_tokens,
        **({"system": [system]} if definition.instructions.strip() else {}),
        "messages": caching.marked(messages),
        **({"tools": tools} if tools else {}),
    }


def _unheard(event: Event) -> None:
    """Nobody listens."""


def _begun_block(index: int, block: Any) -> Event:
    """The beginning of a block, as it is told to whoever watches."""
    named = {"name": block.name} if isinstance(getattr(block, "name", None), str) else {}
    return {"type": "block", "block": index, "kind": block.type, **named}


def _words(delta: Any) -> str | None:
    """What a delta adds: text, thinking, or a tool's arguments as JSON."""
    field = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}.get(delta.type)
    return getattr(delta, field) or None if field else None


def _check_whole(arguments: str) -> None:
    """Refuse what is no whole JSON: the SDK takes what it can read of it, which may be a plausible wrong payment."""
    try:
        if arguments:
            json.loads(arguments, parse_constant=_number, parse_float=_number)
    except ValueError as error:
        raise ValueError(f"the arguments of a call are no JSON: {str(error)[:100]}") from None


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no number that JSON has")
    return number


def usage_of(message: ApiMessage) -> Usage:
    """The API's counters; optional ones may be missing."""
    used = message.usage
    hourly = used.cache_creation.ephemeral_1h_input_tokens if used.cache_creation else 0
    return Usage(
        input_tokens=used.input_tokens or 0,
        output_tokens=used.output_tokens or 0,
        cache_read_tokens=used.cache_read_input_tokens or 0,
        cache_write_tokens=max(used.cache_creation_input_tokens or 0, hourly or 0),
        cache_write_1h_tokens=hourly or 0,
    )


def _counted(usage: Usage, request: dict[str, Any], content: list[dict[str, Any]]) -> Usage:
    """What the API did not count, as some gateways do not, is estimated: no call is free."""
    guessed = {
        **({} if usage.prompt else {"input_tokens": budget.estimate_json(request)}),
        **({} if usage.output_tokens else {"output_tokens": budget.estimate_json(content)}),
    }
    return usage.model_copy(update=guessed)


def _no_room(lost: int) -> ApplicationError:
    return ApplicationError(
        f"{lost} attempts of this call gave no answer and may have been paid; the limits have no room for another",
        type="budget",
        non_retryable=True,
    )


def _answer(message: ApiMessage, begun: Begun, request: dict[str, Any]) -> ModelAnswer:
    raw = message.model_dump(mode="json", exclude_unset=True, warnings=False)
    content = transcript.returnable(raw["content"])
    if characters.refused(content):
        raise ValueError("the answer holds a NUL or half a character, which no request may hold")
    if len(digest.canonical(content)) > MAX_ANSWER_BYTES:
        raise BadAnswer(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
    details = raw.get("stop_details")
    return ModelAnswer(
        content=content,
        stop_reason=str(message.stop_reason),
        stop_details=details if isinstance(details, dict) else None,
        usage=_counted(usage_of(message), request, content),
        model=message.model,
        message_id=message.id,
        attempts=begun.attempt,
        possibly_paid=[Usage.model_validate(usage) for usage in begun.possibly_paid],
    )


def _stored(begun: Begun) -> ModelAnswer:
    answer = ModelAnswer.model_validate(begun.result)
    paid = [Usage.model_validate(usage) for usage in begun.possibly_paid]
    return answer.model_copy(update={"from_ledger": True, "possibly_paid": paid})
