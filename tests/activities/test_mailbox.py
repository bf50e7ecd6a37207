"""Reading a user's inbox: every claim of `activities.mailbox` on real files."""

import base64
import json
import os
import subprocess
import sys
import time
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities import mailbox
from activities.tool import Context
from activities.tools import read_inbox
from domain import errors
from store import database
from store.settings import SAMPLES, Settings

PEAK_MB = 150
BIG = 30_000_000
READ_AND_MEASURE = """
import json, re, resource, sys
from pathlib import Path
from activities import mailbox

def peak_mb():
    try:  # the kernel's own mark; getrusage also counts the process that started this one
        return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024**2

before = peak_mb()
inbox = mailbox.read(Path(sys.argv[1]), limit=20)
print(json.dumps({"before": before, "peak": peak_mb(), "inbox": json.loads(inbox.model_dump_json())}))
"""


def mail(number: int = 1, body: str = "hello", **headers: str) -> bytes:
    """A plain message; a later number is a later one."""
    fields = {
        "From": "Ann <ann@example.com>",
        "Subject": f"mail {number}",
        "Date": f"Mon, 30 Nov 2026 {number // 60:02}:{number % 60:02}:00 +0100",
        "Message-ID": f"<{number}@example.com>",
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
    return f"{head}\n{body}\n".encode()


def folder(where: Path, *messages: bytes) -> Path:
    where.mkdir(exist_ok=True)
    for number, message in enumerate(messages):
        (where / f"{number:04}.eml").write_bytes(message)
    return where


def maildir(where: Path, **messages: bytes) -> Path:
    """A Maildir; messages by name lie in cur/."""
    for name in ("cur", "new", "tmp"):
        (where / name).mkdir(parents=True)
    for name, message in messages.items():
        (where / "cur" / name).write_bytes(message)
    return where


def mbox(where: Path, *messages: bytes) -> Path:
    where.write_bytes(b"".join(b"From a@example.com Mon Nov 30 10:00:00 2026\n" + each + b"\n" for each in messages))
    return where


def only(inbox: mailbox.Inbox) -> mailbox.Mail:
    assert inbox.skipped == []
    assert len(inbox.messages) == 1
    return inbox.messages[0]


def one(where: Path, message: bytes) -> mailbox.Mail:
    return only(mailbox.read(folder(where / "one", message), limit=5))


def ids(inbox: mailbox.Inbox) -> list[str]:
    return [message.id for message in inbox.messages]


def test_three_kinds_of_mailbox_are_told_apart_by_looking(tmp_path: Path) -> None:
    messages = mail(1), mail(2)

    kinds = [
        folder(tmp_path / "emls", *messages),
        maildir(tmp_path / "Maildir", **{"1.a.host:2,S": messages[0], "2.b.host:2,": messages[1]}),
        mbox(tmp_path / "mbox", *messages),
    ]

    expected = ["2@example.com", "1@example.com"]
    assert [expected] * 3 == [ids(mailbox.read(kind, limit=10)) for kind in kinds]


def test_the_answer_has_the_shape_that_the_tool_promises(tmp_path: Path) -> None:
    path = folder(tmp_path / "emls", mail(1, To="Bo <bo@example.org>"))

    assert json.loads(mailbox.read(path, limit=5).model_dump_json()) == {
        "messages": [
            {
                "id": "1@example.com",
                "from": "Ann <ann@example.com>",
                "to": "Bo <bo@example.org>",
                "subject": "mail 1",
                "date": "2026-11-30T00:01:00+01:00",
                "text": "hello",
                "attachments": [],
                "unread": True,
                "notes": [],
            }
        ],
        "total": 1,
        "shown": 1,
        "notes": [],
        "skipped": [],
    }


@pytest.mark.parametrize(
    "kind",
    [
        "missing",
        "folder of other files",
        "text file",  # an .eml by itself is no mailbox either
        "fifo",  # opening it would wait for ever
        "device",
        "loop of links",
    ],
)
def test_what_is_no_mailbox_says_what_to_set(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "thing"
    match kind:
        case "folder of other files":
            path.mkdir()
            (path / "notes.txt").write_text("no mail")
        case "text file":
            path.write_bytes(mail())
        case "fifo":
            os.mkfifo(path)
        case "device":
            path = Path("/dev/null")
        case "loop of links":
            path.symlink_to(path)

    with pytest.raises(errors.ToolFailed, match="set DAYFLOW_INBOX or --inbox to a Maildir, an mbox file"):
        mailbox.read(path, limit=5)


def test_a_mailbox_without_messages_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "mbox").touch()  # what a mail server leaves when the last message is gone
    (tmp_path / "emls").mkdir()

    boxes = [maildir(tmp_path / "Maildir"), tmp_path / "mbox", tmp_path / "emls"]

    assert [(box.total, box.shown) for box in (mailbox.read(path, limit=5) for path in boxes)] == [(0, 0)] * 3


def test_newest_first_and_the_files_time_dates_what_has_no_date(tmp_path: Path) -> None:
    path = folder(
        tmp_path / "emls",
        mail(1, Date="Mon, 30 Nov 2026 10:00:00 +0100"),
        mail(2, Date="Mon, 30 Nov 2026 09:30:00 +0000"),  # half an hour later than the first
        mail(3, Date="Mon, 30 Nov 2026 09:15:00 -0000"),  # no zone is UTC
        mail(4, Date=""),
        mail(5, Date="yesterday-ish"),
        mail(6, Date="Mon, 30 Nov 99999 10:00:00 +9999"),
    )
    for name in ("0003.eml", "0004.eml", "0005.eml"):
        os.utime(path / name, (0, 0))

    inbox = mailbox.read(path, limit=10)

    assert ids(inbox)[:3] == ["2@example.com", "3@example.com", "1@example.com"]
    assert [message.date for message in inbox.messages[3:]] == [None] * 3


def test_in_an_mbox_the_order_dates_what_has_no_date(tmp_path: Path) -> None:
    path = mbox(tmp_path / "mbox", mail(1), mail(2, Date=""), mail(3))

    assert ids(mailbox.read(path, limit=5)) == ["3@example.com", "2@example.com", "1@example.com"]


WORD = base64.b64encode("日本語".encode()).decode()


@pytest.mark.parametrize(
    ("raw", "subject", "note"),
    [
        (b"Subject: =?iso-8859-1?Q?Gr=FC=DFe?=", "Grüße", None),
        # two words of one character in pieces
        (b"Subject: =?utf-8?B?5pel5pw=?=\n =?utf-8?B?rOiqng==?=", "日本語", None),
        (f"Subject: Re: =?utf-8?B?{WORD}?= (2)".encode(), "Re: 日本語 (2)", None),
        # spaces within a word: forbidden, and common
        (b"Subject: =?utf-8?Q?caf=C3=A9 noir?=", "café noir", None),
        ("Subject: raw Grüße".encode(), "raw Grüße", None),
        (b"Subject: raw Gr\xfc\xdfe", "raw Gr��e", "replaced"),
        (b"Subject: =?x-unheard-of?Q?abc?=", "abc", "unknown charset 'x-unheard-of'"),
        (b"Subject: =?utf-8?Q?=FF=FE?=", "��", "replaced"),
        # a codec that makes lone surrogates is no charset
        (b"Subject: =?utf-7?Q?+2AA-?=", "+2AA-", "unknown charset 'utf-7'"),
        (b"Subject: =?utf-8?B?broken!?=", "=?utf-8?B?broken!?=", None),
        (b"Subject: a\n\tfolded one", "a folded one", None),
        (b"X-No: subject", "", None),
    ],
)
def test_a_subject_is_decoded(raw: bytes, subject: str, note: str | None, tmp_path: Path) -> None:
    message = one(tmp_path, b"From: ann@example.com\n" + raw + b"\n\nhello\n")

    assert subject == message.subject
    assert bool(note) == bool(message.notes)
    assert (note or "") in " ".join(message.notes)


@pytest.mark.parametrize(
    ("charset", "encoding", "body", "text", "note"),
    [
        ("utf-8", "8bit", "Grüße".encode(), "Grüße", None),
        ("iso-8859-1", "quoted-printable", b"Gr=FC=DFe", "Grüße", None),
        ("utf-8", "base64", base64.b64encode("日本語".encode()), "日本語", None),
        ("iso-2022-jp", "7bit", "日本語".encode("iso-2022-jp"), "日本語", None),
        # what says Latin-1 and means Windows
        ("iso-8859-1", "8bit", b"100 \x80", "100 €", None),
        # no charset is told, and it is UTF-8
        ("us-ascii", "8bit", "Grüße".encode(), "Grüße", None),
        ("utf-8", "8bit", b"Gr\xfc\xdfe", "Gr��e", "some bytes are no utf-8"),
        ("x-unheard-of", "8bit", "Grüße".encode(), "Grüße", "unknown charset 'x-unheard-of'"),
        # codecs of Python that are no charsets; one of them makes lone surrogates
        ("unicode_escape", "8bit", rb"\ud800 \x41", r"\ud800 \x41", "unknown charset"),
        ("hex", "8bit", b"ffff", "ffff", "unknown charset"),
        # what is no base64 is garbage, and says so
        ("utf-8", "base64", b"!!!! not base64 at all", "", "replaced"),
        ("utf-8", "x-unheard-of", b"as it is", "as it is", None),
    ],
)
def test_a_body_is_decoded(
    charset: str, encoding: str, body: bytes, text: str, note: str | None, tmp_path: Path
) -> None:
    head = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: {encoding}\n\n"

    message = one(tmp_path, head.encode() + body)

    assert message.text.startswith(text)
    assert (note or "") in " ".join(message.notes)
    assert bool(note) == bool(message.notes)


def test_attachments_are_named_and_not_read_in(tmp_path: Path) -> None:
    built = EmailMessage()
    built.set_content("see the file")
    built.add_alternative("<p>see the <b>file</b></p>", subtype="html")
    built.add_attachment(b"%PDF-secret-content", maintype="application", subtype="pdf", filename="Übersicht.pdf")
    built.add_attachment("a,b\n", subtype="csv", filename="../../etc/list.csv")
    inner = EmailMessage()
    inner["Subject"] = "forwarded"
    inner.set_content("inner text")
    built.add_attachment(inner)

    message = one(tmp_path, built.as_bytes())

    assert message.text == "see the file"
    assert [(each.name, each.type, each.size) for each in message.attachments[:2]] == [
        ("Übersicht.pdf", "application/pdf", 19),
        ("list.csv", "text/csv", 4),
    ]
    assert (message.attachments[2].name, message.attachments[2].type) == ("forwarded", "message/rfc822")
    assert "secret" not in message.model_dump_json()
    assert "inner text" not in message.model_dump_json()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>Please <b>sign</b></p><ul><li>one<li>two</ul>", "Please sign\n\n  * one\n  * two"),
        ("<div style='display:none'>hidden</div>shown", "shown"),
        ('<?xml version="1.0" encoding="utf-8"?><html><p>xml</p></html>', "xml"),
        # asks for a hundred thousand blank lines and blanks
        ("<p>a</p><div style='margin-top:99999em; padding-left: 99999em'>b</div>", "a\n\n  b"),
        ("<script>run()</script><style>p{}</style>text", "text"),
        ("", ""),
        ("<!-- nothing -->", ""),
    ],
)
def test_html_is_laid_out_when_there_is_no_plain_text(page: str, text: str, tmp_path: Path) -> None:
    message = one(tmp_path, b"Content-Type: text/html; charset=utf-8\n\n" + page.encode())

    assert text == message.text
    assert message.notes == []


