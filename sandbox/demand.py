"""What a mail asks for and by when: rules over its words, no language model."""

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

AUTOMATIC_SENDER = re.compile(
    r"no-?reply|do-?not-?reply|newsletter|\bnews@|notifications?@|mailer-daemon|postmaster|digest@", re.IGNORECASE
)
AUTOMATIC_TEXT = re.compile(
    r"unsubscribe|because you (?:are )?subscribed|newsletter|abmelden|abbestellen|"
    r"view (?:this|it) in (?:your )?browser|"
    r"automatic reply|auto-?reply|out of office|abwesenheitsnotiz|do not reply to this",
    re.IGNORECASE,
)
ASKING = re.compile(
    r"\bplease\b|\b(?:could|can|would|will) you\b|\bneed you to\b|\bdeadline\b|\baction required\b|\basap\b|"
    r"\bbitte\b|\bkönn(?:t|te|ten|en) (?:sie|du|ihr)\b|\bkannst du\b|\?",
    re.IGNORECASE,
)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
GERMAN_MONTHS = {"mär": "mar", "mai": "may", "okt": "oct", "dez": "dec"}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
GERMAN_WEEKDAYS = ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag")
NEARBY = {"today": 0, "tonight": 0, "heute": 0, "tomorrow": 1, "morgen": 1}

MONTH = r"(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-zä]*\.?"
BEFORE = r"\b(?:by|before|until|till|due|deadline(?: is)?:?|bis(?: zum)?|on)\s+(?:the\s+|end of\s+|next\s+|this\s+)*"
ISO_DATE = re.compile(r"\b(?P<year>20\d\d)-(?P<monthno>\d\d)-(?P<day>\d\d)\b")
DAY_MONTH = re.compile(
    rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(?P<month>{MONTH})(?:\s+(?P<year>20\d\d))?\b", re.I
)
MONTH_DAY = re.compile(rf"\b(?P<month>{MONTH})\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<year>20\d\d))?", re.I)
DOTTED = re.compile(r"\b(?P<day>\d{1,2})\.(?P<monthno>\d{1,2})\.(?P<year>20\d\d)?")
WORDS = "|".join((*WEEKDAYS, *GERMAN_WEEKDAYS, *NEARBY))
BY_WORD = re.compile(rf"{BEFORE}(?P<word>{WORDS})\b", re.IGNORECASE)
# A day that is only named ("see you on Friday") asks for nothing; one by which something is due does.
DUE_BY = re.compile(
    rf"\b(?:by|before|due(?: by| on)?|bis(?: zum)?)\s+(?:the\s+|end of\s+|next\s+|this\s+)*"
    rf"(?:(?:{WORDS})\b|20\d\d-\d\d|\d{{1,2}}\.\d|\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{MONTH}|{MONTH}\s+\d)",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=[-*>])")
QUOTED = re.compile(r"^>.*$|^-- ?$.*|^(?:On|Am) .{5,200}(?:wrote|schrieb).{0,80}:\s*$.*", re.MULTILINE | re.DOTALL)
GREETING = re.compile(
    r"^\s*(?:hi|hello|hey|dear|good \w+|hallo|lieber?|guten \w+|sehr geehrte[rs]?)\b[^\n]{0,60}\n", re.I
)
CLIP = 220


@dataclass(frozen=True, slots=True)
class Demand:
    """One thing that somebody wants."""

    source: str
    sender: str
    subject: str
    sentence: str
    due: str | None


def of(message: dict[str, Any]) -> Demand | None:
    """What a message asks for, or None for automatic mail and mail that asks for nothing."""
    sender, subject, text = (str(message.get(key) or "") for key in ("from", "subject", "text"))
    if AUTOMATIC_SENDER.search(sender) or AUTOMATIC_TEXT.search(f"{subject}\n{text}"):
        return None
    own = GREETING.sub("", QUOTED.sub("", text))
    sentence = next((part for part in _sentences(own) if _asks(part)), None)
    if sentence is None and _asks(subject):
        sentence = subject
    if sentence is None:
        return None
    due = due_date(sentence, message.get("date")) or due_date(f"{subject}\n{own}", message.get("date"))
    return Demand(str(message.get("id") or ""), name_of(sender), subject_of(message), clip(sentence), due)


def due_date(text: str, sent: Any) -> str | None:
    """The first date that a text sets, as YYYY-MM-DD; words like Friday count from the day it was sent."""
    day = _day(sent)
    for pattern in (ISO_DATE, DAY_MONTH, MONTH_DAY, DOTTED):
        for match in pattern.finditer(text):
            if found := _written(match.groupdict(), day):
                return found.isoformat()
    word = BY_WORD.search(text)
    if word is None or day is None:
        return None
    return (day + timedelta(days=_days_until(word["word"].lower(), day))).isoformat()


def name_of(sender: str) -> str:
    """The name in an address, else the address."""
    name = sender.partition("<")[0].strip().strip("\"'").strip()
    return name or sender.strip("<> ") or "unknown sender"


def subject_of(message: dict[str, Any]) -> str:
    """The subject without its Re: and Fwd:."""
    subject = re.sub(r"^(?:\s*(?:re|fwd?|aw|wg)\s*:)+\s*", "", str(message.get("subject") or ""), flags=re.IGNORECASE)
    return clip(subject, 120) or "(no subject)"


def clip(text: str, limit: int = CLIP) -> str:
    """One line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _asks(text: str) -> bool:
    return bool(ASKING.search(text) or DUE_BY.search(text))


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in SENTENCE.split(text) if part.strip()]


def _written(parts: dict[str, str | None], day: date | None) -> date | None:
    """A date with its parts written out; without a year the next one from the day on which it was sent."""
    number = parts.get("monthno")
    month = int(number) if number else _month_number(parts.get("month") or "")
    year = int(parts["year"] or 0) if parts.get("year") else (day.year if day else 0)
    try:
        found = date(year, month, int(parts["day"] or 0))
        return found.replace(year=year + 1) if not parts.get("year") and day and found < day else found
    except ValueError:
        return None


def _month_number(name: str) -> int:
    short = name[:3].lower()
    return MONTHS.index(GERMAN_MONTHS.get(short, short)) + 1


def _days_until(word: str, day: date) -> int:
    if word in NEARBY:
        return NEARBY[word]
    names = WEEKDAYS if word in WEEKDAYS else GERMAN_WEEKDAYS
    return (names.index(word) - day.weekday()) % 7


def _day(sent: Any) -> date | None:
    try:
        return datetime.fromisoformat(str(sent)).date()
    except ValueError:
        return None
