"""The newest messages of a user's inbox, at a cost that does not grow with the mail in it."""

from email import message_from_bytes
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from activities import local_files, mail_files, mail_heads, mail_policy, mail_text, plain
from activities.mail_heads import Headed
from activities.mail_text import Attachment
from activities.plain import Skipped

PARSED = 1_000_000
TEXT = 4_000
# In bytes of UTF-8, so that it holds for characters too: a longer result is cut in its middle on its way to the model.
ANSWER = 60_000


class Mail(BaseModel):
    """One message."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    id: str
    sender: str = Field(alias="from")
    to: str
    subject: str
    date: str | None
    text: str
    attachments: list[Attachment]
    unread: bool
    notes: list[str]


class Inbox(BaseModel):
    """The newest messages, newest first. total: how many there are to show; shown: how many are here."""

    messages: list[Mail]
    total: int
    shown: int
    notes: list[str] = []
    skipped: list[Skipped]


def read(path: Path, *, limit: int, unread_only: bool = False, text_limit: int = TEXT) -> Inbox:
    """The `limit` newest messages at `path`: a Maildir, an mbox file or a folder of .eml files."""
    skipped: list[Skipped] = []
    headed = mail_heads.newest_first(mail_files.find(path), skipped)
    wanted = [each for each in headed if each.unread or not unread_only]
    messages: list[Mail] = []
    broken = 0
    for each in wanted:
        if len(messages) == limit:
            break
        mail = _mail(each, text_limit)
        if isinstance(mail, Mail):
            messages.append(mail)
        else:
            broken += 1
            skipped.append(mail)
    return _fitting(messages, len(wanted) - broken, plain.capped(skipped))


def _fitting(messages: list[Mail], total: int, skipped: list[Skipped]) -> Inbox:
    """The answer under its limit: the oldest messages go first."""
    found = len(messages)
    while True:
        gone = found - len(messages)
        notes = [f"{gone} older of the messages asked for are left out: the answer would be too long"] if gone else []
        inbox = Inbox(messages=messages, total=total, shown=len(messages), notes=notes, skipped=skipped)
        if len(inbox.model_dump_json().encode()) < ANSWER or not messages:
            return inbox
        messages = messages[:-1]


def _mail(headed: Headed, text_limit: int) -> Mail | Skipped:
    try:
        data = headed.stored.start(PARSED)
    except OSError as error:
        return Skipped(file=headed.stored.name, why=local_files.reason(error))
    why = ""
    for rules in mail_policy.policies():
        try:
            return _parsed(message_from_bytes(data, policy=rules), headed, text_limit)
        except Exception as error:  # one broken message must not hide the others
            why = str(error) if isinstance(error, mail_policy.TooManyParts) else f"broken ({type(error).__name__})"
    return Skipped(file=headed.stored.name, why=why)


def _parsed(message: mail_text.Entity, headed: Headed, text_limit: int) -> Mail:
    notes: list[str] = []
    cut = headed.stored.size > PARSED
    if cut:
        notes.append(f"clipped: message is {headed.stored.size} bytes, the first {PARSED} are read")
    parts = list(mail_text.parts(message))
    return Mail(
        id=headed.id,
        sender=mail_text.header(message, "from", 300, notes),
        to=mail_text.header(message, "to", 300, notes),
        subject=mail_text.header(message, "subject", 300, notes),
        date=headed.date.isoformat() if headed.date else None,
        text=plain.paragraphs(mail_text.text(parts, notes), text_limit, notes),
        attachments=mail_text.attachments(parts, cut, notes),
        unread=headed.unread,
        notes=list(dict.fromkeys(notes))[:10],
    )
