"""The idempotency keys that the provider remembers, each with its parameters and its first answer."""

from dataclasses import dataclass, field
from typing import Any

from sandbox.payments import errors

LIFETIME_SECONDS = 24 * 3600.0
LONGEST = 255


@dataclass(frozen=True)
class Answer:
    """A status and a body, and the id of the request that they were first given to."""

    status: int
    body: dict[str, Any]
    request_id: str
    headers: dict[str, str] = field(default_factory=dict)
    replayed: bool = False


def refused(error: errors.ApiError, request_id: str) -> Answer:
    """An error as an answer."""
    return Answer(error.status, error.body(), request_id, error.headers)


@dataclass
class Record:
    """One key; without an answer its request is still going on."""

    fingerprint: str
    at: float
    answer: Answer | None = None


class Keys:
    """Every key that has not been pruned."""

    def __init__(self) -> None:
        self.lifetime = LIFETIME_SECONDS
        self._records: dict[str, Record] = {}

    def find(self, key: str, fingerprint: str, now: float) -> Answer | None:
        """The answer that this key has had; refused if it was used otherwise or is being used."""
        record = self._records.get(key)
        if record is None or (record.answer and now - record.at >= self.lifetime):
            return None
        if record.fingerprint != fingerprint:
            raise errors.reused(key)
        if record.answer is None:
            raise errors.in_use(key)
        return record.answer

    def begin(self, key: str, fingerprint: str, now: float) -> None:
        """The key is in use from now on."""
        self._records[key] = Record(fingerprint, now)

    def end(self, key: str, answer: Answer) -> None:
        """The key has its answer."""
        self._records[key].answer = answer

    def forget(self, key: str) -> None:
        """The key was not used after all."""
        del self._records[key]

    def restore(self, key: str, record: Record) -> None:
        """A record of an earlier process."""
        self._records[key] = record
