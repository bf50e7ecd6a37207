"""The payment provider keeps what Stripe documents: one commit a key, the first answer again, refusals in its shape."""

import asyncio
import contextlib
import json

import aiohttp
import pytest
import stripe

from sandbox import app

CHARGE = "ch_sample_1042"
FORTY = {"charge": CHARGE, "amount": "4000"}
KEY = {"Authorization": "Bearer sk_test_sandbox"}
DAY = 24 * 3600

# The SDK would write an id into the user's configuration.
stripe.enable_telemetry = False


async def post(served, form=FORTY, key=None, **headers):
    """Status, JSON and headers of a request for a refund."""
    sent = {**KEY, **headers} | ({"Idempotency-Key": key} if key else {})
    async with served.http.post(served.url + "/v1/refunds", data=form, headers=sent) as response:
        return response.status, await response.json(), response.headers


async def get(served, path):
    """Status and JSON of a GET."""
    async with served.http.get(served.url + path, headers=KEY) as response:
        return response.status, await response.json()


async def commits(served):
    """The commits, as the sandbox tells them."""
    async with served.http.get(served.url + "/sandbox/payments/journal") as response:
        return await response.json()


async def journal(served):
    """The commits, as the sandbox tells them, and as the file has them."""
    told = await commits(served)
    written = (served.home / "sandbox" / "payments.jsonl").read_text().splitlines()
    assert told == [json.loads(line) for line in written]
    return told


async def faulty(served, *faults):
    assert await served.put("payments/faults", list(faults)) == (200, {"ok": True})


async def committed(served, count=1):
    """Wait until so many refunds are committed."""
    async with asyncio.timeout(5):
        while len(lines := await commits(served)) < count:
            continue
    return lines


@contextlib.asynccontextmanager
async def sdk(served, key="sk_test_sandbox", seconds=5.0):
    """The real SDK."""
    http = stripe.AIOHTTPClient(timeout=seconds)
    try:
        yield stripe.StripeClient(key, base_addresses={"api": served.url}, max_network_retries=0, http_client=http).v1
    finally:
        await http.close_async()


@contextlib.asynccontextmanager
async def restarted(home):
    """Another sandbox process' state of the same home: its address."""
    runner, port = await app.start(app.build(home), 0)
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


async def test_the_sdk_refunds_reads_and_lists(served):
    async with sdk(served) as client:
        made = await client.refunds.create_async(
            {
                "charge": CHARGE,
                "amount": 4000,
                "reason": "requested_by_customer",
                "metadata": {"order": "1042", "why": "zerbrochen, größer [x]"},
            },
            {"idempotency_key": "k1"},
        )
        again = await client.refunds.retrieve_async(made.id)
        listed = await client.refunds.list_async({"charge": CHARGE})
        charge = await client.charges.retrieve_async(CHARGE)
        intent = await client.payment_intents.retrieve_async("pi_sample_1042")

    assert (made.amount, made.currency, made.status, made.reason) == (4000, "eur", "succeeded", "requested_by_customer")
    assert made.metadata.to_dict() == {"order": "1042", "why": "zerbrochen, größer [x]"}
    assert made.last_response.request_id.startswith("req_")
    assert again.to_dict() == made.to_dict() == listed.data[0].to_dict()
    assert (charge.amount, charge.amount_refunded, charge.refunded) == (5990, 4000, False)
    assert intent.latest_charge == CHARGE
    (line,) = await journal(served)
    facts = {"refund_id": made.id, "charge": CHARGE, "amount": 4000, "currency": "eur", "idempotency_key": "k1"}
    assert {name: line[name] for name in facts} == facts
    assert line["metadata"] == made.metadata.to_dict()
    assert line["at"].endswith("+00:00")


async def test_a_key_is_answered_once_and_then_again_with_the_same(served):
    _, first, _ = await post(served, key="k")

    status, second, headers = await post(served, key="k")

    assert (status, second) == (200, first)
    assert headers["Idempotent-Replayed"] == "true"
    assert headers["Request-Id"] != headers["Original-Request"]
    assert len(await journal(served)) == 1


async def test_the_order_of_parameters_does_not_matter(served):
    await post(served, key="k")

    status, _, headers = await post(served, {"amount": "4000", "charge": CHARGE}, key="k")

    assert (status, headers["Idempotent-Replayed"]) == (200, "true")


