"""The provider's lists: newest first, in pages."""

from typing import Any

from sandbox.payments import form
from sandbox.payments.book import Book, Refund
from sandbox.payments.errors import invalid

ALLOWED = {"charge", "ending_before", "limit", "payment_intent", "starting_after"}
PAGE = 10
LARGEST_PAGE = 100


def refunds(parameters: form.Parameters, book: Book) -> dict[str, Any]:
    """One page of refunds."""
    form.known(parameters, ALLOWED)
    limit = form.positive(parameters, "limit") or PAGE
    if limit > LARGEST_PAGE:
        raise invalid(f"This value must be less than or equal to {LARGEST_PAGE}.", "limit", "parameter_invalid_integer")
    found = _after(_chosen(parameters, book), parameters)
    found, more = _cut(found, limit, backwards="ending_before" in parameters)
    return {
        "object": "list",
        "data": [refund.shape() for refund in found],
        "has_more": more,
        "url": "/v1/refunds",
    }


def _chosen(parameters: form.Parameters, book: Book) -> list[Refund]:
    wanted = None
    if charge := parameters.get("charge"):
        wanted = book.charge(charge, "charge").id
    if intent := parameters.get("payment_intent"):
        wanted = book.intent(intent, "payment_intent").id
    return [refund for refund in book.refunds if wanted in (None, refund.charge)]


def _after(found: list[Refund], parameters: form.Parameters) -> list[Refund]:
    """What comes after, or before, the refund that is named."""
    if after := parameters.get("starting_after"):
        return found[_index(found, after, "starting_after") + 1 :]
    if before := parameters.get("ending_before"):
        return found[: _index(found, before, "ending_before")]
    return found


def _index(found: list[Refund], identity: str, param: str) -> int:
    for index, refund in enumerate(found):
        if refund.id == identity:
            return index
    raise invalid(f"No such refund: {identity!r}", param, "resource_missing")


def _cut(found: list[Refund], limit: int, backwards: bool) -> tuple[list[Refund], bool]:
    return (found[-limit:] if backwards else found[:limit]), len(found) > limit
