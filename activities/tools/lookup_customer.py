"""lookup_customer: who ordered, and how to reach them."""

from typing import Annotated, Any

from pydantic import Field

from activities import orders
from activities.tool import Arguments, Context, Tool
from domain import errors
from domain.tool import Read


class LookupCustomer(Arguments):
    """Look up one customer by their id. Changes nothing.

    Answers {"customer": {"id", "name", "email", "since", "orders"}}. `since` is the date of their first order, `orders`
    are the ids of their newest orders.
    """

    customer_id: Annotated[
        str, Field(min_length=1, max_length=100, description="The customer's id, as lookup_order gives it.")
    ]


async def lookup_customer(arguments: LookupCustomer, context: Context) -> dict[str, Any]:
    """The shop's record of them."""
    found = await (await orders.of(context)).customer(arguments.customer_id)
    if found is None:
        raise errors.ToolFailed(f"There is no customer {arguments.customer_id!r}; lookup_order names an order's own.")
    return {"customer": found.model_dump()}


TOOL = Tool(run=lookup_customer, arguments=LookupCustomer, declares=Read(deadline_s=15))
