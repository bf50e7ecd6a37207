"""The one checker: the invariants that every run keeps, whatever was killed, cut or refused on its way."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from stalls import stood_still
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from witness import Request, Witness
from workers import SECRET

from domain import compaction, digest, views
from domain.actions import Action

Place = tuple[int, int]

# DESIGN section 6, written down a second time.
OPEN = {"received", "planning", "running", "awaiting_approval", "awaiting_resolution", "paused"}
EDGES = {
    *(("received", end) for end in ("planning", "running", "paused")),
    *(("planning", end) for end in ("running", "paused")),
    *(("running", end) for end in ("awaiting_approval", "awaiting_resolution", "paused", "done")),
    *(("awaiting_approval", end) for end in ("running", "paused")),
    *(("awaiting_resolution", end) for end in ("running", "paused")),
    *(("paused", end) for end in OPEN - {"paused"}),
    *((start, end) for start in OPEN for end in ("failed", "cancelled")),
    ("failed", "running"),
}


def check(seen: Witness, again: Mapping[Place, int] | None = None, unknown: int = 0) -> None:
    """Raise unless every invariant is kept.

    again: how many requests beyond the first each (step, ask) had, which the test caused.
    unknown: calls that count as possibly paid although the sandbox charged nothing: killed after the ledger's `begun`
    and before they left, or answered by something that is no Messages API. From here nobody can know.
    """
    effects_are_done_once(seen)
    nothing_that_was_approved_is_lost(seen)
    no_effect_without_authority(seen)
    nothing_runs_after_its_result(seen)
    no_request_is_refused(seen.requests)
    requests_are_those_of_the_steps(seen.requests, views.steps(seen.state))
    each_ask_is_sent_once(seen, again or {})
    what_was_possibly_paid_is_counted(seen, unknown)
    tokens_add_up(seen, unknown)
    history_replays(seen)
    the_status_path_is_legal(seen)
    no_task_of_the_workflow_failed(seen)
    no_secret_is_in_history(seen)


def cut_short(seen: Witness) -> tuple[dict[Place, int], int]:
    """What `check` is to expect where nobody knows which calls a kill cut: `again`, and `unknown`."""
    sent = Counter(request.place for request in seen.requests)
    unknown = seen.record["totals"]["possibly_paid"]["calls"] - _unanswered(seen)
    return {place: count - 1 for place, count in sent.items() if count > 1}, max(unknown, 0)


def effects_are_done_once(seen: Witness) -> None:
    """I1: one commit for each effect that is done, one task for each source, and the ledger says the same."""
    commits = Counter(key for key, _ in _committed(seen))
    effects = [action for action in seen.state.actions.all if action.effect]
    done = {action.idempotency_key for action in effects if action.status == "done"}
    unknown = {action.idempotency_key for action in effects if action.status == "unknown"}
    assert all(count == 1 for count in commits.values()), commits
    sources = Counter(task["source_id"] for task in seen.tasks)
    assert all(count == 1 for count in sources.values()), sources
    ledger = {row["key"] for row in seen.ledger if row["kind"] == "effect" and row["status"] == "done"}
    assert done <= ledger <= done | unknown
    assert set(commits) <= done | unknown, "a commit that the record does not know"
    assert len(seen.mails) == sum(action.status == "done" for action in effects if action.tool == "send_email")


def nothing_that_was_approved_is_lost(seen: Witness) -> None:
    """I2: what a person approved has an end, or waits for one under a name."""
    ended = {"done", "failed", "denied", "expired", "unknown", "cancelled"}
    waits = set() if seen.state.closed else {"proposed", "awaiting_approval", "approved", "running"}
    for approved in seen.record["approved_by"]:
        action = seen.state.actions.find(approved["action_id"])
        assert action is not None
        assert action.status in ended | waits, f"{action.action_id}: {action.status}"


def no_effect_without_authority(seen: Witness) -> None:
    """I3: what a rule covers ran by an approval of exactly these arguments, by somebody who may, and each one once."""
    for row in seen.ledger:
        if row["kind"] != "effect":
            continue
        action = next(one for one in seen.state.actions.all if one.idempotency_key == row["key"])
        executed = digest.sha256({"tool": row["name"], "arguments": json.loads(row["arguments"])})
        assert executed == row["digest"], row
        assert action.from_ledger or action.conflict or executed == action.arguments_sha256, action
        if action.rule and not action.from_ledger and row["status"] != "failed":
            _approved(seen, action, executed)
    for refund in seen.refunds:
        _as_approved(seen, refund)


def _approved(seen: Witness, action: Action, executed: str) -> None:
    rulings = [one for one in seen.state.rulings.all if one.action_id == action.action_id and one.accepted]
    [taken] = [one for one in rulings if one.verdict == "approve" and one.identity]
    assert taken.arguments_sha256 in (None, executed)
    assert action.action_id.endswith(executed[:6])
    assert action.grant is not None
    assert action.rule is not None
    assert action.grant.approver == taken.approver != seen.state.frozen().requested_by
    assert action.rule.role in seen.approvers[taken.approver]


def _as_approved(seen: Witness, refund: dict[str, Any]) -> None:
    """What the provider was asked for is what was approved."""
    action = next(one for one in seen.state.actions.all if one.idempotency_key == refund["idempotency_key"])
    if not action.conflict:
        assert refund["amount"] == int(Decimal(action.arguments["amount"]) * 100)
        assert refund["metadata"]["order"] == action.arguments["order_id"]
        assert refund["metadata"]["reason"] == action.arguments["reason"]


def nothing_runs_after_its_result(seen: Witness) -> None:
    """Each action has one result, and its effect was committed before that was recorded."""
    recorded = _recorded_actions(seen)
    assert all(len(times) == 1 for times in recorded.values()), recorded
    committed = dict(_committed(seen))
    for action in seen.state.actions.all:
        if action.idempotency_key in committed and action.action_id in recorded:
            assert committed[action.idempotency_key] <= recorded[action.action_id][0]


def no_request_is_refused(requests: list[Request]) -> None:
    """I4: whatever was sent keeps the rules of the Messages API; only a fault of the script refuses it."""
    refused = [request.outcome for request in requests if request.fault is None and _refused(request)]
    assert not refused, refused


def requests_are_those_of_the_steps(requests: list[Request], steps: list[dict[str, Any]]) -> None:
    """Each request holds the task and then exactly the recorded steps; only people's words and nudges come between.

    After a compaction a recap and the newest of them.
    """
    for request in requests:
        step, _ = request.place
        assert _said_between(bare(request.messages), steps[: step - 1]), f"step {step}: {request.messages}"


def each_ask_is_sent_once(seen: Witness, again: Mapping[Place, int]) -> None:
    """I5: one request for each ask of each step, and those that the test caused.

    On an stood_still machine a heartbeat may come too late: then each attempt that history knows may have sent one.
    """
    sent = Counter(request.place for request in seen.requests)
    wanted = {place: 1 + again.get(place, 0) for place in {*sent, *again}}
    attempts = _attempts(seen)
    late = stood_still() and all(
        wanted[place] <= sent[place] <= max(wanted[place], attempts[place]) for place in wanted
    )
    assert sent == wanted or late, f"{sent}, not {wanted}; attempts: {attempts}"


def what_was_possibly_paid_is_counted(seen: Witness, unknown: int) -> None:
    """I5: a charged request whose answer is not in the record stands in it as possibly paid."""
    wanted = _unanswered(seen) + unknown
    counted = seen.record["totals"]["possibly_paid"]["calls"]
    late = stood_still() and wanted <= counted < sum(_attempts(seen).values())
    assert counted == wanted or late, f"{counted}, not {wanted}; attempts: {_attempts(seen)}"


def _unanswered(seen: Witness) -> int:
    """Requests that were charged, and whose answer is not in the record."""
    answers = sum(kind == "call_model" for kind, *_ in _completed(seen))
    return sum(request.charged for request in seen.requests) - answers


def tokens_add_up(seen: Witness, unknown: int) -> None:
    """I5: what the API counted is in the record, among what was paid or what was possibly paid.

    Of an answer that a fault cut off nobody can know how much would have been counted, nor of one whose worker died
    before it had written that down.
    """
    if any(request.fault for request in seen.requests):
        return
    if any(one["by"] == "model" for one in seen.record["compactions"]):  # its requests are not among these
        return
    told = [request.outcome["usage"] for request in seen.requests if request.outcome and "usage" in request.outcome]
    totals = seen.record["totals"]
    lost = [usage for row in seen.ledger for usage in json.loads(row["possibly_paid"] or "[]")]
    untold = lost.count({}) > unknown
    for name in ("input_tokens", "output_tokens"):
        counted = sum(usage[name] for usage in told)
        recorded = totals[name] + totals["possibly_paid"][name]
        known = recorded == counted or (untold and recorded < counted)
        assert known, (name, recorded, counted, [request.outcome for request in seen.requests])


def history_replays(seen: Witness) -> None:
    """I6: today's code goes the way of the history."""
    assert seen.divergence is None


