"""Wording: what pydantic says of a value is said in plain words."""

import pytest

from domain.wording import plain

SAID = [
    ("Value error, 'Mars' is no IANA time zone", "'Mars' is no IANA time zone"),
    ("Input should be a valid integer, unable to parse string as an integer", "it has to be a whole number"),
    ("Input should be a valid number", "it has to be a number"),
    ("Input should be less than or equal to 65535", "it has to be less than or equal to 65535"),
    ("Input should be 'on' or 'off'", "it has to be 'on' or 'off'"),
    ("Decimal input should have no more than 2 digits", "it has to have no more than 2 digits"),
    ("String should have at least 1 character", "it has to have at least 1 character"),
    ("Value should have at least 16 items after validation, not 1", "it has to have at least 16 items"),
    ("Field required", "Field required"),
    ("what we say ourselves", "what we say ourselves"),
]


@pytest.mark.parametrize(("said", "words"), SAID)
def test_it_is_said_plainly(said, words):
    assert plain(said) == words
