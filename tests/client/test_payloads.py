"""Large payloads on a real server: a reference stands in the history, and whoever needs the value has it."""

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from homes import Home
from pydantic import ValidationError
from script import unique
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import History
from temporalio.api.sdk.v1.external_storage_pb2 import ExternalStorageReference
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from client.converter import converter
from domain import errors, loop, messages
from domain.decisions import MAX_ARGUMENTS_BYTES
from domain.messages import Pause
from domain.model import MAX_ANSWER_BYTES
from store import payloads
from store.blobs import Blobs
from store.settings import LARGEST_IN_HISTORY, Settings

LARGE = 3_000_000
QUERIED = 1_500_000
REFERENCE = ExternalStorageReference.DESCRIPTOR.full_name.encode()


@activity.defn
async def echo(text: str) -> str:
    """Give back what came."""
    return text


@activity.defn
async def fail(text: str) -> None:
    """Fail with it."""
    raise ApplicationError("no luck", text, non_retryable=True)


@workflow.defn
class Large:
    """Sends a text through everything that a history holds."""

    def __init__(self) -> None:
        self.heard = ""
        self.ended = False

    @workflow.run
    async def run(self, text: str, again: bool) -> str:
        """From an argument to a result, by way of an activity, a memo and the next execution."""
        limits: dict[str, Any] = {"start_to_close_timeout": timedelta(seconds=20)}
        back = await workflow.execute_activity(echo, text, **limits)
        workflow.upsert_memo({"text": back})
        if again:
            workflow.continue_as_new(args=[back, False])
        try:
            await workflow.execute_activity(fail, back, **limits)
        except Exception as error:
            cause = error.__cause__
            assert isinstance(cause, ApplicationError)
            assert cause.details == (text,)
        await workflow.wait_condition(lambda: self.ended)
        return back + self.heard

    @workflow.signal
    def hear(self, text: str) -> None:
        """Keep what was said."""
        self.heard = text

    @workflow.update
    def end(self, text: str) -> str:
        """End, and give back what came."""
        self.ended = True
        return text

    @workflow.query
    def answer(self) -> str:
        """As much as the server lets through."""
        return "q" * QUERIED


@pytest.fixture
def folder(tmp_path) -> Blobs:
    return Blobs(tmp_path / "payloads")


@pytest.fixture
async def client(home: Home, folder: Blobs) -> AsyncIterator[Client]:
    """A client with a folder of its own, and a worker of the same."""
    settings = Settings.model_validate({"DAYFLOW_PAYLOADS": folder.folder})
    client = await Client.connect(f"127.0.0.1:{home.port}", data_converter=converter(settings))
    with ThreadPoolExecutor() as threads:
        async with Worker(
            client,
            task_queue=f"large-{folder.folder.parent.name}",
            workflows=[Large],
            activities=[echo, fail],
            workflow_runner=UnsandboxedWorkflowRunner(),
            interceptors=[payloads.Answers()],
            workflow_task_executor=threads,
        ):
            yield client


async def begun(client: Client, folder: Blobs, *, again: bool = False) -> WorkflowHandle[Large, str]:
    """A run of the workflow above."""
    queue = f"large-{folder.folder.parent.name}"
    return await client.start_workflow(Large.run, args=["a" * LARGE, again], id=unique("large"), task_queue=queue)


async def test_whatever_a_history_holds_may_be_large_and_comes_back_as_it_went(client, folder):
    first = await begun(client, folder, again=True)
    handle = client.get_workflow_handle(first.id)
    while (await handle.describe()).run_id == first.result_run_id:  # noqa: ASYNC110  the server tells nobody
        await asyncio.sleep(0.05)
    await handle.signal(Large.hear, "b" * LARGE)

    told = await handle.execute_update(Large.end, "c" * LARGE)

    assert told == "c" * LARGE
    assert await handle.result() == "a" * LARGE + "b" * LARGE
    assert await (await handle.describe()).memo_value("text") == "a" * LARGE
    for run_id in (first.result_run_id, None):
        history = await client.get_workflow_handle(first.id, run_id=run_id).fetch_history()
        assert History(events=history.events).ByteSize() < 20_000


