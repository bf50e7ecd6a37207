"""The steps of a run: one typed function per activity, with every timeout and every retry policy.

Workflows know activities by name only; the types that cross are in `domain/`.
"""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError

from domain.agent import Definition
from domain.compaction import Compact, Summary
from domain.decisions import Authority, Objection, Standing
from domain.model import ModelAnswer, ModelCall
from domain.raises import Raise
from domain.request import LoadRequest, RunRequest
from domain.retention import Batch, Done, Found, Look, Plan, Wanted
from domain.timetable import Due, Firing
from domain.tool import Preparation, Prepared, Read, ToolCall, ToolResult, ToolSpec

# Shorter than the server's 10 s, after which a killed worker is noticed; longer than a cold replay, or it never ends.
TASK_TIMEOUT = timedelta(seconds=5)
HEARTBEAT = timedelta(seconds=5)
# The list of runs may be behind by this much in its steps and tokens; in its status never.
COUNTS_SHOWN_EVERY = timedelta(seconds=10)
SUMMARY_BYTES = 200
# Before an execution ends for the next one, a task of its own shows whether it was cancelled.
LAST_LOOK = timedelta(milliseconds=1)
# What the timers of a run say of themselves.
TOO_LATE = "the request for a decision expires"
TRY_AGAIN = "the model that was down is asked again"
STORE_AWAY = "the store that could not be used is asked again"
HEAR_OUT = "a last look at what people sent, before the run goes on as new"

# Failures that no retry heals. The names are `type` of an ApplicationError; the last two are the SDK's own. One that
# "needs repair" is not among them: it says itself whether it is final, or may be tried once more.
FINAL = [
    "refused",
    "quota",
    "budget",
    "credentials",
    "window full",
    "changed arguments",
    "PayloadsTooLarge",
    "PayloadSizeError",
]

# A lost worker is found by the heartbeat; an attempt of the model may stream for this long. A killed worker is no
# failure of the model: the activity counts real failures in the ledger, and says itself which one is the last.
MODEL_ATTEMPT = timedelta(minutes=30)
MODEL_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=0.5),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=60),
    non_retryable_error_types=FINAL,
)
# While a model is down the run tries again by itself after this long.
MODEL_DOWN_PAUSE = timedelta(minutes=5)

LOAD_ATTEMPT = timedelta(seconds=30)
LOAD_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=0.5),
    maximum_interval=timedelta(seconds=30),
    non_retryable_error_types=FINAL,
)

# Looking something up in our own files and tables.
LOOK_ATTEMPT = timedelta(seconds=30)

# Reading again is free; a tool that kills its worker four times is answered for.
TOOL_GRACE = timedelta(seconds=10)
READ_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=0.5),
    maximum_attempts=4,
    non_retryable_error_types=FINAL,
)
# But a store that cannot be used is no answer of a tool's: it is waited for.
STORE_AWAY_PAUSE = timedelta(seconds=10)
# An effect is never given up while it may be half done: the ledger makes every retry safe.
EFFECT_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=0.5),
    maximum_interval=timedelta(seconds=30),
    non_retryable_error_types=FINAL,
)


# One page of what is old; the whole of what histories refer to is read for a page of payloads.
PAGE_ATTEMPT = timedelta(hours=1)


async def load_agent(request: LoadRequest) -> Definition:
    """Check the input, resolve the agent, claim the run id."""
    loaded: Definition = await workflow.execute_activity(
        "load_agent",
        request,
        result_type=Definition,
        start_to_close_timeout=LOAD_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=LOAD_RETRIES,
        summary="check the input and freeze the agent",
    )
    return loaded


async def call_model(call: ModelCall) -> ModelAnswer:
    """Ask the model for the next assistant turn."""
    answer: ModelAnswer = await workflow.execute_activity(
        "call_model",
        call,
        result_type=ModelAnswer,
        start_to_close_timeout=MODEL_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=MODEL_RETRIES,
        summary=f"step {call.step}" + (f", ask {call.ask}" if call.ask > 1 else ""),
    )
    return answer


async def compact_transcript(asked: Compact) -> Summary:
    """Sum up the older part of the transcript."""
    summary: Summary = await workflow.execute_activity(
        "compact_transcript",
        asked,
        result_type=Summary,
        start_to_close_timeout=MODEL_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=MODEL_RETRIES,
        summary=f"step {asked.call.step}: {asked.end - 1} messages, by {asked.by}",
    )
    return summary


async def prepare_action(wanted: Preparation) -> Prepared:
    """Find out what an effect is about, before a person is asked: its intent, its amount, who holds the intent."""
    prepared: Prepared = await workflow.execute_activity(
        "prepare_action",
        wanted,
        result_type=Prepared,
        start_to_close_timeout=LOOK_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=LOAD_RETRIES,
        summary=f"step {wanted.step}: {wanted.tool}",
    )
    return prepared


async def check_authority(asked: Authority) -> Objection:
    """Whether the approver may decide this."""
    objection: Objection = await workflow.execute_activity(
        "check_authority",
        asked,
        result_type=Objection,
        start_to_close_timeout=LOOK_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=LOAD_RETRIES,
        summary=cut(f"{asked.decision.verdict} {asked.decision.action_id} by {asked.decision.approver}", SUMMARY_BYTES),
    )
    return objection


