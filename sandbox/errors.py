"""The errors that the Messages API answers with, and their wire shape."""

from typing import Any

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class ApiError(Exception):
    """One error answer; the message is what the caller reads."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind or TYPES.get(status, "api_error")
        self.message = message
        self.code = code
        self.headers = headers or {}

    def body(self, request_id: str) -> dict[str, Any]:
        """The JSON body, with `details` only where a code is known."""
        error: dict[str, Any] = {"type": self.kind, "message": self.message}
        if self.code:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error, "request_id": request_id}


class BadScript(Exception):
    """The script or the fault settings cannot be used; the message names the place."""


def invalid(message: str, code: str | None = None) -> ApiError:
    """The 400 for a request that the API refuses."""
    return ApiError(400, message, code=code)


def status_of(kind: str) -> int:
    """The usual status of an error type."""
    return next((status for status, name in TYPES.items() if name == kind), 500)
