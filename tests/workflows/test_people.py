"""What people say to a run, and when: every word has its answer, and every action at most one effect.

The workflow is the real one, in its sandbox, on Temporal's own test server; what stands in for the activities says what
they would have said. See also test_asking.
"""

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest
from asked import until
from payers import (
    CLERK,
    DESK,
    LEAD,
    World,
    asked,
    asks,
    away,
    begin,
    cancel,
    cancelled,
    happened,
    pay,
    rulings,
    running,
    say,
    statuses,
    told,
    working,
)
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from client.converter import CONVERTER
from client.dayflow import Dayflow
from domain.decisions import UNKNOWN_ACTION
from domain.tool import Conflict, Prepared, ToolResult

pytestmark = pytest.mark.asyncio(loop_scope="module")

TIMER = "timer_started_event_attributes"


# Yes


@pytest.mark.parametrize("how", ["update", "signal"])
async def test_what_is_approved_in_time_runs_once_with_its_grant(server, how):
    world = World([[pay(40)]])
    async with running(server, world) as handle:
        pending = await asked(handle)

        if how == "update":
            answer = await say(handle, "approve", pending["action_id"])
            assert answer == {"accepted": True, "reason": "approved"}
        else:
            await handle.signal("approve", {"action_id": pending["action_id"], "approver": LEAD})

        record = await handle.result()
    [call] = world.ran
    assert record["status"] == "done"
    assert (call.grant.approver, call.grant.role, call.grant.amount) == (LEAD, "lead", Decimal(40))
    assert call.idempotency_key == pending["idempotency_key"]
    assert [one["approver"] for one in record["approved_by"]] == [LEAD]


async def test_the_timer_of_a_request_says_in_the_web_ui_what_it_is(server):
    async with running(server, World([[pay(40)]])) as handle:
        await asked(handle)
        timers = [one.user_metadata.summary async for one in handle.fetch_history_events() if one.HasField(TIMER)]

    assert [json.loads(summary.data) for summary in timers] == ["the request for a decision expires"]


async def test_what_is_below_the_amount_of_the_rule_asks_nobody(server):
    world = World([[pay(49)], [pay(50)]], from_amount=Decimal(50))
    async with running(server, world) as handle:
        pending = await asked(handle)

        await say(handle, "approve", pending["action_id"])

        await handle.result()
    assert pending["arguments"] == {"amount": 50}
    assert world.paid == [49, 50]


async def test_what_cannot_be_run_asks_nobody_and_the_model_is_told(server):
    world = World([[pay(40)]], prepared={40: Prepared(refusal="More than is left.")})
    async with running(server, world) as handle:
        await handle.result()

        assert await told(handle) == [("t1.1", True, "More than is left.")]
    assert world.ran == []


async def test_the_results_of_one_step_go_back_in_one_turn_in_the_order_of_the_calls(server):
    """B10: two free calls beside one that waits, and is denied."""
    world = World([[("look", {}), pay(40), ("note", {})]])
    async with running(server, world) as handle:
        pending = await asked(handle)
        await happened(lambda: len(world.ran) == 2)

        await say(handle, "deny", pending["action_id"], comment="Not today.")

        await handle.result()
        assert await told(handle) == [
            ("t1.1", False, "seen"),
            ("t1.2", True, f"Denied by {LEAD}: Not today."),
            ("t1.3", False, "noted"),
        ]
        transcript = (await handle.query("transcript"))["messages"]
        assert [message["role"] for message in transcript] == ["user", "assistant", "user", "assistant"]
    assert sorted(call.tool for call in world.ran) == ["look", "note"]


async def test_three_at_once_are_decided_each_by_its_own_id(server):
    """D24: the third and the second are approved, the first is denied."""
    world = World([[pay(1), pay(2), pay(3)]])
    async with running(server, world) as handle:
        record = await until(handle, lambda record: len(record["pending_actions"]) == 3)
        circle, square, triangle = (one["action_id"] for one in record["pending_actions"])

        await say(handle, "approve", triangle)
        await say(handle, "deny", circle)
        await say(handle, "approve", square)

        await handle.result()
        assert await statuses(handle) == ["denied", "done", "done"]
    assert sorted(world.paid) == [2, 3]


