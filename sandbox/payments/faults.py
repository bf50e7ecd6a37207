"""The faults that a request for a payment object can meet, and when each of them happens."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sandbox.errors import BadScript
from sandbox.faults import place
from sandbox.payments.errors import ApiError, in_use

Stage = Literal["arrival", "execution", "answer"]
Subject = Literal["refund", "read"]
KINDS = {400: "invalid_request_error", 402: "card_error", 404: "invalid_request_error"}


class _Fault(BaseModel):
    """times: how many requests still meet it. on: which ones. match: only with this in the charge or the key."""

    model_config = ConfigDict(extra="forbid")

    times: Annotated[int, Field(ge=0)] | Literal["all"] = 1
    on: Subject | Literal["any"] = "refund"
    match: str | None = None


class Status(_Fault):
    """An error before anything is executed; nothing is remembered under the key."""

    kind: Literal["status"]
    status: int = Field(ge=400, le=599)
    type: str | None = None
    code: str | None = None
    message: str = "The sandbox was told to answer this."
    headers: dict[str, str] = {}

    def error(self) -> ApiError:
        """The error to answer with."""
        kind = self.type or KINDS.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")
        return ApiError(self.status, self.message, kind=kind, code=self.code, headers=self.headers)


class InUse(_Fault):
    """As if another request with the same key were going on."""

    kind: Literal["in_use"]

    def error(self) -> ApiError:
        """The error to answer with."""
        return in_use("(told so)")


class Late(_Fault):
    """The refund is committed after so many seconds, whether or not the client still waits."""

    kind: Literal["late"]
    seconds: float = Field(ge=0)


class Stored(_Fault):
    """An error that is remembered under the key, with the refund made or not."""

    kind: Literal["stored"]
    status: int = Field(500, ge=400, le=599)
    type: str = "api_error"
    code: str | None = None
    message: str = "The sandbox was told to fail while it executed this."
    commit: bool = False

    def error(self) -> ApiError:
        """The error to answer with, now and when the key comes again: the provider says so in a header."""
        headers = {"Stripe-Should-Retry": "false"}
        return ApiError(self.status, self.message, kind=self.type, code=self.code, headers=headers)


class Drop(_Fault):
    """The connection ends without an answer: before anything is executed, or after it was committed."""

    kind: Literal["drop"]
    when: Literal["before_commit", "after_commit"] = "after_commit"
    reset: bool = True


class Cut(_Fault):
    """The connection ends in the middle of the answer."""

    kind: Literal["cut"]


class Slow(_Fault):
    """The answer waits for so many seconds; what was asked for is done at once."""

    kind: Literal["slow"]
    seconds: float = Field(ge=0)


class Page(_Fault):
    """A proxy's page instead of the answer."""

    kind: Literal["page"]
    status: int = Field(502, ge=200, le=599)
    body: str = "<html><body><h1>Sandbox: a proxy's page</h1></body></html>"
    content_type: str = "text/html"
    when: Literal["before_commit", "after_commit"] = "after_commit"


Fault = Annotated[Status | InUse | Late | Stored | Drop | Cut | Slow | Page, Field(discriminator="kind")]
_list: TypeAdapter[list[Fault]] = TypeAdapter(list[Fault])


@dataclass
class Faults:
    """The faults that are set, and how often each still happens."""

    listed: list[Fault] = field(default_factory=list)

    def take(self, stage: Stage, subject: Subject, words: str) -> Fault | None:
        """The first fault that is meant for this moment of this request; it counts as met."""
        for fault in self.listed:
            meant = fault.on in (subject, "any") and (fault.match is None or fault.match in words)
            if not meant or fault.times == 0 or _stage(fault) != stage:
                continue
            if fault.times != "all":
                fault.times -= 1
            return fault
        return None

    def shape(self) -> list[dict[str, Any]]:
        """As they were set, with the times that are left."""
        return [fault.model_dump() for fault in self.listed]


def read(raw: Any) -> list[Fault]:
    """Faults from JSON; `BadScript` names the place of a mistake."""
    try:
        return _list.validate_python(raw)
    except ValidationError as error:
        raise BadScript(place(error)) from None


def _stage(fault: Fault) -> Stage:
    match fault:
        case Status() | InUse():
            return "arrival"
        case Late() | Stored():
            return "execution"
        case Drop(when="before_commit") | Page(when="before_commit"):
            return "arrival"
        case _:
            return "answer"
