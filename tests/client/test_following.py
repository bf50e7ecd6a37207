"""A run on the screen: each step with its calls, right below it what came back, and nothing of it lost."""

import re
from collections.abc import Callable

import pytest
from homes import Home


@pytest.mark.long
def test_each_step_is_followed_by_its_own_results_up_to_the_last_one_before_a_crash(
    new_home: Callable[..., Home],
) -> None:
    home = new_home()

    died = home.dayflow("brief", "-v", "--id", "b", "--crash-after", "2", code=-9)
    went_on = home.dayflow("resume", "b", "-v")
    again = home.dayflow("resume", "b")

    assert [mark for mark, calls in shape(died.stdout) if mark != calls] == []
    assert re.findall(r"^step (\d)", died.stdout, re.MULTILINE) == ["1", "2"]
    assert "step 3" in went_on.stdout
    assert "b had ended before: nothing is done or paid again." in again.stdout
    assert "waiting until the lost attempt of call_model is noticed (up to 5 s)" in went_on.stderr


def shape(printed: str) -> list[tuple[int, int]]:
    """Of each step, how many calls it shows and how many answers."""
    steps = re.split(r"^step \d.*$", printed, flags=re.MULTILINE)[1:]
    return [(step.count("\n  → "), len(re.findall(r"^  [✓✗] ", step, re.MULTILINE))) for step in steps]
