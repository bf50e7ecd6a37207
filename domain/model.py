"""The model call: what names it, and what comes back."""

from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from domain.spend import Usage

MAX_ANSWER_BYTES = 1_000_000

# A part of an answer, told to whoever watches while it comes; `type` says what it is.
Event = dict[str, Any]


class Attempt(NamedTuple):
    """One sending of one ask of one step."""

    step: int
    ask: int
    attempt: int


class ModelCall(BaseModel):
    """Input of `call_model`: the transcript by reference, never the messages themselves.

    epoch rises with each compaction; the first `length` messages of that epoch, chained after the definition,
    have the sha256 `digest`. most_lost: how many attempts may be lost until the run's budget has no room for another.
    """

    model_config = ConfigDict(frozen=True)

    step: int
    ask: int
    epoch: int
    length: int
    digest: str
    max_tokens: int
    most_lost: int | None = None


class ModelAnswer(BaseModel):
    """One accepted answer. `content` holds the blocks exactly as they came over the wire, but for blank texts.

    possibly_paid: attempts before this one that were sent and not answered, with the usage they had reached.
    """

    model_config = ConfigDict(frozen=True)

    content: list[dict[str, Any]]
    stop_reason: str
    stop_details: dict[str, Any] | None = None
    usage: Usage
    model: str
    message_id: str | None = None
    attempts: int = 1
    possibly_paid: list[Usage] = []
    from_ledger: bool = False

    def blocks(self, kind: str) -> list[dict[str, Any]]:
        """The blocks of one type, in order."""
        return [block for block in self.content if block.get("type") == kind]

    @property
    def text(self) -> str:
        """All text of the answer."""
        return "\n\n".join(block["text"] for block in self.blocks("text") if block.get("text"))
