"""`dayflow tasks`: people close what agents made, and open it again; no server is needed for it."""

import asyncio
import json

import pytest
from homes import Home
from typer.testing import CliRunner

from client.cli import app
from domain import errors
from store import database
from store.tasks import Tasks


@pytest.fixture
def desk(tmp_path):
    """A home with two open tasks, where nothing runs."""
    home = Home(tmp_path)
    asyncio.run(made(home, "Reply to Ann", "Win a prize"))
    return home


async def made(home, *titles):
    store = await database.connect(home.settings)
    for n, title in enumerate(titles):
        await Tasks(store, "default").create(f"k{n}", "b1", title=title, source_id=f"m{n}", due=None, notes=None)
    await store.close()


def tasks(home, *arguments):
    return CliRunner().invoke(app, ["tasks", *arguments], env=home.env)


def listed(home, *arguments):
    return [(one["id"], one["status"]) for one in json.loads(tasks(home, *arguments, "--json").output)]


def test_a_person_closes_a_task_and_opens_it_again(desk):
    assert tasks(desk, "done", "2").output == "done: task 2, Win a prize; `dayflow tasks reopen 2` undoes it\n"
    assert listed(desk) == [(1, "open")]
    assert listed(desk, "--all") == [(1, "open"), (2, "done")]

    tasks(desk, "reopen", "2")

    assert listed(desk) == [(1, "open"), (2, "open")]
    assert "Win a prize" in tasks(desk).output


@pytest.mark.parametrize("verb", ["done", "reopen"])
def test_a_task_that_is_not_there_is_named_with_what_to_do(desk, verb):
    error = tasks(desk, verb, "9").exception

    assert isinstance(error, errors.Refused)
    assert str(error) == "there is no task 9; `dayflow tasks --all` lists those that exist"
