"""Mail as a destination, against the sandbox's servers, mail-devel's own, and one that is scripted to misbehave."""

import asyncio
import email.utils
import logging
from datetime import UTC, datetime, timedelta

import mailhosts
import pytest

from activities import mail, sent, smtp
from activities.sent import Sent
from activities.tools.send_email import TOOL
from domain import errors
from store.settings import Settings

TO = "ada@example.org"


@pytest.fixture
async def box(tmp_path):
    async with mailhosts.sandbox_mail(tmp_path) as served:
        yield served


@pytest.fixture(scope="module")
def devel():
    with mailhosts.mail_devel() as named:
        yield named


@pytest.fixture
def hurried(monkeypatch):
    """The waits of a test, not of a mail server at its worst."""
    monkeypatch.setattr(smtp, "BEFORE_DATA_S", 0.5)
    monkeypatch.setattr(smtp, "DATA_S", 0.5)
    monkeypatch.setattr(mail, "CANARY_S", 0.5)
    monkeypatch.setattr(mail, "LOOK_EVERY_S", 0.05)


def compose(settings, key="key-1", **more):
    said = {"to": TO, "subject": "Your refund", "body": "It is on its way.", **more}
    return mail.compose(settings, id=mail.message_id(settings, key), **said)


def id_of(settings, key="key-1"):
    return mail.message_id(settings, key)


# Composing


def test_the_message_id_is_the_keys_own():
    settings = Settings(MAIL_FROM="Dayflow <agent@shop.example>")

    id = id_of(settings)

    assert id == id_of(settings)
    assert id != id_of(settings, "key-2")
    assert id.startswith("<")
    assert id.endswith("@dayflow.shop.example>")


@pytest.mark.parametrize("sender", ["dayflow", "@example.com", "a@", "a b@example.com", "ä@example.com", "a@b@c"])
def test_a_sender_that_is_no_address_is_a_bad_setting(sender):
    with pytest.raises(errors.BadSetting, match="MAIL_FROM"):
        id_of(Settings(MAIL_FROM=sender))


@pytest.mark.parametrize(
    "broken", [{"subject": "a\nBcc: b@example.com"}, {"subject": "a\r\n\r\nx"}, {"to": "a@b.co\nBcc: c@d.co"}]
)
def test_a_line_break_begins_no_header(broken):
    with pytest.raises(ValueError):  # noqa: PT011  (the stdlib's own words)
        compose(Settings(), **broken)


@pytest.mark.parametrize("local", ["!#$%&'*+/=?^_`{|}~-", "a.b+c", "x" * 64])
def test_every_address_that_the_tool_allows_can_be_composed(local):
    assert compose(Settings(), to=f"{local}@example.com")["To"].addresses[0].addr_spec == f"{local}@example.com"


# Sending


