"""What a request for a refund asks for, and everything that is checked before it is carried out."""

from dataclasses import dataclass

from sandbox.payments import form
from sandbox.payments.book import Book, Charge
from sandbox.payments.errors import invalid

ALLOWED = {"amount", "charge", "currency", "metadata", "payment_intent", "reason"}
REASONS = ("duplicate", "fraudulent", "requested_by_customer")


@dataclass(frozen=True)
class Wanted:
    """A refund of one charge; no amount is all that is left of it."""

    charge: Charge
    amount: int | None
    reason: str | None
    metadata: dict[str, str]

    def settled(self) -> int:
        """The amount, now that it is carried out; refused if so much is not left."""
        left, currency = self.charge.left, self.charge.currency.upper()
        if left == 0:
            raise invalid(f"Charge {self.charge.id} has already been refunded.", code="charge_already_refunded")
        if self.amount is not None and self.amount > left:
            # The provider gives no code for this one.
            raise invalid(
                f"Refund amount ({self.amount} {currency}) is greater than unrefunded amount on charge"
                f" ({left} {currency}), in the currency's smallest unit",
                "amount",
            )
        return self.amount or left


def read(parameters: form.Parameters, book: Book) -> Wanted:
    """Check the parameters; nothing of a request that is refused here is remembered."""
    form.known(parameters, ALLOWED)
    amount = form.positive(parameters, "amount")
    reason = form.one_of(parameters, "reason", REASONS)
    metadata = form.metadata(parameters)
    charge = _charge(parameters, book)
    currency = parameters.get("currency")
    if currency is not None and currency != charge.currency:
        raise invalid(f"The charge is in {charge.currency}, not in {currency}.", "currency")
    return Wanted(charge, amount, reason, metadata)


def _charge(parameters: form.Parameters, book: Book) -> Charge:
    charge, intent = parameters.get("charge"), parameters.get("payment_intent")
    if charge and intent:
        raise invalid("You may only specify one of these parameters: charge, payment_intent.", "payment_intent")
    if charge:
        return book.charge(charge, "charge")
    if intent:
        return book.intent(intent, "payment_intent")
    raise invalid("One of these parameters is required: charge, payment_intent.", "charge", "parameter_missing")
