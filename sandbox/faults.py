"""The faults that an answer can meet, and what each makes of the stream of events."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sandbox.errors import ApiError, BadScript, status_of
from sandbox.sse import Event, event

FOR_EVER = 86_400.0


class _Fault(BaseModel):
    model_config = ConfigDict(extra="forbid")

    attempts: list[int] | Literal["all"] = [1]
    asks: list[int] | None = None
    turn: int | None = None
    match: str | None = None
    longer_than: int | None = None


class Status(_Fault):
    """An error status instead of an answer."""

    kind: Literal["status"]
    status: int = Field(ge=400, le=599)
    error_type: str | None = None
    error_code: str | None = None
    message: str | None = None
    headers: dict[str, str] = {}

    def error(self) -> ApiError:
        """The error to answer with."""
        message = self.message or f"The sandbox was told to answer {self.status}."
        return ApiError(self.status, message, kind=self.error_type, code=self.error_code, headers=self.headers)


class ErrorEvent(_Fault):
    """An `error` event in a stream that began with status 200."""

    kind: Literal["error_event"]
    error_type: str = "overloaded_error"
    error_code: str | None = None
    message: str = "The sandbox was told to break this stream."
    after: int | str = "message_start"

    def error(self) -> ApiError:
        """The error that the event carries; also the answer to a request that is not streamed."""
        return ApiError(status_of(self.error_type), self.message, kind=self.error_type, code=self.error_code)


class Cut(_Fault):
    """The connection ends too early: in order (`clean`), by a reset, or just closed (`reset: false`)."""

    kind: Literal["cut"]
    after_bytes: int | None = Field(None, ge=0)
    after_event: int | str | None = None
    clean: bool = False
    reset: bool = True


class Silence(_Fault):
    """Nothing comes for a while, but pings if wanted; then the answer goes on."""

    kind: Literal["silence"]
    seconds: float = Field(FOR_EVER, ge=0)
    pings: bool = False
    ping_every: float = Field(1.0, gt=0)
    at: Literal["before_headers", "message_start", "content"] = "message_start"


class Slow(_Fault):
    """The whole answer comes, spread over a time."""

    kind: Literal["slow"]
    seconds: float = Field(ge=0)


class Html(_Fault):
    """A proxy's page instead of an answer."""

    kind: Literal["html"]
    status: int = 200
    body: str = "<html><body><h1>Sandbox: a proxy's page</h1></body></html>"


class BrokenJson(_Fault):
    """JSON that does not parse: the body, or one event of a stream."""

    kind: Literal["broken_json"]


class BrokenToolJson(_Fault):
    """A well-formed stream in which the arguments of the first tool call are no JSON."""

    kind: Literal["broken_tool_json"]


class Body(_Fault):
    """Any JSON with any status, where an answer is expected."""

    kind: Literal["body"]
    status: int = 200
    body: Any


Fault = Annotated[
    Status | ErrorEvent | Cut | Silence | Slow | Html | BrokenJson | BrokenToolJson | Body, Field(discriminator="kind")
]
_list: TypeAdapter[list[Fault]] = TypeAdapter(list[Fault])


@dataclass(slots=True, frozen=True)
class Pause:
    """Wait, sending pings if wanted."""

    seconds: float
    pings: bool = False
    ping_every: float = 1.0


@dataclass(slots=True, frozen=True)
class Stop:
    """End here: in order, closed without an end, or reset."""

    how: Literal["end", "close", "reset"]


Move = bytes | Pause | Stop


def read(raw: Any) -> list[Fault]:
    """Faults from JSON; `BadScript` names the place of a mistake."""
    try:
        return _list.validate_python(raw)
    except ValidationError as error:
        raise BadScript(place(error)) from None


def place(error: ValidationError) -> str:
    """Where the first mistake is and what it is."""
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in first['loc']) or 'top'}: {first['msg']}"


def pick(faults: list[Fault], *, attempt: int, ask: int, turn: int, text: str, messages: int = 0) -> Fault | None:
    """The first fault that is meant for this attempt."""
    for fault in faults:
        wanted = fault.attempts == "all" or attempt in fault.attempts
        asked = fault.asks is None or ask in fault.asks
        here = fault.turn in (None, turn) and (fault.match is None or fault.match in text)
        long = fault.longer_than is None or messages > fault.longer_than
        if wanted and asked and here and long:
            return fault
    return None


def plan(events: list[Event], fault: Fault | None) -> Iterator[Move]:
    """The moves by which a stream goes out under a fault; without one it is a single write."""
    match fault:
        case ErrorEvent():
            yield _joined(events[: _count(events, fault.after)]) + event("error", fault.error().body("")).data
            yield Stop("end")
        case Cut():
            yield _cut(events, fault)
            yield Stop(_how(fault))
        case Silence():
            reached = {"before_headers": 0, "message_start": 1, "content": _count(events, "content_block_delta")}
            yield _joined(events[: reached[fault.at]])
            yield Pause(fault.seconds, fault.pings and fault.at != "before_headers", fault.ping_every)
            yield _joined(events[reached[fault.at] :])
        case Slow():
            for each in events:
                yield each.data
                yield Pause(fault.seconds / len(events))
        case BrokenJson():
            yield events[0].data + b'event: content_block_start\ndata: {"type": "content_block_start", "ind\n\n'
            yield Stop("end")
        case BrokenToolJson():
            yield _joined(list(_broken_arguments(events)))
        case _:
            yield _joined(events)


def plan_body(body: bytes, fault: Fault | None) -> Iterator[Move]:
    """The moves by which a body that is not streamed goes out under a fault."""
    match fault:
        case Cut():
            reached = fault.after_bytes if fault.after_bytes is not None else len(body) // 2
            yield body[:reached]
            yield Stop(_how(fault))
        case Silence() | Slow():
            yield Pause(fault.seconds)
            yield body
        case BrokenJson():
            yield body[: len(body) // 2]
        case _:
            yield body


def _cut(events: list[Event], fault: Cut) -> bytes:
    if fault.after_bytes is not None:
        return _joined(events)[: fault.after_bytes]
    return _joined(events[: _count(events, fault.after_event if fault.after_event is not None else 1)])


def _how(fault: Cut) -> Literal["end", "close", "reset"]:
    if fault.clean:
        return "end"
    return "reset" if fault.reset else "close"


def _count(events: list[Event], after: int | str) -> int:
    """How many events come up to and with the one named."""
    if isinstance(after, int):
        return after
    return next((at for at, each in enumerate(events, start=1) if each.name == after), len(events))


def _broken_arguments(events: list[Event]) -> Iterator[Event]:
    broken = False
    for each in events:
        if not broken and b'"input_json_delta"' in each.data and b'"partial_json":""' not in each.data:
            broken = True
            delta = {"type": "input_json_delta", "partial_json": '{"broken" tru]'}
            yield event("content_block_delta", {"type": "content_block_delta", "index": each.block, "delta": delta})
        else:
            yield each


def _joined(events: list[Event]) -> bytes:
    return b"".join(each.data for each in events)