async def test_references_are_found_in_histories_and_memos(client, folder):
    handle = await begun(client, folder)
    await handle.execute_update(Large.end, "done")
    await handle.result()

    history = await handle.fetch_history()
    in_history = {one.claim_data["sha256"] for one in payloads.references(history.events)}
    memo = (await handle.describe()).raw_info.memo
    in_memo = {one.claim_data["sha256"] for one in payloads.references([memo])}

    assert in_history == {blob.name for blob in folder.all()}
    assert len(in_memo) == 1
    assert in_memo <= in_history


async def test_the_answer_of_a_query_is_not_stored_and_has_no_mark(client, folder):
    handle = await begun(client, folder)

    def stored() -> set[str]:
        return {blob.name for blob in folder.all()}

    assert await handle.query(Large.answer) == "q" * QUERIED
    before = stored()
    raw: RawValue = await handle.query("answer", result_type=RawValue)

    assert set(raw.payload.metadata) == {"encoding"}
    assert stored() == before
    await handle.terminate()


def referring(driver: str, **claim: str) -> Payload:
    """A payload that says that it refers to a stored one."""
    text = json.dumps({"driverName": driver, "claimData": claim}).encode()
    return Payload(metadata={"encoding": b"json/protobuf", "messageType": REFERENCE}, data=text)


JUNK = {
    "another SDK's driver": referring("s3", bucket="b", key="k"),
    "no claim": referring("dayflow-files"),
    "a path": referring("dayflow-files", sha256="../../../etc/passwd"),
    "no JSON": Payload(metadata={"encoding": b"json/protobuf", "messageType": REFERENCE}, data=b"{"),
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
async def test_what_only_looks_like_a_reference_is_junk_and_no_error(folder, junk):
    own = converter(Settings.model_validate({"DAYFLOW_PAYLOADS": folder.folder}))

    [raw] = await own.decode([junk], [Any])

    assert list(payloads.references([junk])) == []
    with pytest.raises(errors.BadRequest):
        messages.parse(Pause, [raw])


async def test_a_reference_to_a_driver_of_ours_that_is_not_set_up_is_an_error_that_names_it(folder):
    own = converter(Settings.model_validate({"DAYFLOW_PAYLOADS": folder.folder}))
    foreign = referring("dayflow-elsewhere", sha256="a" * 64)

    with pytest.raises(errors.Lost, match="kept by 'dayflow-elsewhere', which is not set up here"):
        await payloads.check(own.external_storage, [foreign])
    with pytest.raises(ValueError, match="dayflow-elsewhere"):
        await own.decode([foreign], [Any])


async def test_a_small_payload_stays_and_one_of_the_set_size_goes(folder):
    own = converter(Settings.model_validate({"DAYFLOW_PAYLOADS": folder.folder, "DAYFLOW_PAYLOAD_BYTES": 2_000}))

    small, large = await own.encode(["s" * 1_000, "l" * 2_000])

    assert (payloads.reference(small), len(list(folder.all()))) == (None, 1)
    assert await own.decode([small, large]) == ["s" * 1_000, "l" * 2_000]


async def test_a_lost_payload_is_an_error_and_never_a_value(folder):
    own = converter(Settings.model_validate({"DAYFLOW_PAYLOADS": folder.folder}))
    [stored] = await own.encode(["x" * LARGE])
    [blob] = folder.all()
    folder.path(blob.name).write_bytes(b"other")

    with pytest.raises(errors.Lost, match="is altered"):
        await own.decode([stored], [Any])


def test_no_workflow_task_can_hold_more_than_the_server_takes():
    """Its largest commands are the calls of one answer, of which people may have edited each."""
    assert LARGEST_IN_HISTORY <= 1_000_000
    assert MAX_ANSWER_BYTES + loop.MAX_CALLS * MAX_ARGUMENTS_BYTES < 3_000_000


@pytest.mark.parametrize("size", [999, 1_000_001])
def test_a_size_that_histories_cannot_bear_is_refused(size):
    with pytest.raises(ValidationError, match="DAYFLOW_PAYLOAD_BYTES"):
        Settings.model_validate({"DAYFLOW_PAYLOAD_BYTES": size})
