"""Signals as people send them: read, or refused in words; never an exception of another kind."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import errors, messages
from domain.messages import MAX_MESSAGE, Message, Pause, RaiseBudget, Resume

quick = settings(deadline=None, max_examples=50)

KINDS = [Pause, Resume, Message, RaiseBudget]
BY = {"by": "ann"}

# The kind, the inputs, what is read.
GOOD = [
    (Pause, BY, Pause(by="ann")),
    (Pause, {"by": " ann "}, Pause(by="ann")),
    (Resume, BY, Resume(by="ann")),
    (Message, {"text": " stop\nnow ", "from": "ann"}, Message(text="stop\nnow", sender="ann")),
    (RaiseBudget, BY, RaiseBudget(by="ann")),
    (RaiseBudget, BY | {"tokens": 5, "usd": 1, "steps": 2, "seconds": 3.5},
     RaiseBudget(by="ann", tokens=5, usd=1.0, steps=2, seconds=3.5)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "expected"), GOOD)
def test_a_good_signal_is_read(kind, value, expected):
    assert messages.parse(kind, [value]) == expected


# What is wrong, the kind, the inputs, a part of what is kept as the reason.
BAD = [
    ("no input", Pause, [], "got 0 inputs"),
    ("two inputs", Pause, [BY, BY], "got 2 inputs"),
    ("a string", Pause, ["ann"], "exactly one JSON object"),
    ("a list", Pause, [["ann"]], "exactly one JSON object"),
    ("null", Pause, [None], "exactly one JSON object"),
    ("the bytes of a binary payload", Pause, [b"\xff"], "exactly one JSON object"),
    ("an empty object", Pause, [{}], "by: Field required"),
    ("an extra field", Pause, [BY | {"why": "x"}], "why: Extra inputs"),
    ("a blank name", Pause, [{"by": " "}], "by: it has to have at least 1"),
    ("a name that is a number", Pause, [{"by": 1}], "by: it has to be a string"),
    ("a name with an escape in it", Pause, [{"by": "a\x1b[2J"}], "by: it has to match"),
    ("a lone surrogate", Message, [{"text": "\ud800", "from": "ann"}], "Invalid JSON"),
    ("no text", Message, [{"from": "ann"}], "text: Field required"),
    ("blank text", Message, [{"text": "\n", "from": "ann"}], "text: it has to have at least 1"),
    ("a NUL in a text", Message, [{"text": "stop \x00", "from": "ann"}], "NUL character, which no model takes"),
    ("long text", Message, [{"text": "x" * (MAX_MESSAGE + 1), "from": "ann"}], "text: it has to have at most"),
    ("no sender", Message, [{"text": "hi"}], "from: Field required"),
    ("nothing raised below zero", RaiseBudget, [BY | {"tokens": -1}], "tokens: it has to be greater than 0"),
    ("tokens as a bool", RaiseBudget, [BY | {"tokens": True}], "tokens: it has to be a whole number"),
    ("tokens in words", RaiseBudget, [BY | {"tokens": "5"}], "tokens: it has to be a whole number"),
    ("dollars that are NaN", RaiseBudget, [BY | {"usd": float("nan")}], "usd: it has to be"),
    ("dollars without end", RaiseBudget, [BY | {"usd": float("inf")}], "usd: it has to be"),
    ("a budget of nobody", RaiseBudget, [{"usd": 5}], "by: Field required"),
]


@pytest.mark.parametrize(("kind", "raw", "told"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_signal_is_refused_with_what_is_wrong(kind, raw, told):
    with pytest.raises(errors.BadRequest) as caught:
        messages.parse(kind, raw)

    assert told in str(caught.value)


@quick
@given(st.sampled_from(KINDS), st.lists(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["by", "text", "from", "usd"]), inner),
)))  # fmt: skip
def test_whatever_comes_is_read_or_refused_and_nothing_else(kind, raw):
    with contextlib.suppress(errors.BadRequest):
        assert isinstance(messages.parse(kind, raw), kind)
