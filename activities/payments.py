"""The payment provider as a destination: refunds by the `stripe` SDK, and every error of it as one of ours."""

import functools
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import aiohttp
import stripe
from pydantic import BaseModel, ConfigDict, Field

from activities import plain
from domain import errors
from store.settings import Settings

SANDBOX_KEY = "sk_test_sandbox"
# Together they stay below the deadline of a tool that looks twice and then sends.
READ_SECONDS = 4.0
SEND_SECONDS = 10.0
CONNECT_SECONDS = 3.0
PAGE = 100
LONGEST_METADATA = 500
# Where the refund says which action it belongs to.
KEY = "dayflow_key"

Reason = Literal["duplicate", "fraudulent", "requested_by_customer"]
# The request never left: no connection could be made.
NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
# What comes with a 4xx but says nothing about what was done.
NO_VERDICT = {408, 424}

# It would write an id into the user's configuration and send timings along.
stripe.enable_telemetry = False


class Refund(BaseModel):
    """A refund as the provider has it; the amount is in the smallest unit of the currency."""

    model_config = ConfigDict(frozen=True)

    id: str
    amount: int
    currency: str
    status: str
    metadata: dict[str, str] = Field(default_factory=dict)

    @property
    def moves_money(self) -> bool:
        """Whether the money went, or is going, back."""
        return self.status not in ("failed", "canceled")


class Charge(BaseModel):
    """A payment as the provider has it."""

    model_config = ConfigDict(frozen=True)

    id: str
    currency: str
    amount_captured: int
    amount_refunded: int


@dataclass(frozen=True)
class Standing:
    """What became of a payment: the charge, and all of its refunds, the newest first."""

    charge: Charge
    refunds: list[Refund]

    @property
    def refundable(self) -> int:
        """What is left to refund."""
        return self.charge.amount_captured - self.charge.amount_refunded

    def refund(self, key: str) -> Refund | None:
        """The refund that was made under this key."""
        return next((refund for refund in self.refunds if refund.metadata.get(KEY) == key), None)


class Payments:
    """The provider of these settings; without a key in them, the sandbox's."""

    def __init__(self, settings: Settings, *, read_s: float = READ_SECONDS, send_s: float = SEND_SECONDS) -> None:
        key = settings.stripe_api_key
        self._key = key.get_secret_value() if key else SANDBOX_KEY
        self._address = settings.stripe_base_url or (None if key else settings.sandbox_url)
        self._read_s = read_s
        self._send_s = send_s

    async def refund(
        self, charge: str, amount_minor: int, currency: str, reason: Reason, key: str, metadata: dict[str, str]
    ) -> Refund:
        """Refund so much of a charge, once for each key.

        Raises `errors.ToolFailed` if it is certain that nothing was done, `errors.ArgumentsChanged` if the key was used
        for something else, `errors.Again` if the same key may be sent again, `errors.Uncertain` in all other cases.
        """
        async with self._client(self._send_s) as client:
            try:
                made = await client.v1.refunds.create_async(
                    {"charge": charge, "amount": amount_minor, "reason": reason, "metadata": tagged(metadata, key)},
                    {"idempotency_key": key},
                )
                refund = Refund.model_validate(made.to_dict())
            except Exception as error:
                raise after_sending(error) from None
        if (refund.amount, refund.currency) != (amount_minor, currency.lower()):
            raise errors.Uncertain(f"the provider made {refund.id} of {refund.amount} {refund.currency}")
        return refund

    async def find_refund(self, charge: str, key: str) -> Refund | None:
        """The refund that was made under this key; None only if the provider listed them all."""
        async with self._client(self._read_s) as client:
            try:
                refunds = await _refunds(client, charge)
            except Exception as error:
                raise after_reading(error) from None
        return next((refund for refund in refunds if refund.metadata.get(KEY) == key), None)

    async def standing(self, charge: str) -> Standing:
        """The charge and all of its refunds; `errors.Again` if the provider does not answer."""
        async with self._client(self._read_s / 2) as client:
            try:
                # The charge first: a refund that is made in between is then in the list, and not in the sum.
                found = await client.v1.charges.retrieve_async(charge)
                return Standing(Charge.model_validate(found.to_dict()), await _refunds(client, charge))
            except Exception as error:
                raise after_reading(error) from None

    @asynccontextmanager
    async def _client(self, seconds: float) -> AsyncIterator[stripe.StripeClient]:
        """A client that sends once: Temporal is the one retry owner."""
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=min(CONNECT_SECONDS, seconds))
        http = stripe.AIOHTTPClient(timeout=limit, connector=aiohttp.TCPConnector(ssl=_trusted()))
        try:
            yield stripe.StripeClient(
                self._key,
                base_addresses={"api": self._address} if self._address else None,
                max_network_retries=0,
                http_client=http,
            )
        finally:
            await http.close_async()  # type: ignore[no-untyped-call]


def tagged(metadata: dict[str, str], key: str) -> dict[str, str]:
    """Metadata as the provider keeps it, with the key by which the refund is found again."""
    kept = {name: plain.line(value, LONGEST_METADATA) for name, value in metadata.items()}
    return {name: value for name, value in kept.items() if value} | {KEY: key}


def after_sending(error: Exception) -> errors.DayflowError:
    """Every error of a request that changes something, as one of ours; no error that is not known is a No."""
    if isinstance(error, stripe.StripeError):
        return _connection(error) if isinstance(error, stripe.APIConnectionError) else _answer(error)
    if isinstance(error, NOT_SENT):
        return errors.Again(f"the payment provider cannot be reached ({type(error).__name__})")
    return errors.Uncertain(f"the payment provider gave no answer that can be read ({type(error).__name__})")


def after_reading(error: Exception) -> errors.DayflowError:
    """The same for a request that changes nothing: what is not a No may be asked again."""
    ours = after_sending(error)
    return ours if isinstance(ours, errors.ToolFailed) else errors.Again(str(ours))


def _connection(error: stripe.APIConnectionError) -> errors.DayflowError:
    cause = error.__cause__
    name = type(cause).__name__
    if isinstance(cause, NOT_SENT):
        return errors.Again(f"the payment provider cannot be reached ({name})")
    return errors.Uncertain(f"the connection to the payment provider ended without an answer ({name})")


def _answer(error: stripe.StripeError) -> errors.DayflowError:
    """By the status; what is no answer of the provider's own, such as a proxy's page, says nothing."""
    status, words = error.http_status or 0, error.user_message or type(error).__name__
    if isinstance(error, stripe.IdempotencyError) and status != 409:
        return errors.ArgumentsChanged(words)
    if status in (409, 429) or isinstance(error, stripe.RateLimitError):
        return errors.Again(f"the payment provider is busy: {words}")
    if 400 <= status < 500 and status not in NO_VERDICT and error.error is not None:
        return errors.ToolFailed(f"The payment provider refused it: {words}")
    if _header(error, "Idempotent-Replayed") == "true":
        return errors.Uncertain(f"the payment provider keeps an error ({status}) under this key: {words}")
    return errors.Uncertain(f"the payment provider failed ({status or 'no status'})")


def _header(error: stripe.StripeError, name: str) -> str | None:
    found: str | None = error.headers.get(name) if error.headers else None
    return found


async def _refunds(client: stripe.StripeClient, charge: str) -> list[Refund]:
    """All refunds of a charge, over every page."""
    page = await client.v1.refunds.list_async({"charge": charge, "limit": PAGE})
    return [Refund.model_validate(each.to_dict()) async for each in page.auto_paging_iter()]


@functools.cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=stripe.ca_bundle_path)
