"""Sample orders of a test's own: an order is refunded once, so each test takes another one."""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.settings import SAMPLES

FIRST = 20_001
PLACED = "2026-11-20T10:00:00+00:00"
_numbers = itertools.count(FIRST)


@dataclass(frozen=True)
class Order:
    """One paid order of 59.90 EUR, and its customer's own address."""

    id: str

    @property
    def charge(self) -> str:
        """Its payment."""
        return f"ch_made_{self.id}"

    @property
    def customer(self) -> str:
        """Who ordered."""
        return f"cus_made_{self.id}"

    @property
    def email(self) -> str:
        """Where mail about it goes, and no other mail."""
        return f"customer-{self.id}@example.com"


# An order of 599.00 EUR, which nobody takes.
LARGE = Order(str(FIRST - 1))


def take() -> Order:
    """An order that no other test of this process has."""
    return Order(str(next(_numbers)))


def written(path: Path, count: int = 400) -> Path:
    """The sample orders, and so many more, as a file for `DAYFLOW_SAMPLE_ORDERS`."""
    samples: dict[str, list[Any]] = json.loads((SAMPLES / "orders.json").read_text("utf-8"))
    made = [LARGE, *(Order(str(number)) for number in range(FIRST, FIRST + count))]
    samples["customers"] += [
        {"id": one.customer, "name": f"Customer {one.id}", "email": one.email, "since": "2026-01-01"} for one in made
    ]
    samples["orders"] += map(_order, made)
    path.write_text(json.dumps(samples), "utf-8")
    return path


def _order(made: Order) -> dict[str, Any]:
    amount = 59_900 if made == LARGE else 5990
    return {
        "id": made.id,
        "customer_id": made.customer,
        "status": "delivered",
        "currency": "EUR",
        "amount": amount,
        "placed_at": PLACED,
        "charge": made.charge,
        "payment_intent": f"pi_made_{made.id}",
        "items": [{"name": "Stoneware teapot", "quantity": 1, "price": amount}],
    }
