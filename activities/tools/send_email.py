"""send_email: one mail to one person, sent once."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from activities import mail
from activities.tool import Arguments, Context, Found, Happened, Tool, Verdict
from domain.tool import Effect

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
ADDRESS = re.compile(rf"(?=.{{1,64}}@){_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+{_LABEL}")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _one_address(given: str) -> str:
    if not ADDRESS.fullmatch(given):
        raise ValueError("it has to be exactly one mail address, such as ada@example.com")
    return given


def _one_line(given: str) -> str:
    # A line break in a header would begin another header; splitlines knows all that some reader takes for one.
    if not given.strip() or given.splitlines() != [given] or CONTROL.search(given):
        raise ValueError("it has to be one line of text")
    return given


def _text(given: str) -> str:
    if not given.strip() or CONTROL.search(given):
        raise ValueError("it has to be text, without control characters")
    return given


To = Annotated[str, AfterValidator(_one_address)]
Subject = Annotated[str, AfterValidator(_one_line)]
Body = Annotated[str, AfterValidator(_text)]


class SendEmail(Arguments):
    """Send one plain text mail to one person. It cannot be taken back.

    Answers {"message_id", "to", "subject"} once the mail server has accepted it.
    """

    to: To = Field(max_length=254, description="One address and nothing else, such as ada@example.com.")
    subject: Subject = Field(min_length=1, max_length=200, description="One line.")
    body: Body = Field(min_length=1, max_length=20_000, description="The text, with line breaks.")


async def send_email(arguments: SendEmail, context: Context) -> dict[str, Any]:
    """Send it, unless Sent holds it: then an earlier attempt did."""
    answer = _answer(arguments, context)
    if not await mail.holds(context.settings, answer["message_id"]):
        message = mail.compose(
            context.settings,
            id=answer["message_id"],
            to=arguments.to,
            subject=arguments.subject,
            body=arguments.body,
        )
        await mail.send(context.settings, message)
    return answer


async def reconcile(arguments: SendEmail, context: Context) -> Found:
    """Look for it in Sent."""
    answer = _answer(arguments, context)
    match await mail.find(context.settings, answer["message_id"]):
        case "sent":
            return Happened(answer)
        case "not sent":
            return Verdict.DID_NOT_HAPPEN
        case "unsure":
            return Verdict.UNSURE


def intent(arguments: SendEmail, context: Context) -> str:
    """Which mail of the run it is, whatever words the model picks, and wherever a reset leads it to send it."""
    return f"mail:{context.run_id}:{context.nth}"


def _answer(arguments: SendEmail, context: Context) -> dict[str, str]:
    id = mail.message_id(context.settings, context.idempotency_key)
    return {"message_id": id, "to": arguments.to, "subject": arguments.subject}


TOOL = Tool(
    run=send_email,
    arguments=SendEmail,
    declares=Effect(safety="lookup", deadline_s=30.0, held_intent="person"),
    intent=intent,
    reconcile=reconcile,
)
