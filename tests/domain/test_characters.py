"""Characters that no request may hold are found wherever they are, and cleared from a text without harm to the rest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import characters

# A JSON value, whether it holds such a character.
VALUES = [
    ("a NUL", "a\x00b", True),
    ("half a character", ["a", {"b": "\udc00"}], True),
    ("the name of a field", {"a\x00": 1}, True),
    ("the words for a NUL", "\\u0000", False),
    ("other controls", "a\x1b[2J\x07", False),
    ("a whole character", {"a": ["😀", 1, None, True, 1.5]}, False),
]


@pytest.mark.parametrize(("value", "held"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_what_may_not_be_sent_is_found_wherever_it_is(value, held):
    assert characters.refused(value) == held


@settings(deadline=None, max_examples=100)
@given(st.text(st.characters(codec=None)))
def test_a_text_that_is_cleared_can_be_sent_and_what_could_be_sent_stays(text):
    cleared = characters.cleared(text)

    assert not characters.refused(cleared)
    assert cleared.encode().decode() == cleared
    assert cleared == text or characters.refused(text)
