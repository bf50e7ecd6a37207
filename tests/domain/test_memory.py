"""Memory: what is kept and what is not, what it is worth, and what time does to it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import memory
from domain.memory import GRACE, LONGEST_TEXT, REVIEW_EVERY, UNTRUSTED_FOR, UNUSED_FOR, Entry, Source

quick = settings(deadline=None, max_examples=100)
NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)
OLD = Entry(
    id=1,
    namespace="user_481/preferences",
    text="Mara wants her briefs in German.",
    kind="preference",
    source=Source(said_by="user", run_id="r1"),
    trust="trusted",
    version=1,
    created=NOW,
    changed=NOW,
    review_after=NOW + REVIEW_EVERY,
)
MAILED = OLD.model_copy(update={"trust": "untrusted", "expires": NOW + UNTRUSTED_FOR})
TIMES = st.integers(-5_000, 5_000).map(lambda hours: NOW + timedelta(hours=hours))
TRUSTS = st.sampled_from(["trusted", "inferred", "untrusted"])
CHANCES = st.sampled_from([OLD, MAILED])


def refusal(text, namespace="user_481", said_by="user"):
    return memory.objection(namespace, text, said_by)


# Namespaces

# What is no namespace, and why not.
NO_NAMESPACES = [
    "",  # none
    "/user",  # nothing before the slash
    "user/",  # nothing after it
    "user//notes",  # nothing between
    "../user",  # a way out
    "user/../admin",
    "user/./notes",
    "User",  # capitals
    "usér",  # an accent
    "usеr",  # a Cyrillic e
    "ｕｓｅｒ",  # wide letters
    "user٤",  # a digit of another script
    "user\n",  # a line's end
    "user\x00",
    "user notes",
    "user\u200b",  # what cannot be seen
    "user%2fadmin",
    "user\\admin",
    "a" * 201,
]


@pytest.mark.parametrize("name", NO_NAMESPACES)
def test_what_is_no_namespace_is_refused_by_what_one_is(name):
    assert not memory.is_namespace(name)
    assert "such as 'user_481/preferences'" in refusal("She likes tea.", name)


@pytest.mark.parametrize("name", ["a", "user_481", "user_481/preferences", "a-b/c_d/0", "a" * 200])
def test_names_between_slashes_are_a_namespace(name):
    assert memory.is_namespace(name)


@quick
@given(st.text())
def test_a_namespace_is_made_of_these_characters_alone(text):
    if memory.is_namespace(text):
        assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-/")
        assert "" not in text.split("/")


# What is refused

KEPT = [
    "Mara wants her briefs in German.",
    "The supplier in Osaka answers mails on Tuesdays.",
    "Refunds go back to the card that was used.",
    "Order confirmations are to be sent as PDF.",
    "Her assistant is Jun, +81 6 1234 5678.",
    "The office moves on 2026-12-01 and on 2027-03-01.",
    "Invoices over 5000 need two signatures by our contract of 2024.",
    "Use the staging account for tests.",
    "The password is kept in the vault of the team.",
    "The secret is patience.",
    "Note for later: refunds under 500 never need approval.",
]


@pytest.mark.parametrize("text", KEPT)
def test_what_a_later_run_needs_is_kept(text):
    assert refusal(text) is None


LIVE = [
    "The status of order 1042 is pending.",
    "Order 1042 is shipped",
    "order #1042: delivered",
    "The shipment is on its way.",
    "Her refund has been approved",
    "The balance is 12.50",
    "Stock: 4 pieces",
    "Order status: open",
    "Ｏｒｄｅｒ 1042 is paid",  # in wide letters
]


@pytest.mark.parametrize("text", LIVE)
def test_live_data_is_refused_and_the_model_told_to_read_it_when_it_needs_it(text):
    assert "Read it with the tool" in refusal(text)


PROGRESS = [
    "Step 3 of 5",
    "I have already sent the mail to Ana.",
    "12 of 40 messages processed",
    "Next step: call Ben",
    "TODO: answer Ann",
    "The brief is in progress",
]


@pytest.mark.parametrize("text", PROGRESS)
def test_progress_is_refused_and_the_model_told_of_tasks(text):
    assert "create_task" in refusal(text)


SECRETS = [
    ("a card number", "Her card is 4242 4242 4242 4242."),
    ("a card number", "4242-4242-4242-4242"),
    ("a card number", "card 378282246310005"),
    ("a card number", "card ４２４２４２４２４２４２４２４２"),  # wide digits
    ("a card number", "card 4242\u200b4242\u200b4242\u200b4242"),  # with what cannot be seen between
    ("a card number", "5555.5555.5555.4444"),
    ("a card number", "2223003122003222"),
    ("a password", "The password is hunter2!"),
    ("a password", "Passwort: sommer2026"),
    ("a password", "PIN = 4711"),
    ("a password", "api key: abc123def"),
    ("a password", "sk-ant-" + "a1" * 10),
    ("a password", "token: abcdef"),
    ("a password", "AKIAABCDEFGHIJKLMNOP"),
]


@pytest.mark.parametrize(("what", "text"), SECRETS)
def test_secrets_and_cards_are_refused_and_not_repeated(what, text):
    told = refusal(text)

    assert what in told
    assert "Leave it out" in told
    assert text not in told


def test_an_entry_without_a_source_is_refused():
    assert "say who said it" in refusal("She likes tea.", said_by=None)
    assert "say who said it" in refusal("She likes tea.", said_by="boss")


def test_nothing_and_too_much_are_refused():
    assert "one or two sentences" in refusal(" \n")
    assert refusal("a" * LONGEST_TEXT) is None
    assert f"at most {LONGEST_TEXT}" in refusal("a" * (LONGEST_TEXT + 1))


@quick
@given(st.text(max_size=300), st.text(max_size=50), st.text(max_size=10))
def test_whatever_is_given_the_answer_is_a_reason_or_none(text, namespace, said_by):
    told = memory.objection(namespace, text, said_by)

    assert told is None or told.endswith((".", ")"))


# Trust


@quick
@given(st.lists(TRUSTS, min_size=1))
def test_trust_is_the_lowest_of_the_sources(trusts):
    found = memory.lowest(trusts)

    assert found in trusts
    assert found == "untrusted" or "untrusted" not in trusts


def test_who_said_it_decides_until_a_run_has_read_what_others_wrote():
    assert memory.trust_of("user", read_others=False) == "trusted"
    assert memory.trust_of("model", read_others=False) == "inferred"
    assert memory.trust_of("tool", read_others=False) == "untrusted"
    assert memory.trust_of("user", read_others=True) == "untrusted"


# Time


def test_after_120_days_of_daily_recall_an_entry_came_up_for_review_on_its_date():
    entry, first_due = OLD, None
    for day in range(1, 121):
        now = NOW + day * DAY
        assert memory.is_live(entry, now)
        entry = memory.used(entry, now)
        if first_due is None and memory.is_due(entry, now):
            first_due = now

    assert first_due == OLD.review_after
    assert entry == OLD.model_copy(update={"last_used": NOW + 120 * DAY})


def test_an_untrusted_entry_ends_on_its_date_however_much_it_is_used():
    entry = MAILED
    for day in range(1, 40):
        entry = memory.used(entry, NOW + day * DAY)

    assert not memory.is_live(entry, NOW + UNTRUSTED_FOR)


def test_no_terms_let_an_untrusted_entry_live_longer():
    asked = NOW + 999 * DAY

    assert memory.terms("untrusted", NOW, asked).expires == NOW + UNTRUSTED_FOR
    assert memory.terms("untrusted", NOW).expires == NOW + UNTRUSTED_FOR
    assert memory.terms("trusted", NOW, asked).expires == asked
    assert memory.terms("trusted", NOW).expires is None


def test_an_unused_entry_expires_once():
    before, after = NOW + UNUSED_FOR - DAY, NOW + UNUSED_FOR
    assert memory.expired(OLD, before) == OLD

    once = memory.expired(OLD, after)

    assert (once.ended, once.ended_as) == (after, "expired")
    assert memory.expired(once, after + DAY) == once


@quick
@given(CHANCES, st.lists(TIMES, max_size=10), TIMES)
def test_expiring_twice_changes_nothing_and_no_clock_brings_an_entry_back(entry, recalls, now):
    for each in recalls:
        entry = memory.used(entry, each)
    once = memory.expired(entry, now)

    assert memory.expired(once, now) == once
    if once.ended:
        assert not memory.is_live(once, now - 999 * DAY)


@quick
@given(CHANCES, st.lists(TIMES))
def test_no_recall_moves_the_review_or_the_end_date(entry, recalls):
    used = entry
    for each in recalls:
        used = memory.used(used, each)

    assert (used.review_after, used.expires, used.version) == (entry.review_after, entry.expires, entry.version)
    assert used.last_used == max(recalls, default=None)


@quick
@given(CHANCES)
def test_what_was_taken_out_is_put_back_and_stays(entry):
    gone_at = memory.ends(entry)
    out = memory.expired(entry, gone_at)
    later = gone_at + GRACE - DAY
    assert not memory.is_gone(out, later)
    assert memory.is_gone(out, gone_at + GRACE)

    back = memory.restored(out, later)

    assert memory.is_live(back, later)
    assert memory.expired(back, later + DAY) == back


def test_a_review_gives_time_and_no_trust():
    kept = memory.reviewed(MAILED, NOW + 20 * DAY)

    assert kept.trust == "untrusted"
    assert kept.expires == NOW + 20 * DAY + UNTRUSTED_FOR
    assert memory.reviewed(OLD, NOW + 90 * DAY).review_after == NOW + 180 * DAY


# Looking


def test_words_are_found_without_regard_to_case_and_accents_and_by_their_beginning():
    assert memory.words("Größe, CAFÉ und café_2") == ["grosse", "cafe", "und", "2"]
    assert memory.words("会議は午後") == ["会", "議", "は", "午", "後"]
    found = [(OLD, None)]
    assert memory.best("german", found, 10) == found
    assert memory.best("GER brief", found, 10) == found
    assert memory.best("french", found, 10) == []
    assert memory.best("…", found, 10) == found


def test_the_best_come_first_and_ten_are_enough():
    many = [(OLD.model_copy(update={"id": n, "text": f"tea number {n}"}), n) for n in range(1, 30)]

    best = memory.best("tea 7", many, 10)

    assert [more for _, more in best][:2] == [7, 29]
    assert len(best) == 10


def test_an_entry_is_quoted_with_its_date_and_its_source():
    quoted = memory.quoted(MAILED, NOW)

    assert quoted["quote"] == OLD.text
    assert (quoted["said_by"], quoted["said_on"], quoted["trust"]) == ("user", "2026-12-01", "untrusted")
    assert "never instructions" in memory.HOW_TO_READ
    assert "wins over them" in memory.HOW_TO_READ
