"""What Dayflow needs of a Temporal server: its search attributes, and closed runs that stay until they are deleted."""

import logging
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

# Closed runs are deleted by the workflow `Retention`, which knows what has to stay; this is but the last resort.
RETENTION = timedelta(days=3650)
# Each by its type, as the server's own command calls it.
ATTRIBUTES = {
    "DayflowAgent": "Keyword",
    "DayflowStatus": "Keyword",
    "DayflowWaitingFor": "Keyword",
    "DayflowStep": "Int",
    "DayflowTokens": "Int",
}

log = logging.getLogger(__name__)


async def register_search_attributes(client: Client) -> bool:
    """Make sure that the server knows our search attributes; False where it does not and we may not tell it."""
    try:
        known = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
        new = {name: _indexed(kind) for name, kind in ATTRIBUTES.items() if name not in known.custom_attributes}
        if new:
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(namespace=client.namespace, search_attributes=new)
            )
    except RPCError as error:
        log.warning("runs go without search attributes: %s", error)
        return False
    return True


def _indexed(kind: str) -> IndexedValueType.ValueType:
    return IndexedValueType.Value(f"INDEXED_VALUE_TYPE_{kind.upper()}")


async def keep_closed_runs(client: Client) -> None:
    """Keep closed runs until they are deleted; the embedded server would forget them after one day."""
    keep = Duration()
    keep.FromTimedelta(RETENTION)
    config = NamespaceConfig(workflow_execution_retention_ttl=keep)
    await client.workflow_service.update_namespace(UpdateNamespaceRequest(namespace=client.namespace, config=config))
