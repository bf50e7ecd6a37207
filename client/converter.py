"""The data converter: pydantic JSON, and whatever cannot be decoded becomes a marked value instead of an error.

One signal that cannot be decoded would otherwise be dropped without a trace, one such input retried for ever.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import DataConverter

EXCERPT_BYTES = 100


class TolerantPayloadConverter(PydanticPayloadConverter):
    """Strict where a type is asked for, tolerant where anything may come."""

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """Decode each payload by itself."""
        hints: list[type | None] = list(type_hints) if type_hints else [None] * len(payloads)
        return [self._one(payload, hint) for payload, hint in zip(payloads, hints, strict=False)]

    def _one(self, payload: Payload, hint: type | None) -> Any:
        try:
            return super().from_payloads([payload], [hint] if hint else None)[0]
        except Exception:
            if hint not in (None, Any):
                raise
            return undecodable(payload)


def undecodable(payload: Payload) -> dict[str, Any]:
    """What is left of a payload that cannot be decoded: enough to recognise it by."""
    return {
        "undecodable": payload.metadata.get("encoding", b"").decode(errors="replace"),
        "sha256": hashlib.sha256(payload.data).hexdigest(),
        "excerpt": payload.data[:EXCERPT_BYTES].decode(errors="replace"),
    }


CONVERTER = DataConverter(payload_converter_class=TolerantPayloadConverter)
