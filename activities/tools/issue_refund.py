"""issue_refund: money back to the customer, once, after a person has approved it."""

from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from activities import money, orders
from activities.orders import OrderId
from activities.payments import LONGEST_METADATA, Payments, Reason, Refund, Standing, tagged
from activities.tool import Arguments, Context, Found, Happened, Tool, Verdict
from domain import errors
from domain.tool import Approval, Effect
from store.orders import Order

# The provider's own list of reasons has no room for ours; our words go into the refund's metadata.
REASON: Reason = "requested_by_customer"
KEY_LIFETIME_SECONDS = 24 * 3600
DEADLINE_SECONDS = 20


def positive(amount: str) -> str:
    """Refuse zero."""
    if Decimal(amount) == 0:
        raise ValueError("the amount is zero")
    return amount


class IssueRefund(Arguments):
    """Refund a part or all of what was paid for one order, to the means it was paid with. A person approves it first.

    Answers {"refund": {"id", "amount", "currency", "status"}, "order_id"}. More than what lookup_order calls
    refundable is refused.
    """

    order_id: OrderId
    amount: Annotated[
        str,
        StringConstraints(pattern=r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,3})?$"),
        AfterValidator(positive),
        Field(description='How much, as a decimal string in the currency of the order, such as "40.00".'),
    ]
    reason: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_METADATA),
        Field(description="Why, in a sentence, for the record."),
    ]


async def issue_refund(arguments: IssueRefund, context: Context) -> dict[str, Any]:
    """Look, then send with the key; a refund that this key has made already is the answer."""
    order = await orders.find(context, arguments.order_id)
    amount, charge = _minor(arguments, order), _charge(order)
    payments, metadata = Payments(context.settings), _metadata(arguments, context)
    standing = await payments.standing(charge)
    made = standing.refund(context.idempotency_key)
    if made is None:
        _check(order, amount, standing)
        made = await payments.refund(charge, amount, order.currency, REASON, context.idempotency_key, metadata)
    elif made.amount != amount or not tagged(metadata, context.idempotency_key).items() <= made.metadata.items():
        raise errors.ArgumentsChanged(f"the payment provider made {made.id} under this key with other arguments")
    if not made.moves_money:
        raise errors.ToolFailed(f"The payment provider made the refund {made.id}, and it {made.status}.")
    return _answer(order, made)


async def check(arguments: IssueRefund, context: Context) -> None:
    """Refuse what cannot be refunded before a person is asked about it."""
    order = await orders.find(context, arguments.order_id)
    _check(order, _minor(arguments, order), await Payments(context.settings).standing(_charge(order)))


async def reconcile(arguments: IssueRefund, context: Context) -> Found:
    """Whether the provider has a refund of this key; it is certain only when it listed all refunds of the payment."""
    try:
        order = await orders.find(context, arguments.order_id)
        found = await Payments(context.settings).find_refund(_charge(order), context.idempotency_key)
    except errors.DayflowError:
        return Verdict.UNSURE
    if found is None:
        return Verdict.DID_NOT_HAPPEN
    return Happened(_answer(order, found)) if found.moves_money else Verdict.UNSURE


def intent(arguments: IssueRefund, context: Context) -> str:
    """One order, one refund; a second one is for a person to see."""
    return f"refund:order-{arguments.order_id}"


def _minor(arguments: IssueRefund, order: Order) -> int:
    try:
        return money.minor(arguments.amount, order.currency)
    except ValueError as error:
        raise errors.ToolFailed(f"{error}. Nothing was sent.") from None


def _charge(order: Order) -> str:
    if order.charge is None:
        raise errors.ToolFailed(f"Nothing was paid for order {order.id} ({order.status}), so nothing can be refunded.")
    return order.charge


def _check(order: Order, amount: int, standing: Standing) -> None:
    """Refuse what the provider would refuse, in words that help."""
    currency = order.currency
    if standing.charge.currency != currency.lower():
        raise errors.ToolFailed(
            f"Order {order.id} is in {currency}, its payment in {standing.charge.currency.upper()}; nothing was sent."
        )
    if amount > standing.refundable:
        raise errors.ToolFailed(
            f"Of order {order.id} {money.text(standing.refundable, currency)} {currency} is left to refund;"
            f" {money.text(amount, currency)} is more. Nothing was sent."
        )


def _metadata(arguments: IssueRefund, context: Context) -> dict[str, str]:
    return {
        orders.RUN: orders.run_mark(context),
        orders.ACTION: context.action_id,
        "order": arguments.order_id,
        "reason": arguments.reason,
    }


def _answer(order: Order, made: Refund) -> dict[str, Any]:
    currency = made.currency.upper()
    shown = {"id": made.id, "amount": money.text(made.amount, currency), "currency": currency, "status": made.status}
    return {"refund": shown, "order_id": order.id}


TOOL = Tool(
    run=issue_refund,
    arguments=IssueRefund,
    declares=Effect(
        safety="key",
        key_lifetime_s=KEY_LIFETIME_SECONDS,
        deadline_s=DEADLINE_SECONDS,
        held_intent="person",
        approval=Approval(role="lead"),
    ),
    intent=intent,
    check=check,
    amount=lambda arguments: Decimal(arguments.amount),
    reconcile=reconcile,
)
