"""Budget: what a run has used, what its next model call may take, and whether its limits leave room for that."""

import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from math import ceil
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from domain.agent import Definition, Limits
from domain.spend import Price, Usage
from domain.transcript import Message

# No exact count exists before a call. In UTF-8, a token of JSON or of prose has about so many bytes, rather more.
JSON_BYTES = 2.4
PROSE_BYTES = 3.5
# What is around a message, and around a result.
WRAPPING = 8
# Less room than this for an answer, or than the agent asks for, is not worth a call.
LEAST_ANSWER = 512
# More attempts of one call than this are counted nowhere.
MOST_LOST = 1_000

Name = Literal["steps", "tokens", "usd", "seconds"]


class Used(BaseModel):
    """What counts against the limits. lost: calls among it that may have been paid and gave no answer."""

    model_config = ConfigDict(frozen=True)

    steps: int
    tokens: int
    usd: Decimal | None
    seconds: float
    lost: int = 0


class Wanted(BaseModel):
    """What the next call is to be: its input, the room for its answer, and the least room that makes sense."""

    model_config = ConfigDict(frozen=True)

    input_tokens: int
    max_tokens: int
    least: int

    def usage(self, answer: int) -> Usage:
        """The most that it may use; the input may all be written into the cache."""
        return Usage(input_tokens=self.input_tokens, output_tokens=answer)


class Bound(BaseModel):
    """The nearest limit and how it stands. needs: what the next call may take of it."""

    model_config = ConfigDict(frozen=True)

    limit: Name
    used: float | None
    most: float
    needs: float = 0
    lost: int = 0

    @property
    def proposal(self) -> str:
        """A new limit with which the run could go on."""
        enough = max(2 * self.most, (self.used or 0) + self.needs)
        return f"{ceil(enough * 100) / 100:.2f}" if self.limit == "usd" else str(ceil(enough))

    def __str__(self) -> str:
        used = "an unknown amount" if self.used is None else _said(self.limit, self.used)
        line = f"{self.limit}: {used} of {_said(self.limit, self.most)} used"
        if self.lost:
            line += f" ({self.lost} calls that may have been paid count as paid)"
        return line + (f", and the next call may take {_said(self.limit, self.needs)}" if self.needs else "")


class Reservation(BaseModel):
    """What the next call may take. max_tokens: the room for its answer; with 0 it is not sent.

    lowered: the limits leave less room than was wanted. most_lost: how many attempts of the call may be lost, each
    counted as paid, until there is no room for another one; None is any number. bound: the nearest limit.
    """

    model_config = ConfigDict(frozen=True)

    input_tokens: int
    max_tokens: int
    lowered: bool = False
    most_lost: int | None = None
    bound: Bound | None = None

    @property
    def usage(self) -> Usage:
        """The most that one attempt may use."""
        return Usage(input_tokens=self.input_tokens, output_tokens=self.max_tokens)

    @property
    def cut(self) -> str | None:
        """What an answer means that is cut at a lowered `max_tokens`: no larger one can be had."""
        if not self.lowered:
            return None
        return f"the answer was cut at {self.max_tokens:,} tokens, all that was left of the limit; {self.bound}"


class Measured(BaseModel):
    """What the API counted: the first `length` messages of an epoch, the request around them included."""

    model_config = ConfigDict(frozen=True)

    epoch: int
    length: int
    tokens: int


class Clock(BaseModel):
    """How long a run has stood still. since: it stands still from then on."""

    waited_s: float = 0.0
    since: datetime | None = None

    def turn(self, now: datetime, *, waits: bool) -> None:
        """The run stands still from now on, or no longer."""
        if waits and self.since is None:
            self.since = now
        elif not waits and self.since is not None:
            self.waited_s, self.since = self._waited(now), None

    def worked(self, start: datetime, now: datetime) -> float:
        """Seconds since the start in which the run did not stand still."""
        return (now - start).total_seconds() - self._waited(now)

    def _waited(self, now: datetime) -> float:
        return self.waited_s + ((now - self.since).total_seconds() if self.since else 0.0)