def test_a_blank_plain_text_does_not_hide_the_html(tmp_path: Path) -> None:
    built = EmailMessage()
    built.set_content(" \n")
    built.add_alternative("<p>the request</p>", subtype="html")

    assert one(tmp_path, built.as_bytes()).text == "the request"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"no headers at all\nsecond line\n", "no headers at all\nsecond line"),
        (b"\nonly a body\n", "only a body"),
        # a multipart that names no boundary
        (b"Content-Type: multipart/mixed\n\nthe text\n", "the text"),
        # a multipart that never ends
        (b'Content-Type: multipart/mixed; boundary="b"\n\n--b\n\nthe text\n', "the text"),
        (b"From: [broken\nContent-Type: ;;;===\nSubject: x\n\nthe text\n", "the text"),
        (b"Content-Type: text/plain\x00\n\na\x00b\x1b[31mc\n", "ab[31mc"),
    ],
)
def test_a_malformed_message_is_still_read(raw: bytes, text: str, tmp_path: Path) -> None:
    assert text == one(tmp_path, raw).text


def test_an_empty_file_is_skipped(tmp_path: Path) -> None:
    inbox = mailbox.read(folder(tmp_path / "emls", b"", mail(1)), limit=5)

    assert ids(inbox) == ["1@example.com"]
    assert [(each.file, each.why) for each in inbox.skipped] == [("0000.eml", "empty")]


