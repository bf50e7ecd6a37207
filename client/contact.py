"""Who answers: the Temporal server and its namespace, the workers that ask it for work, the sandbox."""

import asyncio
import http.client
import json
import time
from typing import Any

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from client import connection, ports
from client.dayflow import TASK_QUEUE
from domain import errors
from store.settings import Settings

ANSWER_S = 2.0
REMOTE_ANSWER_S = 10.0
# An idle worker asks once a minute.
POLL_SEEN_S = 75.0


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


async def pollers(client: Client) -> list[str]:
    """Who asks for workflow tasks of Dayflow, by identity; the server remembers for minutes who once did."""
    oldest = time.time() - POLL_SEEN_S
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=TASK_QUEUE),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    try:
        found = (await client.workflow_service.describe_task_queue(request)).pollers
    except RPCError:
        return []
    return [one.identity for one in found if one.last_access_time.seconds > oldest]


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
