"""Payloads that are too large for a history: kept as blobs, with a reference in their place.

Another place for them is another `StorageDriver` in a file of its own, named in `storage`; this one stays there for
as long as a history refers to it.
"""

import asyncio
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from google.protobuf.message import Message
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1.external_storage_pb2 import ExternalStorageReference
from temporalio.common import RawValue
from temporalio.converter import (
    ExternalStorage,
    JSONProtoPayloadConverter,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
)
from temporalio.worker import HandleQueryInput, Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from domain import errors
from store.blobs import Blobs
from store.settings import Settings

SHA256 = "sha256"
# What our own drivers are called; a reference to any other is somebody else's.
OURS = "dayflow"
# Metadata of a payload that is never kept outside, because no history ever holds it.
ANSWER = "dayflow-answer"

_REFERENCE = ExternalStorageReference.DESCRIPTOR.full_name.encode()
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Files(StorageDriver):
    """Payloads as blobs in a folder, each named by its content: what is stored twice is there once."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def name(self) -> str:
        """Stands in every reference."""
        return f"{OURS}-files"

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> "list[StorageDriverClaim]":
        """Write each payload before anything refers to it."""
        return [await asyncio.to_thread(self._put, payload) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> "list[Payload]":
        """The payloads, exactly as they were stored; else `errors.Lost`."""
        return [await asyncio.to_thread(self._get, claim) for claim in claims]

    def _put(self, payload: Payload) -> StorageDriverClaim:
        return StorageDriverClaim({SHA256: self._blobs.put(payload.SerializeToString(deterministic=True))})

    def _get(self, claim: StorageDriverClaim) -> Payload:
        return Payload.FromString(self._blobs.get(claim.claim_data[SHA256]))


class Storage(ExternalStorage):
    """The SDK's, but what only looks like a reference is junk as any other, and does not stop a run for ever."""

    def _decode_reference(self, payload: Payload) -> ExternalStorageReference | None:
        return reference(payload)


def storage(settings: Settings) -> ExternalStorage:
    """Where the payloads of a home go."""
    files = Files(Blobs(settings.blobs))

    def select(context: StorageDriverSelectContext, payload: Payload) -> StorageDriver | None:
        # The mark goes no further: Temporal's command prints no value that has metadata which it does not know.
        answers = payload.metadata.pop(ANSWER, None)
        return None if answers or payload.ByteSize() < settings.payload_bytes else files

    return Storage(drivers=[files], driver_selector=select, payload_size_threshold=0)


def read_only(storage: ExternalStorage) -> ExternalStorage:
    """The same, but nothing is stored by it."""
    return dataclasses.replace(storage, driver_selector=lambda context, payload: None)


def reference(payload: Payload) -> ExternalStorageReference | None:
    """What a payload refers to, if it is one of our references."""
    if payload.metadata.get("messageType") != _REFERENCE:
        return None
    try:
        found = JSONProtoPayloadConverter().from_payload(payload)
    except Exception:
        return None
    ours = isinstance(found, ExternalStorageReference) and found.driver_name.startswith(OURS)
    return found if ours and _SHA256.fullmatch(found.claim_data[SHA256]) else None


def references(messages: Iterable[Message]) -> Iterator[ExternalStorageReference]:
    """All references in messages of the server's, such as the events of a history or the memo of a run."""
    for message in messages:
        if _REFERENCE in message.SerializeToString():
            yield from filter(None, map(reference, within(message)))


async def check(storage: ExternalStorage, messages: Iterable[Message]) -> None:
    """`errors.Lost` if anything that these messages refer to is missing or altered."""
    drivers = {driver.name(): driver for driver in storage.drivers}
    for found in references(messages):
        driver = drivers.get(found.driver_name)
        if driver is None:
            raise errors.Lost(found.claim_data[SHA256], f"is kept by {found.driver_name!r}, which is not set up here")
        await driver.retrieve(StorageDriverRetrieveContext(), [StorageDriverClaim(dict(found.claim_data))])


def within(message: Message) -> Iterator[Payload]:
    """All payloads in a message, however deep."""
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            values = value.values() if isinstance(value, Mapping) else [value] if isinstance(value, Message) else value
            for one in values:
                if isinstance(one, Message):
                    yield from within(one)


class Answers(Interceptor):
    """Marks the answers of queries: whoever asks gets them whole, and nothing is kept of them."""

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        """Stand before each query."""
        return _Marking


class _Marking(WorkflowInboundInterceptor):
    async def handle_query(self, input: HandleQueryInput) -> RawValue:
        answer = workflow.payload_converter().to_payload(await super().handle_query(input))
        answer.metadata[ANSWER] = b"true"
        return RawValue(answer)
