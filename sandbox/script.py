"""A scripted conversation: the transcript chooses which turn answers it, not the order of arrival."""

import json
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, model_validator

from sandbox import faults
from sandbox.errors import BadScript
from sandbox.request import Request
from sandbox.turns import Turn, say


class Conversation(BaseModel):
    """The turns for every request whose first user message contains `match`."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    match: str | None = None
    turn_by: Literal["transcript", "step"] = "transcript"
    turns: list[Turn]
    _ends: list[int] = PrivateAttr(default_factory=list)

    @model_validator(mode="after")
    def _spread(self) -> Self:
        self._ends = list(accumulate(self.turns, _end_of, initial=0))[1:]
        return self

    def plays(self, asked: Request) -> bool:
        """Whether this conversation is meant for the request."""
        return self.match is None or self.match in asked.first_text

    def turn(self, asked: Request) -> Turn:
        """The turn at the request's place; beyond the last one, a text that says so."""
        index = asked.step if self.turn_by == "step" else asked.turn
        at = bisect_right(self._ends, index)
        if at == len(self.turns):
            total = self._ends[-1] if self._ends else 0
            return say(f"The sandbox's script is over: it has {total} turns, and this would be turn {index + 1}.")
        turn = self.turns[at].asked(asked.ask)
        return turn.model_copy(update={"content": _numbered(turn.content, str(index + 1))})


class Script(BaseModel):
    """Conversations, of which the first that matches plays."""

    model_config = ConfigDict(extra="forbid")

    conversations: list[Conversation]

    def conversation(self, asked: Request) -> Conversation | None:
        """The conversation that plays for a request."""
        return next((each for each in self.conversations if each.plays(asked)), None)


def read(raw: Any) -> Script:
    """A script from JSON: `{"conversations": [...]}`, or one conversation alone."""
    if isinstance(raw, dict) and "turns" in raw:
        raw = {"conversations": [raw]}
    try:
        return Script.model_validate(raw)
    except ValidationError as error:
        raise BadScript(faults.place(error)) from None


def load(path: Path) -> Script:
    """A script from a file; `BadScript` names the file and the place."""
    try:
        return read(json.loads(path.read_bytes()))
    except OSError as error:
        raise BadScript(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise BadScript(f"{path}: no JSON: {error}") from None
    except BadScript as error:
        raise BadScript(f"{path}: {error}") from None


def _end_of(before: Any, turn: Any) -> Any:
    return max(before, turn.until) if turn.until else before + (turn.repeat or 1)


def _numbered(value: Any, number: str) -> Any:
    """A copy with `{n}` replaced in every string."""
    match value:
        case str():
            return value.replace("{n}", number)
        case list():
            return [_numbered(each, number) for each in value]
        case dict():
            return {key: _numbered(each, number) for key, each in value.items()}
        case _:
            return value
