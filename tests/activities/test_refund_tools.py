"""The refund agent's tools, against a provider that answers over HTTP and a store that is a file."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import aiohttp
import pytest
from pydantic import ValidationError

from activities import money
from activities.orders import plain_id
from activities.tool import Context, Happened, Verdict
from activities.tools import discover
from domain import errors
from sandbox import app
from store import database
from store.settings import Settings

TOOLS = discover()
REFUND = {"order_id": "1042", "amount": "40.00", "reason": "The teapot arrived broken."}
CHARGE = "ch_sample_1042"


@dataclass
class Shop:
    """The sandbox, the store, and the context of one action."""

    http: aiohttp.ClientSession
    context: Context

    async def call(self, name, arguments, **context):
        """Run a tool as the runner does."""
        tool = TOOLS[name]
        parsed = tool.arguments.model_validate_json(json.dumps(arguments), strict=True)
        return await tool.run(parsed, replace(self.context, **context))

    async def refund(self, **context):
        return await self.call("issue_refund", REFUND, **context)

    async def reconcile(self, **context):
        tool = TOOLS["issue_refund"]
        return await tool.reconcile(tool.arguments(**REFUND), replace(self.context, **context))

    async def put(self, what, body):
        address = f"{self.context.settings.sandbox_url}/sandbox/payments/{what}"
        async with self.http.put(address, json=body) as response:
            assert response.status == 200

    async def journal(self):
        async with self.http.get(self.context.settings.sandbox_url + "/sandbox/payments/journal") as response:
            return await response.json()


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    runner, port = await app.start(app.build(tmp_path), 0)
    settings = Settings(
        DAYFLOW_HOME=tmp_path,
        DAYFLOW_SANDBOX_PORT=port,
        DAYFLOW_DATABASE_URL=None,
        STRIPE_API_KEY=None,
        STRIPE_BASE_URL=None,
    )
    store = await database.connect(settings)
    context = Context(
        settings=settings,
        database=store,
        namespace="default",
        run_id="r-1042",
        action_id="s4.1-3fa9c2",
        idempotency_key="effect-1",
        attempt=1,
    )
    async with aiohttp.ClientSession() as http:
        yield Shop(http, context)
    await store.close()
    await runner.cleanup()


async def test_an_order_is_looked_up_with_what_is_left_to_refund(shop):
    found = await shop.call("lookup_order", {"order_id": "order-1042"}, action_id="s1.1-aaaaaa")

    assert found["order"]["id"] == "1042"
    assert (found["order"]["total"], found["order"]["currency"]) == ("59.90", "EUR")
    assert found["order"]["items"][0] == {
        "name": "Stoneware teapot",
        "quantity": 1,
        "price": "40.00",
        "note": "arrived broken",
    }
    assert (found["refunded"], found["refundable"], found["notes"]) == ("0.00", "59.90", [])


@pytest.mark.parametrize(
    ("order", "refunded", "refundable"),
    [
        ("1038", "0.00", "0.00"),  # cancelled, never paid
        ("1039", "32.00", "0.00"),  # refunded in full
        ("1040", "0", "8400"),  # a currency without decimals
        ("1041", "18.00", "100.00"),  # refunded in part
    ],
)
async def test_the_other_samples(shop, order, refunded, refundable):
    found = await shop.call("lookup_order", {"order_id": order})

    assert (found["refunded"], found["refundable"]) == (refunded, refundable)


async def test_a_customer_is_looked_up(shop):
    order = await shop.call("lookup_order", {"order_id": "1042"})

    found = await shop.call("lookup_customer", {"customer_id": order["order"]["customer_id"]})
    tanaka = await shop.call("lookup_customer", {"customer_id": "cus_sample_tanaka"})

    assert found["customer"]["name"] == "Mara Lindqvist"
    assert found["customer"]["email"] == "mara.lindqvist@example.com"
    assert found["customer"]["orders"] == ["1042"]
    assert tanaka["customer"]["name"] == "田中 花"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("lookup_order", {"order_id": "9999"}),
        ("lookup_customer", {"customer_id": "nobody"}),
        ("issue_refund", {**REFUND, "order_id": "9999"}),
    ],
)
async def test_what_does_not_exist_is_told(shop, tool, arguments):
    with pytest.raises(errors.ToolFailed, match="There is no"):
        await shop.call(tool, arguments)


@pytest.mark.parametrize(
    "written", ["1042", " 1042 ", "order-1042", "Order 1042", "#1042", "order #1042", "ORDER: 1042"]
)
def test_an_order_has_one_id_however_it_is_written(written):
    tool = TOOLS["issue_refund"]
    arguments = tool.arguments(**{**REFUND, "order_id": written})

    assert plain_id(plain_id(written)) == "1042"
    assert tool.intent(arguments, None) == "refund:order-1042"


@pytest.mark.parametrize("written", ["", "order-", "1042 and 1043", "１０４２", "1042/..", "-1042", "1042\n1043"])
def test_what_is_no_id_is_refused(written):
    with pytest.raises(ValidationError):
        TOOLS["lookup_order"].arguments(order_id=written)


@pytest.mark.parametrize(
    "amount",
    ["0", "0.00", "-40.00", "+40", "4e1", "40,00", "40.", ".5", "040", " 40", "40\n", "1_0", "٤٠", "NaN", 40.0, 40],
)
def test_only_a_plain_positive_decimal_is_an_amount(amount):
    tool = TOOLS["issue_refund"]

    with pytest.raises(ValidationError):
        tool.arguments.model_validate_json(json.dumps({**REFUND, "amount": amount}), strict=True)


def test_what_the_refund_declares():
    tool = TOOLS["issue_refund"]

    assert tool.amount(tool.arguments(**REFUND)) == Decimal("40.00")
    assert tool.declares.approval.role == "lead"
    assert (tool.declares.safety, tool.declares.key_lifetime_s, tool.declares.held_intent) == ("key", 86400, "person")


async def test_a_refund_is_made_once_and_answered_again(shop):
    first = await shop.refund()

    second = await shop.refund(attempt=2)

    (line,) = await shop.journal()
    assert first == second
    assert first["order_id"] == "1042"
    assert first["refund"] == {"id": line["refund_id"], "amount": "40.00", "currency": "EUR", "status": "succeeded"}
    assert (line["charge"], line["amount"], line["currency"]) == (CHARGE, 4000, "eur")
    assert line["idempotency_key"] == "effect-1"
    assert line["metadata"] == {
        "dayflow_key": "effect-1",
        "dayflow_run": "r-1042",
        "dayflow_action": "s4.1-3fa9c2",
        "order": "1042",
        "reason": "The teapot arrived broken.",
    }


async def test_yen_have_no_decimals(shop):
    answer = await shop.call("issue_refund", {**REFUND, "order_id": "1040", "amount": "8400"})

    assert answer["refund"]["amount"] == "8400"
    assert (await shop.journal())[0]["amount"] == 8400
    with pytest.raises(errors.ToolFailed, match="JPY has no decimals"):
        await shop.call("issue_refund", {**REFUND, "order_id": "1040", "amount": "8400.00"}, idempotency_key="effect-2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"amount": "59.91"}, "59.90 EUR is left to refund; 59.91 is more"),
        ({"amount": "40.001"}, "EUR has 2 decimals"),
        ({"order_id": "1041", "amount": "100.01"}, "100.00 GBP is left"),
        ({"order_id": "1039", "amount": "1.00"}, "0.00 EUR is left"),
        ({"order_id": "1038", "amount": "1.00"}, "Nothing was paid for order 1038"),
    ],
)
async def test_more_than_is_left_is_refused_in_words_and_not_sent(shop, arguments, words):
    with pytest.raises(errors.ToolFailed, match=words):
        await shop.call("issue_refund", {**REFUND, **arguments})

    assert await shop.journal() == []


@pytest.mark.parametrize("changed", [{"amount": "39.00"}, {"reason": "Told otherwise."}])
async def test_other_arguments_under_one_key_are_refused(shop, changed):
    await shop.refund()

    with pytest.raises(errors.ArgumentsChanged):
        await shop.call("issue_refund", {**REFUND, **changed})

    assert len(await shop.journal()) == 1


async def test_an_attempt_that_committed_and_was_not_told_is_answered_by_the_next(shop):
    await shop.put("faults", [{"kind": "drop"}])
    with pytest.raises(errors.Uncertain):
        await shop.refund()

    answer = await shop.refund(attempt=2)

    (line,) = await shop.journal()
    assert answer["refund"]["id"] == line["refund_id"]


async def test_a_refund_of_all_that_is_left_is_not_refused_when_it_is_sent_again(shop):
    everything = {**REFUND, "amount": "59.90"}
    await shop.put("faults", [{"kind": "drop"}])
    with pytest.raises(errors.Uncertain):
        await shop.call("issue_refund", everything)

    assert (await shop.call("issue_refund", everything))["refund"]["amount"] == "59.90"


async def test_a_key_that_the_provider_has_forgotten_refunds_nothing_again(shop):
    first = await shop.refund()
    await shop.put("clock", {"offset_s": 25 * 3600})

    assert await shop.refund() == first
    assert len(await shop.journal()) == 1


async def test_twenty_attempts_of_one_action_are_one_refund(shop):
    """Whatever an attempt sees of another one half way, it never takes it for a No."""
    answers = await asyncio.gather(*(shop.refund() for _ in range(20)), return_exceptions=True)

    made = [answer for answer in answers if not isinstance(answer, errors.Again)]
    (line,) = await shop.journal()
    assert {answer["refund"]["id"] for answer in made} == {line["refund_id"]}


async def test_twenty_runs_never_refund_more_than_was_paid(shop):
    runs = (shop.refund(run_id=f"r-{n}", idempotency_key=f"effect-{n}") for n in range(20))
    answers = await asyncio.gather(*runs, return_exceptions=True)

    assert sum(isinstance(answer, dict) for answer in answers) == len(await shop.journal()) == 1
    assert all(isinstance(answer, dict | errors.ToolFailed) for answer in answers)


@pytest.mark.parametrize("fault", [{"kind": "in_use"}, {"kind": "status", "status": 429}])
async def test_a_busy_provider_is_asked_again_with_the_same_key(shop, fault):
    await shop.put("faults", [fault])
    with pytest.raises(errors.Again):
        await shop.refund()

    await shop.refund()

    assert [line["idempotency_key"] for line in await shop.journal()] == ["effect-1"]


async def test_a_look_that_fails_sends_nothing(shop):
    await shop.put("faults", [{"kind": "status", "status": 500, "on": "read"}])

    with pytest.raises(errors.Again):
        await shop.refund()

    assert await shop.journal() == []


async def test_a_stored_error_does_not_hide_what_was_made(shop):
    await shop.put("faults", [{"kind": "stored", "commit": True}])
    with pytest.raises(errors.Uncertain):
        await shop.refund()

    answer = await shop.refund()

    assert answer["refund"]["id"] == (await shop.journal())[0]["refund_id"]


# Reconciling


async def test_it_happened(shop):
    answer = await shop.refund()

    assert await shop.reconcile() == Happened(answer)


async def test_it_did_not_happen(shop):
    await shop.refund(idempotency_key="effect-of-another")

    assert await shop.reconcile() is Verdict.DID_NOT_HAPPEN


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 500},
        {"kind": "status", "status": 401},
        {"kind": "status", "status": 429},
        {"kind": "page", "status": 200},
        {"kind": "drop"},
    ],
)
async def test_a_provider_that_does_not_answer_leaves_it_unsure(shop, fault):
    await shop.refund()
    await shop.put("faults", [{**fault, "on": "read", "times": "all"}])

    assert await shop.reconcile() is Verdict.UNSURE


async def test_reconciling_sends_nothing(shop):
    assert await shop.reconcile() is Verdict.DID_NOT_HAPPEN

    assert await shop.journal() == []


# What a lookup sees


async def test_another_run_sees_the_refund(shop):
    await shop.refund()

    found = await shop.call("lookup_order", {"order_id": "1042"}, run_id="r-2", action_id="s1.1-aaaaaa")

    assert (found["refunded"], found["refundable"]) == ("40.00", "19.90")


async def test_the_same_run_sees_it_at_a_later_step(shop):
    await shop.refund()

    found = await shop.call("lookup_order", {"order_id": "1042"}, action_id="s5.1-aaaaaa")

    assert found["refundable"] == "19.90"


async def test_a_run_that_is_reset_sees_at_each_step_what_it_saw_before(shop):
    """Else the next model call would be another one, and paid anew."""
    before = await shop.call("lookup_order", {"order_id": "1042"}, action_id="s1.1-aaaaaa")
    await shop.refund()

    assert await shop.call("lookup_order", {"order_id": "1042"}, action_id="s1.1-aaaaaa") == before


async def test_a_lookup_without_the_provider_says_what_it_does_not_know(shop):
    await shop.put("faults", [{"kind": "status", "status": 503, "on": "read", "times": "all"}])

    found = await shop.call("lookup_order", {"order_id": "1042"})

    assert found["order"]["total"] == "59.90"
    assert (found["refunded"], found["refundable"]) == (None, None)
    assert "503" in found["notes"][0]


async def test_with_a_key_no_samples_are_put_in(shop):
    real = shop.context.settings.model_copy(update={"stripe_api_key": "sk_test_real"})

    with pytest.raises(errors.ToolFailed, match="There is no order"):
        await shop.call("lookup_order", {"order_id": "1042"}, settings=real)


@pytest.mark.parametrize(
    ("minor", "currency", "text"),
    [(5990, "EUR", "59.90"), (5, "usd", "0.05"), (8400, "JPY", "8400"), (12345, "KWD", "12.345"), (0, "EUR", "0.00")],
)
def test_money_there_and_back(minor, currency, text):
    assert money.text(minor, currency) == text
    assert money.minor(text, currency) == minor
