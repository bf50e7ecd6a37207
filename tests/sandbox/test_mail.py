"""The sandbox's mail server, talked to by clients that know nothing of it; and killed."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import urllib.request
from email.message import EmailMessage
from pathlib import Path

import aiosmtplib
import imap_tools
import mailhosts
import pytest
from homes import free_ports
from imap_tools import AND, Header

from sandbox import mail
from sandbox.mail_store import Disk

ROOT = Path(__file__).resolve().parents[2]
USER, PASSWORD = "dayflow@example.com", "sandbox"


def message(id="<m1@example.com>", subject="Hello", to="ada@example.org"):
    made = EmailMessage()
    made["Message-ID"], made["From"], made["To"], made["Subject"] = id, USER, to, subject
    made.set_content("Hello, Ada.")
    return made


def smtp(port, **more):
    named = {"username": USER, "password": PASSWORD, **more}
    return aiosmtplib.SMTP(hostname="127.0.0.1", port=port, start_tls=False, timeout=5, local_hostname="test", **named)


async def send(port, *messages, **more):
    """Send by one connection; the server's last word."""
    async with smtp(port) as client:
        for each in messages:
            _, word = await client.send_message(each, **more)
    return word


@contextlib.contextmanager
def imap(port, password=PASSWORD):
    with imap_tools.MailBoxUnencrypted("127.0.0.1", port, timeout=5) as box:
        box.login(USER, password, None)
        yield box


def ids(port, folder):
    return [each["Message-ID"] for each in mailhosts.read(port, folder)]


@pytest.fixture
async def box(tmp_path):
    async with mailhosts.sandbox_mail(tmp_path) as served:
        yield served


@pytest.fixture
def ports(box):
    return box.settings.sandbox_smtp_port, box.settings.sandbox_imap_port


# As a process


def start(home, **environment):
    command = [sys.executable, "-m", "sandbox", "--home", str(home), "--port", "0"]
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@contextlib.contextmanager
def process(home):
    """A sandbox of its own; killed with -9 at the end."""
    with start(home) as running:
        try:
            yield running, running.stdout.readline().split()[-1]
        finally:
            running.kill()


def call(url, path, body=None):
    raw = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url + path, data=raw, method="PUT" if raw else "GET")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


async def test_what_was_accepted_is_there_after_kill_9_and_a_late_copy_is_made_up_for(tmp_path):
    accepted = ["<m1@example.com>", "<late@example.com>"]

    with process(tmp_path) as (running, url):
        facts = call(url, "/sandbox/mail")
        word = await send(facts["smtp_port"], message("<m1@example.com>"))
        call(url, "/sandbox/mail/faults", [{"kind": "sent_delay", "seconds": 90}])
        await send(facts["smtp_port"], message("<late@example.com>"))
        sent_before = ids(facts["imap_port"], "Sent")
        running.kill()
        noise = running.stderr.read()

    with process(tmp_path) as (_, url):
        facts = call(url, "/sandbox/mail")
        journal = call(url, "/sandbox/mail/journal")
        found = [ids(facts["imap_port"], folder) for folder in ("INBOX", "Sent")]

    assert word == "OK: kept"
    assert sent_before == accepted[:1]
    assert [line["message_id"] for line in journal] == accepted
    assert found == [accepted, accepted]
    assert noise == ""


def test_a_taken_port_is_one_line_that_names_the_setting(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with start(tmp_path, DAYFLOW_SANDBOX_IMAP_PORT=str(port)) as refused:
            out, error = refused.communicate(timeout=20)

    assert (refused.returncode, out) == (2, "")
    assert error == (
        f"sandbox: cannot serve mail on 127.0.0.1:{port}: the port is taken. "
        f"Set DAYFLOW_SANDBOX_IMAP_PORT to another port.\n"
    )


async def test_after_a_taken_port_the_other_is_free_again(tmp_path):
    smtp_port = free_ports(1)[0]
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(mail.CannotServe, match="DAYFLOW_SANDBOX_IMAP_PORT"),
    ):
        await mail.Mail(tmp_path, smtp_port, taken.getsockname()[1]).start()

    socket.create_server(("127.0.0.1", smtp_port)).close()


# Delivery


