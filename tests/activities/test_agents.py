"""load_agent: an agent is resolved against the tools of the worker that answers."""

import os
from pathlib import Path

import pytest
from homes import Home
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.agents import Agents
from domain.request import LoadRequest


async def test_a_tool_that_this_worker_lacks_is_named_with_the_worker_and_what_to_do(tmp_path: Path) -> None:
    older = Agents(Home(tmp_path).settings, None, {}, search_attributes=False)  # type: ignore[arg-type]

    with pytest.raises(ApplicationError) as refused:
        await ActivityEnvironment().run(older.load, LoadRequest(run="r", raw=[{"agent": "brief"}]))

    told = str(refused.value)
    assert f"this worker (pid {os.getpid()}, started " in told
    assert "does not have it. If activities/tools/" in told
    assert "restart the worker: `dayflow down`, `dayflow up`" in told
