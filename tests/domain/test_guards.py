"""A loop that leads nowhere is told so, and then stands still; one in which something happens goes on."""

from dataclasses import dataclass

import pytest

from domain import digest
from domain.guards import KEPT_CALLS, LOOPING, PARKED_AT, TOLD_AT, UNKNOWN, UNKNOWN_TOOLS, Guards

KNOWN = {"look", "list", "write"}


@dataclass
class Call:
    tool: str
    arguments_sha256: str
    status: str
    result: str | None


def call(tool="look", result="the same", arguments="", status="done"):
    return Call(tool, digest.sha256([tool, arguments]), status, result)


def played(*steps):
    """For each step whether its first call was run, until the run stands still; and the reason."""
    guards, run = Guards(), []
    for calls in steps:
        refused = [guards.refusal(one) for one in calls]
        for one, why in zip(calls, refused, strict=True):
            if why:
                one.status, one.result = "failed", why
        guards.note(calls, KNOWN)
        run.append(refused[0] is None)
        if stuck := guards.stuck(calls):
            return run, stuck[0]
    return run, None


def test_the_same_call_with_the_same_answer_is_run_twice_told_then_parked():
    assert (TOLD_AT, PARKED_AT) == (3, 5)
    assert played(*[[call()] for _ in range(9)]) == ([True, True, False, False, False], LOOPING)


def test_a_failure_again_and_again_is_the_same_answer():
    run, reason = played(*[[call(status="failed", result="out of reach")] for _ in range(9)])

    assert (run[:3], reason) == ([True, True, False], LOOPING)


def test_a_read_whose_answer_changes_may_be_asked_for_ever():
    assert played(*[[call(result=str(n))] for n in range(50)]) == ([True] * 50, None)


def test_two_calls_that_take_turns_are_the_same_loop():
    turns = [[call("look")], [call("list")]] * 10

    run, reason = played(*turns)

    assert reason == LOOPING
    assert len(run) < 14


def test_looking_again_after_each_change_is_no_loop():
    steps = [one for n in range(20) for one in ([call("write", f"wrote {n}", str(n))], [call("look")])]

    assert played(*steps) == ([True] * 40, None)


def test_the_same_call_beside_one_that_brings_something_new_is_no_loop():
    assert played(*[[call("look"), call("write", f"wrote {n}", str(n))] for n in range(20)]) == ([True] * 20, None)


def test_calls_side_by_side_in_one_step_count_once():
    run, reason = played([call()] * 5, [call()], [call()])

    assert (run, reason) == ([True, True, False], None)


def test_other_arguments_are_another_call():
    run, _ = played([call(arguments="a")], [call(arguments="b")], [call(arguments="c")], [call(arguments="d")])

    assert run == [True] * 4


def test_the_words_name_the_call_and_say_what_else_to_do():
    guards = Guards()
    guards.note([call()], KNOWN)
    guards.note([call()], KNOWN)

    assert guards.refusal(call()).startswith("Not run: look was called 2 times with these arguments")


def test_steps_of_unknown_tools_alone_stand_still_after_the_third():
    steps = [[call(f"rocket{n}", f"There is no tool rocket{n}.", status="failed")] for n in range(9)]

    run, reason = played(*steps)

    assert (len(run), reason) == (UNKNOWN_TOOLS, UNKNOWN)


def test_unknown_tools_with_a_known_one_between_go_on():
    def rocket(n):
        return [call("rocket", "There is no such tool.", str(n), status="failed")]

    steps = [one for n in range(10) for one in (rocket(n), rocket(-n - 1), [call("look", str(n))])]

    assert played(*steps)[1] is None


@pytest.mark.parametrize("reason", [LOOPING, UNKNOWN])
def test_a_run_that_is_let_go_on_begins_to_count_anew(reason):
    guards = Guards(alike={"a": 5}, unknown=3)

    assert guards.after(reason) == Guards()
    assert guards.after("budget") is guards


def test_what_is_kept_does_not_grow_and_survives_json():
    guards = Guards()
    for n in range(3 * KEPT_CALLS):
        guards.note([call(arguments=str(n), result=str(n))], KNOWN)

    assert len(guards.answers) == KEPT_CALLS
    assert Guards.model_validate_json(guards.model_dump_json()) == guards
