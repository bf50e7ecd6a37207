"""The input of a run, checked: anything but one well-formed request is refused with what to do instead."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from domain import characters, digest, errors
from domain.agent import Limits
from domain.wording import plain

MAX_INPUT_BYTES = 200_000
MAX_RUN_ID = 200
MAX_EXPLANATION = 1_000
EXAMPLE = '{"agent": "brief"}'
NO_NUL = "it holds a NUL character, which no model takes"
# What the data converter leaves of bytes that it cannot decode.
UNDECODABLE = {"undecodable", "sha256", "excerpt"}

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]


class RunRequest(BaseModel):
    """What a run is asked to do."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    agent: Name
    task: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100_000)] | None = None
    model: Name | None = None
    limits: Limits | None = Field(default=None)
    requested_by: Name | None = None


class LoadRequest(BaseModel):
    """Input of `load_agent`: what the run was started with, unchecked, or only its size when it is too large."""

    run: str
    raw: list[Any]

    @classmethod
    def of(cls, first_execution_run_id: str, raw: Sequence[Any]) -> "LoadRequest":
        """The raw inputs as they can be handed on to an activity."""
        plain = digest.canonical(list(raw))
        fits = len(plain) <= MAX_INPUT_BYTES
        return cls(run=first_execution_run_id, raw=json.loads(plain) if fits else [{"oversized": len(plain)}])


def parse(raw: Sequence[Any]) -> RunRequest:
    """Check the inputs that a run was started with; `errors.BadRequest` says what is wrong."""
    if len(raw) != 1:
        raise errors.BadRequest(f"a run takes exactly one input, such as {EXAMPLE}; {len(raw)} were given")
    value = raw[0]
    if not isinstance(value, dict):
        raise errors.BadRequest(f"the input is a JSON {kind(value)}; it has to be an object, such as {EXAMPLE}")
    if why := undecodable(value):
        raise errors.BadRequest(f"the input {why}; send JSON, such as {EXAMPLE}")
    if set(value) == {"oversized"}:
        raise errors.BadRequest(f"the input has {value['oversized']} bytes; at most {MAX_INPUT_BYTES} are taken")
    try:
        return check(value)
    except errors.BadRequest as error:
        raise errors.BadRequest(f"the input cannot be used: {error}. An example: {EXAMPLE}") from None


def check(value: dict[str, Any]) -> RunRequest:
    """The request of these fields; `errors.BadRequest` names those that cannot be used."""
    try:
        read = RunRequest.model_validate_json(json.dumps(value))
    except ValidationError as error:
        raise errors.BadRequest(explain(error)) from None
    if characters.refused(value):
        raise errors.BadRequest(NO_NUL)
    return read


def undecodable(value: dict[str, Any]) -> str | None:
    """Why nobody can tell what was sent, if so."""
    if not set(value) >= UNDECODABLE:
        return None
    key = missing_key([value])
    return f"cannot be decoded as {value['undecodable']!r}" + (f": the key {key!r} is missing" if key else "")


def missing_key(raw: Sequence[Any]) -> str | None:
    """The key that an input wants, which was encrypted under one that is not here."""
    wanted = (value.get("key") for value in raw if isinstance(value, dict) and set(value) >= UNDECODABLE)
    return next((key for key in wanted if isinstance(key, str)), None)


def check_run_id(run_id: str, option: str = "--workflow-id") -> None:
    """Refuse ids that people cannot read or type. option: what gives another one."""
    if not run_id.strip() or not run_id.isprintable():
        raise errors.BadRequest(f"the run id {run_id!r} is blank or not printable; choose another {option}")
    if len(run_id) > MAX_RUN_ID:
        raise errors.BadRequest(
            f"the run id has {len(run_id)} characters, and at most {MAX_RUN_ID} are taken; choose another {option}"
        )


def explain(error: ValidationError) -> str:
    """All of a validation error in one line: where, and what is wrong there."""
    places = [(".".join(str(part) for part in item["loc"]), plain(item["msg"])) for item in error.errors()]
    line = "; ".join(f"{where}: {what}" if where else what for where, what in places)
    return line if len(line) <= MAX_EXPLANATION else line[:MAX_EXPLANATION] + "…"


def kind(value: Any) -> str:
    """What JSON calls a value."""
    kinds = {list: "array", str: "string", bool: "boolean", type(None): "null", int: "number", float: "number"}
    return kinds.get(type(value), type(value).__name__)
