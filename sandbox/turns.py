"""One assistant turn as a script or a player gives it, and the message it becomes."""

import hashlib
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sandbox import binding, tokens
from sandbox.cache import Reading
from sandbox.faults import Fault
from sandbox.request import Block, Request

REQUIRED = {
    "text": {"text": str},
    "thinking": {"thinking": str},
    "redacted_thinking": {"data": str},
    "tool_use": {"name": str},
}


class Turn(BaseModel):
    """What the model says: content blocks and why it stopped."""

    model_config = ConfigDict(extra="forbid")

    content: list[Block] = []
    stop_reason: str | None = "end_turn"
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    usage: dict[str, Any] = {}
    asks: list["Turn"] = []
    faults: list[Fault] = []
    repeat: int | None = Field(None, ge=1)
    until: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for at, block in enumerate(self.content):
            _check_block(at, block)
        if self.repeat and self.until:
            raise ValueError("a turn has `repeat` or `until`, not both")
        if "stop_reason" not in self.model_fields_set and any(block["type"] == "tool_use" for block in self.content):
            self.stop_reason = "tool_use"
        return self

    def asked(self, ask: int) -> "Turn":
        """The turn for the given ask; the last one stands for those beyond."""
        return ([self, *self.asks])[min(ask - 1, len(self.asks))]


def say(text: str) -> Turn:
    """A turn that ends with a text."""
    return Turn(content=[{"type": "text", "text": text}])


def message(turn: Turn, asked: Request, reading: Reading, request_id: str) -> dict[str, Any]:
    """The full message: ids given, thinking signed, usage counted."""
    if asked.body["max_tokens"] == 0:
        turn = Turn(content=[], stop_reason="max_tokens")
    content = binding.sign(asked, [_identified(asked, at, block) for at, block in enumerate(turn.content)])
    return {
        "id": "msg_" + request_id.removeprefix("req_"),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": turn.stop_reason,
        "stop_sequence": turn.stop_sequence,
        "stop_details": turn.stop_details,
        "usage": _usage(content, reading) | turn.usage,
    }


def _usage(content: list[Block], reading: Reading) -> dict[str, Any]:
    output, thinking = tokens.of_content(content)
    usage: dict[str, Any] = {**reading.usage, "output_tokens": output, "service_tier": "standard"}
    if thinking:
        usage["output_tokens_details"] = {"thinking_tokens": thinking}
    return usage


def _identified(asked: Request, at: int, block: Block) -> Block:
    """A block with what the script left out: the id and input of a call, the text of omitted thinking."""
    if block["type"] == "thinking" and (asked.body.get("thinking") or {}).get("display") == "omitted":
        return {**block, "thinking": ""}
    if block["type"] != "tool_use":
        return block
    seed = f"{asked.transcript}:{asked.ask}:{at}".encode()
    return {
        "type": "tool_use",
        "id": "toolu_" + hashlib.sha256(seed).hexdigest()[:24],
        "name": block["name"],
        "input": {},
        **block,
    }


def _check_block(at: int, block: Block) -> None:
    kind = block.get("type")
    if not isinstance(kind, str):
        raise ValueError(f"content.{at}.type: a block needs a type")
    for name, wanted in REQUIRED.get(kind, {}).items():
        if not isinstance(block.get(name), wanted):
            raise ValueError(f"content.{at}.{name}: a {kind} block needs a {wanted.__name__} here")
