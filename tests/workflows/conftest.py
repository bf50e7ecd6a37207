"""The server that the tests of workflows share; each module has one of its own."""

from collections.abc import AsyncIterator

import pytest_asyncio
from homes import BIN
from temporalio.testing import WorkflowEnvironment

from client.converter import CONVERTER


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """Temporal's test server, whose clock jumps to the next timer."""
    async with await WorkflowEnvironment.start_time_skipping(
        data_converter=CONVERTER, test_server_existing_path=str(BIN / "temporal-test-server")
    ) as env:
        yield env
