"""What the SDK sees of an answer, streamed and not."""

import anthropic
import pytest

TEXT = {"content": [{"type": "text", "text": "One sentence that is long enough to come in several pieces, surely."}]}
CALL = {
    "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "name": "look", "input": {"where": "in the größte Schublade", "deep": [1, {"a": None}]}},
    ]
}


async def test_text_arrives_in_several_deltas_and_whole(served):
    await served.play(TEXT)

    async with served.client.messages.stream(**served.body()) as stream:
        deltas = [text async for text in stream.text_stream]
        message = await stream.get_final_message()

    assert len(deltas) > 1
    assert "".join(deltas) == TEXT["content"][0]["text"] == message.content[0].text
    assert (message.stop_reason, message.model, message.role) == ("end_turn", "dayflow-sandbox-1", "assistant")
    assert message.usage.output_tokens > 1


async def test_events_stand_in_the_documented_order(served):
    await served.play(CALL)

    async with served.http.post(served.url + "/v1/messages", json=served.body(stream=True)) as response:
        raw = await response.text()
        assert response.content_type == "text/event-stream"
        assert response.headers["request-id"].startswith("req_")

    names = [line.removeprefix("event: ") for line in raw.splitlines() if line.startswith("event: ")]
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-2:] == ["message_delta", "message_stop"]
    assert names.count("content_block_start") == names.count("content_block_stop") == 2
    assert raw.count("input_json_delta") > 2


async def test_tool_input_survives_the_stream_whatever_is_in_it(served):
    await served.play(CALL)

    message = await served.ask()

    assert message.stop_reason == "tool_use"
    assert message.content[1].input == CALL["content"][1]["input"]
    assert message.content[1].id.startswith("toolu_")


async def test_streamed_and_not_streamed_say_the_same(served):
    await served.play(CALL)

    streamed = await served.ask()
    plain = await served.client.messages.create(**served.body())

    assert streamed.to_dict()["content"] == plain.to_dict()["content"]
    assert streamed.usage.output_tokens == plain.usage.output_tokens


async def test_thinking_comes_with_a_signature_and_may_come_back(served):
    thinking = [{"type": "thinking", "thinking": "Hm, let me look."}, {"type": "redacted_thinking", "data": "abc"}]
    await served.play({"content": [*thinking, *CALL["content"]]}, TEXT)

    first = await served.ask(thinking={"type": "adaptive"})
    result = {"type": "tool_result", "tool_use_id": first.content[3].id, "content": "a sock"}
    history = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": first.to_dict()["content"]},
        {"role": "user", "content": [result]},
    ]
    second = await served.ask(history, thinking={"type": "adaptive"})

    assert [block.type for block in first.content] == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert first.content[0].thinking == "Hm, let me look."
    assert first.content[0].signature
    assert first.usage.output_tokens_details.thinking_tokens > 0
    assert second.stop_reason == "end_turn"


async def test_omitted_thinking_is_empty_but_signed(served):
    await served.play({"content": [{"type": "thinking", "thinking": "secret"}, *TEXT["content"]]})

    message = await served.ask(thinking={"type": "adaptive", "display": "omitted"})

    assert message.content[0].thinking == ""
    assert message.content[0].signature


@pytest.mark.parametrize(
    "reason",
    [
        *("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"),
        *("model_context_window_exceeded", "compaction", "a_new_one", None),
    ],
)
async def test_every_stop_reason_reaches_the_client(served, reason):
    await served.play({**TEXT, "stop_reason": reason})

    assert (await served.ask()).stop_reason == reason


async def test_refusal_and_stop_sequence_carry_their_details(served):
    refusal = {"type": "refusal", "category": "cyber", "explanation": "No."}
    await served.play(
        {"content": [], "stop_reason": "refusal", "stop_details": refusal},
    )
    refused = await served.ask()
    await served.play({**TEXT, "stop_reason": "stop_sequence", "stop_sequence": "END"})
    stopped = await served.ask()

    assert refused.stop_details.category == "cyber"
    assert refused.content == []
    assert stopped.stop_sequence == "END"


async def test_blocks_of_unknown_type_and_server_tools_go_both_ways(served):
    blocks = [
        {"type": "hologram", "data": {"x": 1}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "socks"}},
    ]
    await served.play({"content": [*blocks, *CALL["content"]]}, TEXT)

    first = (await served.ask()).model_dump(exclude_unset=True, warnings=False)
    result = {"type": "tool_result", "tool_use_id": first["content"][3]["id"], "content": "a sock"}
    second = await served.ask(
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": [result]},
        ]
    )

    assert first["content"][0] == blocks[0]
    assert first["content"][1] == blocks[1]
    assert second.stop_reason == "end_turn"


async def test_a_paused_turn_may_end_the_history_and_nothing_else_may(served):
    await served.play({**TEXT, "stop_reason": "pause_turn"}, {"content": [{"type": "text", "text": "Done."}]})
    paused = (await served.ask()).to_dict()["content"]
    history = [{"role": "user", "content": "go"}, {"role": "assistant", "content": paused}]

    resumed = await served.ask(history)
    history[1]["content"] = [{"type": "text", "text": "something else"}]
    with pytest.raises(anthropic.BadRequestError, match="prefill"):
        await served.ask(history)

    assert resumed.content[0].text == "Done."


async def test_a_surrogate_in_tool_input_goes_out_as_an_escape(served):
    await served.put(
        "script", {"turns": [{"content": [{"type": "tool_use", "name": "look", "input": {"a": "\ud800"}}]}]}
    )

    message = await served.client.messages.create(**served.body())

    assert message.content[0].input == {"a": "\ud800"}


async def test_no_tokens_to_generate_answers_empty(served):
    message = await served.client.messages.create(**served.body(max_tokens=0))

    assert (message.stop_reason, message.content) == ("max_tokens", [])


async def test_models_and_token_counts(served):
    models = [model async for model in served.client.models.list()]
    body = served.body()
    del body["max_tokens"]
    counted = await served.client.messages.count_tokens(**body)
    answered = await served.ask()

    assert [model.id for model in models] == ["dayflow-sandbox-1"]
    assert models[0].max_input_tokens == 1_000_000
    assert counted.input_tokens == answered.usage.input_tokens > 0
    with pytest.raises(anthropic.NotFoundError):
        await served.client.models.retrieve("gpt-2")


async def test_without_script_or_rules_it_says_what_it_is(served):
    message = await served.ask("Solve everything.", model="claude-haiku-4-5")

    assert message.model == "claude-haiku-4-5"
    assert "sandbox, not a language model" in message.content[0].text
    assert "look" in message.content[0].text
    assert "ANTHROPIC_API_KEY" in message.content[0].text
