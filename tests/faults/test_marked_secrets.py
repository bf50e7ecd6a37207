"""Secrets in mail, arguments and answers: with encryption on they are in no history, no file, no log."""

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mischief
import pytest
from checker import history_replays
from homes import Home
from refunds import LEAD, Refund, asked, begin, refunded_once, scripted
from script import call, conversation, play, say, use
from witness import ends, send, start, witness
from workers import working

from client import codec_server
from store import seal
from store.settings import SAMPLES

# Each stands in one place, so that what is found says where it came from.
MARKS = {
    name: f"MARK-{name}-7d1f"
    for name in (
        *("subject", "mail", "notes", "argument", "answer", "reason", "body", "message", "comment", "denied"),
        *("broken", "stumble", "pause", "refused"),
    )
}
OUTSIDE = ("sandbox", "marked-inbox")
RUNS = ("marked-refused", "marked-brief", "marked-refund", "marked-denied", "marked-broken")


@pytest.fixture(scope="module", params=["sealed", "clear"])
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sample_orders: Path
) -> Iterator[tuple[Home, bool]]:
    """A home in which all of it has happened; whether encryption was on."""
    sealed = request.param == "sealed"
    keys = {"DAYFLOW_ENCRYPTION_KEYS": f"{seal.new_key('one')},{seal.new_key('old')}"} if sealed else {}
    path = tmp_path_factory.mktemp(request.param)
    home = Home(path, DAYFLOW_SAMPLE_ORDERS=str(sample_orders), DAYFLOW_INBOX=str(inbox(path)), **keys)
    home.dayflow("up", "--no-worker")
    try:
        with working(home, "dayflow") as worker, working(home, "mischief", host=mischief.host) as broken:
            worker.ready()
            broken.ready()
            happen(home)
        yield home, sealed
    finally:
        home.dayflow("down", code=None)


def inbox(path: Path) -> Path:
    """The sample mails, and one with secrets in it."""
    folder = path / "marked-inbox"
    shutil.copytree(SAMPLES / "inbox", folder)
    mail = (SAMPLES / "inbox" / "07-decision-supplier.eml").read_text()
    mail = mail.replace("risers-decision@", "marked@").replace("for the risers?", f"for {MARKS['subject']}?")
    (folder / "09-marked.eml").write_text(mail.replace("Alex,", f"Alex, the code is {MARKS['mail']}."))
    return folder


def happen(home: Home) -> None:
    """A run that is refused, a brief, a refund that is approved, one that is denied, a run whose tools break."""
    start(home, "marked-refused", {"agent": MARKS["refused"]})
    ends(home, "marked-refused", "failed", "refused")
    start(home, "marked-brief", {"agent": "brief"})
    ends(home, "marked-brief")
    refund, denied = Refund(run_id="marked-refund"), Refund(run_id="marked-denied")
    broken = conversation(
        MARKS["broken"],
        call(use("read_inbox", {"how": f"echo {MARKS['argument']}"}), use("read_tasks", {"odd": MARKS["argument"]})),
        call(use("complete_task", {"how": f"echo {MARKS['stumble']}", "source_id": "s"})),
        call(use("create_task", {"title": "Call", "source_id": "m", "notes": MARKS["notes"]})),
        say(f"Done, said {MARKS['answer']}."),
    )
    words = {"reason": MARKS["reason"], "body": MARKS["body"]}
    play(home, scripted(refund, **words), scripted(denied, **words), broken)
    start(home, "marked-broken", {"agent": "brief", "task": MARKS["broken"]}, "mischief")
    for one in (refund, denied):
        begin(home, one)
    decide(home, refund, "approve", MARKS["comment"])
    decide(home, denied, "deny", MARKS["denied"])
    ends(home, "marked-denied", "cancelled", f"denied by {LEAD}")
    ends(home, "marked-broken")
    ends(home, "marked-refund")
    refunded_once(home, refund.order)


