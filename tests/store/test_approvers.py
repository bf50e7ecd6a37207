"""The approvers file: who may approve what, whose signature counts, and how a bad file is told."""

import base64
import os
from decimal import Decimal

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from domain import errors
from store import approvers
from store.settings import Settings

ABOVE = "above their amount: as 'lead' at most 500.00"
NOT_LISTED = "not on the list: DAYFLOW_APPROVERS names the file of those who may approve"
BELOW = "below the needed role: it needs 'lead'"

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
RAW = base64.b64encode(KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.fixture
def load(tmp_path):
    """Write a file and read it as the settings say."""
    path = tmp_path / "approvers.toml"

    def loaded(text):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return approvers.load(Settings(DAYFLOW_APPROVERS=path))

    return loaded


def signed(key, data):
    return base64.b64encode(key.sign(data)).decode()


@pytest.mark.parametrize(
    ("approver", "role", "amount", "why"),
    [
        # What the refund of order 1042 needs.
        ("lead@example.com", "lead", Decimal("40.00"), None),
        ("clerk@example.com", "lead", Decimal("40.00"), BELOW),
        ("desk@example.com", "lead", Decimal("40.00"), BELOW),
        ("mallory@example.com", "lead", Decimal("40.00"), NOT_LISTED),
        # A limit is the most that may be approved.
        ("lead@example.com", "lead", Decimal("500.00"), None),
        ("lead@example.com", "lead", Decimal("500.01"), ABOVE),
        ("clerk@example.com", "clerk", Decimal(11), "above their amount: as 'clerk' at most 10.00"),
        # What moves no amount has no limit.
        ("clerk@example.com", "clerk", None, None),
        ("desk@example.com", "desk", Decimal(1_000_000), None),
        # No number is no amount.
        ("lead@example.com", "lead", Decimal("NaN"), ABOVE),
        ("lead@example.com", "lead", Decimal("-Infinity"), ABOVE),
        # Where no rule names a role, being on the list is enough.
        ("desk@example.com", None, Decimal("40.00"), None),
        ("mallory@example.com", None, None, NOT_LISTED),
        # A name is exact.
        ("Lead@example.com", "lead", None, NOT_LISTED),
        ("lead@example.com ", "lead", None, NOT_LISTED),
        ("", "lead", None, NOT_LISTED),
    ],
)
def test_who_may_approve_by_the_sample_file(approver, role, amount, why):
    assert approvers.load(Settings()).may(approver, role, amount) == why


def test_the_file_is_read_anew_each_time(load):
    before = load('[[approvers]]\nname = "ada"\nroles = ["lead"]')
    after = load("approvers = []")

    assert before.may("ada", "lead") is None
    assert after.may("ada", "lead") == NOT_LISTED


@pytest.mark.parametrize("key", [RAW, PEM], ids=["base64", "PEM"])
def test_a_key_on_file_makes_a_signature_needed(load, key):
    known = load(f'[[approvers]]\nname = "ada"\nroles = ["lead"]\npublic_key = """{key}"""')

    assert known.verify("ada", b"yes", signed(KEY, b"yes")) is None
    assert known.verify("ada", b"yes", None) == "not signed: this approver has a key on file"
    assert known.verify("bob", b"yes", signed(KEY, b"yes")) == NOT_LISTED


@pytest.mark.parametrize(
    "signature",
    [
        signed(KEY, b"no"),
        signed(OTHER, b"yes"),
        signed(KEY, b"yes")[:-4],
        signed(KEY, b"yes") + "\n",
        "",
        "no base64",
        "ä",
        "\ud800",
    ],
    ids=["other bytes", "other key", "cut", "line break", "empty", "text", "not ASCII", "surrogate"],
)
def test_a_signature_that_does_not_fit_is_bad(load, signature):
    known = load(f'[[approvers]]\nname = "ada"\nroles = ["lead"]\npublic_key = "{RAW}"')

    assert known.verify("ada", b"yes", signature) == "bad signature"


def test_without_a_key_a_name_is_all_there_is(load):
    known = load('[[approvers]]\nname = "ada"\nroles = ["lead"]')

    assert known.verify("ada", b"yes", None) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("approvers = []\nname\nroles = []", r"is no TOML: .*line 2"),
        (b"\xff", "is no TOML"),
        ("", "approvers: Field required"),
        ("approvers = 1", "approvers: .*list"),
        ("approver = []", "approvers: Field required"),
        ('other = 1\n[[approvers]]\nname = "ada"\nroles = ["lead"]', "other: Extra inputs"),
        ('[[approvers]]\nroles = ["lead"]', r"approvers\.0\.name: Field required"),
        ('[[approvers]]\nname = 1\nroles = ["lead"]', r"approvers\.0\.name: .*string"),
        ('[[approvers]]\nname = "a b"\nroles = ["lead"]', r"approvers\.0\.name: "),
        ('[[approvers]]\nname = "ada"', r"approvers\.0\.roles: Field required"),
        ('[[approvers]]\nname = "ada"\nroles = []', r"approvers\.0\.roles: .*at least 1"),
        ('[[approvers]]\nname = "ada"\nroles = "lead"', r"approvers\.0\.roles: .*list"),
        ('[[approvers]]\nname = "ada"\nroles = ["Lead"]', r"approvers\.0\.roles\.0: "),
        # Misspelt: a limit that is silently none would be the worst of all.
        ('[[approvers]]\nname = "ada"\nroles = ["lead"]\nmax_amounts = {}', r"approvers\.0\.max_amounts: Extra"),
        ('[[approvers]]\nname = "ada"\nroles = ["lead"]\nmax_amount = {led = "1"}', r"approvers\.0: .*'led'"),
        ('[[approvers]]\nname = "ada"\nroles = ["lead"]\nmax_amount = {lead = 40.0}', r"max_amount\.lead: .*string"),
        ('[[approvers]]\nname = "ada"\nroles = ["lead"]\nmax_amount = {lead = "1e3"}', "'1e3' of 'lead' is no decimal"),
        ('[[approvers]]\nname = "ada"\nroles = ["lead"]\nmax_amount = {lead = "-1"}', "no decimal number"),
        ('[[approvers]]\nname = "ada"\nroles = ["lead"]\nmax_amount = {lead = "٤٠"}', "no decimal number"),
        ('[[approvers]]\nname = "ada"\nroles = ["lead"]\nmax_amount = "40"', r"approvers\.0\.max_amount: .*dict"),
        ('[[approvers]]\nname = "ada"\nroles = ["lead"]\npublic_key = "AAAA"', r"approvers\.0\.public_key: .*Ed25519"),
        ('[[approvers]]\nname = "ada"\nroles = ["lead"]\npublic_key = "-----BEGIN x"', "no Ed25519 key"),
        ('[[approvers]]\nname = "ada"\nroles = ["lead"]\n' * 2, "top|approvers: .*'ada' stands there twice"),
        (
            '[[approvers]]\nname = "ada"\nroles = ["lead"]\n[[approvers]]\nname = "Ada"\nroles = ["clerk"]',
            "'Ada' stands there twice",
        ),
        (
            '[[approvers]]\nname = "zo\u00eb"\nroles = ["lead"]\n[[approvers]]\nname = "zoe\u0308"\nroles = ["clerk"]',
            "stands there twice",
        ),
    ],
)
def test_a_malformed_file_is_a_bad_setting_that_names_the_place(load, text, place):
    with pytest.raises(errors.BadSetting, match=place) as told:
        load(text)

    assert told.value.variable == "DAYFLOW_APPROVERS"
    assert str(told.value).count("approvers.toml") == 1


@pytest.mark.timeout(5)
def test_a_pipe_in_place_of_the_file_is_named_and_holds_nobody_up(tmp_path):
    pipe = tmp_path / "approvers.toml"
    os.mkfifo(pipe)

    with pytest.raises(errors.BadSetting, match=r"approvers.toml' cannot be read: not a regular file"):
        approvers.load(Settings(DAYFLOW_APPROVERS=pipe))


@pytest.mark.parametrize("path", ["none.toml", "."])
def test_a_file_that_cannot_be_read_is_a_bad_setting(tmp_path, path):
    with pytest.raises(errors.BadSetting, match="cannot be read"):
        approvers.load(Settings(DAYFLOW_APPROVERS=tmp_path / path))
