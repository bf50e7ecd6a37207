"""Blobs: named by their content, there once, whole or not at all, and deleted only when nobody put them again."""

import contextlib
import fcntl
import hashlib
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain import errors
from store.blobs import Blobs

CONTENT = b"content"
NAME = hashlib.sha256(CONTENT).hexdigest()
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "payloads")


def aged(blobs: Blobs, name: str) -> None:
    """As if it had been put long ago."""
    os.utime(blobs.path(name), (LONG_AGO.timestamp(), LONG_AGO.timestamp()))


def test_a_blob_is_named_by_its_content_and_stored_once(blobs):
    names = {blobs.put(CONTENT), blobs.put(CONTENT)}

    assert names == {NAME}
    assert [path for path in blobs.folder.rglob("*") if path.is_file()] == [blobs.path(NAME)]
    assert blobs.get(NAME) == CONTENT


def test_blobs_and_their_folders_are_their_owners_alone(blobs):
    blobs.put(CONTENT)

    for path in (blobs.folder, blobs.path(NAME).parent, blobs.path(NAME)):
        assert path.stat().st_mode & 0o077 == 0


def test_a_blob_that_is_missing_is_an_error_that_says_so_and_what_to_do(blobs):
    with pytest.raises(errors.Lost, match=rf"stored payload {NAME[:12]} is missing.*{NAME}\. Put it back"):
        blobs.get(NAME)


@pytest.mark.parametrize("altered", [b"", b"content.", b"contenT"], ids=["empty", "longer", "one letter"])
def test_a_blob_that_is_altered_is_an_error_and_never_a_value(blobs, altered):
    blobs.put(CONTENT)
    blobs.path(NAME).write_bytes(altered)

    with pytest.raises(errors.Lost, match=f"stored payload {NAME[:12]} is altered"):
        blobs.get(NAME)


def test_a_blob_that_cannot_be_read_is_an_error_of_the_same_name(blobs):
    blobs.path(NAME).mkdir(parents=True)

    with pytest.raises(errors.Lost, match="cannot be read: Is a directory"):
        blobs.get(NAME)


def test_putting_it_again_mends_an_altered_one(blobs):
    blobs.put(CONTENT)
    blobs.path(NAME).write_bytes(b"other")

    blobs.put(CONTENT)

    assert blobs.get(NAME) == CONTENT


def test_every_blob_is_listed_with_its_size_and_its_age(blobs):
    other = blobs.put(b"other content")
    blobs.put(CONTENT)
    aged(blobs, NAME)

    listed = {blob.name: blob for blob in blobs.all()}

    assert {name: blob.size for name, blob in listed.items()} == {NAME: len(CONTENT), other: len(b"other content")}
    assert listed[NAME].put_at == LONG_AGO
    assert datetime.now(UTC) - listed[other].put_at < timedelta(minutes=1)


def test_there_are_none_where_there_is_no_folder(blobs):
    assert list(blobs.all()) == []


def test_an_old_blob_can_be_deleted(blobs):
    blobs.put(CONTENT)
    aged(blobs, NAME)

    assert blobs.delete(NAME, datetime.now(UTC) - timedelta(days=1))
    assert list(blobs.all()) == []
    assert blobs.delete(NAME, datetime.now(UTC))


def test_one_that_was_put_again_is_as_young_as_a_new_one_and_stays(blobs):
    blobs.put(CONTENT)
    aged(blobs, NAME)
    [seen] = blobs.all()

    blobs.put(CONTENT)

    assert not blobs.delete(NAME, seen.put_at + timedelta(days=1))
    assert blobs.get(NAME) == CONTENT


@contextlib.contextmanager
def held(blobs: Blobs, kind: int) -> Iterator[None]:
    """Somebody else is at the blob, until the block ends."""
    with blobs.path(NAME).open("rb") as file:
        fcntl.flock(file, kind)
        yield


def test_one_that_is_being_put_is_not_deleted(blobs):
    blobs.put(CONTENT)
    aged(blobs, NAME)

    with ThreadPoolExecutor() as pool, held(blobs, fcntl.LOCK_SH):
        deleted = pool.submit(blobs.delete, NAME, datetime.now(UTC) - timedelta(days=1))
        os.utime(blobs.path(NAME))

    assert not deleted.result()
    assert blobs.get(NAME) == CONTENT


def test_one_that_is_deleted_while_it_is_being_put_is_written_anew(blobs):
    blobs.put(CONTENT)

    with ThreadPoolExecutor() as pool, held(blobs, fcntl.LOCK_EX):
        put = pool.submit(blobs.put, CONTENT)
        blobs.path(NAME).unlink()

    assert blobs.get(put.result()) == CONTENT


def dying(folder: Path) -> None:
    """Put large contents until killed."""
    blobs = Blobs(folder)
    for number in range(1_000_000):
        blobs.put(number.to_bytes(4, "big") * 250_000)


def test_a_process_that_is_killed_leaves_whole_blobs_and_rests_that_clean_up_sees(blobs):
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=dying, args=(blobs.folder,))
    writer.start()
    while len(list(blobs.all())) < 5:
        pass

    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()

    for blob in list(blobs.all()):
        if len(blob.name) == len(NAME):
            assert len(blobs.get(blob.name)) == 1_000_000
        assert blobs.delete(blob.name, datetime.now(UTC) + timedelta(minutes=1))
    assert [path for path in blobs.folder.rglob("*") if path.is_file()] == []
