"""The usage counters follow from the bytes that were sent."""

import pytest

CACHED = {"cache_control": {"type": "ephemeral"}}
PROSE = "The quick brown fox jumps over the lazy dog. " * 40


def text(words, **more):
    return {"type": "text", "text": words, **more}


def counted(message):
    usage = message.usage
    return usage.cache_creation_input_tokens, usage.cache_read_input_tokens, usage.input_tokens


def turns(count, *, last=None):
    content = [text(f"{number} {PROSE}") for number in range(count)]
    content[-1 if last is None else last].update(CACHED)
    return [{"role": "user", "content": content}]


async def test_without_breakpoints_nothing_is_cached(served):
    written, read, rest = counted(await served.ask(PROSE))

    assert (written, read) == (0, 0)
    assert rest > 500


async def test_a_prefix_is_written_once_and_then_read(served):
    first = counted(await served.ask(turns(3)))
    second = counted(await served.ask(turns(3)))

    assert first[0] > 1500
    assert first[1:] == (0, 0)
    assert second == (0, first[0], 0)


async def test_a_longer_history_reads_the_old_part_and_writes_the_new(served):
    first = counted(await served.ask(turns(3)))
    written, read, rest = counted(await served.ask(turns(5)))

    assert read == first[0]
    assert written > 900
    assert rest == 0


async def test_the_tail_after_the_breakpoint_is_uncached(served):
    written, _, rest = counted(await served.ask(turns(3, last=1)))

    assert 0 < rest < written


async def test_a_changed_byte_before_the_breakpoint_misses(served):
    await served.ask(turns(3))
    changed = turns(3)
    changed[0]["content"][0]["text"] += "!"

    assert counted(await served.ask(changed))[1] == 0


async def test_another_model_or_tool_misses(served):
    await served.ask(turns(3))
    tool = {"name": "other", "input_schema": {"type": "object"}}

    assert counted(await served.ask(turns(3), model="claude-haiku-4-5"))[1] == 0
    assert counted(await served.ask(turns(3), tools=[tool]))[1] == 0


async def test_the_lookback_ends_after_twenty_blocks(served):
    await served.ask(turns(1))

    near = counted(await served.ask(turns(20)))
    await served.ask(turns(1))
    far = counted(await served.ask([{"role": "user", "content": [text("other"), *turns(1)[0]["content"]]}]))

    assert near[1] > 0
    assert far[1] == 0


async def test_beyond_the_lookback_nothing_is_read(served):
    await served.ask(turns(1))

    assert counted(await served.ask(turns(21)))[1] == 0


async def test_a_breakpoint_in_a_tool_result_and_the_automatic_one_count(served):
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text(PROSE, **CACHED)]}
    history = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]

    inside = counted(await served.ask(history))
    del result["content"][0]["cache_control"]
    automatic = counted(await served.ask(history, extra_body={"cache_control": {"type": "ephemeral"}}))

    assert inside[0] > 500
    assert automatic == (0, inside[0], 0)


async def test_the_system_prompt_alone_can_be_read(served):
    system = [text(PROSE, **CACHED)]
    first = counted(await served.ask("one", system=system))
    second = counted(await served.ask("two", system=system))

    assert second[1] == first[0] > 500
    assert second[0] == 0
    assert second[2] > 0


async def test_writes_are_split_by_ttl(served):
    system = [text(PROSE, cache_control={"type": "ephemeral", "ttl": "1h"})]

    usage = (await served.ask(turns(1), system=system)).usage

    assert usage.cache_creation.ephemeral_1h_input_tokens > 500
    assert usage.cache_creation.ephemeral_5m_input_tokens > 500


async def test_an_answer_that_never_began_writes_nothing(served):
    await served.play({"content": [text("hi")], "faults": [{"kind": "status", "status": 529}]})
    status, _ = await served.post(served.body(turns(3)))
    retried = counted(await served.ask(turns(3)))

    assert status == 529
    assert retried[1] == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_a_script_may_set_the_usage(served, stream):
    usage = {"input_tokens": 90_000, "output_tokens": 7}
    await served.play({"content": [text("hi")], "usage": usage})

    message = await served.ask() if stream else await served.client.messages.create(**served.body())

    assert (message.usage.input_tokens, message.usage.output_tokens) == (90_000, 7)
