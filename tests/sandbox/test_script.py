"""The transcript chooses the turn, and a bad script says where it is bad."""

import json
import re
from pathlib import Path

import pytest

from sandbox import faults, script
from sandbox.errors import BadScript


def says(text, **more):
    return {"content": [{"type": "text", "text": text}], **more}


def heard(answer):
    status, body = answer
    assert status == 200, body
    return body["content"][0]["text"]


def after(*texts):
    """A history in which the model has said these texts."""
    history = [{"role": "user", "content": "go"}]
    for text in texts:
        history += [{"role": "assistant", "content": text}, {"role": "user", "content": "and?"}]
    return history


async def test_a_repeated_request_gets_the_same_turn(served):
    await served.play({"content": [{"type": "tool_use", "name": "look", "input": {}}]}, says("two"))

    first = await served.post(served.body())
    again = await served.post(served.body())

    assert first[1]["content"] == again[1]["content"]
    assert first[1]["id"] != again[1]["id"]


async def test_the_number_of_assistant_messages_is_the_place(served):
    await served.play(says("one"), says("two"))

    assert heard(await served.post(served.body(after("x")))) == "two"
    assert heard(await served.post(served.body(after()))) == "one"
    assert "script is over" in heard(await served.post(served.body(after("x", "y"))))


async def test_asks_give_other_answers_for_the_same_transcript(served):
    await served.play(says("cut", stop_reason="max_tokens", asks=[says("whole"), says("third")]))

    words = [heard(await served.post(served.body(), **{"x-dayflow-ask": str(ask)})) for ask in (1, 2, 3, 4)]

    assert words == ["cut", "whole", "third", "third"]


async def test_the_first_matching_conversation_plays(served):
    conversations = [
        {"match": "refund", "turns": [says("a refund")]},
        {"match": "mail", "turns": [says("a mail")]},
    ]
    assert (await served.put("script", {"conversations": conversations}))[0] == 200

    assert heard(await served.post(served.body("send a mail"))) == "a mail"
    assert heard(await served.post(served.body("a refund by mail"))) == "a refund"
    assert "sandbox" in heard(await served.post(served.body("neither")))


async def test_a_repeated_turn_numbers_its_ids_and_inputs(served):
    call = {"type": "tool_use", "id": "toolu_{n}", "name": "look", "input": {"where": ["box {n}"]}}
    await served.play({"repeat": 500, "content": [call]}, says("{n} steps"))
    numbers = [str(number) for number in range(1, 500)]

    _, last = await served.post(served.body(after(*numbers)))

    assert last["content"][0]["id"] == "toolu_500"
    assert last["content"][0]["input"] == {"where": ["box 500"]}
    assert heard(await served.post(served.body(after(*numbers, "500")))) == "501 steps"


async def test_until_fills_up_to_a_turn(served):
    await served.play(says("start"), says("middle {n}", until=4), says("end"))

    words = [heard(await served.post(served.body(after(*"x" * count)))) for count in range(5)]

    assert words == ["start", "middle 2", "middle 3", "middle 4", "end"]


async def test_turns_can_be_chosen_by_the_step_header(served):
    await served.play(says("{n}", repeat=9), turn_by="step")

    assert heard(await served.post(served.body(), **{"x-dayflow-step": "7"})) == "7"


async def test_calls_without_id_get_distinct_ones(served):
    call = {"type": "tool_use", "name": "look", "input": {}}
    await served.play({"content": [call, call], "repeat": 2})

    _, first = await served.post(served.body())
    _, second = await served.post(served.body(after("x")))

    assert len({block["id"] for answer in (first, second) for block in answer["content"]}) == 4


async def test_deleting_the_script_brings_the_players_back(served):
    await served.play(says("scripted"))
    await served.delete("script")

    assert "not a language model" in heard(await served.post(served.body()))


async def test_a_new_script_counts_attempts_anew(served):
    turn = says("hi", faults=[{"kind": "status", "status": 500}])
    await served.play(turn)
    first, _ = await served.post(served.body())
    await served.play(turn)
    second, _ = await served.post(served.body())

    assert (first, second) == (500, 500)


# What is wrong, the script, the place that the message begins with.
BAD = [
    ("no conversations", {}, "conversations: "),
    ("not an object", [], "top: "),
    ("an unknown field", {"turns": [], "x": 1}, "conversations.0.x: "),
    ("no turns", {"conversations": [{}]}, "conversations.0.turns: "),
    ("a block without type", {"turns": [{"content": [{}]}]}, "conversations.0.turns.0: "),
    ("a text without text", {"turns": [says("a"), {"content": [{"type": "text"}]}]}, "conversations.0.turns.1: "),
    ("an unknown fault", {"turns": [says("a", faults=[{"kind": "x"}])]}, "conversations.0.turns.0.faults.0: "),
    ("a bad ask", {"turns": [says("a", asks=[{"contents": []}])]}, "conversations.0.turns.0.asks.0.contents: "),
    ("both repetitions", {"turns": [says("a", repeat=2, until=3)]}, "conversations.0.turns.0: "),
]


@pytest.mark.parametrize(("raw", "place"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
async def test_a_bad_script_names_the_place(served, raw, place):
    status, body = await served.put("script", raw)

    assert status == 400
    assert body["error"].startswith(place)


def test_a_script_that_is_no_file_or_no_json_names_the_file(tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"turns": [\n  {]}')

    with pytest.raises(BadScript, match=r"bad\.json: no JSON: .*line 2"):
        script.load(bad)
    with pytest.raises(BadScript, match=r"none\.json: No such file"):
        script.load(tmp_path / "none.json")


def test_the_documented_script_and_faults_are_right():
    text = (Path(script.__file__).parent / "README.md").read_text()
    example = next(part for part in re.findall(r"```json\n(.*?)```", text, re.DOTALL) if "conversations" in part)
    examples = [json.loads(part) for part in re.findall(r'`(\{"kind": .*?\})`', text)]

    assert len(script.read(json.loads(example)).conversations) == 2
    assert len(faults.read(examples)) > 20
