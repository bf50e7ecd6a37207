"""Plays the refund by rules, from the task and the tool results that it was really sent."""

import json
import re
from decimal import Decimal
from typing import Any

from sandbox import demand
from sandbox.request import Call, Request
from sandbox.turns import Turn, say

FIRST_LINE = "Written by Dayflow's sandbox model (rules, not a language model)."
ORDER = re.compile(r"\border[\s#:-]*(\d{1,12})\b", re.IGNORECASE)
AMOUNT = re.compile(r"(?<![\d.])(\d{1,7}(?:[.,]\d{1,2})?)(?![\d.]|\s*%)")


def plays(asked: Request) -> bool:
    """A request that offers to look orders up and to refund."""
    return {"lookup_order", "issue_refund"} <= set(asked.tools)


def answer(asked: Request) -> Turn:
    """Look up, plan once, refund, tell the customer, report; one thing after the other, and none after a no."""
    calls = asked.calls()
    done = {call.name: call for call in calls}
    order_id = ORDER.search(asked.first_text)
    if order_id is None:
        return say(f"{FIRST_LINE}\n\nNo order number stands in the task, so nothing was done.")
    if "lookup_order" not in done:
        return _call("lookup_order", order_id=order_id[1])
    order = _parsed(done["lookup_order"])
    failed = next((call for call in calls if call.failed), None)
    if failed is not None or not order:
        return _stopped(failed or done["lookup_order"])
    return _next(asked, order_id[1], order, done)


def _next(asked: Request, order_id: str, order: dict[str, Any], done: dict[str, Call]) -> Turn:
    customer_id = _find(order, "customer_id")
    if "lookup_customer" in asked.tools and "lookup_customer" not in done and customer_id:
        return _call("lookup_customer", customer_id=str(customer_id))
    amount = _amount(asked, order_id, order)
    if "propose_plan" in asked.tools and "propose_plan" not in done:
        return _call("propose_plan", items=_plan(asked, order_id, amount, order))
    if "issue_refund" not in done:
        reason = demand.clip(asked.first_text, 200)
        return _call("issue_refund", order_id=order_id, amount=amount, reason=reason)
    customer = _parsed(done["lookup_customer"]) if "lookup_customer" in done else {}
    to = _find(customer, "email")
    if "send_email" in asked.tools and "send_email" not in done and to:
        return _mail(order_id, amount, _find(order, "currency"), _find(customer, "name"), str(to))
    return _report(order_id, done)


def _plan(asked: Request, order_id: str, amount: str, order: dict[str, Any]) -> list[dict[str, str]]:
    currency = _find(order, "currency") or ""
    titles = {
        "lookup_order": f"Look order {order_id} up",
        "lookup_customer": "Look its customer up",
        "propose_plan": "Propose this plan",
        "issue_refund": f"Refund {amount} {currency}".strip(),
        "send_email": "Tell the customer",
    }
    return [{"title": title, "tool": tool} for tool, title in titles.items() if tool in asked.tools]


def _amount(asked: Request, order_id: str, order: dict[str, Any]) -> str:
    """The amount that the task names besides the order's number, else all that is refundable."""
    words = ORDER.sub("", asked.first_text)
    found = [match.replace(",", ".") for match in AMOUNT.findall(words) if match != order_id]
    refundable = _find(order, "refundable")
    if not found:
        return str(refundable or "0.00")
    decimals = len(str(refundable).partition(".")[2]) if refundable is not None else 2
    return f"{Decimal(found[0]):.{decimals}f}"


def _mail(order_id: str, amount: str, currency: Any, name: Any, to: str) -> Turn:
    greeting = f"Dear {name}," if name else "Hello,"
    text = f"{greeting}\n\nwe have refunded {amount} {currency or ''} for your order {order_id}.".replace(" .", ".")
    return _call("send_email", to=to, subject=f"Your refund for order {order_id}", body=f"{text}\n\nKind regards")


def _report(order_id: str, done: dict[str, Call]) -> Turn:
    refund = _find(_parsed(done["issue_refund"]), "refund")
    facts = refund if isinstance(refund, dict) else {}
    told = " The customer was told by mail." if "send_email" in done else ""
    what = f"Order {order_id}: refunded {facts.get('amount', '?')} {facts.get('currency', '')}".strip()
    return say(f"{FIRST_LINE}\n\n{what} (refund {facts.get('id', '?')}).{told}")


def _stopped(failed: Call) -> Turn:
    return say(f"{FIRST_LINE}\n\nStopped: `{failed.name}` did not work: {demand.clip(failed.result or 'no result')}")


def _call(name: str, **arguments: Any) -> Turn:
    return Turn(content=[{"type": "tool_use", "name": name, "input": arguments}])


def _parsed(call: Call) -> dict[str, Any]:
    try:
        result = json.loads(call.result or "")
    except ValueError:
        return {}
    return result if isinstance(result, dict) and not call.failed else {}


def _find(value: Any, name: str) -> Any:
    """The first value of that name, wherever it stands in a result."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        value = list(value.values())
    if isinstance(value, list):
        return next((found for one in value if (found := _find(one, name)) is not None), None)
    return None
