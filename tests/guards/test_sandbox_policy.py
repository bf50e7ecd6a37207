"""The worker's sandbox: workflow code that imports what it must not does not even load."""

import importlib
import textwrap
import uuid

import pytest
from temporalio import workflow
from temporalio.worker.workflow_sandbox import UnintentionalPassthroughError

from workflows.agent_run import AgentRun
from workflows.runner import CheckedRunner

WORKFLOW = """
    from temporalio import workflow
    {top}

    @workflow.defn(name="Seeded")
    class Seeded:
        @workflow.run
        async def run(self) -> None:
            pass
"""


def load(cls):
    """Load a workflow as a worker does when it starts."""
    CheckedRunner().prepare_workflow(workflow._Definition.must_from_class(cls))


@pytest.fixture
def seeded(tmp_path, monkeypatch):
    """Makes workflows with such an import, each in a module of its own that can be imported."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(top=""):
        name = f"seeded_{uuid.uuid4().hex}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(WORKFLOW).format(top=top))
        with workflow.unsafe.imports_passed_through():
            return importlib.import_module(name).Seeded

    return make


async def test_the_agents_workflow_loads():
    load(AgentRun)


async def test_a_workflow_that_imports_only_domain_loads(seeded):
    load(seeded("from domain import loop, state"))


# What a workflow must not import.
FORBIDDEN = [
    "import anthropic",  # an SDK
    "import activities.model",  # a side effect
    "from activities.tools import create_task",  # a tool
    "from store import ledger",  # the database
    "import sqlalchemy",
    "from client.converter import CONVERTER",
]


@pytest.mark.parametrize("code", FORBIDDEN)
async def test_a_workflow_that_imports_what_it_must_not_does_not_load(seeded, code):
    with pytest.raises(UnintentionalPassthroughError):
        load(seeded(code))