# Edits


async def test_what_is_edited_waits_again_under_another_id_and_runs_as_it_was_edited(server):
    world = World([[pay(40)]])
    async with running(server, world) as handle:
        before = await asked(handle)
        edited = await say(handle, "edit", before["action_id"], arguments={"amount": 30})
        record = await until(
            handle, lambda record: asks(record) and record["pending_actions"][0]["arguments"] == {"amount": 30}
        )
        [after] = record["pending_actions"]

        late = await say(handle, "approve", before["action_id"])
        taken = await say(handle, "approve", after["action_id"], arguments_sha256=after["arguments_sha256"])

        await handle.result()
        assert edited == {"accepted": True, "reason": f"edited, now {after['action_id']}"}
        assert late == {"accepted": False, "reason": f"other arguments: it was edited and is now {after['action_id']}"}
        assert taken["accepted"]
        [action] = await handle.query("actions")
        assert (action["proposed_arguments"], action["arguments"]) == ({"amount": 40}, {"amount": 30})
    assert world.paid == [30]
    assert world.ran[0].idempotency_key == after["idempotency_key"] != before["idempotency_key"]


async def test_an_edit_below_the_amount_of_the_rule_needs_no_further_word(server):
    world = World([[pay(60)]], from_amount=Decimal(50))
    async with running(server, world) as handle:
        pending = await asked(handle)

        await say(handle, "edit", pending["action_id"], arguments={"amount": 40})

        await handle.result()
    assert world.paid == [40]


async def test_an_edit_is_a_persons_own_wish_also_beside_a_no_to_the_same_intent(server):
    """Both pay for the same thing; one is denied, and the other one is made smaller."""
    same = Prepared(intent="refund:1", amount=Decimal(1))
    world = World([[pay(40), pay(30)]], prepared={40: same, 30: same, 20: same})
    async with running(server, world) as handle:
        record = await until(handle, lambda record: len(record["pending_actions"]) == 2)
        more, less = (one["action_id"] for one in record["pending_actions"])
        await say(handle, "deny", more)
        await say(handle, "edit", less, arguments={"amount": 20})
        record = await until(
            handle, lambda record: asks(record) and record["pending_actions"][0]["arguments"] == {"amount": 20}
        )

        await say(handle, "approve", record["pending_actions"][0]["action_id"])

        await handle.result()
    assert world.paid == [20]


async def test_an_edit_that_cannot_be_run_is_not_taken_and_the_request_stays_open(server):
    """The person is told, not the model: the action is as it was, and can be decided about."""
    world = World([[pay(40)]], prepared={900: Prepared(refusal="More than is left.")}, may_not={CLERK: "no"})
    async with running(server, world) as handle:
        before = await asked(handle)
        stranger = await say(handle, "edit", before["action_id"], CLERK, arguments={"amount": 901})
        refused = await say(handle, "edit", before["action_id"], arguments={"amount": 900})
        after = await asked(handle)

        await say(handle, "approve", before["action_id"])

        await handle.result()
        assert refused == {"accepted": False, "reason": "More than is left."}
        assert after == before
        assert not stranger["accepted"]
        assert 901 not in world.preparing  # who may not decide learns nothing of the destination
        assert await rulings(handle) == [(False, "no"), (False, "More than is left."), (True, "approved")]
    assert world.paid == [40]


# Refused