async def test_what_arrives_is_what_was_written(box):
    body = "Grüße, 你好\n.\nFrom here on\n..two dots\n" + "long " * 500 + "\n"
    subject = "Rückerstattung für 1042: " + "ä" * 175

    await mail.send(box.settings, compose(box.settings, subject=subject, body=body))

    [arrived] = await box.folder("INBOX")
    assert arrived["Subject"] == subject
    assert arrived["To"] == TO
    assert arrived["From"] == "dayflow@example.com"
    assert arrived["Message-ID"] == id_of(box.settings)
    assert arrived["Auto-Submitted"] == "auto-generated"
    assert arrived["MIME-Version"] == "1.0"
    assert abs(email.utils.parsedate_to_datetime(arrived["Date"]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert arrived.get_content() == body
    assert max(map(len, arrived.as_bytes().splitlines())) < 1000


async def test_a_mail_is_delivered_once_and_filed_once(box):
    await mail.send(box.settings, compose(box.settings))

    [line] = await box.journal(canaries=True)
    assert (line["to"], line["subject"], line["message_id"]) == (TO, "Your refund", id_of(box.settings))
    assert [copy["Message-ID"] for copy in await box.folder("Sent")] == [id_of(box.settings)]
    assert await mail.find(box.settings, id_of(box.settings)) == "sent"


async def test_a_server_that_files_nothing_is_given_the_copy(box):
    await box.fail({"kind": "no_sent"})

    await mail.send(box.settings, compose(box.settings))

    assert len(await box.journal(canaries=True)) == 1
    assert [copy["Message-ID"] for copy in await box.folder("Sent")] == [id_of(box.settings)]
    assert await mail.find(box.settings, id_of(box.settings)) == "sent"


async def test_the_copy_is_made_where_there_is_no_sent_folder_yet(devel):
    settings = Settings(**devel, IMAP_SENT="Outbox")

    await mail.send(settings, compose(settings, "key-outbox"))

    assert await mail.find(settings, id_of(settings, "key-outbox")) == "sent"


async def test_mail_devel_takes_the_mail_and_the_copy(devel):
    settings = Settings(**devel)

    await mail.send(settings, compose(settings, "key-devel"))

    for folder in ("INBOX", "Sent"):
        found = await asyncio.to_thread(mailhosts.read, settings.imap_port, folder)
        assert [each["Message-ID"] for each in found].count(id_of(settings, "key-devel")) == 1


async def test_without_imap_a_mail_is_sent_and_never_looked_for(devel):
    settings = Settings(**devel | {"IMAP_HOST": None})

    await mail.send(settings, compose(settings, "key-blind"))

    assert await mail.find(settings, id_of(settings, "key-blind")) == "unsure"
    assert not await mail.holds(settings, id_of(settings, "key-blind"))


async def test_a_copy_that_fails_does_not_unsend_the_mail(box, caplog):
    await box.fail({"kind": "imap_down", "times": "all"}, {"kind": "no_sent"})

    with caplog.at_level(logging.WARNING):
        await mail.send(box.settings, compose(box.settings))

    assert len(await box.journal()) == 1
    assert "no copy of it could be put into Sent" in caplog.text


# What each way of failing means


@pytest.mark.parametrize(
    ("fault", "error", "words", "delivered"),
    [
        # Before the message went out nothing can have been accepted.
        ({"kind": "refuse"}, errors.Again, "out of reach", 0),
        ({"kind": "status", "at": "mail", "code": 451}, errors.Again, "451", 0),
        ({"kind": "status", "at": "mail", "code": 553}, errors.ToolFailed, "refuses the sender: 553", 0),
        ({"kind": "status", "at": "rcpt", "code": 450}, errors.Again, "450", 0),
        ({"kind": "status", "at": "rcpt", "code": 421}, errors.Again, "421", 0),
        (
            {"kind": "status", "at": "rcpt", "code": 550, "message": "No such user"},
            errors.ToolFailed,
            "refuses the recipient 'ada@example.org': 550 No such user. Nothing was sent.",
            0,
        ),
        ({"kind": "status", "at": "auth", "code": 454}, errors.Again, "454", 0),
        ({"kind": "status", "at": "auth", "code": 535}, errors.ToolFailed, "credentials: 535", 0),
        # A plain no to the message is an answer too.
        ({"kind": "status", "at": "data", "code": 452}, errors.Again, "452", 0),
        ({"kind": "status", "at": "data", "code": 554}, errors.ToolFailed, "refuses the message: 554", 0),
        # No answer to the message: both ways are possible, and look alike.
        ({"kind": "drop"}, errors.Uncertain, "no answer to the message", 1),
        ({"kind": "drop", "delivered": False}, errors.Uncertain, "no answer to the message", 0),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
async def test_what_a_failure_says(box, fault, error, words, delivered):
    await box.fail(fault)

    with pytest.raises(error, match=words):
        await mail.send(box.settings, compose(box.settings))
    assert len(await box.journal()) == delivered

    # Faults pass, and the next mail goes through.
    await mail.send(box.settings, compose(box.settings, "key-2"))
    assert len(await box.journal()) == delivered + 1


HELLO = ("250 scripted", "250 ok", "250 ok", "354 go on")


@pytest.mark.parametrize(
    ("answers", "greeting", "error"),
    [
        # Silence, from the first word to the last.
        ((), None, errors.Again),
        ((None,), "220 hello", errors.Again),
        ((*HELLO[:2], None), "220 hello", errors.Again),
        ((*HELLO, None), "220 hello", errors.Uncertain),
        # Told to go away.
        ((), "421 too many connections", errors.Again),
        ((), "554 not for you", errors.ToolFailed),
        # Something that is no answer.
        ((), "hello", errors.Again),
        ((*HELLO, "after message: what?"), "220 hello", errors.Uncertain),
        ((*HELLO, "after message: 354 go on"), "220 hello", errors.Uncertain),
        # Hangs up in the middle.
        (HELLO[:3], "220 hello", errors.Uncertain),
        (HELLO, "220 hello", errors.Uncertain),
        # All is well, but for the goodbye.
        ((*HELLO, "after message: 250 ok"), "220 hello", None),
        ((*HELLO, "after message: 250 ok", None), "220 hello", None),
    ],
    ids=str,
)
async def test_what_a_server_that_misbehaves_says(hurried, answers, greeting, error):
    async with mailhosts.scripted(*answers, greeting=greeting) as named:
        settings = Settings(**named)
        if error is None:
            await mail.send(settings, compose(settings))
            return
        with pytest.raises(error):
            await mail.send(settings, compose(settings))


async def test_a_closed_port_is_tried_again():
    settings = Settings(**mailhosts.foreign(mailhosts.free_ports(1)[0]))

    with pytest.raises(errors.Again, match="out of reach"):
        await mail.send(settings, compose(settings))


async def test_a_host_that_is_not_there_is_tried_again():
    settings = Settings(**mailhosts.foreign(25) | {"SMTP_HOST": "mail.invalid"})

    with pytest.raises(errors.Again, match="out of reach"):
        await mail.send(settings, compose(settings))


@pytest.mark.parametrize(("tls", "error"), [("starttls", errors.ToolFailed), ("tls", errors.ToolFailed)])
async def test_nothing_is_sent_in_clear_that_was_to_be_secured(devel, tls, error):
    settings = Settings(**devel | {"SMTP_TLS": tls})

    with pytest.raises(error, match="Nothing was sent"):
        await mail.send(settings, compose(settings, "key-secure"))


async def test_a_wrong_password_is_told_without_it(box):
    port = box.settings.sandbox_smtp_port
    settings = Settings(**mailhosts.foreign(port, SMTP_USER="dayflow@example.com", SMTP_PASSWORD="hunter2hunter2"))

    with pytest.raises(errors.ToolFailed, match="does not accept Dayflow's credentials") as told:
        await mail.send(settings, compose(settings))
    assert "hunter2" not in str(told.value)
    assert "hunter2" not in repr(mail.outgoing(settings))


def test_the_waits_together_stay_below_the_deadline_of_the_tool():
    sending = mail.COPY_S + smtp.BEFORE_DATA_S + smtp.DATA_S + smtp.QUIT_S + mail.COPY_S
    assert max(sending, mail.FIND_S) < TOOL.declares.deadline_s


# Looking for it afterwards


async def test_a_mail_that_was_accepted_without_an_answer_is_found(box):
    await box.fail({"kind": "drop"})
    with pytest.raises(errors.Uncertain):
        await mail.send(box.settings, compose(box.settings))

    assert await mail.find(box.settings, id_of(box.settings)) == "sent"
    assert len(await box.journal(canaries=True)) == 1


async def test_a_mail_that_was_lost_is_proven_lost_by_a_canary(box):
    await box.fail({"kind": "drop", "delivered": False})
    with pytest.raises(errors.Uncertain):
        await mail.send(box.settings, compose(box.settings))

    assert await mail.find(box.settings, id_of(box.settings)) == "not sent"
    [canary] = await box.journal(canaries=True)
    assert canary["canary"]
    assert canary["to"] == canary["from"] == "dayflow@example.com"


async def test_a_copy_that_comes_late_is_no_proof_of_anything_until_it_comes(box, hurried):
    await box.fail({"kind": "sent_delay", "seconds": 2}, {"kind": "drop"})
    with pytest.raises(errors.Uncertain):
        await mail.send(box.settings, compose(box.settings))

    assert await mail.find(box.settings, id_of(box.settings)) == "unsure"

    async def appears():
        return await mail.holds(box.settings, id_of(box.settings))

    await mailhosts.until("the copy is filed", appears)
    assert await mail.find(box.settings, id_of(box.settings)) == "sent"
    assert len(await box.journal()) == 1


async def test_where_the_server_files_nothing_absence_is_never_proof(box, hurried):
    """A process that died between acceptance and its own copy leaves a mail that is delivered and not in Sent."""
    await box.fail({"kind": "no_sent", "times": "all"}, {"kind": "drop"})
    with pytest.raises(errors.Uncertain):
        await mail.send(box.settings, compose(box.settings))

    assert len(await box.journal()) == 1
    assert await mail.find(box.settings, id_of(box.settings)) == "unsure"


async def test_mail_devel_files_nothing_so_absence_is_not_proof(devel, hurried):
    settings = Settings(**devel)
    # An earlier copy of our own is findable, and proves nothing.
    await mail.send(settings, compose(settings, "key-earlier"))
    assert await mail.find(settings, id_of(settings, "key-earlier")) == "sent"

    assert await mail.find(settings, id_of(settings, "key-never")) == "unsure"


async def test_an_inbox_is_no_proof_of_absence(devel):
    settings = Settings(**devel, IMAP_SENT="INBOX")

    assert await mail.find(settings, id_of(settings, "key-inbox")) == "unsure"


@pytest.mark.parametrize("fault", [{"kind": "imap_down", "times": "all"}, {"kind": "imap_down"}])
async def test_a_sent_that_cannot_be_looked_into_is_unsure_and_sends_no_canary(box, fault):
    await box.fail(fault)

    assert await mail.find(box.settings, id_of(box.settings)) == "unsure"
    assert await box.journal(canaries=True) == []


@pytest.mark.parametrize(
    "fault",
    [{"kind": "refuse"}, {"kind": "status", "code": 550}, {"kind": "drop"}, {"kind": "drop", "delivered": False}],
    ids=str,
)
async def test_a_canary_that_may_not_have_gone_out_proves_nothing(box, fault):
    await box.fail(fault)

    assert await mail.find(box.settings, id_of(box.settings)) == "unsure"


@pytest.mark.parametrize("broken", [{"IMAP_PASSWORD": "wrong"}, {"IMAP_TLS": "tls"}, {"IMAP_TLS": "starttls"}], ids=str)
async def test_an_imap_server_that_lets_nobody_in_is_unsure(devel, broken):
    settings = Settings(**devel | broken)

    assert await mail.find(settings, id_of(settings, "key-locked")) == "unsure"


async def test_an_imap_server_that_is_silent_is_unsure(monkeypatch):
    monkeypatch.setattr(sent, "COMMAND_S", 0.3)

    async with mailhosts.scripted(greeting=None) as named:
        settings = Settings(**named | {"IMAP_HOST": "127.0.0.1", "IMAP_PORT": named["SMTP_PORT"], "IMAP_TLS": "none"})
        assert await mail.find(settings, id_of(settings)) == "unsure"


async def test_ids_are_not_taken_for_each_other(box):
    await mail.send(box.settings, compose(box.settings))

    folder = mail.sent(box.settings)
    assert isinstance(folder, Sent)
    assert await folder.holds(id_of(box.settings))
    assert not await folder.holds(id_of(box.settings, "key-2"))
    assert not await folder.holds('"x" OR ALL')
