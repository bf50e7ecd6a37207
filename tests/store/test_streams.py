"""What a model says just now is there for who watches, is never in anybody's way, and does not stay."""

import asyncio
import logging
import os
from datetime import UTC, datetime, timedelta

import pytest

from activities.retention import Streams as Shelf
from domain.model import Attempt
from domain.retention import Batch, Found, Look, Plan
from store import streams
from store.seal import Seal
from store.streams import KEPT, Files, Gone, Rows, Sealed, Streams, Tail

SEAL = Seal({"one": b"k" * 32})
RUN, FIRST, SECOND = "run-1", Attempt(1, 1, 1), Attempt(1, 1, 2)


# Files, and rows in either database, in clear and sealed.
PLACES = [("files", "sqlite"), ("rows", "sqlite"), ("rows", "postgres")]
PLACES += [(f"sealed {where}", on) for where, on in PLACES]
everywhere = pytest.mark.parametrize(("channel", "settings"), PLACES, indirect=True)


@pytest.fixture
def channel(request, settings, store):
    channel = Files(settings.home) if request.param.endswith("files") else Rows(store)
    return Sealed(channel, SEAL) if request.param.startswith("sealed") else channel


@pytest.fixture
def folder(tmp_path):
    """Where the files of the run are."""
    return tmp_path / "streams" / RUN


def plan(at):
    return Plan(dry_run=False, at=at, days={"streams": KEPT.days})


def said(block, words):
    return {"type": "text", "block": block, "text": words}


async def heard(tail, count):
    """The next events, once there are so many."""
    found = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await tail.news()
            await asyncio.sleep(0.01)
    return found


async def complained(caplog):
    """Wait until something is in the log."""
    async with asyncio.timeout(20):
        while not caplog.records:  # noqa: ASYNC110  the log tells nobody
            await asyncio.sleep(0.01)


def kinds(events):
    return [(attempt.attempt, event["type"]) for attempt, event in events]


@everywhere
async def test_words_are_heard_while_they_come_and_are_gone_when_the_answer_is_there(channel):
    tail = Tail(channel, RUN)

    async with Streams(channel).voice(RUN, FIRST, "m") as voice:
        voice.say({"type": "block", "block": 0, "kind": "text"})
        voice.say(said(0, "Good "))
        voice.say(said(0, "mor\udc00ning"))
        first = await heard(tail, 3)
        voice.say(said(0, "!"))
        then = await heard(tail, 1)

    assert kinds(first) == [(1, "begin"), (1, "block"), (1, "text")]
    assert [event["text"] for _, event in first[2:] + then] == ["Good mor\udc00ning", "!"]
    assert await Tail(channel, RUN).news() == []


@everywhere
async def test_what_is_over_at_once_is_never_written(channel, settings):
    async with Streams(channel).voice(RUN, FIRST, "m") as voice:
        voice.say(said(0, "Good morning."))

    assert await channel.read(RUN, None) is None
    assert not (settings.home / "streams").exists()


@everywhere
async def test_a_lost_attempt_says_so_and_stays_until_the_next_one_begins(channel):
    tail, worker = Tail(channel, RUN), Streams(channel)
    async with worker.voice(RUN, FIRST, "m") as voice:
        voice.say(said(0, "Good"))
        await heard(tail, 2)
        voice.lose()
    lost = await heard(tail, 1)

    async with worker.voice(RUN, SECOND, "m") as voice:
        voice.say(said(0, "Hello"))
        again = await heard(tail, 2)

    assert kinds(lost + again) == [(1, "lost"), (2, "begin"), (2, "text")]
    assert await channel.read(RUN, None) is None


@everywhere
async def test_an_attempt_that_was_given_up_cannot_speak_into_the_one_that_took_over(channel, caplog):
    tail = Tail(channel, RUN)
    async with Streams(channel).voice(RUN, FIRST, "m") as zombie:
        zombie.say(said(0, "Good"))
        await heard(tail, 2)
        async with Streams(channel).voice(RUN, SECOND, "m") as voice:
            await heard(tail, 1)
            zombie.say(said(0, " morning"))
            voice.say(said(0, "Hello"))
            told = await heard(tail, 1)
            with pytest.raises(Gone):
                await channel.append(RUN, FIRST, 1, b"{}\n")

    assert kinds(told) == [(2, "text")]
    assert caplog.records == []


@everywhere
async def test_another_run_is_not_heard_and_not_removed(channel):
    async with Streams(channel).voice("run-2", FIRST, "m"):
        await heard(Tail(channel, "run-2"), 1)
        async with Streams(channel).voice(RUN, FIRST, "m"):
            await heard(Tail(channel, RUN), 1)

        assert await channel.read("run-2", None) is not None


