"""The tool send_email: what it takes, what it answers, and what it says when it is asked what became of a mail."""

import json
from dataclasses import replace
from typing import Any, cast

import mailhosts
import pytest
from pydantic import ValidationError

from activities import mail
from activities.tool import Context, Happened, Verdict
from activities.tools import discover
from activities.tools.send_email import TOOL, SendEmail
from domain import errors
from domain.tool import Effect

GIVEN = {"to": "ada@example.org", "subject": "Your refund", "body": "40.00 are on their way."}


def arguments(**more: Any) -> SendEmail:
    return cast(SendEmail, TOOL.arguments.model_validate_json(json.dumps(GIVEN | more), strict=True))


@pytest.fixture
async def box(tmp_path):
    async with mailhosts.sandbox_mail(tmp_path) as served:
        yield served


@pytest.fixture
def context(box):
    """The context of one action; the tool needs no database."""
    return Context(
        settings=box.settings,
        database=cast(Any, None),
        namespace="default",
        run_id="r-1042",
        action_id="s4.1-3fa9c2",
        idempotency_key="dayflow-" + "ab" * 32,
        attempt=1,
    )


def test_it_is_found_and_declares_its_effect():
    assert discover()["send_email"].declares == Effect(safety="lookup", deadline_s=30, held_intent="person")
    assert TOOL.spec.input_schema["required"] == ["to", "subject", "body"]


@pytest.mark.parametrize(
    "more",
    [
        {"to": "a.b+c@sub.example.co.uk"},
        {"to": "o'neil@example.com"},
        {"subject": "x"},
        {"subject": "Grüße, 你好 👋"},
        {"subject": "x" * 200},
        {"body": "a\n\n\tb\r\n"},
        {"body": "x" * 20_000},
    ],
    ids=lambda more: str(more)[:60],
)
def test_what_it_takes(more):
    assert arguments(**more).model_dump() == GIVEN | more


@pytest.mark.parametrize(
    "more",
    [
        # One address and nothing else.
        {"to": ""},
        {"to": "ada"},
        {"to": "ada@localhost"},
        {"to": "Ada <ada@example.org>"},
        {"to": "ada@example.org, bob@example.org"},
        {"to": "ada@example.org;bob@example.org"},
        {"to": " ada@example.org"},
        {"to": "ada@example.org\n"},
        {"to": "ada@example.org\r\nBcc: bob@example.org"},
        {"to": "ada@example.org\nRCPT TO:<bob@example.org>"},
        {"to": '"a b"@example.org'},
        {"to": "ada..b@example.org"},
        {"to": ".ada@example.org"},
        {"to": "ada@-example.org"},
        {"to": "ada@[127.0.0.1]"},
        {"to": "ädä@example.org"},
        {"to": "x" * 65 + "@example.org"},
        {"to": "a@" + "x." * 130 + "org"},
        {"to": ["ada@example.org"]},
        {"to": None},
        # One line.
        {"subject": ""},
        {"subject": "   "},
        {"subject": "x" * 201},
        {"subject": "a\nb"},
        {"subject": "a\r\nBcc: bob@example.org"},
        {"subject": "a\n"},
        {"subject": "a\u2028b"},
        {"subject": "a\x85b"},
        {"subject": "a\x0bb"},
        {"subject": "a\x00b"},
        {"subject": "a\x1bb"},
        {"subject": "\ud800"},
        # Text.
        {"body": ""},
        {"body": " \n"},
        {"body": "x" * 20_001},
        {"body": "a\x00b"},
        {"body": "\ud800"},
        # Nothing else.
        {"cc": "bob@example.org"},
        {"attachments": []},
    ],
    ids=lambda more: str(more)[:60].encode("ascii", "backslashreplace").decode(),
)
def test_what_it_refuses(more):
    with pytest.raises(ValidationError):
        arguments(**more)


async def test_it_sends_one_mail_and_says_which(box, context):
    answer = await TOOL.run(arguments(), context)

    [line] = await box.journal(canaries=True)
    assert answer == {"message_id": line["message_id"], "to": "ada@example.org", "subject": "Your refund"}
    assert line["message_id"] == mail.message_id(box.settings, context.idempotency_key)
    [arrived] = await box.folder("INBOX")
    assert arrived.get_content().strip() == GIVEN["body"]


async def test_the_same_key_sends_nothing_more_and_answers_alike(box, context):
    first = await TOOL.run(arguments(), context)
    # The model words it anew after a reset; the first mail stands.
    second = await TOOL.run(arguments(body="The refund was made."), replace(context, attempt=2))

    assert second == first
    assert len(await box.journal(canaries=True)) == 1


async def test_another_key_is_another_mail(box, context):
    first = await TOOL.run(arguments(), context)
    second = await TOOL.run(arguments(), replace(context, idempotency_key="dayflow-" + "cd" * 32))

    assert first["message_id"] != second["message_id"]
    assert len(await box.journal()) == 2


async def test_a_sent_that_is_down_does_not_hold_up_the_first_attempt(box, context):
    await box.fail({"kind": "imap_down", "times": "all"})

    await TOOL.run(arguments(), context)

    assert len(await box.journal()) == 1


async def test_an_accepted_mail_without_an_answer_happened_with_the_answer_it_would_have_had(box, context):
    await box.fail({"kind": "drop"})
    with pytest.raises(errors.Uncertain):
        await TOOL.run(arguments(), context)

    found = await TOOL.reconcile(arguments(), context)

    assert found == Happened(await TOOL.run(arguments(), context))
    assert len(await box.journal(canaries=True)) == 1


async def test_a_lost_mail_did_not_happen_and_is_sent_once(box, context):
    await box.fail({"kind": "drop", "delivered": False})
    with pytest.raises(errors.Uncertain):
        await TOOL.run(arguments(), context)

    assert await TOOL.reconcile(arguments(), context) is Verdict.DID_NOT_HAPPEN
    await TOOL.run(arguments(), context)
    assert await TOOL.reconcile(arguments(), context) == Happened(await TOOL.run(arguments(), context))
    assert len(await box.journal()) == 1


async def test_it_is_unsure_where_nobody_can_look(box, context):
    await box.fail({"kind": "imap_down", "times": "all"})

    assert await TOOL.reconcile(arguments(), context) is Verdict.UNSURE


async def test_a_refused_recipient_is_told_to_the_model(box, context):
    await box.fail({"kind": "status", "code": 550, "message": "No such user here"})

    with pytest.raises(errors.ToolFailed, match=r"refuses the recipient .*: 550 No such user here"):
        await TOOL.run(arguments(), context)


@pytest.mark.parametrize("action_id", ["s4.1-3fa9c2", "s4.1-ffffff", "s4.1e2-3fa9c2", "s6.1-3fa9c2"])
def test_the_intent_is_which_mail_of_the_run_it_is_whatever_its_words_and_its_place(box, context, action_id):
    assert TOOL.intent(arguments(), replace(context, action_id=action_id)) == "mail:r-1042:1"
    assert TOOL.intent(arguments(), replace(context, action_id=action_id, nth=2)) == "mail:r-1042:2"
