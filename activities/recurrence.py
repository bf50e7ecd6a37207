"""How much work a recurrence rule is, and whether it can be done at all, told before anything is expanded.

The expanding library walks from an event's first day, and a rule that never fits walks to the year 9999.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

DAY = 86_400
UNITS = {
    "SECONDLY": 1,
    "MINUTELY": 60,
    "HOURLY": 3_600,
    "DAILY": DAY,
    "WEEKLY": 7 * DAY,
    "MONTHLY": 30 * DAY,
    "YEARLY": 365 * DAY,
}
LONGEST = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
TIMES = {"HOURLY": ("BYMINUTE", "BYSECOND"), "MINUTELY": ("BYSECOND",), "SECONDLY": ()}
PICKS = {"BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYSETPOS"}
# A walk to the year 9999 takes as long as this many instances.
TO_THE_END = 1_000_000

# A year has no more days to list.
LISTED = 366

Rule = Mapping[str, Sequence[Any]]


def refusal(rule: Rule) -> str | None:
    """Why this rule is not expanded; None if it may be."""
    frequency, interval = list(rule.get("FREQ", [])), list(rule.get("INTERVAL", [1]))
    longest = max(len(values) for values in rule.values())
    if len(frequency) != 1 or frequency[0] not in UNITS or len(interval) != 1 or interval[0] < 1 or longest > LISTED:
        return "a recurrence rule that makes no sense"
    limits = {name for name in rule if name.startswith("BY")}
    if frequency[0] in ("SECONDLY", "MINUTELY") and limits:
        return f"a {frequency[0]} rule with {', '.join(sorted(limits))}"
    if frequency[0] == "HOURLY" and limits & (PICKS | {"BYMONTH"}):
        return f"an HOURLY rule with {', '.join(sorted(limits))}"
    return None if _day_exists(rule) else "a recurrence rule that never comes true"


def instances(rule: Rule, begin: datetime, end: datetime) -> int:
    """How many instances there are between two times, at most."""
    frequency = rule["FREQ"][0]
    seconds = max(0.0, (end - begin).total_seconds())
    periods = int(seconds / (UNITS[frequency] * rule.get("INTERVAL", [1])[0])) + 1
    times = math.prod(len(rule.get(name, [0])) for name in TIMES.get(frequency, ("BYHOUR", "BYMINUTE", "BYSECOND")))
    return int(min([periods * _days(rule, frequency) * times, *rule.get("COUNT", [])]))


def walk(rule: Rule) -> int:
    """What a rule may cost on top of its instances: the days on which it does not come true."""
    picky = rule["FREQ"][0] == "DAILY" and PICKS & set(rule)
    skipping = rule["FREQ"][0] in ("DAILY", "HOURLY") and rule.get("INTERVAL", [1])[0] > 1
    return TO_THE_END if picky or (skipping and any(name.startswith("BY") for name in rule)) else 0


def _days(rule: Rule, frequency: str) -> int:
    """Days of one period that may be picked, at most."""
    if frequency == "WEEKLY":
        return max(1, len(rule.get("BYDAY", [])))
    if frequency not in ("MONTHLY", "YEARLY"):
        return 1
    months = len(rule.get("BYMONTH", [])) if frequency == "YEARLY" else 1
    if not (PICKS | {"BYDAY"}) & set(rule):
        return max(1, months)
    if set(rule) & PICKS == {"BYMONTHDAY"}:
        return len(rule["BYMONTHDAY"]) * (months or 12)
    return 31 * (months or 12)


def _day_exists(rule: Rule) -> bool:
    days, months = rule.get("BYMONTHDAY"), rule.get("BYMONTH")
    if not days:
        return True
    longest = max((LONGEST.get(int(month), 31) for month in months), default=31) if months else 31
    return any(abs(day) <= longest for day in days)