def decide(home: Home, refund: Refund, verdict: str, comment: str) -> None:
    """Talk to a run that waits, and decide."""
    action = asked(home, refund)["action_id"]
    send(home, refund.run_id, "pause", {"by": MARKS["pause"]})
    send(home, refund.run_id, "message", {"text": MARKS["message"], "from": "ana"})
    send(home, refund.run_id, "resume", {"by": MARKS["pause"]})
    home.dayflow(verdict, refund.run_id, action, "--as", LEAD, "--comment", comment)


def found(text: bytes) -> set[str]:
    """The secrets in it, also within base64 and as JSON writes them."""
    return {name for name, mark in MARKS.items() if any(form in text for form in forms(mark))}


def forms(mark: str) -> Iterator[bytes]:
    """A text, and what it looks like in base64 at each of the three places where it can begin."""
    yield mark.encode()
    for before in range(3):
        whole = base64.b64encode(b"x" * before + mark.encode())
        yield whole[(before * 8 + 5) // 6 : -4]


def exported(home: Home) -> bytes:
    """Everything that the server tells of every run, by the plain CLI without the key."""
    parts = [home.temporal("workflow", "list", "--output", "json").stdout]
    for run_id in RUNS:
        for verb in ("show", "describe"):
            parts.append(home.temporal("workflow", verb, "--workflow-id", run_id, "--output", "json").stdout)
    return "\n".join(parts).encode()


def files(home: Home, *wanted: str) -> bytes:
    """The files of the home whose path begins so."""
    paths = [path for path in home.path.rglob("*") if path.is_file()]
    named = [(str(path.relative_to(home.path)), path) for path in paths]
    return b"\n".join(path.read_bytes() for name, path in named if name.startswith(wanted))


LOOKS: dict[str, tuple[Callable[[Home], bytes], set[str]]] = {
    "the exported histories": (exported, set(MARKS)),
    "the store": (
        lambda home: files(home, "dayflow.sqlite"),
        {"subject", "notes", "answer", "reason", "body", "stumble"},
    ),
    "the server's file": (lambda home: files(home, "temporal.sqlite"), set(MARKS)),
    "the logs": (lambda home: files(home, "logs", "worker-"), {"argument"}),
}


@pytest.mark.parametrize("place", LOOKS)
def test_marked_secrets_are_in_clear_exactly_without_encryption(told, place):
    home, sealed = told
    look, expected = LOOKS[place]

    seen = found(look(home))

    assert seen == set() if sealed else seen >= expected


def test_nothing_but_the_stand_ins_of_the_sandbox_keeps_a_secret_in_clear(told):
    home, sealed = told
    keeping = {
        str(path.relative_to(home.path)).split("/")[0]
        for path in home.path.rglob("*")
        if path.is_file() and found(path.read_bytes())
    }

    assert keeping - set(OUTSIDE) == set() if sealed else keeping > set(OUTSIDE)


def test_who_has_the_key_reads_all_of_it(told):
    home, _ = told

    seen = [witness(home, run_id) for run_id in RUNS]

    assert found("".join(json.dumps(one.record) for one in seen).encode()) >= {"answer", "subject"}
    for one in seen:
        history_replays(one)
    assert found(home.dayflow("tasks").stdout.encode()) >= {"subject"}
    assert found(home.dayflow("transcript", "marked-refund").stdout.encode()) >= {"reason", "body", "message"}


def test_the_temporal_cli_reads_by_the_codec_server_and_not_without_it(told):
    home, sealed = told
    if not sealed:
        pytest.skip("there is no codec server without keys")
    token = home.dayflow("codec", "--print-token").stdout.strip()
    by = ("--codec-endpoint", codec_server.endpoint(home.settings), "--codec-auth", f"Bearer {token}")
    asked: tuple[str, ...] = ("workflow", "show", "--workflow-id", "marked-refund", "--output", "json")

    assert found(home.temporal(*asked).stdout.encode()) == set()
    assert found(home.temporal(*asked, *by).stdout.encode()) >= {"reason", "body", "message", "comment"}


def test_search_attributes_hold_nothing_that_anybody_said(told):
    home, _ = told

    rows: list[Any] = json.loads(home.temporal("workflow", "list", "--output", "json").stdout)

    assert found(json.dumps([row["searchAttributes"] for row in rows if "searchAttributes" in row]).encode()) == set()