@pytest.mark.parametrize(
    "form", [{**FORTY, "amount": "3999"}, {**FORTY, "metadata[a]": "b"}, {**FORTY, "amount": "nonsense"}, {}]
)
async def test_other_parameters_under_a_key_are_refused(served, form):
    await post(served, key="k")

    status, body, headers = await post(served, form, key="k")

    assert (status, body["error"]["type"]) == (400, "idempotency_error")
    assert "Idempotent-Replayed" not in headers
    assert len(await journal(served)) == 1


async def test_without_a_key_each_request_is_a_refund(served):
    await post(served, {**FORTY, "amount": "100"})
    await post(served, {**FORTY, "amount": "100"})

    assert [line["idempotency_key"] for line in await journal(served)] == [None, None]


async def test_twenty_requests_at_once_with_one_key_are_one_refund(served):
    answers = await asyncio.gather(*(post(served, key="k") for _ in range(20)))

    refunds = {body["id"] for status, body, _ in answers if status == 200}
    assert {status for status, _, _ in answers} <= {200, 409}
    assert len(refunds) == 1
    assert [line["refund_id"] for line in await journal(served)] == list(refunds)


async def test_a_key_is_in_use_while_its_first_request_goes_on(served):
    await faulty(served, {"kind": "late", "seconds": 0.2})
    first = asyncio.create_task(post(served, key="k"))
    async with asyncio.timeout(5):
        while (await faults_left(served))[0]["times"]:
            continue

    status, body, _ = await post(served, key="k")
    other, _, _ = await post(served, {**FORTY, "amount": "100"}, key="k2")

    assert (status, body["error"]["code"]) == (409, "idempotency_key_in_use")
    assert other == 200
    assert (await first)[0] == 200
    assert len(await journal(served)) == 2


async def faults_left(served):
    async with served.http.get(served.url + "/sandbox/payments/faults") as response:
        return await response.json()


# what is wrong, status, code, param
REFUSALS = [
    ({"charge": CHARGE, "amount": "0"}, 400, "parameter_invalid_integer", "amount"),
    ({"charge": CHARGE, "amount": "-1"}, 400, "parameter_invalid_integer", "amount"),
    ({"charge": CHARGE, "amount": "40.00"}, 400, "parameter_invalid_integer", "amount"),
    ({"charge": CHARGE, "amount": ""}, 400, "parameter_invalid_integer", "amount"),
    ({"amount": "100"}, 400, "parameter_missing", "charge"),
    ({"charge": "ch_nowhere", "amount": "100"}, 404, "resource_missing", "charge"),
    ({"payment_intent": "pi_nowhere"}, 404, "resource_missing", "payment_intent"),
    ({"charge": CHARGE, "payment_intent": "pi_sample_1042"}, 400, None, "payment_intent"),
    ({"charge": CHARGE, "currency": "usd"}, 400, None, "currency"),
    ({"charge": CHARGE, "reason": "it broke"}, 400, None, "reason"),
    ({"charge": CHARGE, "speed": "fast"}, 400, "parameter_unknown", "speed"),
    ({"charge": CHARGE, "metadata[why]": "x" * 501}, 400, None, "metadata[why]"),
    ({"charge": CHARGE, f"metadata[{'x' * 41}]": "y"}, 400, None, f"metadata[{'x' * 41}]"),
    ({"charge": CHARGE} | {f"metadata[{n}]": "y" for n in range(51)}, 400, None, "metadata"),
]


@pytest.mark.parametrize(("form", "status", "code", "param"), REFUSALS)
async def test_what_is_wrong_is_refused_in_its_shape_and_not_remembered(served, form, status, code, param):
    refused = await post(served, form, key="k")

    error = refused[1]["error"]
    assert (refused[0], error.get("code"), error["param"]) == (status, code, param)
    assert error["type"] == "invalid_request_error"
    assert refused[2]["Request-Id"].startswith("req_")
    assert (await post(served, key="k"))[0] == 200


@pytest.mark.parametrize(
    "given", [{}, {"Authorization": "Bearer sk_live_1"}, {"Authorization": "Basic !"}, {"Authorization": "Bearer "}]
)
async def test_a_wrong_key_is_401(served, given):
    async with served.http.post(served.url + "/v1/refunds", data=FORTY, headers=given) as response:
        body = await response.json()

    assert (response.status, body["error"]["type"]) == (401, "invalid_request_error")
    assert await journal(served) == []


async def test_basic_authentication_will_do_and_json_will_not(served):
    who = aiohttp.encode_basic_auth("sk_test_sandbox", "")
    async with served.http.get(served.url + "/v1/refunds", headers={"Authorization": who}) as response:
        assert response.status == 200
    async with served.http.post(served.url + "/v1/refunds", json=FORTY, headers=KEY) as response:
        assert response.status == 400


