"""Secrets: the forms by which keys and tokens are known wherever they turn up."""

import re

FORMS = re.compile(
    r"sk-ant-[A-Za-z0-9_-]{16,}"
    r"|\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|\bwhsec_[A-Za-z0-9]{16,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?i:\bbearer\s+)[A-Za-z0-9._~+/-]{20,}=*",
    re.DOTALL,
)
# A word that names a secret, and then the secret.
_NAMED = re.compile(
    r"\b(?:password|passwort|passphrase|passcode|pin|cvv|cvc|api[ _-]?key|secret|token)\b(?:\s+\w+){0,3}?"
    r"(?:\s*[:=]\s*\S{3,}|\s+(?:is|ist)\s+(?=\S*(?:\d|!|[^\w\s]\S))\S{3,})",
    re.IGNORECASE,
)
# Thirteen to nineteen digits that begin as cards do; dates of this century do not.
_DIGITS = re.compile(r"(?<!\d)(?:[3-6]|2(?=[2-7]))(?:[ .-]?\d){12,18}(?!\d)")


def found(text: str) -> str | None:
    """What kind of secret stands in the text, or None."""
    if any(_is_card(re.sub(r"\D", "", match)) for match in _DIGITS.findall(text)):
        return "a card number"
    if FORMS.search(text) or _NAMED.search(text):
        return "a key, a password or another secret"
    return None


def _is_card(digits: str) -> bool:
    """Luhn's check, which every card number passes, and one in ten other numbers."""
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0