def test_an_id_is_the_message_id_or_a_digest_and_shown_once(tmp_path: Path) -> None:
    path = folder(
        tmp_path / "emls",
        mail(1),
        mail(2, Message_ID="<1@example.com>"),  # the newer copy counts
        mail(3, Message_ID=""),
        mail(3, Message_ID=""),
        mail(4, Message_ID="bare@example.com"),
    )

    inbox = mailbox.read(path, limit=10)

    assert inbox.messages[0].id == "bare@example.com"
    assert inbox.messages[1].id.startswith("sha256:")
    assert len("sha256:") + 16 == len(inbox.messages[1].id)
    assert ids(inbox)[2:] == ["1@example.com"]
    assert inbox.messages[2].subject == "mail 2"
    assert (inbox.total, inbox.shown) == (3, 3)


@pytest.mark.parametrize(
    ("name", "unread"),
    [
        ("1.a.host:2,S", False),
        ("1.a.host:2,FRS", False),
        ("1.a.host:2,F", True),
        ("1.a.host", True),
        # file systems without ":"
        ("1.a.host!2,S", False),
    ],
)
def test_a_maildirs_flags_say_what_is_unread(name: str, unread: bool, tmp_path: Path) -> None:
    path = maildir(tmp_path / "Maildir", **{name: mail(1)})

    assert unread is only(mailbox.read(path, limit=5)).unread
    assert int(unread) == mailbox.read(path, limit=5, unread_only=True).total


