"""The data converter: strict where a type is asked for; what cannot be decoded is marked and never an error."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverStoreContext, WorkflowSerializationContext

from client.converter import CONVERTER, converter
from domain import digest, errors, messages, request
from domain.messages import Pause
from domain.model import ModelCall
from domain.request import LoadRequest
from store.settings import Settings

quick = settings(deadline=None, max_examples=100)
PLAIN = CONVERTER.payload_converter
CALL = ModelCall(step=1, ask=1, epoch=0, length=1, digest="d", max_tokens=10)


def payload(data, encoding=b"json/plain", **metadata):
    return Payload(data=data, metadata={"encoding": encoding, **metadata})


# What is sent, as anyone with the CLI or an SDK could send it.
JUNK = [
    ("broken JSON", payload(b'{"by": ')),
    ("no JSON", payload(b"hello")),
    ("no bytes", payload(b"")),
    ("bytes that are no UTF-8", payload(b"\xff\xfe\x00")),
    ("a lone surrogate", payload(b'{"by": "\\ud800"}')),
    ("two values", payload(b"{} {}")),
    ("JSON as deep as a well", payload(b"[" * 100_000)),
    ("an unknown encoding", payload(b"x", b"brand/new")),
    ("an encoding that is no text", payload(b"x", b"\xff\xff")),
    ("no encoding", Payload(data=b"x")),
    ("an encrypted one", payload(b"\x01\x02", b"binary/encrypted")),
    ("a protobuf message of no known type", payload(b"x", b"binary/protobuf", messageType=b"no.Such")),
    ("a broken protobuf message", payload(b"\xff", b"binary/protobuf", messageType=b"temporal.api.common.v1.Payload")),
    (
        "a protobuf message in broken JSON",
        payload(b"x", b"json/protobuf", messageType=b"temporal.api.common.v1.Payload"),
    ),
]


@pytest.mark.parametrize("hint", [None, Any])
@pytest.mark.parametrize("junk", [row[1] for row in JUNK], ids=[row[0] for row in JUNK])
def test_junk_is_marked_with_enough_to_recognise_it_by(junk, hint):
    (value,) = PLAIN.from_payloads([junk], [hint] if hint else None)

    assert value["sha256"] == hashlib.sha256(junk.data).hexdigest()
    assert value["undecodable"] == junk.metadata.get("encoding", b"").decode(errors="replace")
    assert len(value["excerpt"]) <= 100
    assert json.dumps(value)


@pytest.mark.parametrize("junk", [row[1] for row in JUNK], ids=[row[0] for row in JUNK])
def test_junk_among_good_values_takes_nothing_along(junk):
    values = PLAIN.from_payloads([payload(b"1"), junk, payload(b'"x"')])

    assert (values[0], values[2]) == (1, "x")
    assert "undecodable" in values[1]


@pytest.mark.parametrize("junk", [row[1] for row in JUNK], ids=[row[0] for row in JUNK])
def test_junk_is_an_error_where_a_type_is_asked_for(junk):
    with pytest.raises(Exception, match=r"."):
        PLAIN.from_payloads([junk], [ModelCall])


@pytest.mark.parametrize("junk", [row[1] for row in JUNK], ids=[row[0] for row in JUNK])
def test_a_run_refuses_junk_in_words_and_so_does_a_signal(junk):
    raw = PLAIN.from_payloads([junk], [Any])

    with pytest.raises(errors.BadRequest):
        messages.parse(Pause, raw)
    with pytest.raises(errors.BadRequest):
        request.parse(LoadRequest.of("run", raw).raw)


# Payloads that decode well, but to what is no JSON; a run has to live with them.
FOREIGN = [
    payload(b"\xff\x00", b"binary/plain"),
    payload(b"", b"binary/null"),
    payload(b"\n\x00", b"binary/protobuf", messageType=b"temporal.api.common.v1.Payload"),
    payload(b"NaN"),
    payload(b"1e999"),
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=range(len(FOREIGN)))
def test_what_is_no_json_is_refused_in_words_and_can_be_kept(foreign):
    raw = PLAIN.from_payloads([foreign], [Any])

    handed = LoadRequest.of("run", raw)

    assert digest.sha256(raw)
    assert PLAIN.to_payloads([handed])
    with pytest.raises(errors.BadRequest):
        request.parse(handed.raw)


@quick
@given(
    st.binary(),
    st.sampled_from([b"json/plain", b"binary/plain", b"binary/null", b"json/protobuf", b"binary/protobuf", b"?", b""])
    | st.binary(),
    st.binary(),
)
def test_whatever_comes_is_decoded_or_marked(data, encoding, kind):
    values = PLAIN.from_payloads([payload(data, encoding, messageType=kind)], [Any])

    assert len(values) == 1
    assert digest.sha256(values)


@quick
@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(), st.lists))
def test_a_good_value_comes_back_as_it_went(value):
    assert PLAIN.from_payloads(PLAIN.to_payloads([value]), [Any]) == [value]


def test_our_models_come_back_as_they_went():
    assert PLAIN.from_payloads(PLAIN.to_payloads([CALL]), [ModelCall]) == [CALL]


def test_a_value_of_another_shape_is_an_error_where_a_type_is_asked_for():
    with pytest.raises(Exception, match="validation error"):
        PLAIN.from_payloads([payload(b'{"step": "one"}')], [ModelCall])


def test_more_values_than_types_are_decoded_as_far_as_types_are_known():
    assert PLAIN.from_payloads([payload(b"1"), payload(b"2")], [int]) == [1]


def test_the_sdk_makes_no_new_converter_for_each_payload_that_it_might_store_elsewhere(tmp_path):
    home = converter(Settings(DAYFLOW_HOME=tmp_path))
    whose = WorkflowSerializationContext(namespace="default", workflow_id="w1")

    assert home._with_contexts(whose, StorageDriverStoreContext(target=None)) is home


def test_no_values_are_no_values():
    assert PLAIN.from_payloads([]) == []
