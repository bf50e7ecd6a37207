"""What may go when, and that nothing open or unsure is among it."""

from datetime import UTC, datetime, timedelta

import pytest

from domain import errors, retention
from domain.memory import GRACE, REVIEW_EVERY, UNUSED_FOR, Entry, Source
from domain.retention import Ages, Done, Found, Mark, Plan, Tally

NOW = datetime(2026, 11, 30, 3, tzinfo=UTC)
PLAN = Plan(dry_run=False, at=NOW, days={"runs": 30, "model_calls": 30, "effects": 365, "payloads": 30, "grace": 7})


def ago(days):
    return NOW - timedelta(days=days)


# When it was closed, when it was marked, who keeps it, whether an effect is open, and how it stands.
STANDINGS = [
    (None, None, None, False, "open"),
    (None, ago(99), None, False, "open"),
    (ago(29), None, None, False, "young"),
    (ago(30), None, None, False, "young"),
    (ago(31), None, None, False, "new"),
    (ago(31), ago(1), None, False, "in grace"),
    (ago(38), ago(7), None, False, "due"),
    (ago(38), ago(6.9), None, False, "in grace"),
    (ago(40), ago(50), None, False, "new"),
    (ago(400), ago(300), "ana", False, "kept by a person"),
    (ago(400), ago(300), None, True, "an effect is open"),
    (ago(400), None, "ana", True, "an effect is open"),
]


@pytest.mark.parametrize(("closed", "marked", "by", "unsure", "verdict"), STANDINGS)
def test_how_it_stands_with_a_run(closed, marked, by, unsure, verdict):
    mark = Mark(marked_at=marked, kept_by=by)

    assert retention.judge(closed, mark, PLAN, open_effects=unsure) == verdict


def test_without_a_grace_period_an_old_run_goes_at_once_but_not_one_that_is_kept_or_unsure():
    plan = PLAN.model_copy(update={"days": PLAN.days | {"grace": 0}})

    assert retention.judge(ago(31), Mark(), plan, open_effects=False) == "due"
    assert retention.judge(ago(31), Mark(kept_by="ana"), plan, open_effects=False) == "kept by a person"
    assert retention.judge(ago(31), Mark(), plan, open_effects=True) == "an effect is open"


ENTRY = Entry(
    id=1,
    namespace="user_481",
    text="Mara wants her briefs in German.",
    kind="preference",
    source=Source(said_by="user"),
    trust="trusted",
    version=1,
    created=NOW - UNUSED_FOR,
    changed=NOW - UNUSED_FOR,
    review_after=NOW - UNUSED_FOR + REVIEW_EVERY,
)
# What an entry has, and how it stands.
STANDINGS_OF_ENTRIES = [
    ({"last_used": ago(1), "review_after": NOW + timedelta(days=1)}, "young"),
    ({"last_used": ago(1)}, "due for a review"),
    ({"last_used": ago(1), "review_after": NOW}, "due for a review"),
    ({}, "new"),
    ({"last_used": ago(1), "expires": NOW}, "new"),
    ({"ended": NOW}, "in grace"),
    ({"ended": NOW - GRACE + timedelta(seconds=1)}, "in grace"),
    ({"ended": NOW - GRACE}, "due"),
    ({"ended": NOW + timedelta(days=1)}, "in grace"),
]


@pytest.mark.parametrize(("has", "verdict"), STANDINGS_OF_ENTRIES)
def test_how_it_stands_with_an_entry_of_memory(has, verdict):
    assert retention.judge_entry(ENTRY.model_copy(update=has), NOW) == verdict


def test_a_page_is_sorted_by_what_is_to_be_done():
    found = Found()
    for verdict in ("open", "young", "new", "in grace", "due", "due for a review", "due for a review"):
        found.sort(verdict, verdict)

    assert (found.due, found.new, found.review) == (["due"], ["new"], ["due for a review"] * 2)
    assert found.kept == {"in grace": 1, "due for a review": 2}


def test_a_claim_is_kept_as_long_as_the_effects_under_it():
    assert PLAN.before("claims") == PLAN.before("effects") == ago(365)


# Inputs that can be used, and the ages that they ask for.
INPUTS = [([], {}), ([{}], {}), ([{"ages": {"runs": 0}}], {"runs": 0}), ([{"ages": {"grace": 1.5}}], {"grace": 1.5})]


@pytest.mark.parametrize(("raw", "ages"), INPUTS)
def test_an_input_names_the_ages_that_differ(raw, ages):
    wanted = retention.parse(raw)

    assert (wanted.dry_run, wanted.ages) == (False, Ages(**ages))


@pytest.mark.parametrize("raw", [None, 1, "all", [], {"dry": True}, {"ages": {"runs": -1}}, {"ages": {"rnus": 1}}])
def test_any_other_input_is_refused(raw):
    with pytest.raises(errors.BadRequest, match="cannot be used"):
        retention.parse([raw])


def test_a_report_adds_up_pages_and_names_the_first_of_what_it_counts():
    tally = Tally()
    for page in range(3):
        tally.saw(Found(due=["a", "b"], new=[f"{page}.{n}" for n in range(40)], kept={"in grace": 1}))
        tally.did(Done(gone=1, troubles={f"{page}": "why"}))

    assert (tally.due, tally.gone, tally.entered_grace, tally.kept) == (6, 3, 120, {"in grace": 3})
    assert (len(tally.named), sorted(tally.troubles)) == (retention.NAMED, ["0", "1", "2"])