async def test_a_mail_is_in_the_inbox_and_in_sent(box, ports):
    await send(ports[0], message(subject="Grüße"))

    [arrived] = await box.folder("INBOX")
    assert arrived["Subject"] == "Grüße"
    assert arrived["Delivered-To"] == "ada@example.org"
    assert arrived.get_content() == "Hello, Ada.\n"
    [line] = await box.journal()
    assert line == {
        "at": line["at"],
        "from": USER,
        "to": "ada@example.org",
        "subject": "Grüße",
        "message_id": "<m1@example.com>",
        "canary": False,
    }


async def test_the_journal_is_the_order_of_acceptance(box, ports):
    await send(ports[0], *(message(f"<m{n}@example.com>") for n in range(5)))

    assert [line["message_id"] for line in await box.journal()] == [f"<m{n}@example.com>" for n in range(5)]


async def test_the_envelope_says_who_gets_it(box, ports):
    await send(ports[0], message(), recipients=["bob@example.org", "eve@example.org"])

    assert [line["to"] for line in await box.journal()] == ["bob@example.org, eve@example.org"]


async def test_fifty_at_once_are_fifty(box, ports):
    await asyncio.gather(*(send(ports[0], message(f"<m{n}@example.com>")) for n in range(50)))

    wanted = sorted(f"<m{n}@example.com>" for n in range(50))
    assert sorted(line["message_id"] for line in await box.journal()) == wanted
    assert sorted(await asyncio.to_thread(ids, ports[1], "Sent")) == wanted


async def test_what_cannot_be_read_is_kept_as_it_is(box, ports):
    async with smtp(ports[0]) as client:
        await client.sendmail(USER, ["ada@example.org"], b"no header \xff\xfe\r\n\r\n..\r\n\x80\r\n")

    [line] = await box.journal()
    assert (line["to"], line["subject"], line["message_id"]) == ("ada@example.org", "", "")
    assert len(await box.folder("Sent")) == 1


def test_what_was_accepted_and_not_yet_filed_is_filed_once(tmp_path):
    disk = Disk(tmp_path)
    stored = disk.accept(USER, ["ada@example.org"], message().as_bytes())
    # Killed here, and once more between the two folders.
    disk.file("INBOX", stored)

    again = Disk(tmp_path)
    [queued] = again.queued()
    for folder in ("INBOX", "Sent"):
        again.file(folder, queued)
    again.done(queued)

    assert queued == stored
    assert again.queued() == []
    assert [each.name for each in again.messages("INBOX")] == [stored.name]
    assert [each.name for each in again.messages("Sent")] == [stored.name]


def test_a_mail_reader_that_moved_the_message_does_not_make_it_two(tmp_path):
    disk = Disk(tmp_path)
    stored = disk.accept(USER, ["ada@example.org"], message().as_bytes())
    disk.file("INBOX", stored)
    (tmp_path / "new" / stored.name).rename(tmp_path / "cur" / f"{stored.name}:2,S")

    disk.file("INBOX", stored)

    assert [each.name for each in disk.messages("INBOX")] == [stored.name]


# IMAP


async def test_a_message_is_found_by_its_id(box, ports):
    await send(ports[0], message("<m1@example.com>"), message("<m2@example.com>"))

    def look():
        with imap(ports[1]) as client:
            client.folder.set("Sent", readonly=True)
            wanted = ("m1@example.com", "<m2@example.com>", "m3@example.com")
            return [len(client.uids(AND(header=Header("Message-ID", id)))) for id in wanted]

    assert await asyncio.to_thread(look) == [1, 1, 0]


async def test_what_a_client_keeps_is_there_after_a_restart(tmp_path):
    def keep(port):
        with imap(port) as client:
            client.folder.create("Drafts")
            client.append(message("<draft@example.com>").as_bytes(), "Drafts")
            client.append(message("<copy@example.com>").as_bytes(), "Sent")

    async with mailhosts.sandbox_mail(tmp_path) as box:
        await asyncio.to_thread(keep, box.settings.sandbox_imap_port)
    async with mailhosts.sandbox_mail(tmp_path) as box:
        found = [[each["Message-ID"] for each in await box.folder(name)] for name in ("Drafts", "Sent", "INBOX")]
        assert found == [["<draft@example.com>"], ["<copy@example.com>"], []]
        # It was not sent, so it is not in the journal.
        assert await box.journal() == []


