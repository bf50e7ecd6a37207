"""The codec: payloads are sealed whole; what cannot be opened is marked, or names the key that it wants."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as quickly
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from client import codec
from client.converter import CONVERTER, converter
from domain import digest, errors, request
from domain.model import ModelCall
from domain.request import LoadRequest
from store import seal
from store.settings import Settings

ONE, OTHER = seal.new_key("one"), seal.new_key("other")
CALL = ModelCall(step=1, ask=1, epoch=0, length=1, digest="d-SENTINEL", max_tokens=10)


def of(*keys: str):
    return converter(Settings.model_validate({"DAYFLOW_ENCRYPTION_KEYS": ",".join(keys) or None}))


def junk(data: bytes) -> Payload:
    return Payload(metadata={"encoding": codec.ENCODING}, data=data)


async def test_a_value_is_sealed_and_comes_back():
    (sealed,) = await of(ONE).encode([CALL])

    assert b"SENTINEL" not in sealed.SerializeToString()
    assert dict(sealed.metadata) == {"encoding": b"binary/encrypted"}
    assert await of(ONE).decode([sealed], [ModelCall]) == [CALL]


async def test_after_a_rotation_old_values_open_and_new_ones_take_the_new_key():
    before = await of(ONE).encode(["before"])

    after = await of(OTHER, ONE).encode(["after"])

    assert codec.key_of(after[0]) == "other"
    assert await of(OTHER, ONE).decode([*before, *after]) == ["before", "after"]


async def test_what_was_written_before_encryption_stays_readable():
    assert await of(ONE).decode(await CONVERTER.encode([CALL]), [ModelCall]) == [CALL]


async def test_without_keys_everything_is_as_it_was():
    assert await of().encode([CALL, "x", None]) == await CONVERTER.encode([CALL, "x", None])


@pytest.mark.parametrize("here", [(OTHER,), ()], ids=["another key", "no key"])
async def test_a_typed_value_names_the_key_that_is_missing(here):
    sealed = await of(ONE).encode([CALL])

    with pytest.raises(errors.MissingKey, match="'one' is missing"):
        await of(*here).decode(sealed, [ModelCall])


@pytest.mark.parametrize("hint", [None, Any])
async def test_a_message_under_another_key_is_marked_with_its_id(hint):
    sealed = await of(ONE).encode(["x"])

    (value,) = await of(OTHER).decode(sealed, [hint] if hint else None)

    assert (value["undecodable"], value["key"]) == ("binary/encrypted", "one")


@quickly(deadline=None, max_examples=100)
@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: seal.MARK + rest))
async def test_junk_that_is_marked_as_encrypted_is_marked_as_undecodable(data):
    (value,) = await of(ONE).decode([junk(data)])

    assert value["undecodable"] == "binary/encrypted"
    assert digest.sha256(value)


async def test_a_sealed_value_that_holds_no_payload_is_marked_as_undecodable():
    mine = Settings.model_validate({"DAYFLOW_ENCRYPTION_KEYS": ONE}).seal

    (value,) = await of(ONE).decode([junk(mine.seal(b"\xff\xff no payload"))])

    assert value["undecodable"] == "binary/encrypted"


async def test_an_input_under_a_missing_key_is_told_from_junk():
    (locked,) = await of(OTHER).decode(await of(ONE).encode([{"agent": "brief"}]))
    (broken,) = await of(OTHER).decode([junk(b"\x01\x02")])

    assert request.missing_key([locked]) == "one"
    assert request.missing_key([broken]) is None
    with pytest.raises(errors.BadRequest, match="cannot be decoded"):
        request.parse(LoadRequest.of("run", [broken]).raw)


async def test_the_words_of_a_failure_are_sealed_and_come_back():
    failure, said = Failure(), ApplicationError("said SENTINEL", {"detail": "SENTINEL"}, type="quota")
    said.__cause__ = ValueError("SENTINEL behind it")

    await of(ONE).encode_failure(said, failure)

    assert b"SENTINEL" not in failure.SerializeToString()
    assert failure.application_failure_info.type == "quota"
    error = await of(ONE).decode_failure(failure)
    assert (error.message, error.details[0]) == ("said SENTINEL", {"detail": "SENTINEL"})
    assert error.cause.message == "SENTINEL behind it"


async def test_what_says_how_a_payload_is_kept_stays_in_clear():
    marked = Payload(metadata={"encoding": b"json/plain", "dayflow-mark": b"1", "note": b"SENTINEL"}, data=b"1")
    mine = codec.SealingCodec(Settings.model_validate({"DAYFLOW_ENCRYPTION_KEYS": ONE}).seal)

    (sealed,) = await mine.encode([marked])

    assert dict(sealed.metadata) == {"encoding": b"binary/encrypted", "dayflow-mark": b"1"}
    assert await mine.decode([sealed]) == [marked]


async def test_what_is_kept_outside_of_the_history_is_sealed_too(tmp_path):
    mine = Settings.model_validate(
        {"DAYFLOW_ENCRYPTION_KEYS": ONE, "DAYFLOW_HOME": str(tmp_path), "DAYFLOW_PAYLOAD_BYTES": 1_000}
    )
    large = "SENTINEL " * 1_000

    (reference,) = await converter(mine).encode([large])

    [file] = [path for path in mine.blobs.rglob("*") if path.is_file()]
    assert b"SENTINEL" not in file.read_bytes() + reference.SerializeToString()
    assert await converter(mine).decode([reference]) == [large]
