"""load_agent: checks the input of a run, resolves its agent, and claims its id."""

import os
from collections.abc import Mapping
from datetime import datetime

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.tool import Tool
from domain import agent, errors, request, spend
from domain.agent import Agent, Definition, Rule
from domain.request import LoadRequest, RunRequest
from domain.tool import Effect, ToolSpec
from store import crash
from store.database import Database
from store.runs import Runs
from store.settings import Settings


class Agents:
    """Resolves agents against the tools that this worker has."""

    def __init__(
        self, settings: Settings, database: Database, tools: Mapping[str, Tool], *, search_attributes: bool
    ) -> None:
        self._settings = settings
        self._database = database
        self._tools = tools
        self._search_attributes = search_attributes
        self._started = datetime.now(settings.timezone)

    @activity.defn(name="load_agent")
    async def load(self, asked: LoadRequest) -> Definition:
        """The definition that the run goes by from here on."""
        info = activity.info()
        run_id = info.workflow_id or ""
        try:
            request.check_run_id(run_id)
            wanted = request.parse(asked.raw)
            definition = self._resolve(wanted, agent.find(wanted.agent), asked.run)
            await Runs(self._database, info.namespace).claim(run_id, asked.run)
        except errors.Refused as error:
            benign = ApplicationErrorCategory.BENIGN
            raise ApplicationError(str(error), type="refused", non_retryable=True, category=benign) from None
        crash.point("load.done")
        return definition

    def _resolve(self, wanted: RunRequest, found: Agent, run: str) -> Definition:
        model = wanted.model or self._settings.model or self._default_model(found)
        limits = found.limits.over(wanted.limits)
        price = spend.PRICES.get(model)
        if price is None and limits.usd is not None:
            raise errors.BadRequest(f"the price of {model!r} is not known, so a limit in usd cannot hold; limit tokens")
        return Definition(
            run=run,
            agent=found.name,
            instructions=found.instructions,
            task=found.task_for(wanted.task, f'{{"agent": "{found.name}", "task": "…"}}'),
            model=model,
            max_tokens=found.max_tokens,
            tools=sorted(map(self._spec, found.tools), key=lambda tool: tool.name),
            limits=limits,
            budget_role=found.budget_role,
            rules=self._rules(found),
            price=price,
            requested_by=wanted.requested_by,
            search_attributes=self._search_attributes,
            simulated=self._settings.sandbox_answers,
            events=self._settings.events,
            compact_at=self._settings.compact_at or found.compact_at,
            keep_last=found.keep_last,
            summariser=self._settings.summariser or found.summariser,
        )

    def _rules(self, found: Agent) -> list[Rule]:
        """The agent's rules, and for tools that it has none for, what the tool itself asks for."""
        own = {rule.tool: rule for rule in found.rules}
        for name in found.tools:
            declares = self._spec(name).declares
            if name not in own and isinstance(declares, Effect) and declares.approval:
                own[name] = Rule(tool=name, **declares.approval.model_dump())
        return list(own.values())

    def _default_model(self, found: Agent) -> str:
        return spend.SANDBOX_MODEL if self._settings.sandbox_answers else found.model

    def _spec(self, name: str) -> ToolSpec:
        if name not in self._tools:
            worker = f"this worker (pid {os.getpid()}, started {self._started:%H:%M:%S})"
            raise errors.BadRequest(
                f"the agent names the tool {name!r}, and {worker} does not have it. "
                f"If activities/tools/{name}.py is new, restart the worker: `dayflow down`, `dayflow up`"
            )
        return self._tools[name].spec
