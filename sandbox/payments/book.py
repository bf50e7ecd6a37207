"""The provider's book: sample charges, and the refunds that were made of them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sandbox.payments import errors

Object = dict[str, Any]


@dataclass(frozen=True)
class Refund:
    """One refund, as it was committed."""

    id: str
    charge: str
    payment_intent: str
    amount: int
    currency: str
    reason: str | None
    metadata: dict[str, str]
    created: int

    def shape(self) -> Object:
        """As the API shows it."""
        return {
            "id": self.id,
            "object": "refund",
            "amount": self.amount,
            "balance_transaction": None,
            "charge": self.charge,
            "created": self.created,
            "currency": self.currency,
            "destination_details": {"card": {"type": "refund"}, "type": "card"},
            "metadata": self.metadata,
            "payment_intent": self.payment_intent,
            "reason": self.reason,
            "receipt_number": None,
            "source_transfer_reversal": None,
            "status": "succeeded",
            "transfer_reversal": None,
        }


@dataclass
class Charge:
    """One payment that was captured; `payment_intent` names it, too."""

    id: str
    payment_intent: str
    amount: int
    currency: str
    customer: str
    order: str
    created: int
    refunds: list[Refund] = field(default_factory=list)

    @property
    def refunded(self) -> int:
        """How much of it has gone back."""
        return sum(refund.amount for refund in self.refunds)

    @property
    def left(self) -> int:
        """How much of it can still go back."""
        return self.amount - self.refunded

    def shape(self) -> Object:
        """As the API shows it."""
        return {
            "id": self.id,
            "object": "charge",
            "amount": self.amount,
            "amount_captured": self.amount,
            "amount_refunded": self.refunded,
            "captured": True,
            "created": self.created,
            "currency": self.currency,
            "customer": self.customer,
            "disputed": False,
            "livemode": False,
            "metadata": {"order": self.order},
            "paid": True,
            "payment_intent": self.payment_intent,
            "refunded": self.left == 0,
            "status": "succeeded",
        }

    def intent_shape(self) -> Object:
        """Its payment intent as the API shows it."""
        return {
            "id": self.payment_intent,
            "object": "payment_intent",
            "amount": self.amount,
            "amount_received": self.amount,
            "created": self.created,
            "currency": self.currency,
            "customer": self.customer,
            "latest_charge": self.id,
            "livemode": False,
            "metadata": {"order": self.order},
            "status": "succeeded",
        }


class Book:
    """Every charge and refund."""

    def __init__(self, charges: Iterable[Charge]) -> None:
        self._charges = {charge.id: charge for charge in charges}
        self._intents = {charge.payment_intent: charge for charge in self._charges.values()}

    @property
    def refunds(self) -> list[Refund]:
        """Every refund, the newest first."""
        found = [refund for charge in self._charges.values() for refund in charge.refunds]
        return sorted(found, key=lambda refund: (refund.created, refund.id), reverse=True)

    def charge(self, identity: str, param: str = "id") -> Charge:
        """The charge of this id, or a 404."""
        if found := self._charges.get(identity):
            return found
        raise errors.missing("charge", identity, param)

    def intent(self, identity: str, param: str = "intent") -> Charge:
        """The charge of this payment intent, or a 404."""
        if found := self._intents.get(identity):
            return found
        raise errors.missing("payment_intent", identity, param)

    def refund(self, identity: str, param: str = "id") -> Refund:
        """The refund of this id, or a 404."""
        for found in self.refunds:
            if found.id == identity:
                return found
        raise errors.missing("refund", identity, param)

    def add(self, refund: Refund) -> None:
        """Enter a refund that was committed."""
        self._charges[refund.charge].refunds.append(refund)


def samples(path: Path) -> list[Charge]:
    """The charges of the sample orders; what the samples call refunded has a refund already."""
    orders = json.loads(path.read_text("utf-8"))["orders"]
    return [_charge(order) for order in orders if order["charge"]]


def _charge(order: Object) -> Charge:
    created = int(datetime.fromisoformat(order["placed_at"]).timestamp())
    currency = order["currency"].lower()
    charge = Charge(
        order["charge"], order["payment_intent"], order["amount"], currency, order["customer_id"], order["id"], created
    )
    if amount := order.get("refunded"):
        made = created + 86_400
        refund_id = f"re_sample_{order['id']}"
        charge.refunds.append(
            Refund(refund_id, charge.id, charge.payment_intent, amount, currency, "requested_by_customer", {}, made)
        )
    return charge
