"""Characters that no request to a model may hold: NUL, and halves of characters."""

import re
from typing import Any

_REFUSED = re.compile("[\x00\ud800-\udfff]")


def refused(value: Any) -> bool:
    """Whether a JSON value holds one, wherever in it."""
    match value:
        case str():
            return _REFUSED.search(value) is not None
        case list():
            return any(map(refused, value))
        case dict():
            return any(refused(name) or refused(one) for name, one in value.items())
        case _:
            return False


def cleared(text: str) -> str:
    """The text without them; a character that came in two halves is whole again."""
    if not refused(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")
