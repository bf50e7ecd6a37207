"""The players answer what they have rules for, and say so of the rest."""

import pytest


@pytest.mark.parametrize("task", ["Remember that Mara wants her briefs in German.", "Refund order 1042."])
async def test_an_agent_that_remembers_is_played_by_nobody(served, task):
    names = ("recall", "remember", "forget", "read_inbox", "lookup_order", "issue_refund")
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]

    status, answer = await served.post(served.body([{"role": "user", "content": task}], tools=tools))

    assert (status, answer["stop_reason"]) == (200, "end_turn")
    assert "it has no rules for this task" in answer["content"][0]["text"]