async def test_a_key_of_more_than_255_characters_is_refused(served):
    assert (await post(served, key="k" * 256))[0] == 400
    assert (await post(served, key="k" * 255))[0] == 200


async def test_no_more_than_was_paid_goes_back(served):
    await post(served, key="k1")

    status, body, _ = await post(served, key="k2")
    _, rest, _ = await post(served, {"charge": CHARGE}, key="k3")
    full, refused, _ = await post(served, {"charge": CHARGE, "amount": "1"}, key="k4")

    assert (status, body["error"]["param"]) == (400, "amount")
    assert "1990 EUR" in body["error"]["message"]
    assert rest["amount"] == 1990
    assert (full, refused["error"]["code"]) == (400, "charge_already_refunded")
    assert [line["amount"] for line in await journal(served)] == [4000, 1990]


async def test_a_refusal_after_execution_began_is_replayed(served):
    too_much = {"charge": CHARGE, "amount": "6000"}
    _, first, _ = await post(served, too_much, key="k")

    status, second, headers = await post(served, too_much, key="k")

    assert (status, second, headers["Idempotent-Replayed"]) == (400, first, "true")


async def test_the_samples_have_a_refunded_order_and_one_in_yen(served):
    status, body, _ = await post(served, {"charge": "ch_sample_1039", "amount": "1"})
    _, yen, _ = await post(served, {"payment_intent": "pi_sample_1040"})
    _, listed = await get(served, "/v1/refunds?charge=ch_sample_1039")

    assert (status, body["error"]["code"]) == (400, "charge_already_refunded")
    assert (yen["amount"], yen["currency"]) == (8400, "jpy")
    assert [refund["amount"] for refund in listed["data"]] == [3200]


async def test_keys_are_pruned_after_a_day(served):
    _, first, _ = await post(served, {**FORTY, "amount": "100"}, key="k")
    await served.put("payments/clock", {"offset_s": DAY - 60})
    _, kept, _ = await post(served, {**FORTY, "amount": "100"}, key="k")
    await served.put("payments/clock", {"offset_s": DAY + 60})

    _, anew, headers = await post(served, {**FORTY, "amount": "100"}, key="k")

    assert kept["id"] == first["id"] != anew["id"]
    assert "Idempotent-Replayed" not in headers
    assert len(await journal(served)) == 2


async def test_the_lifetime_of_keys_can_be_set_and_outlasts_a_restart(served):
    await served.put("payments/clock", {"key_lifetime_s": 0})
    for _ in range(2):
        await post(served, {**FORTY, "amount": "100"}, key="k")

    async with restarted(served.home) as url:
        served.url = url
        await post(served, {**FORTY, "amount": "100"}, key="k")

        assert len(await journal(served)) == 3


async def test_a_bad_clock_is_refused(served):
    status, body = await served.put("payments/clock", {"offset": 1})

    assert status == 400
    assert body["error"].startswith("offset: ")


async def test_a_restart_forgets_nothing(served):
    _, made, _ = await post(served, key="k1")
    _, refused, _ = await post(served, key="k2")
    await faulty(served, {"kind": "stored"})
    _, failed, _ = await post(served, {**FORTY, "amount": "10"}, key="k3")

    async with restarted(served.home) as url:
        served.url = url
        answers = [await post(served, key="k1"), await post(served, key="k2")]
        answers.append(await post(served, {**FORTY, "amount": "10"}, key="k3"))
        _, charge = await get(served, f"/v1/charges/{CHARGE}")

    assert [(status, body) for status, body, _ in answers] == [(200, made), (400, refused), (500, failed)]
    assert all(headers["Idempotent-Replayed"] == "true" for _, _, headers in answers)
    assert charge["amount_refunded"] == 4000


async def test_a_line_torn_by_a_kill_did_not_happen(served):
    await post(served, {**FORTY, "amount": "100"}, key="k1")
    path = served.home / "sandbox" / "payments.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-30])

    async with restarted(served.home) as url:
        served.url = url
        await post(served, {**FORTY, "amount": "200"}, key="k2")

        assert [line["amount"] for line in await journal(served)] == [100, 200]


async def test_pages_of_a_list_are_complete(served):
    for n in range(25):
        await post(served, {**FORTY, "amount": "1"}, key=f"k{n}")

    async with sdk(served) as client:
        page = await client.refunds.list_async({"charge": CHARGE, "limit": 10})
        found = [refund.id async for refund in page.auto_paging_iter()]

    assert page.has_more
    assert sorted(found) == sorted(line["refund_id"] for line in await journal(served))
    assert len(found) == 25