async def test_every_decision_has_its_answer_and_its_trace(server):
    world = World([[pay(40)]], may_not={CLERK: "below the needed role"})
    async with running(server, world) as handle:
        action_id = (await asked(handle))["action_id"]

        answers = [
            await say(handle, "approve", "s9.9-000000"),
            await say(handle, "approve", action_id, CLERK),
            await say(handle, "approve", action_id, DESK),
            await say(handle, "approve", action_id, "Desk@Example.com"),
            await say(handle, "approve", action_id, arguments_sha256="0" * 64),
            await say(handle, "approve", action_id, expires_at="2020-01-01T00:00:00Z"),
            await say(handle, "approve", action_id, arguments={"amount": 1_200}),
            await say(handle, "approve", action_id, decision_id="d1"),
        ]

        reasons = [answer["reason"].partition(":")[0] for answer in answers]
        assert reasons == [
            "unknown action",
            "below the needed role",
            "own request",
            "own request",
            "other arguments",
            "expired",
            "malformed",
            "approved",
        ]
        assert [answer["accepted"] for answer in answers] == [*[False] * 7, True]
        await handle.result()
        assert await rulings(handle) == [(answer["accepted"], answer["reason"]) for answer in answers]
    assert world.paid == [40]
    assert [asked.decision.approver for asked in world.checked] == [CLERK, LEAD]  # of the rest nobody had to be asked


# What comes as a signal, a part of why it is none.
MALFORMED = [
    ("approve", [], "malformed: takes exactly one JSON object, got 0 inputs"),
    ("approve", [{"approver": LEAD}, {"approver": LEAD}], "malformed: takes exactly one JSON object, got 2 inputs"),
    ("approve", ["yes"], "malformed: takes exactly one JSON object"),
    ("deny", [{"action_id": "s1.1-000000"}], "malformed: approver: Field required"),
    ("edit", [{"action_id": "s1.1-000000", "approver": LEAD}], "malformed: `arguments` belongs"),
]


async def test_what_is_no_decision_leaves_a_trace_and_the_run_as_it_was(server):
    world = World([[pay(40)]])
    async with running(server, world) as handle:
        pending = await asked(handle)

        for name, inputs, _ in MALFORMED:
            await handle.signal(name, args=inputs)
        await handle.signal("aprove", {"action_id": pending["action_id"], "approver": LEAD})  # misspelt
        update = await handle.execute_update("decide", args=["yes", "no"])

        record = await until(handle, lambda record: record["refused_messages"]["count"] == len(MALFORMED) + 2)
        traces = await rulings(handle)
        assert all(reason.startswith(why) for (_, reason), (*_, why) in zip(traces, MALFORMED, strict=False))
        assert len(traces) == len(MALFORMED) + 1
        assert not any(accepted for accepted, _ in traces)
        assert update["accepted"] is False
        assert [bad["why"] for bad in record["refused_messages"]["last"] if bad["name"] == "aprove"] == [
            "there is no such signal"
        ]
        assert record["pending_actions"] == [pending]
        await say(handle, "approve", pending["action_id"])
        await handle.result()
    assert world.paid == [40]


async def test_a_decision_before_its_action_exists_is_no_blank_cheque(server):
    """D30, and row 44: the signal is there before the run begins."""
    world = World([[pay(40)]])
    first = World([[pay(40)]])
    async with running(server, first) as handle:
        action_id = (await asked(handle))["action_id"]  # the same arguments in the same place: the same id
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    handle = await server.client.start_workflow(
        "AgentRun",
        {"agent": "payer"},
        id=world.name,
        task_queue=world.name,
        start_signal="approve",
        start_signal_args=[{"action_id": action_id, "approver": LEAD}],
    )

    async with working(server.client, world):
        pending = await asked(handle)

        assert pending["action_id"] == action_id
        assert await rulings(handle) == [(False, UNKNOWN_ACTION)]
        assert world.paid == []
        assert (await say(handle, "approve", action_id))["accepted"]
        await handle.result()
    assert world.paid == [40]


# More than one at a time


@pytest.mark.parametrize("first", ["approve", "deny"])
async def test_of_a_yes_and_a_no_in_one_task_the_first_in_history_counts(server, first):
    world = World([[pay(40)]])
    second = "deny" if first == "approve" else "approve"
    async with away(server, world) as (handle, action_id):
        for verdict in (first, second):
            await handle.signal(verdict, {"action_id": action_id, "approver": LEAD})

    async with working(server.client, world):
        await handle.result()

        done = {"approve": "approved", "deny": "denied"}[first]
        (taken, refused) = await rulings(handle)
        assert taken == (True, done)
        assert (refused[0], LEAD in refused[1]) == (False, True)
        assert refused[1].startswith(("already decided", "too late"))
    assert world.paid == ([40] if first == "approve" else [])


