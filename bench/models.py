"""The model activities of the bench: parts of the real one put together, with an answer from this process."""

from typing import Any

import anthropic
from temporalio import activity

from activities import model
from activities.pull import Transcripts
from bench import by_value, scenario
from domain import digest
from domain.agent import Definition
from domain.model import ModelAnswer, ModelCall
from domain.transcript import Message
from store.ledger import Entry, Ledger, model_key
from store.settings import Settings


class Stub:
    """`call_model` without the API: answers at once, after as much of the real work as it is told to do."""

    def __init__(self, steps: int, *, transcripts: Transcripts | None, ledger: Ledger | None) -> None:
        self._steps = steps
        self._transcripts = transcripts
        self._ledger = ledger

    @activity.defn(name="call_model")
    async def call(self, call: ModelCall) -> ModelAnswer:
        """The scripted answer."""
        answer = scenario.answer(activity.info().workflow_run_id or "", call.step, self._steps)
        if self._transcripts is not None:
            definition, messages = await self._transcripts.pull(call)
            if self._ledger is not None:
                return await _through(self._ledger, definition, messages, call, answer)
        return answer


class StubByValue:
    """The list-passing model activity, with the same answers."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    @activity.defn(name=by_value.CALL_MODEL)
    async def call(self, messages: list[dict[str, Any]]) -> ModelAnswer:
        """The scripted answer."""
        return scenario.answer(activity.info().workflow_run_id or "", len(messages) // 2 + 1, self._steps)


class HttpByValue:
    """The list-passing model activity over HTTP: the same SDK, request and stream, no ledger."""

    def __init__(self, steps: int, settings: Settings) -> None:
        self._definition = scenario.definition("", steps)
        self._client = anthropic.AsyncAnthropic(api_key="sandbox", base_url=settings.messages_url, max_retries=0)

    @activity.defn(name=by_value.CALL_MODEL)
    async def call(self, messages: list[dict[str, Any]]) -> ModelAnswer:
        """The sandbox's answer."""
        request = model.body(self._definition, messages, self._definition.max_tokens)
        async with self._client.messages.stream(**request) as stream:
            message = await stream.get_final_message()
        return ModelAnswer(
            content=message.to_dict()["content"],
            stop_reason=str(message.stop_reason),
            usage=model.usage_of(message),
            model=message.model,
            message_id=message.id,
        )


async def _through(
    ledger: Ledger, definition: Definition, messages: list[Message], call: ModelCall, answer: ModelAnswer
) -> ModelAnswer:
    """The three commits and the request's digest, as `activities.model` makes them."""
    info = activity.info()
    entry = Entry(
        key=model_key(definition.run, call.step, call.ask),
        kind="model",
        namespace=info.namespace,
        run_id=info.workflow_id or "",
        step=call.step,
        position=call.ask,
        name=definition.model,
        digest=digest.sha256(model.body(definition, messages, call.max_tokens)),
    )
    usage = answer.usage.model_dump(mode="json")
    begun = await ledger.begin(entry)
    await ledger.saw(entry.key, usage)
    stored = await ledger.finish(entry.key, answer.model_dump(mode="json"), usage, attempt=begun.attempt)
    return ModelAnswer.model_validate(stored)
