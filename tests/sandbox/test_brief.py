"""The brief player says what the tools said, and nothing else."""

import json

import pytest

from sandbox import demand

TOOLS = [
    {"name": name, "input_schema": {"type": "object"}}
    for name in ("read_inbox", "read_calendar", "read_tasks", "create_task")
]


def mail(number, sender, subject, text, **more):
    return {
        "id": f"m{number}",
        "from": sender,
        "subject": subject,
        "text": text,
        "date": "2026-11-30T08:00:00+01:00",
    } | more


ANN = mail(1, "Ann Lee <ann@example.org>", "Re: Lease", "Hi,\nCould you sign the lease by Friday?\n\nAnn", unread=True)
SHOP = mail(2, "Shop <newsletter@example.com>", "Sale", "Please buy! Unsubscribe here.")
NOTE = mail(3, "Bob <bob@example.org>", "Minutes", "Here are the minutes of the meeting.")
JAN = mail(4, "Jan Groß <jan@example.de>", "Rechnung", "Hallo,\nbitte überweise den Betrag bis zum 5.12.2026.")
LATE = mail(5, "Eve <eve@example.org>", "Slides", "Deadline is 2026-12-03 for the slides.")
OLD_TASK = {"id": 1, "title": "Water the plants", "status": "open", "source_id": None}
EVENTS = [
    {"title": "Standup", "start": "2026-11-30T09:00:00+01:00", "end": "2026-11-30T09:15:00+01:00", "all_day": False},
    {"title": "Day of the tree", "start": "2026-11-30", "end": "2026-12-01", "all_day": True},
]


class Day:
    """Tools with fixed data, played to the end."""

    def __init__(self, served, messages, tasks=(), events=(), failing=(), skipped=()):
        self.served = served
        self.failing = failing
        self.created = []
        self.steps = []
        self.tasks = list(tasks)
        self.results = {
            "read_inbox": {"messages": messages, "total": len(messages), "skipped": list(skipped)},
            "read_calendar": {"events": list(events)},
            "read_tasks": {"open": len(self.tasks), "tasks": self.tasks},
        }

    async def play(self, tools=TOOLS):
        history = [{"role": "user", "content": "Write today's brief."}]
        while len(history) < 20:
            status, answer = await self.served.post(self.served.body(history, tools=tools))
            assert status == 200, answer
            if answer["stop_reason"] == "end_turn":
                return answer["content"][0]["text"]
            self.steps.append([block["name"] for block in answer["content"]])
            history.append({"role": "assistant", "content": answer["content"]})
            history.append({"role": "user", "content": [self.run(block) for block in answer["content"]]})
        raise AssertionError("no end in sight")

    def run(self, call):
        failed = call["name"] in self.failing
        content = "no connection" if failed else json.dumps(self.result(call))
        return {"type": "tool_result", "tool_use_id": call["id"], "content": content, "is_error": failed}

    def result(self, call):
        if call["name"] != "create_task":
            return self.results[call["name"]]
        self.created.append(call["input"])
        return {"task": {"id": 100 + len(self.created), "status": "open", **call["input"]}, "created": True}


async def test_it_reads_creates_and_reports_in_three_turns(served):
    day = Day(served, [ANN, SHOP, NOTE, JAN], [OLD_TASK], EVENTS)

    text = await day.play()

    assert [sorted(step) for step in day.steps] == [
        ["read_calendar", "read_inbox", "read_tasks"],
        ["create_task", "create_task", "read_calendar"],
    ]
    assert [(task["source_id"], task["due"]) for task in day.created] == [("m1", "2026-12-04"), ("m4", "2026-12-05")]
    assert text.splitlines()[0].startswith("Written by Dayflow's sandbox model (rules, not a language model)")
    for words in ("09:00–09:15 Standup", "all day Day of the tree", "**Ann Lee**, Lease", "Could you sign the lease"):
        assert words in text
    for words in (
        "4 messages",
        "3 open, 2 of them new",
        "**new** Rechnung (Jan Groß)",
        "Water the plants",
        "Shop: Sale",
    ):
        assert words in text


async def test_another_inbox_gives_another_brief(served):
    first = await Day(served, [ANN]).play()
    second = await Day(served, [LATE, NOTE], [OLD_TASK]).play()

    assert "Ann Lee" in first
    assert "Ann Lee" not in second
    assert "**new** Slides (Eve) (due 2026-12-03)" in second
    assert "Water the plants" not in first


async def test_what_a_task_covers_is_not_created_again(served):
    day = Day(served, [ANN], [{**OLD_TASK, "title": "Sign the lease", "source_id": "m1"}])

    text = await day.play()

    assert day.created == []
    assert [sorted(step) for step in day.steps][1:] == [["read_calendar"]]
    assert "1 open, 0 of them new" in text


async def test_at_most_eight_tasks_and_the_rest_is_named(served):
    day = Day(served, [mail(n, f"P{n} <p@example.org>", f"Thing {n}", "Please do it.") for n in range(10)])

    text = await day.play()

    assert len(day.created) == 8
    assert "No task was made for: Thing 8 (P8); Thing 9 (P9)" in text


async def test_failures_and_skipped_mail_are_told(served):
    day = Day(served, [ANN], failing=("read_calendar", "create_task"), skipped=[{"file": "x.eml", "why": "no headers"}])

    text = await day.play()

    assert "`read_calendar` failed: no connection" in text
    assert "`create_task` failed: no connection" in text
    assert "skipped x.eml: no headers" in text
    assert "The calendar was not read." in text


async def test_an_empty_inbox_is_told_as_that(served):
    text = await Day(served, []).play()

    assert "## Inbox\n0 messages.\n" in text


async def test_only_the_offered_tools_are_called(served):
    day = Day(served, [ANN])

    await day.play(tools=TOOLS[:1])

    assert day.steps == [["read_inbox"]]


# sender, text, due date (None: asks for nothing)
DEMANDS = [
    ("a@b.c", "Please call me.", ""),
    ("a@b.c", "Can you send it tomorrow? By tomorrow would be best.", "2026-12-01"),
    ("a@b.c", "Kannst du das bis Freitag machen", "2026-12-04"),
    ("a@b.c", "We need an answer by January 3.", "2027-01-03"),
    ("a@b.c", "Please pay before the 15th of December 2026.", "2026-12-15"),
    ("a@b.c", "The report is due Monday.", "2026-11-30"),
    ("a@b.c", "Please see chapter 3.14.", ""),
    ("a@b.c", "The slides are due on 5 January.", "2027-01-05"),
    ("a@b.c", "Thanks, all good.", None),
    ("a@b.c", "See you on Friday.", None),
    ("a@b.c", "Thanks!\n> Could you send it by Friday?", None),
    ("noreply@b.c", "Please confirm your address.", None),
    ("a@b.c", "Automatic reply: I am out of office. Please write to Bob.", None),
]


@pytest.mark.parametrize(("sender", "text", "due"), DEMANDS)
def test_demands_by_rule(sender, text, due):
    found = demand.of(mail(1, sender, "Subject", text))

    assert (None if found is None else found.due or "") == due
