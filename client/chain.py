"""The executions of one run that handed over to one another, put together again: every step, every action."""

from collections.abc import Sequence

from domain.actions import Action
from domain.state import RunState
from domain.step import Step


def steps(states: Sequence[RunState]) -> list[Step]:
    """Every step, from the states of the executions, oldest first. The newest word on a step counts."""
    return sorted({step.n: step for state in states for step in state.steps}.values(), key=lambda step: step.n)


def actions(states: Sequence[RunState]) -> list[Action]:
    """Every action; what was over in an older execution is told whole there, and shortened later."""
    known: dict[tuple[int, int], Action] = {}
    for action in (action for state in states for action in state.actions.all):
        place = (action.step, action.position)
        if place not in known or known[place].open:
            known[place] = action
    return [known[place] for place in sorted(known)]