# The ids of three equal decisions, how many rulings they leave.
THRICE = [(["d1"] * 3, 1), ([None] * 3, 1), (["d1", "d2", "d3"], 3)]


@pytest.mark.parametrize(("ids", "count"), THRICE, ids=["one id", "no id", "three ids"])
async def test_three_equal_decisions_in_one_task_are_one_effect(server, ids, count):
    world = World([[pay(40)]])
    async with away(server, world) as (handle, action_id):
        for decision_id in ids:
            named = {"decision_id": decision_id} if decision_id else {}
            await handle.signal("approve", {"action_id": action_id, "approver": LEAD, **named})

    async with working(server.client, world):
        await handle.result()

        taken = await rulings(handle)
        assert [accepted for accepted, _ in taken] == [True, *[False] * (count - 1)]
    assert world.paid == [40]


async def test_the_same_update_sent_again_is_the_same_decision(server):
    world = World([[pay(40)], [pay(41)]])
    async with running(server, world) as handle:
        action_id = (await asked(handle))["action_id"]

        first = await say(handle, "approve", action_id, decision_id="d1")
        await until(handle, lambda record: record["step"] == 2 and asks(record))
        again = await say(handle, "approve", action_id, decision_id="d1")
        other = await say(handle, "approve", (await asked(handle))["action_id"], decision_id="d1")

        assert first == again == {"accepted": True, "reason": "approved"}
        assert other == {"accepted": False, "reason": "malformed: the decision id 'd1' is that of another decision"}
        assert len(await rulings(handle)) == 2
        await handle.terminate()
    assert world.paid == [40]


async def test_a_decision_that_is_looked_up_while_its_request_expires_comes_too_late(server):
    """The clock of the test server does not jump while an activity runs: these seconds pass."""
    world = World([[pay(40)]], check_gate=asyncio.Event(), expires_s=3.0)
    async with running(server, world) as handle:
        action_id = (await asked(handle))["action_id"]
        await handle.signal("approve", {"action_id": action_id, "approver": LEAD})
        await happened(lambda: world.checked)
        await handle.signal("pause", {"by": "ann"})  # so that the run is still there
        await until(handle, lambda record: not record["pending_actions"])

        world.check_gate.set()
        await until(handle, bool, query="decisions")

        await handle.signal("resume", {"by": "ann"})
        await handle.result()
        assert await rulings(handle) == [(False, "expired: nobody decided in time")]
        assert await statuses(handle) == ["expired"]
    assert world.paid == []


# Pause, message, cancel


async def test_an_approval_in_a_pause_counts_and_runs_when_the_run_goes_on(server):
    world = World([[pay(40)]])
    async with running(server, world) as handle:
        action_id = (await asked(handle))["action_id"]
        await handle.signal("pause", {"by": "ann"})
        paused = await until(handle, lambda record: record["status"] == "paused")

        taken = await say(handle, "approve", action_id)
        still = await handle.query("record")
        before = list(world.ran)
        await handle.signal("resume", {"by": "ann"})

        record = await handle.result()
        assert (paused["reason"], still["status"], taken["accepted"]) == ("by ann", "paused", True)
        assert before == []
        assert record["status"] == "done"
    assert world.paid == [40]


async def test_a_pause_without_a_decision_comes_back_to_what_waits(server):
    world = World([[pay(40)]])
    async with running(server, world) as handle:
        pending = await asked(handle)
        await handle.signal("pause", {"by": "ann"})
        await until(handle, lambda record: record["status"] == "paused")

        await handle.signal("resume", {"by": "ann"})

        assert await asked(handle) == pending
        await handle.terminate()


