"""The transcript in pages, and the one digest that speaks for all of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import digest, transcript
from domain.transcript import PAGE_BYTES, Transcript

quick = settings(deadline=None, max_examples=50)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=12)


def filled(messages, head=""):
    made = Transcript(head=head)
    for message in messages:
        made.append(message)
    return made


def sized(size):
    return transcript.user_text("x" * size)


def pages(made, length=None):
    """Every page, from the first message on, as a puller asks for them."""
    found, start = [], 0
    while True:
        page = made.page(start, length)
        if not page.messages:
            return found
        found.append(page)
        start = page.end


@quick
@given(MESSAGES, st.text(alphabet="0123456789abcdef", max_size=64))
def test_the_head_is_the_chain_over_all_messages_from_where_it_began(messages, start):
    expected = start
    for message in messages:
        expected = digest.chain(expected, message)

    assert filled(messages, start).head == expected


@quick
@given(MESSAGES, st.data())
def test_a_changed_missing_or_moved_message_changes_the_head(messages, data):
    messages = [*messages, {"role": "user"}, {"role": "assistant"}]
    at = data.draw(st.integers(0, len(messages) - 2))
    changed = [*messages[:at], {**messages[at], "new": 1}, *messages[at + 1 :]]
    swapped = [*messages[:at], messages[at + 1], messages[at], *messages[at + 2 :]]

    head = filled(messages).head

    assert filled(changed).head != head
    assert filled(messages[:-1]).head != head
    assert messages == swapped or filled(swapped).head != head


@quick
@given(MESSAGES, MESSAGES)
def test_the_head_depends_on_what_it_began_with(messages, others):
    if messages != others:
        assert filled(messages, digest.sha256("a")).head != filled(messages, digest.sha256("b")).head


@quick
@given(st.lists(st.integers(0, PAGE_BYTES * 2), max_size=8), st.integers(0, 8))
def test_pages_follow_each_other_without_gap_or_overlap_and_hold_only_what_fits(sizes, length):
    made = filled([sized(size) for size in sizes])

    found = pages(made, length)

    assert [message for page in found for message in page.messages] == made.messages[:length]
    assert all(page.end == page.start + len(page.messages) for page in found)
    assert all(page.length == len(sizes) for page in found)
    assert all(
        len(page.messages) == 1 or sum(len(digest.canonical(m)) for m in page.messages) <= PAGE_BYTES for page in found
    )


def test_a_message_larger_than_a_page_has_a_page_of_its_own():
    made = filled([sized(10), sized(PAGE_BYTES * 3), sized(10)])

    assert [len(page.messages) for page in pages(made)] == [1, 1, 1]


# From, to, what of five messages comes.
RANGES = [
    (0, None, [0, 1, 2, 3, 4]),
    (2, None, [2, 3, 4]),
    (1, 3, [1, 2]),
    (4, 99, [4]),  # an end behind the end
    (5, None, []),  # nothing is left
    (99, None, []),  # far behind the end
    (3, 2, []),  # an end before its beginning
]


@pytest.mark.parametrize(("start", "end", "expected"), RANGES)
def test_a_page_holds_the_messages_that_were_asked_for(start, end, expected):
    made = filled([{"n": n} for n in range(5)])

    page = made.page(start, end)

    assert [message["n"] for message in page.messages] == expected
    assert page.length == 5


def test_a_page_names_its_epoch():
    assert Transcript(epoch=3).page(0).epoch == 3


def test_two_transcripts_share_nothing():
    first, second = Transcript(), Transcript()

    first.append({"role": "user"})

    assert second.messages == []


@quick
@given(JSON)
def test_equal_values_have_equal_digests_however_their_keys_were_ordered(value):
    reordered = dict(reversed(value.items())) if isinstance(value, dict) else value

    assert digest.sha256(reordered) == digest.sha256(value)


# Values that are no plain JSON; each has a digest all the same.
ODD = [
    "\ud800",  # a lone surrogate
    "\x00",
    float("nan"),
    float("inf"),
    b"\xff\x00",  # the bytes of a binary payload
    {1, 2},
    object,
    10**400,
]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_what_is_no_plain_json_has_a_digest_too(value):
    assert digest.sha256([value]) == digest.sha256([value])
    assert digest.canonical([value]).isascii()


# What the tool said, whether it failed, the block.
RESULTS = [
    ("ok", False, {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "ok"}]}),
    ("", False, {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "(no output)"}]}),
    ("\n ", False, {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "(no output)"}]}),
    (
        "no",
        True,
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "no"}], "is_error": True},
    ),
]


@pytest.mark.parametrize(("content", "is_error", "block"), RESULTS)
def test_a_result_block_never_holds_blank_text_and_says_is_error_only_of_errors(content, is_error, block):
    assert transcript.tool_result("t", content, is_error=is_error) == block


def text(words):
    return {"type": "text", "text": words}


CALL = {"type": "tool_use", "id": "t", "name": "look", "input": {"a": ""}}
THOUGHT = {"type": "thinking", "thinking": "", "signature": "s"}

# What the model answered, what of it is sent back.
ANSWERS = [
    ("whole", [THOUGHT, text(" Now. \n"), CALL], [THOUGHT, text(" Now. \n"), CALL]),
    ("an empty text", [THOUGHT, text(""), CALL], [THOUGHT, CALL]),
    ("a blank text", [text("\n\n"), CALL], [CALL]),
    ("a text without text", [{"type": "text"}, CALL], [CALL]),
    ("nothing but blanks", [text(" "), text("")], []),
    ("a character in two halves", [text("a\ud83d\ude00b")], [text("a😀b")]),
    ("half a character", [text("a\ud83d")], [text("a\ufffd")]),
    ("a NUL", [text("a\x00b")], [text("ab")]),
    ("NULs alone", [text("\x00"), CALL], [CALL]),
    ("a block of a new kind", [{"type": "hologram", "text": ""}], [{"type": "hologram", "text": ""}]),
]


@pytest.mark.parametrize(("content", "sent"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_of_an_answer_all_is_sent_back_but_what_no_request_may_hold(content, sent):
    assert transcript.returnable(content) == sent
