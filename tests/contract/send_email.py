"""What the contract test has to know of `send_email`."""

from typing import Any

import aiohttp

from activities import mail
from activities.tool import Context

ARGUMENTS: dict[str, Any] = {"to": "ada@example.com", "subject": "Your refund", "body": "It is on its way."}
OTHER_ARGUMENTS: dict[str, Any] = {"to": "ada@example.com", "subject": "Your refund", "body": "It is not on its way."}


async def commits(context: Context) -> int:
    """The journal of the sandbox's mail server."""
    id = mail.message_id(context.settings, context.idempotency_key)
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{context.settings.sandbox_url}/sandbox/mail/journal") as answer,
    ):
        return sum(line["message_id"] == id for line in await answer.json())