async def test_a_no_that_ends_the_run_ends_it_in_a_pause_too(server):
    world = World([[pay(40), pay(41)]], on_deny="cancel")
    async with running(server, world) as handle:
        record = await until(handle, lambda record: len(record["pending_actions"]) == 2)
        approved, denied = (one["action_id"] for one in record["pending_actions"])
        await handle.signal("pause", {"by": "ann"})
        await until(handle, lambda record: record["status"] == "paused")
        await say(handle, "approve", approved)

        await say(handle, "deny", denied)

        record = await handle.result()
        assert (record["status"], record["reason"]) == ("cancelled", f"denied by {LEAD}")
        assert await statuses(handle) == ["cancelled", "denied"]
    assert world.paid == []


async def test_what_is_found_out_after_a_no_ended_the_run_asks_nobody_any_more(server):
    """The second action is still being looked up when the first one is denied."""
    gate = asyncio.Event()
    world = World([[pay(40), pay(41)]], on_deny="cancel", prepare_gates={41: gate})
    async with running(server, world) as handle:
        pending = await asked(handle)
        await happened(lambda: 41 in world.preparing)
        await say(handle, "deny", pending["action_id"])
        gate.set()

        record = await handle.result()

        assert record["status"] == "cancelled"
        assert await statuses(handle) == ["denied", "cancelled"]
    assert world.paid == []


async def test_what_is_said_while_an_action_waits_is_heard_after_its_result(server):
    """B9: the transcript stays valid, and the run does not wait for the words."""
    world = World([[pay(40)]])
    async with running(server, world) as handle:
        pending = await asked(handle)
        await handle.signal("message", {"text": "How much is left?", "from": "ann"})
        await say(handle, "deny", pending["action_id"])

        await handle.result()

        messages = (await handle.query("transcript"))["messages"]
        blocks = [(message["role"], [block["type"] for block in message["content"]]) for message in messages]
        assert blocks == [
            ("user", ["text"]),
            ("assistant", ["tool_use"]),
            ("user", ["tool_result"]),
            ("user", ["text"]),
            ("assistant", ["text"]),
        ]
        assert messages[3]["content"][0]["text"] == "Message from ann:\nHow much is left?"


async def test_a_run_that_waits_can_be_cancelled(server):
    world = World([[pay(40), ("look", {})]])
    async with running(server, world) as handle:
        await asked(handle)
        await happened(lambda: world.ran)

        await handle.cancel()

        assert (await cancelled(handle))["status"] == "cancelled"
        assert (await statuses(handle))[0] == "cancelled"
    assert world.paid == []


async def test_a_run_that_is_cancelled_while_its_effect_runs_knows_what_became_of_it(server):
    """D36: it was approved, it is under way, and the run ends with its result."""
    world = World([[pay(40)]], pay_gate=asyncio.Event())
    async with running(server, world) as handle:
        await say(handle, "approve", (await asked(handle))["action_id"])
        await world.at_pay.wait()
        await cancel(handle)
        world.pay_gate.set()

        assert (await cancelled(handle))["status"] == "cancelled"
        [action] = await handle.query("actions")
        assert (action["status"], action["result"]) == ("done", "paid 40")
    assert world.paid == [40]


@pytest.mark.parametrize("way", ["reset", "terminate"])
async def test_a_decision_that_was_not_judged_when_the_run_was_reset_or_ended_is_not_taken(home, way):
    dayflow = Dayflow(await Client.connect(f"127.0.0.1:{home.port}", data_converter=CONVERTER))
    world = World([[pay(40)]], check_gate=asyncio.Event())
    async with working(dayflow.client, world):
        handle = await begin(dayflow.client, world)
        decision = {"action_id": (await asked(handle))["action_id"], "verdict": "approve", "approver": LEAD}
        answer = asyncio.create_task(dayflow.decide(world.name, {**decision, "decision_id": "d1"}, seconds=30))
        await happened(lambda: world.checked)
        if way == "reset":
            await dayflow.reset(world.name, *await dayflow.reset_point(world.name, 1))
        else:
            await handle.terminate()
        world.check_gate.set()

        assert await answer == {"accepted": False, "reason": "the run was reset, or ended, before it was judged"}
        assert (await dayflow.get(world.name)).state.rulings.all == []
    assert world.paid == []


