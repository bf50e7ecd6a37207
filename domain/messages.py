"""Signals as people send them: parsed here, so that none can harm a run; of those that cannot be used a trace stays."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from domain import characters, digest, errors, request
from domain.agent import Limits
from domain.request import Name, explain, undecodable

MAX_MESSAGE = 20_000
KEPT_BAD_MESSAGES = 100
KEPT_CHARACTERS = 200


class Signal(BaseModel):
    """Base of all signals: one JSON object, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Pause(Signal):
    """`pause {by}`: stand still at the next step boundary."""

    by: Name


class Resume(Signal):
    """`resume {by}`: go on."""

    by: Name


class Message(Signal):
    """`message {text, from}`: words for the model, heard at the next step boundary."""

    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_MESSAGE)]
    sender: Annotated[Name, Field(alias="from")]


class RaiseBudget(Signal):
    """`raise_budget {by, tokens?, usd?, steps?, seconds?, signature?}`: the new limits of the whole run."""

    by: Name
    tokens: Annotated[int, Field(gt=0)] | None = None
    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    steps: Annotated[int, Field(gt=0)] | None = None
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    signature: Annotated[str, StringConstraints(max_length=200)] | None = None

    @property
    def limits(self) -> Limits:
        """Those that are named."""
        return Limits(tokens=self.tokens, usd=self.usd, steps=self.steps, seconds=self.seconds)


def not_one_object(raw: Sequence[Any]) -> str:
    """What is wrong with inputs that are not one JSON object."""
    got = f"one {request.kind(raw[0])}" if len(raw) == 1 else f"{len(raw)} inputs"
    return f"takes exactly one JSON object, got {got}"


S = TypeVar("S", bound=BaseModel)


def parse(kind: type[S], raw: Sequence[Any]) -> S:
    """One signal from the raw inputs; `errors.BadRequest` says what is wrong with them."""
    if len(raw) != 1 or not isinstance(raw[0], dict):
        raise errors.BadRequest(not_one_object(raw))
    if why := undecodable(raw[0]):
        raise errors.BadRequest(f"{why}; send JSON")
    try:
        read = kind.model_validate_json(json.dumps(raw[0]))
    except ValidationError as error:
        raise errors.BadRequest(explain(error)) from None
    if characters.refused(raw[0]):
        raise errors.BadRequest(request.NO_NUL)
    return read


class BadMessage(BaseModel):
    """A message that could not be used: its beginning, and the sha256 of all of it."""

    name: str
    why: str
    excerpt: str
    sha256: str
    at: datetime


class BadMessages(BaseModel):
    """The last bad messages; `count` says how many there were."""

    count: int = 0
    last: list[BadMessage] = []

    def add(self, name: str, raw: Any, why: str, now: datetime) -> None:
        """Keep the beginning and the digest of one bad message."""
        text = digest.canonical(raw).decode("ascii")
        entry = BadMessage(
            name=name[:KEPT_CHARACTERS],
            why=why[:KEPT_CHARACTERS],
            excerpt=text[:KEPT_CHARACTERS],
            sha256=digest.sha256(raw),
            at=now,
        )
        self.count += 1
        self.last = [*self.last, entry][-KEPT_BAD_MESSAGES:]