@everywhere
async def test_what_a_killed_worker_left_goes_with_age(channel):
    now, shelf = datetime.now(UTC), Shelf(channel)
    for run in (RUN, "run-2"):
        await channel.append(run, FIRST, 0, b"{}\n")
    soon, later = (plan(now + KEPT + timedelta(hours=hours)) for hours in (-1, 1))

    assert (await shelf.find(Look(kind="streams", plan=soon))).due == []
    found = await shelf.find(Look(kind="streams", plan=later))
    done = [await shelf.delete(Batch(kind="streams", plan=later, names=found.due)) for _ in range(2)]

    assert found == Found(due=[RUN, "run-2"])
    assert [one.gone for one in done] == [2, 2]
    assert (await channel.read(RUN, None), await shelf.find(Look(kind="streams", plan=later))) == (None, Found())


@everywhere
async def test_what_is_said_again_while_it_is_cleared_away_stays(channel):
    shelf, early = Shelf(channel), plan(datetime.now(UTC))
    await channel.append(RUN, SECOND, 0, b"{}\n")

    await shelf.delete(Batch(kind="streams", plan=early, names=[RUN]))

    assert await channel.read(RUN, None) is not None


async def test_a_line_that_is_half_written_waits_for_its_end_and_one_that_is_no_event_is_left_out(folder):
    folder.mkdir(parents=True)
    file, tail = folder / "1.1.1.jsonl", Tail(Files(folder.parents[1]), RUN)

    file.write_bytes(b'no json\n[]\n{"type":"lost"}\n{"ty')
    first = await tail.news()
    with file.open("ab") as more:
        more.write(b'pe":"begin"}\n')

    assert kinds(first) == [(1, "lost")]
    assert kinds(await tail.news()) == [(1, "begin")]


async def test_files_are_readable_by_their_owner_alone(folder):
    files = Files(folder.parents[1])

    await files.append(RUN, FIRST, 0, b"{}\n")

    assert (folder / "1.1.1.jsonl").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_a_disk_that_takes_nothing_costs_one_line_in_the_log(folder, caplog):
    folder.mkdir(parents=True)
    os.symlink("/dev/full", folder / "1.1.1.jsonl")

    async with Streams(Files(folder.parents[1])).voice(RUN, FIRST, "m") as voice:
        await complained(caplog)
        voice.say(said(0, " morning"))
        await asyncio.sleep(3 * Files.rest)

    [line] = caplog.records
    assert line.levelno == logging.WARNING
    assert "No space left" in line.getMessage()


async def test_a_folder_that_cannot_be_made_costs_one_line_in_the_log(folder, caplog):
    folder.parents[1].mkdir(parents=True, exist_ok=True)
    folder.parent.touch()

    async with Streams(Files(folder.parents[1])).voice(RUN, FIRST, "m"):
        await complained(caplog)

    assert len(caplog.records) == 1


async def test_a_channel_that_hangs_is_waited_for_no_longer_than_a_second(caplog):
    class Hanging(Files):
        async def append(self, *_):
            await asyncio.sleep(60)

    started = asyncio.get_running_loop().time()
    async with Streams(Hanging(streams.Path("/nowhere"))).voice(RUN, FIRST, "m"):
        await asyncio.sleep(2 * Files.rest)

    assert asyncio.get_running_loop().time() - started < 10
    assert len(caplog.records) == 1


async def test_an_attempt_that_never_ends_stops_being_written_down(folder):
    files = Files(folder.parents[1])

    async with Streams(files).voice(RUN, FIRST, "m") as voice:
        voice.say(said(0, "x" * 1_000_000))
        await heard(Tail(files, RUN), 2)
        voice.say(said(0, "x" * 1_500_000))
        await asyncio.sleep(3 * Files.rest)

        assert (folder / "1.1.1.jsonl").stat().st_size < streams.MOST_BYTES


async def test_sealed_words_are_nowhere_in_clear_and_nobody_without_the_key_hears_them(folder):
    files = Files(folder.parents[1])
    channel = Sealed(files, SEAL)

    async with Streams(channel).voice(RUN, FIRST, "m") as voice:
        voice.say(said(0, "a marked secret"))
        assert kinds(await heard(Tail(channel, RUN), 2)) == [(1, "begin"), (1, "text")]
        [file] = folder.iterdir()
        assert b"secret" not in file.read_bytes()
        assert await Tail(Sealed(files, Seal({"two": b"x" * 32})), RUN).news() == []