async def test_an_attempt_that_gives_no_answer_to_a_cancelled_run_is_not_the_last_one(home):
    """The server (not the one with a clock that jumps) tries nothing again that was to stop; the run does."""
    client = await Client.connect(f"127.0.0.1:{home.port}", data_converter=CONVERTER)
    begun = Prepared(intent="pay:40", amount=Decimal(40), begun=True)
    lost = ApplicationError("the effect gave no answer", type="effect failed")
    world = World([[pay(40)]], pay_gate=asyncio.Event(), outcomes=[lost, lost], prepared={40: begun})
    async with working(client, world):
        handle = await begin(client, world)
        await say(handle, "approve", (await asked(handle))["action_id"])
        await world.at_pay.wait()
        await cancel(handle)
        world.pay_gate.set()

        assert (await cancelled(handle))["status"] == "cancelled"
        assert await statuses(handle) == ["done"]
    assert world.paid == [40, 40, 40]


async def test_a_run_that_is_cancelled_ends_also_where_nobody_knows_what_its_effect_did(server):
    world = World([[pay(40)]], pay_gate=asyncio.Event(), outcomes=[ToolResult(content="No answer.", outcome="unknown")])
    async with running(server, world) as handle:
        await say(handle, "approve", (await asked(handle))["action_id"])
        await world.at_pay.wait()
        await cancel(handle)
        world.pay_gate.set()

        assert (await cancelled(handle))["status"] == "cancelled"
        assert await statuses(handle) == ["unknown"]
    assert world.paid == [40]


async def test_a_decision_that_is_being_heard_when_the_run_is_cancelled_gets_its_answer(server):
    world = World([[pay(40)]], check_gate=asyncio.Event())
    async with running(server, world) as handle:
        action_id = (await asked(handle))["action_id"]
        answer = asyncio.create_task(say(handle, "approve", action_id))
        await happened(lambda: world.checked)
        await handle.cancel()
        await until(handle, lambda record: record["status"] == "cancelled")

        world.check_gate.set()

        assert await answer == {"accepted": False, "reason": "too late: the run is cancelled"}
        await cancelled(handle)
    assert world.paid == []


# Approved, and yet not run


async def test_an_approver_who_lost_the_right_meanwhile_has_not_approved_it(server):
    world = World([[pay(40)]], outcomes=[ToolResult(content="not on the list", outcome="not entitled", attempts=0)])
    async with running(server, world) as handle:
        first = await asked(handle)
        await say(handle, "approve", first["action_id"])
        await until(handle, lambda record: asks(record) and world.ran)
        void = (await rulings(handle))[-1]

        again = await say(handle, "approve", first["action_id"], "boss@example.com")

        record = await handle.result()
        assert void == (False, "no longer entitled: not on the list")
        assert again["accepted"]
        assert [one["approver"] for one in record["approved_by"]] == ["boss@example.com"]
    assert [call.grant.approver for call in world.ran] == [LEAD, "boss@example.com"]


async def test_another_action_with_the_same_intent_is_shown_and_needs_to_be_said(server):
    held = Prepared(intent="pay:40", amount=Decimal(40), conflict=Conflict(run_id="another", action_id="s1.1-0"))
    world = World([[pay(40)]], prepared={40: held})
    async with running(server, world) as handle:
        record = await until(handle, asks)
        [pending] = record["pending_actions"]

        without = await say(handle, "approve", pending["action_id"])
        again = await say(handle, "approve", pending["action_id"], again=True)

        await handle.result()
        assert pending["conflict"] == {"run_id": "another", "action_id": "s1.1-0", "changed": False}
        assert " --again " in record["next_command"]
        assert (without["accepted"], again["accepted"]) == (False, True)
    assert [call.grant.again for call in world.ran] == [True]


