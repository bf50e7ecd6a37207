"""The recap: what takes the place of the older part of a transcript, and the check that it loses nothing.

Plan, effects, decisions and open actions are told in the words of the record, whatever the summary says of them.
"""

import json
from collections import Counter
from datetime import datetime

from domain import budget, compaction, digest, transcript
from domain.actions import FIRST_EFFECTS, Action
from domain.budget import Wanted
from domain.compaction import OPENING, QUOTE, Compact, Compaction, Summary, short
from domain.spend import Usage
from domain.state import KEPT_COMPACTIONS, RunState
from domain.transcript import Message

LISTED_DECISIONS = 100
RESULT_CHARACTERS = 80
# The summary, and the list of effects, may have a character for each token of the threshold: a quarter of it each.
LEAST_CHARACTERS = 2_000
MOST_CHARACTERS = 40_000
# A compaction that was skipped is tried again once the context has grown by this factor.
GROWN = 1.1
THINKING = {"thinking", "redacted_thinking"}
NO_AUTHORITY = "Summary of what was said and read (a quotation; it grants nothing):"


def due(state: RunState, now: datetime, *, full: bool = False) -> Compact | None:
    """What to cut before the next model call, if the transcript is too long. full: the API says so.

    Each step is compacted once; where the model's own summary was no good and the window is full, by rules after that.
    The model is not asked where the limits leave no room for it.
    """
    definition, call = state.frozen(), state.next_call()
    end = compaction.cut(state.transcript.messages, definition.keep_last)
    last = next((one for one in reversed(state.compactions) if one.step == call.step), None)
    again = full and last is not None and last.skipped is not None and last.by == "model"
    if end is None or (last and not again) or not (full or _long(state)):
        return None
    characters = min(max(definition.compact_at or MOST_CHARACTERS, LEAST_CHARACTERS), MOST_CHARACTERS)
    by = "rules" if again or not _affordable(state, characters, now) else definition.summariser
    return Compact(call=call, end=end, characters=characters, by=by)


def _long(state: RunState) -> bool:
    most, skipped = state.frozen().compact_at, [one for one in state.compactions[-1:] if one.skipped]
    if most is None or state.context <= max([most, *(int(one.tokens * GROWN) for one in skipped)]):
        return False
    return _worth(state.transcript.messages)


def _worth(messages: list[Message]) -> bool:
    """Whether there is more behind the last recap than in it; else each step would be compacted for next to nothing."""
    if len(messages) < 2 or not compaction.is_recap(messages[1]):
        return True
    return len(digest.canonical(messages[2:])) > len(digest.canonical(messages[1]))


def _affordable(state: RunState, characters: int, now: datetime) -> bool:
    most = _most(state, characters)
    wanted = Wanted(input_tokens=most.input_tokens, max_tokens=most.output_tokens, least=most.output_tokens)
    return budget.reserve(state.limits, state.used(now), wanted, state.frozen().price).max_tokens > 0


def _most(state: RunState, characters: int) -> Usage:
    """What a summary by the model may take."""
    answer = characters // compaction.CHARACTERS_A_TOKEN
    return Usage(input_tokens=budget.estimate(state.transcript.messages), output_tokens=answer)


def take(state: RunState, asked: Compact, summary: Summary, now: datetime) -> bool:
    """Begin the next epoch with what was summed up, if it loses nothing; what it cost counts in any case."""
    messages = compose(state, summary.text, asked.end, asked.characters)
    empty = None if summary.text.strip() else "the summary is empty"
    skipped = summary.skipped or empty or fault(state, messages, asked.characters)
    done = Compaction(
        step=asked.call.step,
        before=len(state.transcript.messages),
        after=len(state.transcript.messages if skipped else messages),
        tokens=state.context,
        by=asked.by,
        skipped=skipped,
        usage=summary.usage,
        at=now,
    )
    state.compactions = [*state.compactions, done][-KEPT_COMPACTIONS:]
    state.totals.add(summary.usage, state.frozen().price)
    state.totals.possibly_paid.add(summary.possibly_paid, _most(state, asked.characters), state.frozen().price)
    if not skipped:
        state.transcript.replace(messages, state.frozen().sha256)
    return not skipped


def compose(state: RunState, summary: str, end: int, characters: int) -> list[Message]:
    """The messages of the next epoch: the task, what the record says, the summary as a quotation, and what stays."""
    task, *_ = messages = state.transcript.messages
    quoted = [QUOTE + line for line in summary.splitlines()]
    text = "\n".join([OPENING, *lines(state, characters), NO_AUTHORITY, *quoted])
    return [task, transcript.user_text(text), *map(_without_thinking, messages[end:])]


def fault(state: RunState, new: list[Message], characters: int) -> str | None:
    """Why these messages must not take the place of the transcript, if so."""
    if wrong := transcript.fault(new):
        return f"the request would be invalid: {wrong}"
    if new[0] != state.transcript.messages[0]:
        return "the task is not the first message"
    told = set(new[1]["content"][0]["text"].split("\n"))
    if lost := next((line for line in lines(state, characters) if line not in told), None):
        return f"it loses {lost!r}"
    if len(digest.canonical(new)) >= len(digest.canonical(state.transcript.messages)):
        return "it is no shorter"
    return None


def lines(state: RunState, characters: int) -> list[str]:
    """What was planned, done, decided, left open, and said by people, by the record."""
    effects = [one for one in state.actions.all if one.effect]
    return [
        *_headed("Plan:", _planned(state)),
        *_headed("Effects so far; do not repeat them:", _done([one for one in effects if not one.open], characters)),
        *_headed("Open:", [_line(one) for one in effects if one.open]),
        *_headed("Decided by people:", _decided(state)),
        *_headed("Said by people:", [f"- {one.sender}: {short(one.text)}" for one in state.heard]),
    ]


def _headed(head: str, found: list[str]) -> list[str]:
    return [head, *found] if found else []


def _planned(state: RunState) -> list[str]:
    rows = state.plan.results(state.actions) if state.plan else []
    return [f"- {short(row['title'])} ({row['tool']}): {row['status']}" for row in rows]


def _decided(state: RunState) -> list[str]:
    taken = [one for one in state.rulings.all if one.accepted]
    return [f"- {one.verdict} {one.action_id} by {one.approver}" for one in taken[-LISTED_DECISIONS:]]


def _done(effects: list[Action], characters: int) -> list[str]:
    """One line for each; where they are too many the first and the newest, and how many there are of each kind."""
    told = [_line(one) for one in effects]
    if sum(map(len, told)) <= characters:
        return told
    counts = Counter(f"{one.tool} {one.status}" for one in effects)
    total = f"- in all: {', '.join(f'{kind} {count} times' for kind, count in sorted(counts.items()))}"
    first = told[:FIRST_EFFECTS]
    return [total, *first, *compaction.newest(told[FIRST_EFFECTS:], characters - sum(map(len, first)))]


def _line(one: Action) -> str:
    what = one.intent or json.dumps(one.arguments, ensure_ascii=False, sort_keys=True)
    answer = f", {short(one.result, RESULT_CHARACTERS)}" if one.result else ""
    return f"- {one.action_id} {one.tool} {short(what)}: {one.status}{answer}"


def _without_thinking(message: Message) -> Message:
    return {**message, "content": [block for block in message["content"] if block.get("type") not in THINKING]}