def the_status_path_is_legal(seen: Witness) -> None:
    """I7: only edges of the table, and nothing after an end."""
    path = ["received", *_statuses(seen)]
    moves = [(start, end) for start, end in pairwise(path) if start != end]
    assert set(moves) <= EDGES, path
    assert seen.state.refused_moves == []


def no_task_of_the_workflow_failed(seen: Witness) -> None:
    """I9: a run that cannot go on stands in a named state; it never hides behind tasks that fail."""
    failed = [event for event in seen.events if _task_failed(event)]
    assert not failed, failed
    assert seen.run.warning is None


def no_secret_is_in_history(seen: Witness) -> None:
    """I8: a secret of the worker's environment reaches neither history nor record."""
    assert SECRET not in seen.history


def bare(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages without their cache breakpoints."""
    return [{**message, "content": [_unmarked(block) for block in message["content"]]} for message in messages]


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}


def _said_between(messages: list[dict[str, Any]], steps: list[dict[str, Any]]) -> bool:
    rest = iter(messages)
    first = next(rest)
    left = [message for message in rest if not _is_word(message)]
    expected = []
    for step in steps:
        if step["assistant"]:
            expected.append({"role": "assistant", "content": step["assistant"]})
        if step["tool_results"]:
            expected.append({"role": "user", "content": step["tool_results"]})
    if len(messages) > 1 and compaction.is_recap(messages[1]):  # the newest turns stay, and at least one does
        expected = expected[-len(left) :] if left else []
    return first["role"] == "user" and left == expected and bool(left or not steps)


def _is_word(message: dict[str, Any]) -> bool:
    return message["role"] == "user" and all(block["type"] == "text" for block in message["content"])


def _refused(request: Request) -> bool:
    return request.outcome is not None and request.outcome["event"] == "refused"


def _task_failed(event: HistoryEvent) -> bool:
    """A reset leaves such an event, too, and is no failure."""
    cause = event.workflow_task_failed_event_attributes.cause
    failed = event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    return failed and cause != WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW


def _committed(seen: Witness) -> list[tuple[str, datetime]]:
    """Key and time of every commit, at every destination."""
    tasks = [(commit["idempotency_key"], _utc(commit["committed_at"])) for commit in seen.commits]
    refunds = [(refund["idempotency_key"], datetime.fromisoformat(refund["at"])) for refund in seen.refunds]
    return tasks + refunds + [_sent(seen, mail) for mail in seen.mails]


def _sent(seen: Witness, mail: dict[str, Any]) -> tuple[str, datetime]:
    """A mail knows no key, but its id is made of one."""
    id = mail["message_id"].strip("<>").partition("@")[0]
    keys = [action.idempotency_key for action in seen.state.actions.all if action.idempotency_key]
    [key] = [key for key in keys if hashlib.sha256(key.encode()).hexdigest()[:40] == id]
    return key, datetime.fromisoformat(mail["at"])


def _recorded_actions(seen: Witness) -> dict[str, list[datetime]]:
    """When the result of each action was recorded; an attempt that only had to wait has none."""
    found: dict[str, list[datetime]] = {}
    tools = {action.tool for action in seen.state.actions.all}
    for kind, argument, result, when in _completed(seen):
        if kind in tools and result["outcome"] in {"done", "failed"}:
            found.setdefault(argument["action_id"], []).append(when)
    return found


def _completed(seen: Witness) -> list[tuple[str, Any, Any, datetime]]:
    """Type, argument, result and time of every activity that completed."""
    by_id = {event.event_id: event for event in seen.events}
    found = []
    for event in seen.events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            scheduled = by_id[event.activity_task_completed_event_attributes.scheduled_event_id]
            told = scheduled.activity_task_scheduled_event_attributes
            result = event.activity_task_completed_event_attributes.result
            found.append(
                (
                    told.activity_type.name,
                    json.loads(told.input.payloads[0].data),
                    json.loads(result.payloads[0].data),
                    event.event_time.ToDatetime(tzinfo=UTC),
                )
            )
    return found


def _attempts(seen: Witness) -> "Counter[Place]":
    """How many attempts each ask of each step took."""
    by_id = {event.event_id: event for event in seen.events}
    found: Counter[Place] = Counter()
    for event in seen.events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            started = event.activity_task_started_event_attributes
            told = by_id[started.scheduled_event_id].activity_task_scheduled_event_attributes
            if told.activity_type.name == "call_model":
                asked = json.loads(told.input.payloads[0].data)
                found[asked["step"], asked["ask"]] += started.attempt
    return found


def _statuses(seen: Witness) -> list[str]:
    """The statuses in the order in which they were published."""
    found = []
    for event in seen.events:
        fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
        if "DayflowStatus" in fields:
            found.append(json.loads(fields["DayflowStatus"].data))
    return found


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
