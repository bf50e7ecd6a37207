"""The data converter: pydantic JSON, and whatever cannot be decoded becomes a marked value instead of an error.

One signal that cannot be decoded would otherwise be dropped without a trace, one such input retried for ever.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import DataConverter, DefaultFailureConverter, PayloadConverter, StorageDriverStoreContext

from client import codec
from client.codec import SealingCodec
from domain import errors
from store import payloads
from store.settings import Settings

EXCERPT_BYTES = 100
# Of a failure that is tried again the server shows 4 KB, and of a larger one nothing at all.
TRACE_CHARACTERS = 1_500


# What was learnt about a type is kept in these.
_PARTS = tuple(PydanticPayloadConverter().converters.values())


class TolerantPayloadConverter(PydanticPayloadConverter):
    """Strict where a type is asked for, tolerant where anything may come.

    The SDK makes one for each task; their parts are made once.
    """

    def __init__(self) -> None:
        super(PydanticPayloadConverter, self).__init__(*_PARTS)

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """Decode them; where one cannot be, each by itself."""
        try:
            return super().from_payloads(payloads, type_hints)
        except Exception:
            hints: list[type | None] = list(type_hints) if type_hints else [None] * len(payloads)
            return [self._one(payload, hint) for payload, hint in zip(payloads, hints, strict=False)]

    def _one(self, payload: Payload, hint: type | None) -> Any:
        try:
            return super().from_payloads([payload], [hint] if hint else None)[0]
        except Exception:
            if hint in (None, Any):
                return undecodable(payload)
            if key := codec.key_of(payload):
                raise errors.MissingKey(key) from None
            raise


class BriefFailureConverter(DefaultFailureConverter):
    """A failure keeps its words and the end of its trace; the worker's log has the whole."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Encode."""
        super().to_failure(exception, payload_converter, failure)
        failure.stack_trace = failure.stack_trace[-TRACE_CHARACTERS:]


def undecodable(payload: Payload) -> dict[str, Any]:
    """What is left of a payload that cannot be decoded: enough to recognise it by."""
    key = codec.key_of(payload)
    return {
        "undecodable": payload.metadata.get("encoding", b"").decode(errors="replace"),
        "sha256": hashlib.sha256(payload.data).hexdigest(),
        "excerpt": payload.data[:EXCERPT_BYTES].decode(errors="replace"),
        **({"key": key} if key else {}),
    }


class SealedFailureConverter(BriefFailureConverter):
    """The same, with words and trace where the codec seals them."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Encode; what is behind the exception comes by here, too."""
        super().to_failure(exception, payload_converter, failure)
        said = {"message": failure.message, "stack_trace": failure.stack_trace}
        failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([said])[0])
        failure.message, failure.stack_trace = "Encoded failure", ""


class HomeDataConverter(DataConverter):
    """One for all that a home stores elsewhere: its drivers name payloads by their content alone.

    The SDK would make a new one for each payload, to tell the driver whose it is.
    """

    def _with_store_context(self, store_ctx: StorageDriverStoreContext) -> DataConverter:
        return self


# What a home adds to it is in `converter`.
CONVERTER = HomeDataConverter(
    payload_converter_class=TolerantPayloadConverter, failure_converter_class=BriefFailureConverter
)


def converter(settings: Settings) -> DataConverter:
    """The data converter of a home: what every client and every worker of it uses.

    Without keys too it knows what is encrypted, and says which key that wants.
    """
    seal = settings.seal
    return dataclasses.replace(
        CONVERTER,
        payload_codec=SealingCodec(seal),
        failure_converter_class=SealedFailureConverter if seal.on else BriefFailureConverter,
        external_storage=payloads.storage(settings),
    )
