"""How a worker runs workflow code: checked in the SDK's sandbox once, when it starts, and run plainly after that.

The sandbox would import the workflow anew for each run and enter itself for each payload: *seen* to cost 15 % of the
steps of 50 runs at once. What it forbids at run time is read off the code in
`tests/guards/test_imports.py`, and every recorded history is replayed inside of it.
"""

import dataclasses

from temporalio import workflow
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import SandboxImportNotificationPolicy as Policy

# Parts of the workflow itself; each is under the same guards as the module that imports it.
PASSED = ("domain", "workflows.steps", "workflows.acting", "workflows.hearing")


def strict() -> SandboxedWorkflowRunner:
    """The sandbox as the check wants it: `domain` and the workflow's own parts pass, anything unintended raises."""
    allowed = SandboxRestrictions.default.with_passthrough_modules(*PASSED)
    policy = Policy.WARN_ON_DYNAMIC_IMPORT | Policy.RAISE_ON_UNINTENTIONAL_PASSTHROUGH
    return SandboxedWorkflowRunner(dataclasses.replace(allowed, import_notification_policy=policy))


class CheckedRunner(UnsandboxedWorkflowRunner):
    """Workflow code may import `domain` and nothing else that is ours; anything unintended does not load."""

    def prepare_workflow(self, defn: workflow._Definition) -> None:
        """Import the workflow in the sandbox; `UnintentionalPassthroughError` names what it must not import."""
        strict().prepare_workflow(defn)
