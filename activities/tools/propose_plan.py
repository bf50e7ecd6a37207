"""propose_plan: the agent says once what it means to do."""

from pydantic import Field

from activities.tool import Arguments, Context, Tool
from domain.plan import MAX_ITEMS, Item
from domain.tool import Read


class ProposePlan(Arguments):
    """Save the plan of this run, once, before anything is changed. A second plan is refused.

    One item for each tool call that is meant: what it is for, and which tool does it.
    """

    items: list[Item] = Field(min_length=1, max_length=MAX_ITEMS, description="The plan, in order.")


async def propose_plan(arguments: ProposePlan, context: Context) -> str:
    """The run keeps the plan; here it is only checked."""
    return f"The plan is saved: {len(arguments.items)} items."


TOOL = Tool(run=propose_plan, arguments=ProposePlan, declares=Read(saves_plan=True))