async def test_unknown_objects_are_404(served):
    for path in ("/v1/refunds/re_x", "/v1/charges/ch_x", "/v1/payment_intents/pi_x"):
        status, body = await get(served, path)
        assert (status, body["error"]["code"]) == (404, "resource_missing")


# Faults


async def test_it_commits_late_though_the_client_has_gone(served):
    await faulty(served, {"kind": "late", "seconds": 0.3})
    async with sdk(served, seconds=0.1) as client:
        with pytest.raises(stripe.APIConnectionError):
            await client.refunds.create_async({"charge": CHARGE, "amount": 4000}, {"idempotency_key": "k"})
    assert await journal(served) == []

    (line,) = await committed(served)
    status, body, headers = await post(served, key="k")

    assert (status, body["id"], headers["Idempotent-Replayed"]) == (200, line["refund_id"], "true")


@pytest.mark.parametrize("reset", [True, False])
async def test_it_drops_the_connection_after_the_commit(served, reset):
    await faulty(served, {"kind": "drop", "reset": reset})

    with pytest.raises(aiohttp.ClientError):
        await post(served, key="k")

    assert len(await journal(served)) == 1
    assert (await post(served, key="k"))[0] == 200
    assert len(await journal(served)) == 1


async def test_it_drops_the_connection_before_anything_is_done(served):
    await faulty(served, {"kind": "drop", "when": "before_commit", "times": 2})

    for _ in range(2):
        with pytest.raises(aiohttp.ClientError):
            await post(served, key="k")

    assert await journal(served) == []
    assert (await post(served, key="k"))[0] == 200


async def test_an_answer_is_cut_in_its_middle(served):
    await faulty(served, {"kind": "cut"})

    with pytest.raises(aiohttp.ClientPayloadError):
        await post(served, key="k")

    assert len(await journal(served)) == 1


@pytest.mark.parametrize("commit", [True, False])
async def test_a_stored_error_is_the_keys_answer(served, commit):
    await faulty(served, {"kind": "stored", "commit": commit})

    answers = [await post(served, key="k") for _ in range(3)]

    assert [status for status, _, _ in answers] == [500] * 3
    assert [headers.get("Idempotent-Replayed") for _, _, headers in answers] == [None, "true", "true"]
    assert answers[0][1]["error"]["type"] == "api_error"
    assert len(await journal(served)) == int(commit)


async def test_any_status_is_answered_and_not_remembered(served):
    for status in (400, 401, 402, 403, 404, 409, 424, 429, 500, 502, 503, 504):
        await faulty(served, {"kind": "status", "status": status, "code": "told", "headers": {"Retry-After": "7"}})
        told, body, headers = await post(served, key="k")
        assert (told, body["error"]["code"], headers["Retry-After"]) == (status, "told", "7")
    await faulty(served, {"kind": "in_use"})

    assert (await post(served, key="k"))[0] == 409
    assert (await post(served, key="k"))[0] == 200
    assert len(await journal(served)) == 1


async def test_a_slow_answer_holds_up_nobody_else(served):
    await faulty(served, {"kind": "slow", "seconds": 0.3, "match": "k-slow"})
    slow = asyncio.create_task(post(served, {**FORTY, "amount": "100"}, key="k-slow"))

    await committed(served)
    others = await asyncio.gather(*(post(served, {**FORTY, "amount": "1"}, key=f"k{n}") for n in range(10)))

    assert not slow.done()
    assert [status for status, _, _ in others] == [200] * 10
    assert (await slow)[0] == 200


async def test_a_proxys_page_before_or_after(served):
    for when, commits in (("before_commit", 0), ("after_commit", 1)):
        await faulty(served, {"kind": "page", "when": when})
        with pytest.raises(aiohttp.ContentTypeError):
            await post(served, key="k")
        assert len(await journal(served)) == commits


async def test_faults_meet_what_they_are_meant_for(served):
    await faulty(served, {"kind": "status", "status": 503, "on": "read", "times": "all", "match": "charge="})

    assert (await post(served, key="k"))[0] == 200
    assert (await get(served, f"/v1/charges/{CHARGE}"))[0] == 200
    assert [(await get(served, f"/v1/refunds?charge={CHARGE}"))[0] for _ in range(2)] == [503, 503]
    await served.delete("payments/faults")
    assert (await get(served, f"/v1/refunds?charge={CHARGE}"))[0] == 200


async def test_bad_faults_are_refused_with_the_place(served):
    status, body = await served.put("payments/faults", [{"kind": "late"}])

    assert status == 400
    assert body["error"].startswith("0.late.seconds: ")
