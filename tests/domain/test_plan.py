"""The plan: what is said once, and how far it has come."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from domain.actions import Action, Actions
from domain.plan import MAX_ITEMS, Plan

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def plan(*tools):
    return Plan(items=[{"title": f"Use {tool}", "tool": tool} for tool in tools])


def acted(*done):
    """Actions of these tools, in the order in which they were called: `pay` done, `-pay` open, `!pay` failed."""
    marks = {"-": "awaiting_approval", "!": "failed"}
    return Actions(
        all=[
            Action(
                action_id=f"s{step}.1-000000",
                step=step,
                position=1,
                tool=tool.lstrip("-!"),
                tool_use_id=f"t{step}",
                proposed_arguments={},
                arguments={},
                arguments_sha256="0" * 64,
                effect=True,
                status=marks.get(tool[0], "done"),
                result=f"result {step}",
                requested_at=NOW,
            )
            for step, tool in enumerate(done, start=1)
        ]
    )


# The plan, what was done, where it stands, the action that each item goes with.
COURSES = [
    (["look", "pay"], [], "1 of 2", [None, None]),
    (["look", "pay"], ["look"], "2 of 2", ["s1", None]),
    (["look", "pay"], ["look", "-pay"], "2 of 2", ["s1", None]),  # it waits: that is not done
    (["look", "pay"], ["look", "!pay"], "2 of 2", ["s1", None]),
    (["look", "pay"], ["look", "!pay", "pay"], "2 of 2", ["s1", "s3"]),  # done in the end: the last one stays
    (["look", "pay"], ["pay"], "1 of 2", [None, "s1"]),  # out of order
    (["pay", "pay"], ["pay"], "2 of 2", ["s1", None]),  # each item has an action of its own
    (["pay", "look", "pay"], ["pay", "pay"], "2 of 3", ["s1", None, "s2"]),
    (["look"], ["look", "look", "other"], "1 of 1", ["s1"]),  # more than was planned
    (["fly"], ["look"], "1 of 1", [None]),  # a tool that is never called
]


@pytest.mark.parametrize(("tools", "done", "current", "ids"), COURSES)
def test_each_item_goes_with_one_done_action_of_its_tool(tools, done, current, ids):
    actions = acted(*done)

    rows = plan(*tools).results(actions)

    assert plan(*tools).current(actions) == current
    assert [row["action_id"] and row["action_id"].split(".")[0] for row in rows] == ids
    assert [row["status"] for row in rows] == ["done" if id else "open" for id in ids]
    assert [row["result"] for row in rows] == [f"result {id[1:]}" if id else None for id in ids]
    assert [(row["title"], row["tool"]) for row in rows] == [(f"Use {tool}", tool) for tool in tools]


@given(
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "-a", "!b"]), max_size=8),
)
def test_no_action_goes_with_two_items(tools, done):
    rows = plan(*tools).results(acted(*done))

    taken = [row["action_id"] for row in rows if row["action_id"]]
    assert len(taken) == len(set(taken))


# What is no plan.
REFUSED = [
    {},
    {"items": []},
    {"items": [{"title": "A", "tool": "a"}] * (MAX_ITEMS + 1)},
    {"items": [{"title": "  ", "tool": "a"}]},
    {"items": [{"title": "x" * 201, "tool": "a"}]},
    {"items": [{"title": "A"}]},
    {"items": [{"title": "A", "tool": ""}]},
    {"items": [{"title": "A", "tool": "a", "status": "done"}]},  # how far it has come is not the model's to say
    {"items": [{"title": "A", "tool": "a"}], "approved": True},
]


@pytest.mark.parametrize("raw", REFUSED)
def test_what_is_no_plan_is_refused(raw):
    with pytest.raises(ValidationError):
        Plan.model_validate(raw)
