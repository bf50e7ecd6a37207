"""Orders as tools see them: what the shop's record says, and what the payment provider says is left to refund."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from activities import plain
from activities.payments import LONGEST_METADATA, Refund, Standing
from activities.tool import Context
from domain import errors
from store.orders import Order, Orders

# Where a refund says which run and which action made it.
RUN = "dayflow_run"
ACTION = "dayflow_action"

_ID = re.compile(r"(?:order[\s#:-]+|#\s*)?([a-z0-9](?:[a-z0-9_-]{0,98}[a-z0-9])?)", re.IGNORECASE | re.ASCII)
_STEP = re.compile(r"s([0-9]+)\.")


def plain_id(text: str) -> str:
    """The id alone: `1042`, `order-1042`, `Order #1042` are one order, however a model writes it."""
    if match := _ID.fullmatch(text.strip()):
        return match[1]
    raise ValueError("give the id of one order, such as 1042")


OrderId = Annotated[str, AfterValidator(plain_id), Field(max_length=120, description="The order's id, such as 1042.")]


async def of(context: Context) -> Orders:
    """The shop's orders. Where no real money can move, the sample data is put in first."""
    orders = Orders(context.database, context.namespace)
    if context.settings.stripe_api_key is None:
        await orders.ensure_samples(context.settings.sample_orders)
    return orders


async def find(context: Context, order_id: str) -> Order:
    """The order of this id; an `errors.ToolFailed` if there is none."""
    found = await (await of(context)).order(order_id)
    if found is None:
        raise errors.ToolFailed(f"There is no order {order_id!r}. Ask for the right id; nothing was done.")
    return found


def refunded(standing: Standing, context: Context) -> int:
    """How much has gone back, as it was before the step of `context`.

    What later steps of the same run refunded is not counted: a run that is reset to an earlier step, with its refund
    made, sees at each step what it saw the first time, and its stored answers fit.
    """
    later = (refund.amount for refund in standing.refunds if refund.moves_money and _is_later(refund, context))
    return max(0, standing.charge.amount_refunded - sum(later))


def run_mark(context: Context) -> str:
    """The run's id as metadata keeps it."""
    return plain.line(context.run_id, LONGEST_METADATA)


def _is_later(refund: Refund, context: Context) -> bool:
    if refund.metadata.get(RUN) != run_mark(context):
        return False
    made, mine = (_STEP.match(action) for action in (refund.metadata.get(ACTION, ""), context.action_id))
    return bool(made and mine and int(made[1]) >= int(mine[1]))
