"""The seal: what one key closed only that key opens, and what is wrong is said without a word of a key."""

import base64
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import errors
from store import seal
from store import settings as environment
from store.seal import Seal

OLD, NEW = os.urandom(32), os.urandom(32)
BOTH = Seal({"new": NEW, "old": OLD})

quick = settings(deadline=None, max_examples=100)


@quick
@given(st.binary(max_size=2_000))
def test_what_was_sealed_comes_back_and_cannot_be_read(data):
    sealed = BOTH.seal(data)

    assert BOTH.open(sealed) == data
    assert len(data) < 8 or data not in sealed
    assert sealed != BOTH.seal(data)


def test_the_first_key_seals_and_all_of_them_open():
    before = Seal({"old": OLD}).seal(b"before the rotation")

    assert seal.key_of(BOTH.seal(b"x")) == "new"
    assert BOTH.open(before) == b"before the rotation"


def test_a_key_that_is_not_here_is_named():
    with pytest.raises(errors.MissingKey, match="'new' is missing") as caught:
        Seal({"old": OLD}).open(BOTH.seal(b"x"))

    assert caught.value.key_id == "new"


def test_without_keys_what_is_sealed_names_its_key():
    with pytest.raises(errors.MissingKey, match="'new' is missing"):
        Seal({}).open(BOTH.seal(b"x"))


@quick
@given(st.data())
def test_a_changed_byte_is_noticed(data):
    sealed = bytearray(BOTH.seal(b"some content"))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))

    with pytest.raises((errors.NotSealed, errors.MissingKey)):
        BOTH.open(bytes(sealed))


@quick
@given(st.binary(max_size=100) | st.binary(max_size=100).map(lambda rest: seal.MARK + rest))
def test_junk_is_not_sealed(junk):
    with pytest.raises((errors.NotSealed, errors.MissingKey)):
        BOTH.open(junk)


def test_one_key_under_another_ones_id_does_not_open():
    with pytest.raises(errors.NotSealed):
        Seal({"new": OLD}).open(BOTH.seal(b"x"))


def test_a_new_key_is_one_that_the_setting_takes():
    (key,) = seal.parse(seal.new_key("k1")).values()

    assert len(key) == seal.KEY_BYTES


GOOD = base64.b64encode(os.urandom(32)).decode()
BAD = [
    ("no id", GOOD, "entry 1 has no id"),
    ("an empty entry", f"a:{GOOD},", "entry 2 has no id"),
    ("an id with a space", f"a b:{GOOD}", "entry 1 has no id"),
    ("no base64", f"a:{GOOD[:-3]}*", "'a' is no base64"),
    ("a short key", f"a:{base64.b64encode(b'0123456789abcdef').decode()}", "'a' has 16 bytes"),
    ("the same id twice", f"a:{GOOD},a:{GOOD}", "'a' stands twice"),
]


@pytest.mark.parametrize(("value", "why"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_setting_says_how_to_make_a_key_and_nothing_of_one(monkeypatch, value, why):
    monkeypatch.setenv("DAYFLOW_ENCRYPTION_KEYS", value)

    with pytest.raises(errors.BadSetting, match="DAYFLOW_ENCRYPTION_KEYS") as caught:
        environment.load()

    assert why in str(caught.value)
    assert "`dayflow keys encryption` makes one" in str(caught.value)
    assert GOOD[:20] not in str(caught.value)


def test_the_setting_shows_no_key(monkeypatch):
    monkeypatch.setenv("DAYFLOW_ENCRYPTION_KEYS", f"a:{GOOD}")

    loaded = environment.load()

    assert GOOD not in repr(loaded)
    assert repr(loaded.seal) == "Seal(a)"