@pytest.mark.parametrize("name", ["../out", "a/../../b", ".hidden"])
async def test_a_folder_cannot_lie_elsewhere(tmp_path, box, ports, name):
    def make():
        with imap(ports[1]) as client:
            client.folder.create(name)

    with pytest.raises(imap_tools.ImapToolsError):
        await asyncio.to_thread(make)
    assert not (tmp_path / "sandbox" / "out").exists()


async def test_a_client_that_goes_away_does_no_harm(box, ports):
    for rude in (b"", b"a1 LOGIN {5}\r\n", b"a1 IDLE\r\n", b"\x00\xff\r\n" * 9):
        _, writer = await asyncio.open_connection("127.0.0.1", ports[1])
        writer.write(rude)
        await writer.drain()
        writer.transport.abort()

    assert await box.folder("INBOX") == []


# Who may


@pytest.mark.parametrize("more", [{"password": "wrong"}, {"username": "eve@example.com"}], ids=str)
async def test_nobody_else_may_send(ports, more):
    with pytest.raises(aiosmtplib.SMTPAuthenticationError):
        async with smtp(ports[0], **more):
            pass


async def test_nobody_may_send_unnamed(box, ports):
    with pytest.raises(aiosmtplib.SMTPSenderRefused, match="530"):
        async with smtp(ports[0], username=None, password=None) as client:
            await client.send_message(message())
    assert await box.journal() == []


async def test_nobody_else_may_read(ports):
    def enter():
        with imap(ports[1], "wrong"):
            pass

    with pytest.raises(imap_tools.MailboxLoginError):
        await asyncio.to_thread(enter)


# Faults


async def test_a_fault_happens_as_often_as_it_says(box, ports):
    await box.fail({"kind": "status", "code": 450, "times": 2})

    for _ in range(2):
        with pytest.raises(aiosmtplib.SMTPRecipientsRefused):
            await send(ports[0], message())
    await send(ports[0], message())

    assert len(await box.journal()) == 1


async def test_a_fault_for_all_times_lasts_until_it_is_lifted(box, ports):
    await box.fail({"kind": "refuse", "times": "all"})
    for _ in range(3):
        with pytest.raises(aiosmtplib.SMTPException):
            await send(ports[0], message())

    async with box.http.delete(f"{box.url}/sandbox/mail/faults") as answer:
        assert answer.status == 200

    await send(ports[0], message())
    assert len(await box.journal()) == 1


async def test_a_late_copy_holds_up_those_after_it(box, ports):
    await box.fail({"kind": "sent_delay", "seconds": 1})
    await send(ports[0], message("<late@example.com>"), message("<next@example.com>"))

    assert await box.folder("Sent") == []

    async def both():
        return len(await box.folder("Sent")) == 2

    await mailhosts.until("both are filed", both)
    assert [each["Message-ID"] for each in await box.folder("Sent")] == ["<late@example.com>", "<next@example.com>"]


async def test_a_dropped_connection_has_delivered_or_lost_the_mail(box, ports):
    await box.fail({"kind": "drop"}, {"kind": "drop", "delivered": False})

    for id in ("<kept@example.com>", "<lost@example.com>"):
        with pytest.raises(aiosmtplib.SMTPServerDisconnected):
            await send(ports[0], message(id))

    assert [line["message_id"] for line in await box.journal()] == ["<kept@example.com>"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("{", "Expecting"),
        ("{}", "top: "),
        ('[{"kind": "other"}]', "0: "),
        ('[{"kind": "refuse", "times": 0}]', "0.refuse.times"),
        ('[{"kind": "refuse", "often": 1}]', "0.refuse.often"),
        ('[{"kind": "status", "code": 250}]', "0.status.code"),
        ('[{"kind": "status", "code": 450, "at": "quit"}]', "0.status.at"),
        ('[{"kind": "status", "code": 450, "message": "a\\r\\n250 ok"}]', "0.status.message"),
        ('[{"kind": "sent_delay"}]', "0.sent_delay.seconds"),
    ],
)
async def test_a_bad_fault_list_is_refused_and_the_old_one_stays(box, ports, body, place):
    await box.fail({"kind": "status", "code": 450})

    async with box.http.put(f"{box.url}/sandbox/mail/faults", data=body) as answer:
        assert answer.status == 400
        assert place in (await answer.json())["error"]

    with pytest.raises(aiosmtplib.SMTPRecipientsRefused):
        await send(ports[0], message())
