"""The errors that the payment provider answers with, in its shape."""

from typing import Any

INVALID = "invalid_request_error"
CODES_PAGE = "https://docs.stripe.com/error-codes#"


class ApiError(Exception):
    """One error answer; the message is what the caller reads."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """The JSON body; fields that do not apply are left out."""
        error = {"code": self.code, "message": self.message, "param": self.param, "type": self.kind}
        if self.code:
            error["doc_url"] = CODES_PAGE + self.code.replace("_", "-")
        return {"error": {name: value for name, value in error.items() if value is not None}}


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """The 400 for parameters that cannot be used."""
    return ApiError(400, message, param=param, code=code)


def missing(what: str, identity: str, param: str) -> ApiError:
    """The 404 for an object that does not exist."""
    return ApiError(404, f"No such {what}: {identity!r}", param=param, code="resource_missing")


def unauthorised(message: str) -> ApiError:
    """The 401 for a key that cannot be used."""
    return ApiError(401, message, headers={"WWW-Authenticate": 'Basic realm="Stripe"'})


def in_use(key: str) -> ApiError:
    """The 409 for a key whose first request is still going on."""
    message = f"Another request with the idempotency key {key!r} is still in progress. Send it again in a moment."
    return ApiError(409, message, code="idempotency_key_in_use", headers={"Stripe-Should-Retry": "true"})


def reused(key: str) -> ApiError:
    """The 400 for a key that was used with other parameters."""
    message = f"The idempotency key {key!r} was first used with other parameters. Another request needs another key."
    return ApiError(400, message, kind="idempotency_error")
