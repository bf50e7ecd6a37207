"""The sandbox asked directly, by the plainest client: what of a step over HTTP is the stand-in's own time."""

import http.client
import json
import time
from statistics import median

from activities import model
from bench import scenario, stack


def body(steps: int, at: int) -> bytes:
    """The request of step `at` in a run of `steps` steps."""
    definition = scenario.definition("", steps)
    messages = scenario.messages("direct", steps)[: 2 * at - 1]
    return json.dumps({**model.body(definition, messages, definition.max_tokens), "stream": True}).encode()


def answer_ms(port: int, steps: int, first: int, last: int, most: int = 40) -> tuple[float, float]:
    """KB of the requests of these steps, and milliseconds to answer one; medians over at most `most` of them."""
    connection = http.client.HTTPConnection(stack.HOST, port)
    bodies = [body(steps, at) for at in range(first, last + 1, max(1, (last - first) // most))]
    took = [_ask(connection, one) for one in bodies]
    connection.close()
    return median(len(one) for one in bodies) / 1000, median(took)


def _ask(connection: http.client.HTTPConnection, request: bytes) -> float:
    began = time.perf_counter()
    connection.request("POST", "/v1/messages", request, {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    if answer.status != http.client.OK:
        raise RuntimeError(f"the sandbox answered {answer.status}")
    return (time.perf_counter() - began) * 1000
