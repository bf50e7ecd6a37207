"""What the contract test has to know of `issue_refund`."""

from typing import Any

import aiohttp

from activities.tool import Context

ARGUMENTS: dict[str, Any] = {"order_id": "1043", "amount": "10.00", "reason": "It arrived broken."}
OTHER_ARGUMENTS: dict[str, Any] = {"order_id": "1043", "amount": "20.00", "reason": "It arrived broken."}


async def commits(context: Context) -> int:
    """The journal of the sandbox's payment provider."""
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{context.settings.sandbox_url}/sandbox/payments/journal") as answer,
    ):
        return sum(line["idempotency_key"] == context.idempotency_key for line in await answer.json())


async def forget_keys(context: Context) -> None:
    """From now on the provider knows no key that was used before."""
    clock = {"key_lifetime_s": 0}
    async with (
        aiohttp.ClientSession() as http,
        http.put(f"{context.settings.sandbox_url}/sandbox/payments/clock", json=clock) as answer,
    ):
        assert answer.status == 200
