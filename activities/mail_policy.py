"""How far the email package may go with one message: its parsers take quadratic time over long headers."""

from email.message import EmailMessage, Message
from email.policy import Compat32, EmailPolicy, Policy
from typing import Any

HEADER_READ = 8_000
CONTENT_HEADER_READ = 1_000
PARTS_READ = 200


class TooManyParts(Exception):
    """The message has more parts than are read."""


class _Bounded:
    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """A header as it stands, clipped before anything looks at it."""
        name, value = super().header_source_parse(sourcelines)  # type: ignore[misc]
        return name, value[: CONTENT_HEADER_READ if name.lower().startswith("content-") else HEADER_READ]


class _Modern(_Bounded, EmailPolicy):
    """`policy.default`, bounded."""


class _Old(_Bounded, Compat32):
    """`policy.compat32`, bounded."""


def policies() -> "list[Policy[Any]]":
    """The ways to read one message, best first: the old one reads headers that the new one's parser fails on."""
    return [_Modern(message_factory=_counted(EmailMessage)), _Old(message_factory=_counted(Message))]


def _counted(make: Any) -> Any:
    """`make` for the parts of one message, which must not be too many."""
    left = PARTS_READ

    def part(policy: "Policy[Any]") -> "Message[Any, Any]":
        nonlocal left
        left -= 1
        if left < 0:
            raise TooManyParts(f"more than {PARTS_READ} parts")
        made: Message[Any, Any] = make(policy)
        return made

    return part