def test_a_maildir_is_its_cur_and_new_and_nothing_else(tmp_path: Path) -> None:
    path = maildir(tmp_path / "Maildir", **{"1.a.host:2,S": mail(1), "2.b.host:2,ST": mail(2)})  # T: trashed
    (path / "new" / "3.c.host").write_bytes(mail(3))
    (path / "tmp" / "4.d.host").write_bytes(mail(4))
    (path / "cur" / ".hidden").write_bytes(mail(5))
    maildir(path / ".Archive", **{"6.e.host:2,S": mail(6)})

    assert ids(mailbox.read(path, limit=5)) == ["3@example.com", "1@example.com"]


def test_an_mbox_says_what_is_unread_in_its_status(tmp_path: Path) -> None:
    path = mbox(tmp_path / "mbox", mail(1, Status="RO"), mail(2, Status="O"), mail(3))

    inbox = mailbox.read(path, limit=5)

    assert [message.unread for message in inbox.messages] == [True, True, False]
    assert ids(mailbox.read(path, limit=5, unread_only=True)) == ["3@example.com", "2@example.com"]


def test_lines_that_begin_with_from_stay_in_their_message(tmp_path: Path) -> None:
    body = "one\n\n>From here on\n>>From deeper\n\nFrom Monday on we are 2026 strong\nlast"
    path = mbox(tmp_path / "mbox", mail(1, body), mail(2))

    inbox = mailbox.read(path, limit=5)

    assert ids(inbox) == ["2@example.com", "1@example.com"]
    assert body.replace(">From", "From", 1).replace(">>From", ">From") == inbox.messages[1].text


def test_an_mbox_with_bare_envelopes_is_cut_at_them(tmp_path: Path) -> None:
    (tmp_path / "mbox").write_bytes(b"From \n" + mail(1) + b"\nFrom \n" + mail(2))

    assert ids(mailbox.read(tmp_path / "mbox", limit=5)) == ["2@example.com", "1@example.com"]


def test_what_is_no_regular_file_of_the_folder_is_skipped_and_never_opened(tmp_path: Path) -> None:
    outside = tmp_path / "outside.eml"
    outside.write_bytes(mail(9, "private"))
    path = folder(tmp_path / "emls", mail(1))
    os.mkfifo(path / "pipe.eml")
    (path / "away.eml").symlink_to(outside)
    (path / "null.eml").symlink_to("/dev/null")
    (path / "loop.eml").symlink_to(path / "loop.eml")
    (path / "gone.eml").symlink_to(path / "nowhere.eml")
    (path / "same.eml").symlink_to(path / "0000.eml")  # inside: the same message, shown once

    inbox = mailbox.read(path, limit=10)

    assert ids(inbox) == ["1@example.com"]
    assert {each.file: each.why for each in inbox.skipped} == {
        "pipe.eml": "not a regular file",
        "away.eml": "a link that leaves the folder",
        "null.eml": "a link that leaves the folder",
        "loop.eml": "a link that leads nowhere",
        "gone.eml": "a link that leads nowhere",
    }


