"""Errors of the Messages API become ours here: each ends as retry, retry later, or a named reason to stand still."""

import email.utils
import json
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import anthropic
import httpx2
from temporalio.exceptions import ApplicationError

from activities import cleaning

# One call is given up, and the run parked, after this many failures of one kind in a row.
FAILURES_UNTIL_DOWN = 6
FAILURES_UNTIL_REPAIR = 2
LONGEST_RETRY_AFTER = timedelta(days=1)

SPEND_CODES = {"enforced_spend_limit_reached", "contract_spend_limit_reached"}
SPEND_WORDS = ("spend limit", "usage limit", "credit balance", "billing")
WINDOW_WORDS = ("prompt is too long", "context window", "context limit")
# In a stream the status says 200, and only the type of the error says what it is.
RETRIED_TYPES = {"overloaded_error", "api_error", "rate_limit_error", "timeout_error"}
CREDENTIAL_TYPES = {"authentication_error", "permission_error", "not_found_error"}


class BadAnswer(Exception):
    """The answer ended early or is no message at all: a fault of the way, like a broken connection."""


@dataclass(frozen=True)
class Ending:
    """What a failure means. final: no retry. most: how many failures until the run stands still all the same."""

    reason: str
    final: bool = False
    most: int = FAILURES_UNTIL_DOWN
    wait: timedelta | None = None


def classify(error: BaseException) -> Ending:
    """The one ending that an error has."""
    match error:
        case anthropic.APIStatusError():
            return _status(error)
        case BadAnswer() | anthropic.APIConnectionError() | httpx2.HTTPError() | OSError() | json.JSONDecodeError():
            return Ending("model down")
        case UnicodeEncodeError():
            return Ending("needs repair", final=True)
        case anthropic.CredentialsError():
            return Ending("credentials", final=True)
        case anthropic.AnthropicError() if "authentication" in str(error).lower() or "api_key" in str(error):
            return Ending("credentials", final=True)
        case _:
            return Ending("needs repair", most=FAILURES_UNTIL_REPAIR)


def left_unanswered(error: BaseException) -> bool:
    """Whether the request may have arrived although no answer came: nobody can know whether it was charged."""
    if isinstance(error, anthropic.APIConnectionError):
        return not isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout)
    return isinstance(error, BadAnswer | httpx2.HTTPError)


def failure(error: BaseException, failures: int, secrets: Sequence[str] = ()) -> ApplicationError:
    """The error as Temporal is told of it; `failures` counts this one. Never holds a body: it may echo the prompt."""
    end = classify(error)
    detail = {
        "status": getattr(error, "status_code", None),
        "type": getattr(error, "type", None),
        "request_id": getattr(error, "request_id", None),
        "failures": failures,
    }
    return ApplicationError(
        f"{cleaning.clean(_say(error), secrets).text} (failure {failures})",
        detail,
        type=end.reason,
        non_retryable=end.final or failures % end.most == 0,
        next_retry_delay=end.wait,
    )


def _status(error: anthropic.APIStatusError) -> Ending:
    kind, code, text = error.type or "", _code(error), (error.api_message or "").lower()
    if code in SPEND_CODES or error.status_code == 402 or kind == "billing_error":
        return Ending("quota", final=True)
    if error.status_code == 400 and any(words in text for words in SPEND_WORDS):
        return Ending("quota", final=True)
    if error.status_code in {401, 403, 404} or kind in CREDENTIAL_TYPES:
        return Ending("credentials", final=True)
    if _too_long(error, code, text):
        return Ending("window full", final=True)
    if error.status_code in {408, 409, 429} or error.status_code >= 500:
        return Ending("model down", wait=_retry_after(error))
    if error.status_code < 400 and kind in RETRIED_TYPES:
        return Ending("model down")
    if error.status_code < 400 and kind != "invalid_request_error":
        return Ending("needs repair", most=FAILURES_UNTIL_REPAIR)
    return Ending("needs repair", final=True)


def _too_long(error: anthropic.APIStatusError, code: Any, text: str) -> bool:
    """Whether the request is larger than the window, or than the API takes."""
    told = error.status_code == 400 and any(words in text for words in WINDOW_WORDS)
    return told or error.status_code == 413 or code == "request_body_too_large_after_decoding"


def _code(error: anthropic.APIStatusError) -> Any:
    body: Any = error.body
    inner = body.get("error") if isinstance(body, dict) else None
    details = inner.get("details") if isinstance(inner, dict) else None
    return details.get("error_code") if isinstance(details, dict) else None


def _retry_after(error: anthropic.APIStatusError) -> timedelta | None:
    """What the answer asks us to wait, with some jitter so that many runs do not come back at once."""
    headers = error.response.headers
    try:
        if milliseconds := headers.get("retry-after-ms"):
            seconds = float(milliseconds) / 1000
        elif after := headers.get("retry-after"):
            seconds = float(after) if after.replace(".", "", 1).isdigit() else _until(after)
        else:
            return None
    except (TypeError, ValueError):
        return None
    if math.isnan(seconds):
        return None
    wait = min(max(seconds, 0), LONGEST_RETRY_AFTER.total_seconds())
    return timedelta(seconds=wait * random.uniform(1.0, 1.1) + 0.1)


def _until(date: str) -> float:
    return email.utils.parsedate_to_datetime(date).timestamp() - time.time()


def _say(error: BaseException) -> str:
    if isinstance(error, anthropic.APIStatusError):
        said = f": {error.api_message}" if error.api_message else ""
        return f"the Messages API answered {error.status_code} {error.type or 'without a type'}{said}"[:500]
    if isinstance(error, AttributeError | TypeError | LookupError):  # the SDK's, about an answer of another shape
        return f"the answer could not be read ({type(error).__name__}: {error})"[:500]
    where = f" ({_origin(error.request.url)})" if isinstance(error, anthropic.APIConnectionError) else ""
    return f"{type(error).__name__}: {error}{where}"[:500]


def _origin(url: httpx2.URL) -> str:
    """The address without path and login."""
    return f"{url.scheme}://{url.netloc.decode()}"