async def resolve_effect(asked: Standing) -> Objection:
    """Close the ledger's row as a person says, if they may."""
    objection: Objection = await workflow.execute_activity(
        "resolve_effect",
        asked,
        result_type=Objection,
        start_to_close_timeout=LOOK_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=LOAD_RETRIES,
        summary=cut(
            f"{asked.resolution.action_id}: {asked.resolution.outcome}, says {asked.resolution.by}", SUMMARY_BYTES
        ),
    )
    return objection


async def check_raise(asked: Raise) -> Objection:
    """Whether a person may give the run new limits."""
    objection: Objection = await workflow.execute_activity(
        "check_raise",
        asked,
        result_type=Objection,
        start_to_close_timeout=LOOK_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=LOAD_RETRIES,
        summary=cut(f"new limits by {asked.by}", SUMMARY_BYTES),
    )
    return objection


async def plan_retention(wanted: Wanted) -> Plan:
    """What a clean-up goes by."""
    plan: Plan = await workflow.execute_activity(
        "plan_retention",
        wanted,
        result_type=Plan,
        start_to_close_timeout=LOOK_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=LOAD_RETRIES,
        summary="dry run" if wanted.dry_run else "how long each is kept",
    )
    return plan


async def find_expired(look: Look) -> Found:
    """A page of what may go."""
    found: Found = await workflow.execute_activity(
        "find_expired",
        look,
        result_type=Found,
        start_to_close_timeout=PAGE_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=LOAD_RETRIES,
        summary=look.kind,
    )
    return found


async def mark_expired(batch: Batch) -> Done:
    """Let the grace period of these begin."""
    done: Done = await workflow.execute_activity(
        "mark_expired",
        batch,
        result_type=Done,
        start_to_close_timeout=LOOK_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=LOAD_RETRIES,
        summary=f"{len(batch.names)} {batch.kind}",
    )
    return done


async def delete_expired(batch: Batch) -> Done:
    """Delete what was found."""
    done: Done = await workflow.execute_activity(
        "delete_expired",
        batch,
        result_type=Done,
        start_to_close_timeout=PAGE_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=LOAD_RETRIES,
        summary=f"{len(batch.names)} {batch.kind}",
    )
    return done


async def due_run(firing: Firing) -> Due:
    """Which run is due when a schedule fires; where it reads from is noted."""
    due: Due = await workflow.execute_activity(
        "due_run",
        firing,
        result_type=Due,
        start_to_close_timeout=LOOK_ATTEMPT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=LOAD_RETRIES,
        summary=cut(f"{firing.timetable.name}, {firing.timetable.time_zone}", SUMMARY_BYTES),
    )
    return due


async def start_run(run_id: str, request: RunRequest) -> None:
    """Start a run that goes on by itself; `WorkflowAlreadyStartedError` if its id was used before, by whatever."""
    await workflow.start_child_workflow(
        "AgentRun",
        request.model_dump(exclude_none=True),
        id=run_id,
        task_timeout=TASK_TIMEOUT,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        parent_close_policy=workflow.ParentClosePolicy.ABANDON,
    )


def start_tool(call: ToolCall, tool: ToolSpec) -> "workflow.ActivityHandle[ToolResult]":
    """Start one tool; an effect is waited for even when the run is cancelled."""
    reads = isinstance(tool.declares, Read)
    handle: workflow.ActivityHandle[ToolResult] = workflow.start_activity(
        call.tool,
        call,
        result_type=ToolResult,
        start_to_close_timeout=timedelta(seconds=tool.declares.deadline_s) + TOOL_GRACE,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=READ_RETRIES if reads else EFFECT_RETRIES,
        cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL
        if reads
        else workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=_summary(call),
    )
    return handle


async def run_tool(call: ToolCall, tool: ToolSpec) -> ToolResult:
    """Run one tool, and a reading one again for as long as the store cannot be used."""
    while True:
        try:
            return await _answer(start_tool(call, tool))
        except ActivityError as error:
            if not (isinstance(tool.declares, Read) and _store_away(error)):
                raise
        await workflow.sleep(STORE_AWAY_PAUSE, summary=STORE_AWAY)


async def _answer(tool: "workflow.ActivityHandle[ToolResult]") -> ToolResult:
    """What a tool answers. A cancel reaches it, unless its answer came in the same task: the SDK would drop that."""
    try:
        await workflow.wait([tool])
    except asyncio.CancelledError:
        await workflow.wait_condition(lambda: True)  # by then what came with the cancel is worked in
        tool.cancel()
    return await tool


def _store_away(error: ActivityError) -> bool:
    return isinstance(error.cause, ApplicationError) and error.cause.type == "Unreachable"


def _summary(call: ToolCall) -> str:
    words = ", ".join(f"{name}: {value}" for name, value in call.arguments.items())
    line = f"step {call.step}: {words}" if words else f"step {call.step}"
    return cut(line, SUMMARY_BYTES)


def cut(text: str, limit: int) -> str:
    """The beginning of a text, of at most so many bytes, ending with a whole character."""
    return text.encode(errors="replace")[:limit].decode(errors="ignore")
