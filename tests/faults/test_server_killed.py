"""The Temporal server may be killed at any moment: started again, the same worker goes on where it was."""

import time

from checker import check
from homes import kill_server, until
from script import call, conversation, create_task, play, say, unique
from witness import ends, requests, rows, start, witness
from workers import working

EFFECTS = 12


def test_a_server_that_dies_amid_a_call_and_amid_effects_loses_and_doubles_nothing(new_home):
    home = new_home()
    asks, acts = unique("asks"), unique("acts")
    slow = {**call(create_task(asks)), "faults": [{"kind": "slow", "seconds": 3, "attempts": "all"}]}
    many = call(*(create_task(f"{acts}-{n}") for n in range(EFFECTS)))
    play(home, conversation(asks, slow, say("Done.")), conversation(acts, many, say("Done.")))

    with working(home, "dayflow") as worker:
        worker.ready()
        start(home, asks, {"agent": "brief", "task": asks})
        until("the model is asked", lambda: requests(home, asks))
        start(home, acts, {"agent": "brief", "task": acts})
        until("an effect is committed", lambda: rows(home, "SELECT * FROM task_commits"))
        kill_server(home)
        died = time.monotonic()
        home.dayflow("up", "--no-worker")
        ends(home, acts, seconds=60)
        ends(home, asks, seconds=60)
        print(f"\nboth runs are done {time.monotonic() - died:.1f} s after the server's death")
        assert worker.wait(0) is None

    # Away for longer than the heartbeat timeout, the server takes the call for lost, and it is sent once more.
    sent = len([request for request in requests(home, asks) if request.place == (1, 1)])
    assert sent <= 2
    check(witness(home, asks), again={(1, 1): sent - 1})
    seen = witness(home, acts)
    check(seen)
    assert len(seen.commits) == EFFECTS
