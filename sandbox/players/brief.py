"""Plays the daily brief by rules, from the tool results that it was really sent: reads, creates tasks, reports."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from sandbox import demand
from sandbox.demand import Demand
from sandbox.request import Call, Request, text_of
from sandbox.turns import Turn, say

READS: dict[str, dict[str, Any]] = {"read_inbox": {}, "read_calendar": {"range": "today"}, "read_tasks": {}}
AHEAD: dict[str, Any] = {"type": "tool_use", "name": "read_calendar", "input": {"range": "week"}}
CREATE = "create_task"
MOST_TASKS = 8
MOST_A_DAY = 4
FIRST_LINE = "Written by Dayflow's sandbox model (rules, not a language model)."


@dataclass(slots=True)
class Facts:
    """What the tools said."""

    inbox: dict[str, Any] = field(default_factory=dict)
    calendar: dict[str, Any] = field(default_factory=dict)
    week: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, Any] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    found: list[dict[str, Any]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def plays(asked: Request) -> bool:
    """A request that speaks of a brief and offers at least one of the reading tools."""
    spoken = f"{asked.system_text}\n{asked.first_text}".lower()
    return any(name in asked.tools for name in READS) and "brief" in spoken


def answer(asked: Request) -> Turn:
    """Read what was not read yet, then create tasks and look at the week ahead, then write the brief."""
    calls = asked.calls()
    called = {call.name for call in calls}
    reads = {name: arguments for name, arguments in READS.items() if name in asked.tools and name not in called}
    if reads:
        return Turn(content=[{"type": "tool_use", "name": name, "input": reads[name]} for name in reads])
    facts = _facts(calls)
    wanted = _new_demands(facts)
    creates = [_create(each) for each in wanted[:MOST_TASKS]] if CREATE in asked.tools and CREATE not in called else []
    ahead = [AHEAD] if "read_calendar" in asked.tools and not _looked_ahead(calls) else []
    if creates or ahead:
        return Turn(content=[*creates, *ahead])
    return say("\n".join(_brief(asked, facts, wanted)))


def _looked_ahead(calls: list[Call]) -> bool:
    return any(call.name == "read_calendar" and call.input == AHEAD["input"] for call in calls)


def _facts(calls: list[Call]) -> Facts:
    facts = Facts()
    for call in calls:
        result = _parsed(call)
        if result is None:
            facts.troubles.append(f"`{call.name}` failed: {demand.clip(call.result or 'no result came back')}")
        elif call.name == CREATE:
            group = facts.created if result.get("created", True) else facts.found
            group += _dicts([result.get("task")])
        elif call.name == "read_calendar" and call.input == AHEAD["input"]:
            facts.week = result
        elif call.name in READS:
            setattr(facts, call.name.removeprefix("read_"), result)
    facts.troubles += [f"skipped {_skipped(each)}" for part in (facts.inbox, facts.calendar) for each in _skips(part)]
    return facts


def _parsed(call: Call) -> dict[str, Any] | None:
    """A result as JSON; None when the tool failed or did not answer in JSON."""
    if call.failed or call.result is None:
        return None
    try:
        result = json.loads(call.result)
    except ValueError:
        return None
    return result if isinstance(result, dict) else None


def _new_demands(facts: Facts) -> list[Demand]:
    """What the inbox asks for and no task covers."""
    covered = {str(task.get("source_id")) for task in _dicts(facts.tasks.get("tasks")) if task.get("source_id")}
    found = [demand.of(message) for message in _dicts(facts.inbox.get("messages"))]
    return [each for each in found if each and each.source and each.source not in covered]


def _create(wanted: Demand) -> dict[str, Any]:
    arguments = {"title": f"{wanted.subject} ({wanted.sender})", "source_id": wanted.source}
    if wanted.due:
        arguments["due"] = wanted.due
    arguments["notes"] = wanted.sentence
    return {"type": "tool_use", "name": CREATE, "input": arguments}


def _brief(asked: Request, facts: Facts, wanted: list[Demand]) -> Iterator[str]:
    yield FIRST_LINE
    yield from ("", "# Your brief")
    yield from ("", "## Today", *_today(facts))
    if ahead := list(_ahead(facts)):
        yield from ("", "## This week", *ahead)
    yield from ("", "## Inbox", *_inbox(facts))
    yield from ("", "## Tasks", *_tasks(facts, wanted))
    if facts.troubles:
        yield from ("", "## What did not work", *(f"- {trouble}" for trouble in facts.troubles))
    if said := _said(asked):
        yield from ("", "## Said during the run, which rules cannot act on", *said)


def _today(facts: Facts) -> Iterator[str]:
    events = _dicts(facts.calendar.get("events"))
    if not facts.calendar:
        yield "The calendar was not read."
    elif not events:
        yield "Nothing is on the calendar."
    for event in sorted(events, key=lambda each: (not each.get("all_day"), str(each.get("start")))):
        yield f"- {_when(event)} {event.get('title') or '(no title)'}{_where(event)}"


def _ahead(facts: Facts) -> Iterator[str]:
    """The days after today, each with what is on."""
    days: dict[str, list[str]] = {}
    for event in sorted(_dicts(facts.week.get("events")), key=lambda each: str(each.get("start"))):
        day = str(event.get("start"))[:10]
        if day > str(facts.week.get("from"))[:10]:
            days.setdefault(day, []).append(f"{_when(event)} {event.get('title') or '(no title)'}")
    for day, entries in days.items():
        more = f"; and {len(entries) - MOST_A_DAY} more" if len(entries) > MOST_A_DAY else ""
        yield f"- {_weekday(day)}: {'; '.join(entries[:MOST_A_DAY])}{more}"


def _weekday(day: str) -> str:
    try:
        return f"{date.fromisoformat(day):%a %d %b}"
    except ValueError:
        return day


def _inbox(facts: Facts) -> Iterator[str]:
    messages = _dicts(facts.inbox.get("messages"))
    if not facts.inbox:
        yield "The inbox was not read."
        return
    if not messages:
        yield f"{facts.inbox.get('total', 0)} messages."
        return
    unread = sum(bool(message.get("unread")) for message in messages)
    yield f"{facts.inbox.get('total', len(messages))} messages, {len(messages)} read here, {unread} of them unread."
    for message in messages:
        if found := demand.of(message):
            due = f" (by {found.due})" if found.due else ""
            yield f"- **{found.sender}**, {found.subject}{due}: {found.sentence}"
    others = [message for message in messages if not demand.of(message)]
    if others:
        named = "; ".join(f"{demand.name_of(str(m.get('from') or ''))}: {demand.subject_of(m)}" for m in others[:10])
        more = f"; and {len(others) - 10} more" if len(others) > 10 else ""
        yield f"- Asks for nothing, by these rules: {named}{more}"


def _tasks(facts: Facts, wanted: list[Demand]) -> Iterator[str]:
    new = {task.get("id") for task in facts.created}
    tasks = {task.get("id"): task for task in (*_dicts(facts.tasks.get("tasks")), *facts.found, *facts.created)}
    shown = [task for task in tasks.values() if task.get("status", "open") == "open"]
    yield f"{len(shown)} open, {len(new)} of them new."
    for task in sorted(shown, key=lambda each: (each.get("due") or "9999", str(each.get("id")))):
        mark = "**new** " if task.get("id") in new else ""
        due = f" (due {task['due']})" if task.get("due") else ""
        yield f"- {mark}{task.get('title') or '(no title)'}{due}"
    covered = {str(task.get("source_id")) for task in tasks.values()}
    if left := [each for each in wanted if each.source not in covered]:
        yield f"- No task was made for: {'; '.join(f'{each.subject} ({each.sender})' for each in left)}"


def _said(asked: Request) -> list[str]:
    texts = [text_of(message["content"]) for message in asked.messages[1:] if message["role"] == "user"]
    return [f"- {demand.clip(text)}" for text in texts if text.strip()]


def _when(event: dict[str, Any]) -> str:
    if event.get("all_day"):
        return "all day"
    start, end = _clock(event.get("start")), _clock(event.get("end"))
    return f"{start}–{end}" if end else start


def _clock(moment: Any) -> str:
    try:
        return datetime.fromisoformat(str(moment)).strftime("%H:%M")
    except ValueError:
        return str(moment or "")


def _where(event: dict[str, Any]) -> str:
    place = f", {event['location']}" if event.get("location") else ""
    people = [str(each) for each in event.get("attendees") or []]
    return place + (f", with {', '.join(people[:5])}" if people else "")


def _skips(part: dict[str, Any]) -> list[dict[str, Any]]:
    return _dicts(part.get("skipped"))


def _skipped(each: dict[str, Any]) -> str:
    return f"{each.get('file', 'an entry')}: {each.get('why', 'it could not be read')}"


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