async def test_what_an_earlier_course_of_the_run_did_is_taken_over_and_nobody_is_asked(server):
    done = Prepared(intent="pay:40", amount=Decimal(40), already=True)
    world = World([[pay(40)]], prepared={40: done}, outcomes=[ToolResult(content="paid before", from_ledger=True)])
    async with running(server, world) as handle:
        await handle.result()

        assert await told(handle) == [("t1.1", False, "paid before")]
        assert await rulings(handle) == []


# Nobody knows

UNKNOWN = ToolResult(content="No answer came.", outcome="unknown", attempts=2)


def unresolved(record: dict[str, Any]) -> bool:
    return record["status"] == "awaiting_resolution"


# What a person says, its words, the status, what the model is told.
RESOLUTIONS = [
    ("done", "re_1", "done", (False, "re_1")),
    (
        "not_done",
        None,
        "failed",
        (True, f"It did not happen, as {LEAD} found. Ask for it again if it is still wanted."),
    ),
]


@pytest.mark.parametrize(("outcome", "result", "status", "read"), RESOLUTIONS)
async def test_an_effect_of_which_nobody_knows_waits_for_a_person_and_is_not_sent_again(
    server, outcome, result, status, read
):
    world = World([[pay(40)]], outcomes=[UNKNOWN])
    async with running(server, world) as handle:
        action_id = (await asked(handle))["action_id"]
        await say(handle, "approve", action_id)
        record = await until(handle, unresolved)
        resolution = {"action_id": action_id, "outcome": outcome, "by": LEAD}

        await handle.signal("resolve", resolution | ({"result": result} if result else {}))

        await handle.result()
        assert f"dayflow resolve {world.name} {action_id}" in record["next_command"]
        assert await statuses(handle) == [status]
        assert await told(handle) == [("t1.1", *read)]
        assert (await rulings(handle))[-1] == (True, outcome)
    assert world.paid == [40]
    assert [asked.idempotency_key for asked in world.resolved] == [world.ran[0].idempotency_key]


async def test_who_may_not_resolve_and_what_is_no_resolution_changes_nothing(server):
    world = World([[pay(40)]], outcomes=[UNKNOWN], may_not={CLERK: "below the needed role"})
    async with running(server, world) as handle:
        action_id = (await asked(handle))["action_id"]
        await say(handle, "approve", action_id)
        await until(handle, unresolved)

        await handle.signal("resolve", {"action_id": action_id, "outcome": "done", "by": CLERK})
        await handle.signal("resolve", {"action_id": "s9.9-000000", "outcome": "done", "by": LEAD})
        await handle.signal("resolve", {"action_id": action_id, "outcome": "yes", "by": LEAD})
        await handle.signal("resolve", args=[])
        record = await until(handle, lambda record: record["refused_messages"]["count"] == 2)

        assert unresolved(record)
        assert (await rulings(handle))[1:] == [
            (False, "below the needed role"),
            (False, "no action s9.9-000000 waits for a resolution"),
        ]
        await handle.signal("resolve", {"action_id": action_id, "outcome": "done", "by": LEAD})
        await handle.signal("resolve", {"action_id": action_id, "outcome": "not_done", "by": LEAD})
        await handle.result()
        assert await statuses(handle) == ["done"]
    assert world.paid == [40]


async def test_an_effect_that_was_carried_out_with_other_arguments_asks_a_person_and_sends_nothing(server):
    """A reset went back behind it, and the model words it otherwise this time."""
    changed = Prepared(conflict=Conflict(run_id="this", action_id="s1.1-0", changed=True))
    world = World([[pay(40)]], prepared={40: changed})
    async with running(server, world) as handle:
        record = await until(handle, unresolved)
        [pending] = record["pending_actions"]

        await handle.signal("resolve", {"action_id": pending["action_id"], "outcome": "not_done", "by": LEAD})

        await handle.result()
        assert pending["conflict"]["changed"] is True
        assert await statuses(handle) == ["failed"]
    assert world.ran == []
    assert [asked.changed for asked in world.resolved] == [True]
