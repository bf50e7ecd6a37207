"""Signature: the exact bytes that an approver signs, so that a signature fits one decision and no other."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal

from domain import digest

# Changes with the fields below: bytes of one form never read as those of another.
FORM = b"dayflow decision 1\n"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a signed decision says.

    arguments_sha256: the whole digest of the arguments that are decided about; of an edit, that of the new ones; of a
    raise, that of the limits.
    expires_at: has to know its zone; equal moments in other zones are signed alike.
    """

    namespace: str
    first_execution_run_id: str
    action_id: str
    arguments_sha256: str
    verdict: Literal["approve", "deny", "edit", "raise_budget"]
    approver: str
    decision_id: str | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        """A moment without a zone would mean another one on another machine."""
        if self.expires_at is not None and self.expires_at.utcoffset() is None:
            raise ValueError(f"expires_at {self.expires_at.isoformat()!r} has no time zone")

    @property
    def signed(self) -> bytes:
        """The bytes to sign."""
        facts = asdict(self)
        if self.expires_at is not None:
            facts["expires_at"] = self.expires_at.astimezone(UTC).isoformat(timespec="microseconds")
        return FORM + digest.canonical(facts)
