"""Wording: what pydantic says of a value, in words for people."""

import re

# Its words, and ours; the first that is found of each.
PLAIN = [
    (r"^(?:Value error|Assertion failed), ", ""),
    (r", unable to (?:parse|interpret) .*$", ""),
    (r"^(?:Input|String|Value|[A-Z][a-z]+ input|List|Tuple|Dictionary) should ", "it has to "),
    (r" after validation, not \d+$", ""),
    (r"\ba valid integer\b", "a whole number"),
    (r"\ba valid (?=number|boolean|string|list)", "a "),
]


def plain(said: str) -> str:
    """The same in plain words: `it has to be a whole number`."""
    for theirs, ours in PLAIN:
        said = re.sub(theirs, ours, said)
    return said
