"""What every effect keeps, whichever tool it is: one key, one commit, one answer.

A new effect tool gets these tests by being in `activities/tools/`. Its file `tests/contract/<tool>.py` says how it is
called and how its destination's journal is read:

    ARGUMENTS, OTHER_ARGUMENTS    two calls that mean different things
    async commits(context)        how many effects of `context.idempotency_key` the destination's own journal holds
    async arrange(context)        what has to be there before; needless for most
"""

import asyncio
import importlib.util
import json
import signal
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import one_call
import pytest
import pytest_asyncio
from forks import forked
from pydantic import ValidationError
from sqlalchemy import update
from temporalio.exceptions import ApplicationError

from activities.tool import Context, Tool
from activities.tools import discover
from domain import errors
from domain.request import explain
from domain.tool import Effect, ToolResult
from sandbox import app
from sandbox.mail import MAIL
from store import database
from store.schema import ledger
from store.settings import Settings

HERE = Path(__file__).parent
EFFECTS = {name: tool for name, tool in discover().items() if isinstance(tool.declares, Effect)}
EXPIRING = {name: tool for name, tool in EFFECTS.items() if tool.declares.key_lifetime_s is not None}

pytestmark = pytest.mark.asyncio(loop_scope="module")


def described(name: str) -> ModuleType:
    """The tool's own file beside this one."""
    file = HERE / f"{name}.py"
    assert file.exists(), f"the effect tool {name!r} has no tests/contract/{name}.py; see the top of test_effects.py"
    spec = importlib.util.spec_from_file_location(f"contract_{name}", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def missing(name: str, module: ModuleType) -> str | None:
    """What its file lacks, in one line."""
    if todo := getattr(module, "TO_FILL_IN", None):
        return f"tests/contract/{name}.py: {todo}"
    for arguments in (module.ARGUMENTS, module.OTHER_ARGUMENTS):
        try:
            EFFECTS[name].arguments.model_validate_json(json.dumps(arguments), strict=True)
        except ValidationError as error:
            return f"tests/contract/{name}.py: {arguments} are no arguments of {name}: {explain(error)}"
    return None


@pytest.fixture(params=EFFECTS)
def name(request: pytest.FixtureRequest) -> str:
    """Each effect tool."""
    found: str = request.param
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    """The destinations of the sandbox, and the variables that lead to them."""
    built = app.build(tmp_path_factory.mktemp("sandbox"))
    runner, port = await app.start(built, 0)
    smtp, imap = built[MAIL].ports
    yield {
        "DAYFLOW_SANDBOX_PORT": str(port),
        "DAYFLOW_SANDBOX_SMTP_PORT": str(smtp),
        "DAYFLOW_SANDBOX_IMAP_PORT": str(imap),
    }
    await runner.cleanup()


@dataclass
class Trial:
    """One action of one effect tool, in a store of its own."""

    name: str
    env: dict[str, str]
    context: Context
    module: ModuleType

    @property
    def tool(self) -> Tool:
        """The tool."""
        return EFFECTS[self.name]

    @property
    def declares(self) -> Effect:
        """What it declares of itself."""
        assert isinstance(self.tool.declares, Effect)
        return self.tool.declares

    async def carry_out(self, arguments: dict[str, Any] | None = None) -> ToolResult:
        """One attempt by the runner, with the arguments of its file unless others are given."""
        context, given = self.context, self.module.ARGUMENTS if arguments is None else arguments
        key = context.idempotency_key
        return await one_call.carry_out(context.settings, context.database, self.name, key, given)

    async def send(self, arguments: dict[str, Any]) -> Any:
        """The tool alone, without the ledger: what its destination makes of it."""
        parsed = self.tool.arguments.model_validate_json(json.dumps(arguments), strict=True)
        outcome = self.tool.run(parsed, self.context)
        return await outcome if asyncio.iscoroutine(outcome) else outcome

    async def killed(self, point: str) -> None:
        """One attempt in a process of its own, which dies at this point."""
        env, key = {**self.env, "DAYFLOW_CRASH_AT": point}, self.context.idempotency_key
        attempt = forked(one_call.program, env, self.name, key, self.module.ARGUMENTS)
        code = await asyncio.to_thread(attempt.wait, 60)
        assert code == -signal.SIGKILL

    async def later(self, seconds: float) -> None:
        """So much time has gone by since the attempts so far."""
        by = timedelta(seconds=seconds)
        async with self.context.database.transaction(self.context.idempotency_key) as connection:
            row = (await connection.execute(ledger.select())).one()
            earlier = {"began_at": row.began_at - by, "last_sent_at": row.last_sent_at - by}
            await connection.execute(update(ledger).values(**earlier))

    async def commits(self) -> int:
        """What the destination's journal says."""
        count: int = await self.module.commits(self.context)
        return count


@pytest_asyncio.fixture(loop_scope="module")
async def trial(name: str, sandbox: dict[str, str], tmp_path: Path) -> AsyncIterator[Trial]:
    """One of this tool."""
    module = described(name)
    if missing(name, module):
        pytest.skip("test_it_is_described says what its file lacks")
    env = {"DAYFLOW_HOME": str(tmp_path), **sandbox}
    wanted = Settings(**env)
    store = await database.connect(wanted)
    context = one_call.context(wanted, store, f"contract-{uuid.uuid4().hex}")
    try:
        if hasattr(module, "arrange"):
            await module.arrange(context)
        yield Trial(name, env, context, module)
    finally:
        await store.close()


async def test_it_is_described(name):
    module = described(name)

    if why := missing(name, module):
        pytest.fail(why, pytrace=False)
    assert module.ARGUMENTS != module.OTHER_ARGUMENTS


async def test_carried_out_twice_there_is_one_commit_and_one_answer(trial):
    assert await trial.commits() == 0

    first = await trial.carry_out()
    second = await trial.carry_out()

    assert (first.outcome, second.outcome, second.from_ledger) == ("done", "done", True)
    assert first.content == second.content
    assert await trial.commits() == 1


async def test_sent_twice_with_one_key_its_destination_commits_once(trial):
    """What it declares of its destination is so: the ledger is not asked here."""
    if trial.declares.safety == "none":
        return  # it promises nothing; a second sending is what the ledger is for

    answers = [await trial.send(trial.module.ARGUMENTS) for _ in range(2)]

    assert answers[0] == answers[1]
    assert await trial.commits() == 1


@pytest.mark.parametrize("point", ["effect.begun", "effect.committed", "effect.done"])
async def test_killed_on_the_way_there_is_one_commit_and_its_answer(trial, point):
    await trial.killed(point)
    committed = await trial.commits()
    await trial.later(trial.declares.deadline_s + 1)

    result = await trial.carry_out()

    assert committed == (point != "effect.begun")
    if trial.declares.safety == "none" and point != "effect.done":
        assert (result.outcome, await trial.commits()) == ("unknown", committed)
    else:
        assert (result.outcome, await trial.commits()) == ("done", 1)
        assert (await trial.carry_out()).content == result.content


async def test_other_arguments_under_one_key_are_refused(trial):
    await trial.carry_out()

    result = await trial.carry_out(trial.module.OTHER_ARGUMENTS)

    assert result.outcome == "changed arguments"
    assert await trial.commits() == 1
    if trial.declares.safety == "key":
        with pytest.raises(errors.ArgumentsChanged):
            await trial.send(trial.module.OTHER_ARGUMENTS)
        assert await trial.commits() == 1


async def test_while_an_attempt_may_still_be_sending_nothing_is_looked_up(trial):
    if trial.declares.safety != "lookup":
        return  # the others look nothing up, or send with the same key
    await trial.killed("effect.begun")

    with pytest.raises(ApplicationError, match="may still be sending") as caught:
        await trial.carry_out()

    assert caught.value.next_retry_delay
    assert caught.value.next_retry_delay > timedelta(seconds=trial.declares.deadline_s / 2)
    assert await trial.commits() == 0


@pytest.mark.parametrize("name", EXPIRING, indirect=True)
async def test_a_key_that_has_expired_is_not_sent_again_before_the_destination_was_asked(trial):
    await trial.killed("effect.committed")
    await trial.later(trial.declares.key_lifetime_s)
    await forget_keys(trial)

    result = await trial.carry_out()

    assert (result.outcome, await trial.commits()) == ("done", 1)


@pytest.mark.parametrize("name", EXPIRING, indirect=True)
async def test_a_key_that_expired_before_anything_was_sent_is_sent(trial):
    await trial.killed("effect.begun")
    await trial.later(trial.declares.key_lifetime_s)

    result = await trial.carry_out()

    assert (result.outcome, await trial.commits()) == ("done", 1)


async def forget_keys(trial: Trial) -> None:
    """The destination has forgotten the key, as it says that it does; a file may say how."""
    if hasattr(trial.module, "forget_keys"):
        await trial.module.forget_keys(trial.context)
