"""The faults that the mail servers of the sandbox can meet, each for so many times."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sandbox.errors import BadScript
from sandbox.faults import place

Where = Literal["auth", "mail", "rcpt", "data"]


class _Fault(BaseModel):
    """times: how often it happens, counted down; or `all`."""

    model_config = ConfigDict(extra="forbid")

    times: Annotated[int, Field(ge=1)] | Literal["all"] = 1


class Refuse(_Fault):
    """The SMTP connection is reset before the server says a word."""

    kind: Literal["refuse"]


class Status(_Fault):
    """A 4xx or 5xx. at `data`: after the whole message, which is not accepted then."""

    kind: Literal["status"]
    code: int = Field(ge=400, le=599)
    at: Where = "rcpt"
    message: str = Field("The sandbox was told to refuse this.", pattern=r"^[\x20-\x7e]+$", max_length=400)


class Drop(_Fault):
    """The connection is cut after the whole message, before the answer; the mail is delivered, or lost."""

    kind: Literal["drop"]
    delivered: bool = True


class SentDelay(_Fault):
    """The copy in Sent comes later. Copies are filed in order: those of later mails wait for it."""

    kind: Literal["sent_delay"]
    seconds: float = Field(ge=0)


class NoSent(_Fault):
    """No copy is put into Sent, as with servers that leave that to the sender."""

    kind: Literal["no_sent"]


class ImapDown(_Fault):
    """The IMAP connection is reset before the server says a word."""

    kind: Literal["imap_down"]


Fault = Annotated[Refuse | Status | Drop | SentDelay | NoSent | ImapDown, Field(discriminator="kind")]
T = TypeVar("T", bound=_Fault)
_list: TypeAdapter[list[Fault]] = TypeAdapter(list[Fault])


class Faults:
    """What is still to go wrong."""

    def __init__(self) -> None:
        self._all: list[Any] = []

    def set(self, faults: list[Fault]) -> None:
        """Meet these from now on, and no others."""
        self._all = list(faults)

    def take(self, kind: type[T]) -> T | None:
        """The next fault of this kind, if there is one; it is used up by that."""
        return self._use(next((fault for fault in self._all if isinstance(fault, kind)), None))

    def status(self, at: Where) -> str | None:
        """The line to answer with at this point, if it goes wrong."""
        fault = next((one for one in self._all if isinstance(one, Status) and one.at == at), None)
        self._use(fault)
        return f"{fault.code} {fault.message}" if fault else None

    def _use(self, fault: T | None) -> T | None:
        if fault is not None and fault.times != "all":
            fault.times -= 1
            if not fault.times:
                self._all.remove(fault)
        return fault


def read(raw: Any) -> list[Fault]:
    """Faults from JSON; `BadScript` names the place of a mistake."""
    try:
        return _list.validate_python(raw)
    except ValidationError as error:
        raise BadScript(place(error)) from None
