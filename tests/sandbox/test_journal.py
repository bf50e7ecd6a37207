"""What was sent and what became of it stands in the journal."""

import hashlib
import json

import aiohttp
import pytest

from sandbox.journal import Journal


def digest(*blocks):
    """The transcript digest as the documentation gives it."""
    text = "".join(
        f"{role}\0{json.dumps(block, separators=(',', ':'), ensure_ascii=False)}\n" for role, block in blocks
    )
    return hashlib.sha256(text.encode()).hexdigest()


async def test_a_request_and_its_answer_are_a_line_each(served):
    body = served.body("größer")
    status, answer = await served.post(body, **{"x-dayflow-run": "r1", "x-dayflow-step": "3"})

    request, answered = await served.journal()

    assert status == 200
    assert request["event"] == "request"
    assert request["transcript"] == digest(("user", {"type": "text", "text": "größer"}))
    facts = {"n": 1, "turn": 0, "attempt": 1, "ask": 1, "run": "r1", "messages": 1, "max_tokens": 100}
    assert {key: request[key] for key in facts} == facts
    assert request["headers"] == {"x-dayflow-run": "r1", "x-dayflow-step": "3"}
    assert request["body"] == body
    assert (answered["event"], answered["n"], answered["stop_reason"]) == ("answered", 1, "end_turn")
    assert answered["usage"] == answer["usage"]


async def test_the_digest_ignores_breakpoints_and_the_form_of_text(served):
    block = {"type": "text", "text": "go"}
    marked = {**block, "cache_control": {"type": "ephemeral"}}
    for content in ("go", [block], [marked]):
        await served.post(served.body([{"role": "user", "content": content}]))

    lines = [line for line in await served.journal() if line["event"] == "request"]

    assert {line["transcript"] for line in lines} == {digest(("user", block))}
    assert [line["attempt"] for line in lines] == [1, 2, 3]


async def test_refused_requests_stand_in_it_too(served):
    await served.post({**served.body(), "messages": []})
    async with served.http.post(served.url + "/v1/messages", data=b"{\n") as response:
        assert response.status == 400

    lines = await served.journal()

    assert [line["event"] for line in lines] == ["request", "refused"] * 2
    assert (lines[1]["status"], lines[1]["error_type"]) == (400, "invalid_request_error")
    assert lines[2]["body"] == "{\n"


async def test_a_faults_end_stands_in_it(served):
    turn = {"content": [{"type": "text", "text": "hi"}]}
    await served.play({**turn, "faults": [{"kind": "status", "status": 529}, {"kind": "cut", "attempts": [2]}]})
    await served.post(served.body(stream=True))
    with pytest.raises(aiohttp.ClientError):
        async with served.http.post(served.url + "/v1/messages", json=served.body(stream=True)) as response:
            await response.read()

    lines = [line for line in await served.journal() if line["event"] != "script"]

    assert [line["event"] for line in lines] == ["request", "refused", "request", "broken"]
    assert [lines[0]["fault"], lines[1]["status"]] == ["status", 529]
    assert lines[3]["why"] == "fault: cut"
    assert lines[3]["usage"]["input_tokens"] > 0


async def test_a_pretty_printed_body_stays_one_line(served):
    raw = json.dumps(served.body(), indent=2)
    async with served.http.post(served.url + "/v1/messages", data=raw) as response:
        assert response.status == 200

    lines = (served.home / "sandbox" / "messages.jsonl").read_text().splitlines()

    assert len(lines) == 2
    assert json.loads(lines[0])["body"] == served.body()


async def test_it_can_be_read_without_bodies_and_cleared(served):
    await served.post(served.body())

    assert "body" not in (await served.journal("?bodies=off"))[0]
    await served.delete("journal")
    assert await served.journal() == []
    await served.post(served.body())
    assert (await served.journal())[0]["attempt"] == 1


async def test_it_can_be_asked_for_the_requests_about_something(served):
    await served.post(served.body([{"role": "user", "content": 'Müll "and" more'}]))
    await served.post(served.body([{"role": "user", "content": "other"}]))

    lines = await served.journal("?about=M%C3%BCll%20%22and%22")

    assert [(line["event"], line["n"]) for line in lines] == [("request", 1), ("answered", 1)]
    assert await served.journal("?about=nothing") == []


def test_a_torn_last_line_harms_nothing(tmp_path):
    path = tmp_path / "j.jsonl"
    path.write_bytes(b'{"event":"request","n":7,"body":{}}\n{"event":"ans')

    journal = Journal(path, bodies=False)
    assert journal.request({}, b"{}", parsed=True) == 8
    journal.note("answered", n=8)
    journal.close()

    assert [line["event"] for line in journal.heads()] == ["request", "request", "answered"]
    assert all(json.loads(line) for line in journal.lines())
