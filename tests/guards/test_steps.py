"""A step and its activity are two halves of one thing: same name, same types; all timeouts are on the steps' page."""

import ast
import inspect
import typing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from temporalio import activity, workflow

from activities.agents import Agents
from activities.compactor import Compactor
from activities.firings import Firings
from activities.model import LONGEST_S, Model
from activities.once import CHECK_S
from activities.people import People
from activities.pull import Transcripts
from activities.retention import Retention
from activities.runner import Runner
from activities.tools import discover
from store.effects import Effects
from store.ledger import Ledger
from store.settings import Settings
from store.streams import Files, Streams
from workflows import agent_run, steps

ROOT = Path(__file__).resolve().parents[2]
TOOLS = discover()


@pytest.fixture
def registered(tmp_path):
    """Every activity that a worker registers, by its name; the one that answers for missing tools has none."""
    settings = Settings(DAYFLOW_HOME=tmp_path)
    people = People(settings, Effects(None))
    tidy = Retention(settings, SimpleNamespace(namespace="default"), None, None)
    model = Model(settings, Ledger(None), Transcripts(1), Streams(Files(tmp_path)))
    all_ = [
        Agents(settings, None, TOOLS, search_attributes=False).load,
        model.call,
        Compactor(settings, Transcripts(1), model).compact,
        people.check_authority,
        people.check_raise,
        people.resolve_effect,
        Firings(None).due,
        tidy.plan,
        tidy.find,
        tidy.mark,
        tidy.delete,
        *Runner(settings, None).activities(TOOLS),
    ]
    return {activity._Definition.must_from_callable(one).name: one for one in all_}


def types(function):
    """What a function takes first, and what it gives back in the end."""
    hints = typing.get_type_hints(function)
    result = hints.pop("return")
    taken = [hints[name] for name in inspect.signature(function).parameters if name in hints]
    if typing.get_origin(result) is workflow.ActivityHandle:
        (result,) = typing.get_args(result)
    return taken[0], result


# The step, and the names of the activities that it starts.
STEPS = [
    (steps.load_agent, ["load_agent"]),
    (steps.call_model, ["call_model"]),
    (steps.compact_transcript, ["compact_transcript"]),
    (steps.prepare_action, ["prepare_action"]),
    (steps.check_authority, ["check_authority"]),
    (steps.resolve_effect, ["resolve_effect"]),
    (steps.check_raise, ["check_raise"]),
    (steps.plan_retention, ["plan_retention"]),
    (steps.find_expired, ["find_expired"]),
    (steps.mark_expired, ["mark_expired"]),
    (steps.delete_expired, ["delete_expired"]),
    (steps.due_run, ["due_run"]),
    (steps.start_tool, list(TOOLS)),
]


@pytest.mark.parametrize(("step", "names"), STEPS, ids=[step.__name__ for step, _ in STEPS])
def test_a_step_and_its_activities_have_the_same_types(registered, step, names):
    assert names
    assert {name: types(registered[name]) for name in names} == dict.fromkeys(names, types(step))


def test_every_activity_has_its_step(registered):
    named = {name for _, names in STEPS for name in names}

    assert {name for name in registered if name} == named


def test_a_missing_tool_is_answered_with_the_same_type_as_any_other(registered):
    _, result = types(steps.start_tool)

    assert typing.get_type_hints(registered[None])["return"] is result


def started(tree):
    """The calls by which a module starts activities."""
    kinds = ("execute_activity", "start_activity", "execute_local_activity", "start_local_activity")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    return sorted((call for call in calls if call.func.attr in kinds), key=lambda call: call.lineno)


def parse(module):
    return ast.parse(Path(inspect.getfile(module)).read_text())


def test_each_step_starts_the_activity_that_is_named_as_it_is():
    first = [call.args[0] for call in started(parse(steps))]

    named = [repr(step.__name__) for step, _ in STEPS[:-1]]
    assert [ast.unparse(name) for name in first] == [*named, "call.tool"]


def test_each_step_says_its_timeouts_its_retries_its_result_and_its_summary():
    needed = {"start_to_close_timeout", "heartbeat_timeout", "retry_policy", "result_type", "summary"}

    for call in started(parse(steps)):
        assert needed <= {keyword.arg for keyword in call.keywords}


def test_a_check_that_hangs_is_given_up_before_its_step_is():
    assert timedelta(seconds=CHECK_S) < steps.LOOK_ATTEMPT


def test_an_answer_that_never_ends_is_given_up_before_its_attempt_is():
    assert timedelta(seconds=LONGEST_S) < steps.MODEL_ATTEMPT


OTHERS = [path for path in sorted((ROOT / "workflows").rglob("*.py")) if path.name != "steps.py"]


@pytest.mark.parametrize("path", OTHERS, ids=[path.name for path in OTHERS])
def test_no_other_workflow_module_starts_an_activity_or_knows_a_duration(path):
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    assert started(tree) == []
    assert not names & {"timedelta", "RetryPolicy"}


def test_no_retry_policy_gives_up_an_effect_and_every_one_stops_at_what_no_retry_heals():
    assert steps.EFFECT_RETRIES.maximum_attempts == steps.MODEL_RETRIES.maximum_attempts == 0
    for policy in (steps.LOAD_RETRIES, steps.MODEL_RETRIES, steps.READ_RETRIES, steps.EFFECT_RETRIES):
        assert policy.non_retryable_error_types == steps.FINAL


def test_every_reason_to_park_is_final_by_its_name_or_said_to_be_so_by_the_activity_in_the_end():
    assert agent_run.PARKED - set(steps.FINAL) == {"model down", "needs repair"}


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_tool_has_a_deadline_that_ends(tool):
    assert timedelta(0) < timedelta(seconds=tool.declares.deadline_s) <= timedelta(hours=1)
