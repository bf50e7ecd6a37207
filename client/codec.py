"""The payload codec: what goes into histories is sealed, and what comes from them is opened, where its key is here."""

from collections.abc import Iterable, Sequence

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import PayloadCodec

from domain import errors
from store import seal
from store.seal import Seal

ENCODING = b"binary/encrypted"
# Metadata under such a name says how a payload is kept, and holds nothing of it: it stays in clear.
OURS = "dayflow-"


class SealingCodec(PayloadCodec):
    """Seals each payload whole, its metadata too. It never raises: what it cannot open stays as it came.

    missed: the id of a key that was wanted and is not here.
    """

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self.missed: str | None = None

    def again(self) -> "SealingCodec":
        """One that has missed nothing yet."""
        return SealingCodec(self._seal)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Each payload sealed; as it is where there is no key."""
        return [self._shut(payload) for payload in payloads] if self._seal.on else list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Each payload opened; one from before encryption, and one that cannot be opened, as it is."""
        return [self._opened(payload) if is_sealed(payload) else payload for payload in payloads]

    def check(self, events: Iterable[HistoryEvent]) -> None:
        """`errors.MissingKey` where a run's own input, result or failure wants a key that is not here.

        Messages may be junk.
        """
        for event in events:
            for payload in (
                *event.workflow_execution_started_event_attributes.input.payloads,
                *event.activity_task_completed_event_attributes.result.payloads,
                event.activity_task_failed_event_attributes.failure.encoded_attributes,
            ):
                if (wanted := key_of(payload)) is not None and wanted not in self._seal.ids:
                    raise errors.MissingKey(wanted)

    def _shut(self, payload: Payload) -> Payload:
        kept = {name: value for name, value in payload.metadata.items() if name.startswith(OURS)}
        return Payload(metadata={**kept, "encoding": ENCODING}, data=self._seal.seal(payload.SerializeToString()))

    def _opened(self, payload: Payload) -> Payload:
        try:
            return Payload.FromString(self._seal.open(payload.data))
        except errors.MissingKey as error:
            self.missed = error.key_id
        except (errors.NotSealed, DecodeError):
            pass
        return payload


def is_sealed(payload: Payload) -> bool:
    """Whether it says that it is sealed."""
    return payload.metadata.get("encoding") == ENCODING


def key_of(payload: Payload) -> str | None:
    """The id of the key that a payload wants; None for one that is not sealed."""
    return seal.key_of(payload.data) if is_sealed(payload) else None
