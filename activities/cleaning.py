"""Cleaning: what a tool returned, made fit for history, the model and people: readable, bounded, without secrets."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import SecretStr

from domain import secrets
from store.settings import Settings

MAX_RESULT_BYTES = 64_000
# Patterns run over what is kept in one go; over more they would hold up the whole worker.
MAX_KEPT_CHARACTERS = 4_000_000
REDACTED = "[secret removed]"

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True)
class Cleaned:
    """`text` is what the model reads; `whole` is all that is kept, cleaned, when `text` had to be clipped."""

    text: str
    whole: str | None = None


def known_secrets(settings: Settings) -> list[str]:
    """The values of every secret setting, to be removed wherever they turn up."""
    values = (getattr(settings, name) for name in type(settings).model_fields)
    found = [value.get_secret_value() for value in values if isinstance(value, SecretStr) and value.get_secret_value()]
    keys = settings.encryption_keys.get_secret_value().split(",") if settings.encryption_keys else []
    return [*found, *(key.partition(":")[2].strip() for key in keys)]


def clean(text: str, secrets: Iterable[str] = ()) -> Cleaned:
    """Remove what breaks readers and what nobody may read, then clip at a whole character."""
    kept, cut = text[:MAX_KEPT_CHARACTERS], len(text) > MAX_KEPT_CHARACTERS
    readable = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", _CONTROL.sub("", _ANSI.sub("", kept)))
    for secret in secrets:
        readable = readable.replace(secret, REDACTED)
    readable = _redacted(readable)
    encoded = readable.encode()
    if len(encoded) <= MAX_RESULT_BYTES and not cut:
        return Cleaned(readable)
    size = len(text.encode(errors="surrogatepass")) if cut else len(encoded)
    head = encoded[:MAX_RESULT_BYTES].decode(errors="ignore")
    return Cleaned(f"{head}\n[clipped: {size} bytes, the first {MAX_RESULT_BYTES} are shown]", whole=readable)


def _redacted(text: str) -> str:
    """One secret that is cut out may have hidden where the one beside it ends: look again until nothing is found."""
    while (redacted := secrets.FORMS.sub(REDACTED, text)) != text:
        text = redacted
    return text