def test_a_maildir_whose_folder_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    other = maildir(tmp_path / "other", a=mail(9))
    path = maildir(tmp_path / "Maildir", b=mail(1))
    (path / "new").rmdir()
    (path / "new").symlink_to(other / "cur")

    inbox = mailbox.read(path, limit=5)

    assert ids(inbox) == ["1@example.com"]
    assert [each.file for each in inbox.skipped] == ["new"]


def test_a_name_that_is_no_utf8_is_shown_with_replacements(tmp_path: Path) -> None:
    path = folder(tmp_path / "emls", mail(1))
    Path(os.fsdecode(os.fsencode(path) + b"/bad\xff.eml")).touch()

    assert [each.file for each in mailbox.read(path, limit=5).skipped] == ["bad�.eml"]


def test_many_skipped_files_are_counted_not_listed(tmp_path: Path) -> None:
    path = folder(tmp_path / "emls", *[b""] * 300)

    skipped = mailbox.read(path, limit=5).skipped

    assert len(skipped) == 21
    assert skipped[-1].why == "and 280 more"


def test_limit_counts_from_the_newest(tmp_path: Path) -> None:
    inbox = mailbox.read(folder(tmp_path / "emls", *[mail(number) for number in range(9)]), limit=3)

    assert ids(inbox) == ["8@example.com", "7@example.com", "6@example.com"]
    assert (inbox.total, inbox.shown) == (9, 3)


def test_one_text_is_clipped_and_says_so(tmp_path: Path) -> None:
    message = one(tmp_path, mail(1, "x" * 5_000))

    assert len(message.text) == 4_000
    assert message.notes == ["clipped: text is 5000 characters"]


@pytest.mark.parametrize("character", ["x", "語", '"', "\\", "🎭"])
def test_the_whole_answer_stays_under_its_limit_and_the_oldest_go(character: str, tmp_path: Path) -> None:
    messages = [mail(number, character * 4_000, Content_Type="text/plain; charset=utf-8") for number in range(50)]

    inbox = mailbox.read(folder(tmp_path / "emls", *messages), limit=50)

    assert len(inbox.model_dump_json().encode()) < 60_000
    assert (50, len(inbox.messages)) == (inbox.total, inbox.shown)
    assert 1 <= inbox.shown < 50
    assert inbox.messages[0].id == "49@example.com"
    assert [f"{50 - inbox.shown} older of the messages asked for are left out: the answer would be too long"] == (
        inbox.notes
    )


@pytest.mark.parametrize("kind", ["maildir", "mbox"])
def test_a_large_mailbox_costs_little_memory(kind: str, tmp_path: Path) -> None:
    """2,000 messages, one of 30 MB, one with a wrong charset, one without headers."""
    attachment = b"Content-Type: application/zip; name=a.zip\nContent-Transfer-Encoding: base64\n\n"
    head = mail(1_300, "", MIME_Version="1.0", Content_Type="multipart/mixed; boundary=b").rstrip() + b"\n\n"
    big = head + b"--b\n\nthe text\n\n--b\n" + attachment + (b"QUJD" * 19 + b"\n") * (BIG // 77) + b"--b--\n"
    wrong = mail(1_299, "").replace(b"\n\n", b"\nContent-Type: text/plain; charset=x-no\n\nGr\xfc\xdfe\n")
    messages = [*(mail(number % 1_200, Message_ID=f"<n{number}@example.com>") for number in range(1_997)), big, wrong]
    if kind == "maildir":
        path = maildir(
            tmp_path / "box", **{f"{number}.host:2,S": each for number, each in enumerate([*messages, b"bare\n"])}
        )
    else:
        path = mbox(tmp_path / "box", *messages, b"\nbare\n")

    done = subprocess.run(
        [sys.executable, "-c", READ_AND_MEASURE, str(path)], capture_output=True, check=True, timeout=60
    )

    said = json.loads(done.stdout)
    print(f"{kind}: {said['before']} MB before, {said['peak']} MB at the peak")
    inbox = said["inbox"]
    assert said["peak"] < PEAK_MB
    assert said["peak"] - said["before"] < 40
    assert (inbox["total"], inbox["shown"]) == (2_000, 20)
    by_id = {message["id"]: message for message in inbox["messages"]}
    assert by_id["1300@example.com"]["text"] == "the text"
    assert by_id["1300@example.com"]["attachments"] == [{"name": "a.zip", "type": "application/zip", "size": None}]
    assert "clipped: message is" in by_id["1300@example.com"]["notes"][0]
    assert by_id["1299@example.com"]["text"].strip() == "Gr��e"


MULTIPART = b"Content-Type: multipart/mixed; boundary=b\n\n"


@pytest.mark.parametrize(
    "raw",
    [
        # 250,000 parts
        MULTIPART + b"--b\n\n" * 250_000,
        # a part in a part in a part
        b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(3_000)),
        b"Content-Type: message/rfc822\n\n" * 30_000,
        # parameters that the parser looks at again for each of them
        b"Content-Type: text/plain" + b"; a*0*=utf-8''x" * 60_000 + b"\n\nx",
        b'Content-Disposition: attachment; filename="' + b'\\"' * 60_000 + b"\n\nx",
        b"Content-Type: text/html\n\n" + b"<table><tr><td>" * 60_000,
        b"Subject: " + b"=?utf-8?q?a?= " * 60_000 + b"\n\nx",
    ],
    ids=["parts", "nested", "forwarded", "parameters", "quotes", "tables", "words"],
)
def test_a_message_made_to_be_slow_is_not(raw: bytes, tmp_path: Path) -> None:
    began = time.process_time()
    inbox = mailbox.read(folder(tmp_path / "emls", raw), limit=5)

    assert time.process_time() - began < 3
    assert sound(inbox)


