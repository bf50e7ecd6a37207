"""Ids for people, keys for destinations: stable, and no word of the model in a key."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import actions

quick = settings(deadline=None, max_examples=50)

SHA = "3fa9c2" + "0" * 58
WHERE = {"namespace": "default", "first_execution_run_id": "run", "step": 4, "position": 1, "tool": "pay", "edit": 0}

# Step, position, edit, the id.
IDS = [
    (4, 1, 0, "s4.1-3fa9c2"),
    (4, 1, 1, "s4.1e1-3fa9c2"),  # an edited action says so
    (12, 16, 0, "s12.16-3fa9c2"),
    (1, 11, 0, "s1.11-3fa9c2"),
    (11, 1, 0, "s11.1-3fa9c2"),
]


@pytest.mark.parametrize(("step", "position", "edit", "expected"), IDS)
def test_an_action_id_is_step_position_edit_and_six_hex(step, position, edit, expected):
    assert actions.action_id(step, position, SHA, edit) == expected


# The key of one action, written down: it must be the same in every version, or a resumed run would do it again.
STABLE = "dayflow-f21d12f93e6a37becdb0738b074173aa39415753757b21081aaae856efcb6073"


def test_a_key_is_the_same_for_every_attempt_worker_and_version():
    assert actions.idempotency_key(**WHERE) == actions.idempotency_key(**WHERE) == STABLE


# What is other, its value.
OTHER = [
    ("namespace", "prod"),
    ("first_execution_run_id", "another"),
    ("step", 5),
    ("position", 2),
    ("tool", "refund"),
    ("edit", 1),
]


@pytest.mark.parametrize(("name", "value"), OTHER)
def test_another_place_has_another_key(name, value):
    assert actions.idempotency_key(**WHERE | {name: value}) != actions.idempotency_key(**WHERE)


def test_places_that_read_alike_when_put_together_have_other_keys():
    keys = {
        actions.idempotency_key(**WHERE | {"step": 1, "position": 11}),
        actions.idempotency_key(**WHERE | {"step": 11, "position": 1}),
        actions.idempotency_key(**WHERE | {"namespace": "defaultrun", "first_execution_run_id": ""}),
        actions.idempotency_key(**WHERE | {"namespace": "default", "first_execution_run_id": "run"}),
    }

    assert len(keys) == 4


def test_a_key_fits_into_a_header_and_into_the_ledger():
    key = actions.idempotency_key(**WHERE | {"namespace": "ü" * 500, "tool": "pay"})

    assert re.fullmatch(r"dayflow-[0-9a-f]{64}", key)
    assert len(key) <= 100


@quick
@given(st.dictionaries(st.text(), st.text() | st.integers()))
def test_the_digest_binds_the_tool_and_the_arguments_in_any_order(arguments):
    reordered = dict(reversed(arguments.items()))

    assert actions.arguments_digest("pay", reordered) == actions.arguments_digest("pay", arguments)
    assert actions.arguments_digest("refund", arguments) != actions.arguments_digest("pay", arguments)
    assert actions.arguments_digest("pay", {**arguments, "more": 1}) != actions.arguments_digest("pay", arguments) or (
        arguments.get("more") == 1
    )


# Two argument values that must not be taken for each other.
TELLING_APART = [(1, "1"), (1, True), (1, 1.0), (0, False), (None, "null"), ([], {}), ("a", "a "), (1, 10)]


@pytest.mark.parametrize(("one", "other"), TELLING_APART)
def test_the_digest_tells_values_apart(one, other):
    assert actions.arguments_digest("pay", {"v": one}) != actions.arguments_digest("pay", {"v": other})
