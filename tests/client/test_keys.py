"""Key pairs: made once, readable by their owner alone, and fit for the approvers file."""

import os
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from homes import Home

from client import keys
from domain import errors
from store import seal
from store.approvers import Approver, Approvers
from store.seal import Seal

LEAD = "lead@example.com"


def test_a_new_key_lies_in_the_home_for_its_owner_alone(tmp_path):
    old = os.umask(0)
    try:
        key = keys.new(tmp_path, LEAD)
    finally:
        os.umask(old)

    assert key.file == tmp_path / "keys" / "lead@example.com.pem"
    assert stat.S_IMODE(key.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.file.parent.stat().st_mode) == 0o700
    assert key.file.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert repr(key) == f"Key('{key.file}')"


def test_a_loaded_key_signs_as_the_new_one_did(tmp_path):
    made = keys.new(tmp_path, LEAD)
    loaded = keys.load(tmp_path, LEAD)

    assert loaded.sign(b"yes") == made.sign(b"yes")
    assert loaded.public_line == made.public_line


def test_the_line_it_prints_verifies_what_it_signs(tmp_path):
    key = keys.new(tmp_path, LEAD)
    public = key.public_line.removeprefix('public_key = "').removesuffix('"')
    known = Approvers(approvers=[Approver(name=LEAD, roles=["lead"], public_key=public)])

    assert known.verify(LEAD, b"yes", key.sign(b"yes")) is None
    assert known.verify(LEAD, b"no", key.sign(b"yes")) == "bad signature"


def test_a_key_is_never_replaced(tmp_path):
    made = keys.new(tmp_path, LEAD)

    with pytest.raises(errors.BadRequest, match="has a key"):
        keys.new(tmp_path, LEAD)
    assert keys.load(tmp_path, LEAD).public_line == made.public_line


@pytest.mark.parametrize("name", ["", "..", "../lead", "a/b", "a\0b", ".lead", "le ad", "x" * 101, "a\n"])
def test_a_name_that_is_no_name_is_refused(tmp_path, name):
    assert not keys.exists(tmp_path, name)
    with pytest.raises(errors.BadRequest, match="cannot name a key"):
        keys.new(tmp_path, name)
    with pytest.raises(errors.BadRequest, match="cannot name a key"):
        keys.load(tmp_path, name)


def test_whether_there_is_a_key_can_be_asked(tmp_path):
    assert not keys.exists(tmp_path, LEAD)

    keys.new(tmp_path, LEAD)

    assert keys.exists(tmp_path, LEAD)


def test_a_key_that_is_not_there_says_how_to_make_one(tmp_path):
    with pytest.raises(errors.NotFound, match=r"dayflow keys new lead@example\.com"):
        keys.load(tmp_path, LEAD)


def test_a_key_that_others_may_read_is_not_used(tmp_path):
    keys.new(tmp_path, LEAD).file.chmod(0o640)

    with pytest.raises(errors.BadRequest, match="chmod 600"):
        keys.load(tmp_path, LEAD)


def other_kind():
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize("held", [b"", b"no key", b"\xff\xfe", other_kind()], ids=["empty", "text", "bytes", "rsa"])
def test_a_file_without_such_a_key_is_refused(tmp_path, held):
    keys.new(tmp_path, LEAD).file.write_bytes(held)

    with pytest.raises(errors.BadRequest, match="key"):
        keys.load(tmp_path, LEAD)


def test_the_command_prints_an_encryption_key_that_the_setting_takes(tmp_path):
    new = Home(tmp_path)

    made = new.dayflow("keys", "encryption", "k1").stdout.strip()

    assert list(seal.parse(made)) == ["k1"]
    assert "under the key k1" in new.dayflow("doctor", env={"DAYFLOW_ENCRYPTION_KEYS": made}).stdout
    assert "cannot be the id" in new.dayflow("keys", "encryption", "a:b", code=2).stderr


def test_a_sealed_file_is_printed_to_who_has_its_key(tmp_path):
    new, key = Home(tmp_path), seal.new_key("k1")
    file = tmp_path / "sealed"
    file.write_bytes(Seal(seal.parse(key)).seal("Grüße\n".encode()))

    assert new.dayflow("unseal", str(file), env={"DAYFLOW_ENCRYPTION_KEYS": key}).stdout.startswith("Grüße")
    assert "'k1' is missing" in new.dayflow("unseal", str(file), code=1).stderr
