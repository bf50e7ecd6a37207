"""The input of a run: one well-formed request, or one line that says what to do instead."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import errors, request
from domain.agent import Limits
from domain.request import MAX_INPUT_BYTES, LoadRequest, RunRequest

quick = settings(deadline=None, max_examples=50)

NAN, INFINITY = float("nan"), float("inf")

# What is wrong, the inputs, a part of what the caller is told.
BAD = [
    ("no input", [], "exactly one input"),
    ("two inputs", [{"agent": "brief"}, {"agent": "brief"}], "2 were given"),
    ("a list", [[{"agent": "brief"}]], "JSON array"),
    ("a string", ["brief"], "JSON string"),
    ("JSON in a string", ['{"agent": "brief"}'], "JSON string"),
    ("a number", [7], "JSON number"),
    ("a boolean", [True], "JSON boolean"),
    ("null", [None], "JSON null"),
    ("an empty object", [{}], "agent: Field required"),
    ("an extra field", [{"agent": "brief", "colour": "red"}], "colour: Extra inputs"),
    ("a misspelt field", [{"agnet": "brief"}], "agnet: Extra inputs"),
    ("a name that is a number", [{"agent": 7}], "agent: it has to be a string"),
    ("a name that is null", [{"agent": None}], "agent: it has to be a string"),
    ("an empty name", [{"agent": ""}], "agent: it has to have at least 1 character"),
    ("a blank name", [{"agent": " \n"}], "agent: it has to have at least 1 character"),
    ("a long name", [{"agent": "x" * 201}], "agent: it has to have at most 200"),
    ("a NUL in a name", [{"agent": "brief", "model": "a\x00b"}], "model: it has to match"),
    ("an escape in a name", [{"agent": "brief", "requested_by": "a\x1b[31mb"}], "requested_by: it has to match"),
    ("a lone surrogate", [{"agent": "brief", "task": "\ud800"}], "Invalid JSON"),
    ("a blank task", [{"agent": "brief", "task": "  "}], "task: it has to have at least 1 character"),
    ("a NUL in a task", [{"agent": "brief", "task": "a\x00b"}], "NUL character, which no model takes"),
    ("a task that is a list", [{"agent": "brief", "task": ["a"]}], "task: it has to be a string"),
    ("a long task", [{"agent": "brief", "task": "x" * 100_001}], "task: it has to have at most 100000"),
    ("limits that are a number", [{"agent": "brief", "limits": 5}], "limits: it has to be an object"),
    ("limits that are a list", [{"agent": "brief", "limits": [5]}], "limits: it has to be an object"),
    ("an unknown limit", [{"agent": "brief", "limits": {"euros": 5}}], "limits.euros: Extra inputs"),
    ("no steps", [{"agent": "brief", "limits": {"steps": 0}}], "limits.steps: it has to be greater than 0"),
    ("fewer steps than none", [{"agent": "brief", "limits": {"steps": -1}}], "limits.steps: it has to be greater"),
    ("half a step", [{"agent": "brief", "limits": {"steps": 1.5}}], "limits.steps: it has to be a whole number"),
    ("steps in words", [{"agent": "brief", "limits": {"steps": "5"}}], "limits.steps: it has to be a whole number"),
    ("a bool for an int", [{"agent": "brief", "limits": {"steps": True}}], "limits.steps: it has to be a whole number"),
    ("a bool for dollars", [{"agent": "brief", "limits": {"usd": True}}], "limits.usd: it has to be a number"),
    ("dollars that are NaN", [{"agent": "brief", "limits": {"usd": NAN}}], "limits.usd: it has to be"),
    ("dollars without end", [{"agent": "brief", "limits": {"usd": INFINITY}}], "limits.usd: it has to be"),
    ("seconds that are NaN", [{"agent": "brief", "limits": {"seconds": NAN}}], "limits.seconds: it has to be"),
    ("dollars in words", [{"agent": "brief", "limits": {"usd": "5"}}], "limits.usd: it has to be a number"),
    ("two faults", [{"agent": 7, "limits": {"steps": 0}}], "agent: it has to be a string; limits.steps"),
    ("what the converter could not decode", [{"undecodable": "x", "sha256": "y"}], "undecodable: Extra inputs"),
]


@pytest.mark.parametrize(("raw", "told"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_input_is_refused_with_what_is_wrong(raw, told):
    with pytest.raises(errors.BadRequest) as caught:
        request.parse(raw)

    assert told in str(caught.value)
    assert request.EXAMPLE in str(caught.value)


# The input, what it is read as.
GOOD = [
    ({"agent": "brief"}, RunRequest(agent="brief")),
    ({"agent": "  brief "}, RunRequest(agent="brief")),  # blanks around are a typing slip
    ({"agent": "brief", "task": None, "model": None, "limits": None}, RunRequest(agent="brief")),  # null is absent
    ({"agent": "brief", "limits": {}}, RunRequest(agent="brief", limits=Limits())),
    ({"agent": "brief", "limits": {"usd": 5}}, RunRequest(agent="brief", limits=Limits(usd=5.0))),  # an int of dollars
    ({"agent": "brief", "limits": {"steps": 10**30}}, RunRequest(agent="brief", limits=Limits(steps=10**30))),
    ({"agent": "brief", "task": "שלום 👋"}, RunRequest(agent="brief", task="שלום 👋")),  # any words are a task
]


@pytest.mark.parametrize(("value", "expected"), GOOD)
def test_a_good_input_is_read(value, expected):
    assert request.parse([value]) == expected


@quick
@given(
    st.lists(
        st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists)
        | st.dictionaries(st.text(), st.text())
    )
)
def test_whatever_comes_is_read_or_refused_and_nothing_else(raw):
    with contextlib.suppress(errors.BadRequest):
        assert isinstance(request.parse(raw), RunRequest)


def test_a_refusal_stays_short_however_much_is_wrong():
    with pytest.raises(errors.BadRequest) as caught:
        request.parse([{"x" * 50_000: 1, **{f"field {n}": n for n in range(1_000)}}])

    assert len(str(caught.value)) < 2_000


def test_an_input_that_fits_is_handed_on_as_it_is():
    handed = LoadRequest.of("run", [{"agent": "brief", "task": "é\ud800"}, 7])

    assert handed.raw == [{"agent": "brief", "task": "é\ud800"}, 7]
    assert handed.run == "run"


def test_an_oversized_input_is_handed_on_as_its_size_alone_and_refused():
    handed = LoadRequest.of("run", [{"agent": "brief", "task": "x" * MAX_INPUT_BYTES}])

    assert len(json.dumps(handed.raw)) < 100
    with pytest.raises(errors.BadRequest, match=f"at most {MAX_INPUT_BYTES} are taken"):
        request.parse(handed.raw)


def test_the_bytes_of_a_binary_input_are_handed_on_as_text_and_refused():
    handed = LoadRequest.of("run", [b"\xff\x00"])

    assert json.loads(handed.model_dump_json())["raw"] == [repr(b"\xff\x00")]
    with pytest.raises(errors.BadRequest, match="JSON string"):
        request.parse(handed.raw)


# Ids that nobody can read or type, a part of what the caller is told.
BAD_IDS = [
    ("", "blank"),
    ("   ", "blank"),
    ("a\nb", "not printable"),
    ("a\x1b[31m", "not printable"),
    ("a\u202eb", "not printable"),  # would turn the rest of the line round
    ("\ud800", "not printable"),
    ("x" * 201, "201 characters"),
]


@pytest.mark.parametrize(("run_id", "told"), BAD_IDS)
def test_a_run_id_that_people_cannot_use_is_refused(run_id, told):
    with pytest.raises(errors.BadRequest, match=told):
        request.check_run_id(run_id)


@pytest.mark.parametrize("run_id", ["b1", "brief 2026-11-29", "утро", "x" * 200])
def test_a_run_id_that_people_can_use_is_fine(run_id):
    assert request.check_run_id(run_id) is None


# The agent's limits, those of the request, what holds.
LIMITS = [
    (Limits(steps=50), None, Limits(steps=50)),
    (Limits(steps=50), Limits(), Limits(steps=50)),
    (Limits(steps=50), Limits(steps=5), Limits(steps=5)),
    (Limits(steps=50), Limits(usd=1.0), Limits(steps=50, usd=1.0)),
]


@pytest.mark.parametrize(("own", "asked", "expected"), LIMITS)
def test_a_request_replaces_only_the_limits_that_it_names(own, asked, expected):
    assert own.over(asked) == expected
