"""Form-encoded parameters, as the provider's v1 API takes them, and what is checked of each alone."""

import hashlib
import re
from urllib.parse import parse_qsl

from sandbox.payments.errors import invalid
from sandbox.sse import dump

METADATA = re.compile(r"metadata\[([^\[\]]*)\]")
MOST_METADATA = 50
LONGEST_NAME = 40
LONGEST_VALUE = 500

Parameters = dict[str, str]


def parse(raw: bytes) -> Parameters:
    """The parameters by name, `metadata[order]` and the like among them."""
    return dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True))


def fingerprint(path: str, parameters: Parameters) -> str:
    """What an idempotency key is bound to: the endpoint and every parameter."""
    return hashlib.sha256(dump([path, sorted(parameters.items())])).hexdigest()


def known(parameters: Parameters, allowed: set[str]) -> None:
    """Refuse a parameter that this endpoint does not have."""
    for name in parameters:
        if name not in allowed and not ("metadata" in allowed and METADATA.fullmatch(name)):
            raise invalid(f"Received unknown parameter: {name}", name, "parameter_unknown")


def positive(parameters: Parameters, name: str) -> int | None:
    """A whole number above zero, if it is there."""
    raw = parameters.get(name)
    if raw is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,15}", raw):
        raise invalid(f"Invalid integer: {raw}", name, "parameter_invalid_integer")
    if int(raw) < 1:
        raise invalid("This value must be greater than or equal to 1.", name, "parameter_invalid_integer")
    return int(raw)


def one_of(parameters: Parameters, name: str, allowed: tuple[str, ...]) -> str | None:
    """One of a few words, if it is there."""
    raw = parameters.get(name)
    if raw is not None and raw not in allowed:
        raise invalid(f"Invalid {name}: must be one of {', '.join(allowed)}", name)
    return raw


def metadata(parameters: Parameters) -> dict[str, str]:
    """The metadata; an empty value unsets its name."""
    found = {match[1]: value for name, value in parameters.items() if (match := METADATA.fullmatch(name)) and value}
    if len(found) > MOST_METADATA:
        raise invalid(f"Metadata can have up to {MOST_METADATA} keys.", "metadata")
    for name, value in found.items():
        if not 0 < len(name) <= LONGEST_NAME:
            raise invalid(f"Metadata keys have 1 to {LONGEST_NAME} characters.", f"metadata[{name}]")
        if len(value) > LONGEST_VALUE:
            raise invalid(f"Metadata values have up to {LONGEST_VALUE} characters.", f"metadata[{name}]")
    return found