def sound(inbox: mailbox.Inbox) -> bool:
    """Everything can be encoded, fits, and each file is either shown or named."""
    return len(inbox.model_dump_json().encode("utf-8", "strict")) < 60_000 and bool(inbox.messages or inbox.skipped)


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=400))
def test_random_bytes_are_a_message_or_skipped(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert sound(mailbox.read(folder(tmp_path_factory.mktemp("emls"), data), limit=5))


PIECES = st.sampled_from(
    [
        *(b"From: ", b"Subject: ", b"Content-Type: ", b"Content-Disposition: ", b"Date: ", b"Message-ID: ", b"To: "),
        *(b"multipart/mixed; boundary=b", b"message/rfc822", b"text/html", b"text/plain; charset=", b"attachment"),
        *(b"; filename*=utf-8''%ff", b"; filename*0=a", b"; name=\x80", b"Content-Transfer-Encoding: base64"),
        *(b"=?utf-8?B?", b"=?x?q?=FF?=", b"?=", b"<", b">", b"[", b'"', b"(", b"\\", b",", b"@", b";", b":"),
        *(b"utf-7", b"unicode_escape", b"idna", b"undefined", b"+2AA-", b"\\ud800", b"\xed\xa0\x80", b"\xff", b"\x00"),
        *(b"\n--b\n", b"\n--b--\n", b"\n", b"\n\n", b"\r\n", b" ", b"<div style='padding-left:9em'>", b"<table><td>"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(PIECES, max_size=40))
def test_hostile_mail_is_a_message_or_skipped(pieces: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    assert sound(mailbox.read(folder(tmp_path_factory.mktemp("emls"), b"".join(pieces)), limit=5))


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300))
def test_a_random_mbox_never_raises(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("mbox") / "mbox"
    path.write_bytes(b"From \n" + data)

    assert sound(mailbox.read(path, limit=5))


async def test_the_tool_reads_the_samples_that_are_shipped(tmp_path: Path) -> None:
    at = Settings(DAYFLOW_HOME=tmp_path, DAYFLOW_INBOX=SAMPLES / "inbox")
    store = await database.connect(at)
    context = Context(
        settings=at,
        database=store,
        namespace="default",
        run_id="run-1",
        action_id="s1.1-abcdef",
        idempotency_key="key",
        attempt=1,
    )

    inbox = await read_inbox.read_inbox(read_inbox.ReadInbox(), context)

    assert (inbox.total, inbox.shown, inbox.skipped) == (8, 8, [])
    assert [message.notes for message in inbox.messages] == [[]] * 8
    assert {"Merci beaucoup !", "大阪の会場予約について"} < {message.subject for message in inbox.messages}
    await store.close()


def test_the_tool_tells_the_model_what_it_takes() -> None:
    spec = read_inbox.TOOL.spec

    assert (spec.name, spec.declares.kind) == ("read_inbox", "read")
    assert {"limit", "unread_only"} == set(spec.input_schema["properties"])
    assert all(field["description"] for field in spec.input_schema["properties"].values())