def reserve(limits: Limits, used: Used, wanted: Wanted, price: Price | None) -> Reservation:
    """As much of what is wanted as the limits leave room for."""
    if reached := _reached(limits, used):
        return Reservation(input_tokens=wanted.input_tokens, max_tokens=0, lowered=True, bound=reached)
    rooms = _rooms(limits, used, wanted, price)
    if not rooms:
        return Reservation(input_tokens=wanted.input_tokens, max_tokens=wanted.max_tokens)
    nearest = min(rooms, key=lambda name: rooms[name])
    room = min(wanted.max_tokens, rooms[nearest])
    answer = room if room >= wanted.least else 0
    return Reservation(
        input_tokens=wanted.input_tokens,
        max_tokens=answer,
        lowered=answer < wanted.max_tokens,
        most_lost=_most_lost(limits, used, wanted.usage(answer), price),
        bound=_bound(nearest, limits, used, wanted, price),
    )


def estimate(messages: Sequence[Message]) -> int:
    """Tokens of these messages, rather more than fewer."""
    return sum(WRAPPING + sum(map(_of_block, message["content"])) for message in messages)


def estimate_request(definition: Definition, messages: Sequence[Message]) -> int:
    """Tokens of a whole request: tools, instructions, messages."""
    tools = sum(estimate_json(tool.model_dump(mode="json", exclude={"declares"})) for tool in definition.tools)
    return tools + _of_text(definition.instructions) + estimate(messages)


def estimate_json(value: Any) -> int:
    """Tokens of a JSON value."""
    return ceil(len(json.dumps(value, ensure_ascii=False).encode(errors="replace")) / JSON_BYTES)


def _of_block(block: dict[str, Any]) -> int:
    match block:
        case {"type": "text", "text": str(text)}:
            return _of_text(text)
        case {"type": "tool_result", "content": list(parts)}:
            return WRAPPING + sum(map(_of_block, parts))
        case _:
            return estimate_json(block)


def _of_text(text: str) -> int:
    rate = JSON_BYTES if text.lstrip()[:1] in ("{", "[") else PROSE_BYTES
    return ceil(len(text.encode(errors="replace")) / rate)


def _reached(limits: Limits, used: Used) -> Bound | None:
    """The limit of steps or of time, if there is no room for one more call in it."""
    if limits.steps is not None and used.steps >= limits.steps:
        return Bound(limit="steps", used=used.steps, most=limits.steps)
    if limits.seconds is not None and used.seconds >= limits.seconds:
        return Bound(limit="seconds", used=used.seconds, most=limits.seconds)
    return None


def _rooms(limits: Limits, used: Used, wanted: Wanted, price: Price | None) -> dict[Name, int]:
    """For each limit of tokens or dollars, the tokens of the answer that it leaves room for."""
    rooms: dict[Name, int] = {}
    if limits.tokens is not None:
        rooms["tokens"] = limits.tokens - used.tokens - wanted.input_tokens
    if limits.usd is not None:
        # What is not known is not 0: there is no room.
        rooms["usd"] = 0
        if price is not None and used.usd is not None:
            asked = price.most(wanted.usage(0))
            left, token = Decimal(str(limits.usd)) - used.usd - asked, price.most(wanted.usage(1)) - asked
            rooms["usd"] = int(left / token) if token else wanted.max_tokens
    return rooms


def _most_lost(limits: Limits, used: Used, one: Usage, price: Price | None) -> int:
    """How many attempts beside the reserved one still fit."""
    fit = [MOST_LOST]
    if limits.tokens is not None:
        fit.append((limits.tokens - used.tokens) // max(one.total, 1) - 1)
    if limits.usd is not None and used.usd is not None and (cost := price.most(one) if price else 0):
        fit.append(int((Decimal(str(limits.usd)) - used.usd) / cost) - 1)
    return max(0, min(fit))


def _bound(name: Name, limits: Limits, used: Used, wanted: Wanted, price: Price | None) -> Bound:
    whole = wanted.usage(wanted.max_tokens)
    if name == "tokens":
        return Bound(limit=name, used=used.tokens, most=limits.tokens or 0, needs=whole.total, lost=used.lost)
    cost = float(price.most(whole)) if price else 0.0
    spent = None if used.usd is None else float(used.usd)
    return Bound(limit=name, used=spent, most=limits.usd or 0, needs=cost, lost=used.lost)


def _said(name: Name, amount: float) -> str:
    return f"{amount:,.0f}" if name in ("steps", "tokens") else f"{round(amount, 4):g}"
