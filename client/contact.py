"""Who answers: the Temporal server and its namespace, and the sandbox."""

import asyncio
import http.client
import json
from typing import Any

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from client import connection, ports
from domain import errors
from store.settings import Settings

ANSWER_S = 2.0
REMOTE_ANSWER_S = 10.0


async def reach(settings: Settings) -> Client | None:
    """A client, if a server answers and knows the namespace."""
    try:
        return await probe(settings)
    except errors.DayflowError:
        return None


async def probe(settings: Settings) -> Client:
    """The same, or an error that says which of the two is not so."""
    address, answer_s = connection.address(settings), ANSWER_S if connection.embedded() else REMOTE_ANSWER_S
    try:
        async with asyncio.timeout(answer_s):
            client = await connection.connect(settings)
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except TimeoutError:
        raise errors.Unreachable(
            f"no Temporal server answers at {address} within {answer_s:.0f} s{_holder(settings)}. "
            "Check DAYFLOW_PORT or TEMPORAL_ADDRESS."
        ) from None
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise errors.BadSetting(
                "TEMPORAL_NAMESPACE", f"the server at {address} has no namespace {connection.namespace()!r}"
            ) from None
        raise errors.Unreachable(f"the Temporal server at {address} refuses: {error.message}") from error
    return client


def health(port: int) -> dict[str, Any]:
    """What GET /health on this port says; nothing if it is no such service."""
    http_connection = http.client.HTTPConnection(ports.LOOPBACK, port, timeout=ANSWER_S)
    try:
        http_connection.request("GET", "/health")
        found = json.loads(http_connection.getresponse().read(10_000))
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        http_connection.close()
    return found if isinstance(found, dict) else {}


def _holder(settings: Settings) -> str:
    found = ports.holder(settings.port) if connection.embedded() else None
    return f", but {found}" if found else ""
