"""Memory ages by the nightly clean-up: killed in the middle it comes to the same end, and a person can undo it."""

import pytest
from cleanups import begun, clean_up, forgotten, remembered, result
from homes import Home
from script import unique
from witness import rows
from workers import working

DAYS_AGO = {"It is young.": 1, "It is due.": 100, "It is unused.": 181, "It was taken out.": 20, "It is over.": 40}
BEFORE = {
    "It is young.": None,
    "It is due.": None,
    "It is unused.": None,
    "It was taken out.": "forgotten",
    "It is over.": "forgotten",
}
AFTER = {"It is young.": None, "It is due.": None, "It is unused.": "expired", "It was taken out.": "forgotten"}


def aged(home: Home) -> tuple[str, dict[str, int]]:
    """A namespace with an entry for each thing that time does."""
    scope = unique("aged")
    ids = remembered(home, scope, DAYS_AGO)
    forgotten(home, ids["It was taken out."], 10)
    forgotten(home, ids["It is over."], 15)
    return scope, ids


def kept(home: Home, scope: str) -> dict[str, str | None]:
    """What the entries of a namespace say, and how they were taken out."""
    return {row["text"]: row["ended_as"] for row in rows(home, "SELECT * FROM memory WHERE scope = ?", scope)}


# The first page that is deleted is one of calls that memory knows.
CLEARED = [pytest.param(f"retention.cleared:{n}", marks=pytest.mark.long) for n in (1, 2)]


@pytest.mark.parametrize("point", ["retention.marked", *CLEARED])
def test_an_expiry_that_is_killed_in_the_middle_comes_to_the_same_end(home, point):
    (scope, ids), queue = aged(home), unique("tidy")
    with working(home, queue, DAYFLOW_CRASH_AT=point) as doomed:
        would = clean_up(home, queue=queue, dry_run=True)["kinds"]["memory"]
        assert kept(home, scope) == BEFORE
        killed = begun(home, queue=queue)
        doomed.died()

    with working(home, queue):
        kinds = result(home, killed)["kinds"]
        again = clean_up(home, queue=queue)["kinds"]["memory"]

    report = kinds["memory"]
    assert kept(home, scope) == AFTER
    assert kinds["memory_commits"]["gone"] == sum(days > 30 for days in DAYS_AGO.values())
    assert report == {**would, "gone": would["due"]}
    assert (report["gone"], report["entered_grace"], report["named"]) == (1, 1, [str(ids["It is unused."])])
    assert str(ids["It is due."]) in report["review"]
    assert (again["gone"], again["entered_grace"]) == (0, 0)
    home.dayflow("memory", "restore", str(ids["It is unused."]))
    assert kept(home, scope) == {**AFTER, "It is unused.": None}
