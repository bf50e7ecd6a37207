"""The task store: one task for each source, one commit for each key, the same answer for every repetition."""

import asyncio

import pytest
from sqlalchemy import func, select

from domain import errors
from store.schema import task_commits
from store.tasks import LARGEST_ID, LONGEST_SOURCE_BYTES, Tasks

REPLY = {"title": "Reply to Ann", "source_id": "m1", "due": "2026-12-01", "notes": None}


@pytest.fixture
def tasks(store):
    return Tasks(store, "default")


async def create(tasks, key="k1", **changed):
    return await tasks.create(key, "b1", **REPLY | changed)


async def commits(store):
    async with store.reading() as connection:
        return (await connection.execute(select(func.count()).select_from(task_commits))).scalar_one()


async def test_a_task_is_created_as_it_was_asked_for(tasks):
    answer = await create(tasks)

    assert answer["created"] is True
    assert {name: answer["task"][name] for name in REPLY} == REPLY
    assert (answer["task"]["status"], answer["task"]["done_at"]) == ("open", None)
    assert answer["task"]["created_at"].endswith("+00:00")
    assert await tasks.list() == ([answer["task"]], 1)


# One key: one commit.


async def test_the_same_key_gives_the_same_answer_and_commits_once(tasks, store):
    first = await create(tasks)

    second = await create(tasks)

    assert second == first
    assert await commits(store) == 1


async def test_of_fifty_at_once_with_one_key_one_commits_and_all_get_its_answer(tasks, store):
    answers = await asyncio.gather(*(create(tasks) for _ in range(50)))

    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["created"] is True
    assert await commits(store) == 1


# What is other under a key that was used.
OTHER = [{"title": "Reply to Bob"}, {"source_id": "m2"}, {"due": None}, {"notes": "soon"}]


@pytest.mark.parametrize("changed", OTHER)
async def test_other_arguments_under_a_key_are_an_error_by_name_and_change_nothing(tasks, store, changed):
    first = await create(tasks)

    with pytest.raises(errors.ArgumentsChanged, match="with other arguments"):
        await create(tasks, **changed)

    assert await tasks.list("all") == ([first["task"]], 1)
    assert await commits(store) == 1


async def test_another_operation_under_a_key_is_an_error_by_name(tasks):
    task = (await create(tasks))["task"]

    with pytest.raises(errors.ArgumentsChanged):
        await tasks.complete("k1", task["id"])

    assert (await tasks.list())[1] == 1


async def test_the_answer_of_a_key_stays_as_it_was_when_the_task_has_changed(tasks):
    first = await create(tasks)
    await tasks.complete("k2", first["task"]["id"])

    assert await create(tasks) == first


# One source: one task.


async def test_another_key_gets_the_task_that_the_source_already_has(tasks):
    first = await create(tasks)

    second = await create(tasks, key="k2", title="In other words")

    assert second == {"task": first["task"], "created": False}
    assert (await tasks.list())[1] == 1


async def test_of_fifty_runs_at_once_one_creates_the_task_of_a_source_and_all_get_it(tasks, store):
    answers = await asyncio.gather(*(create(tasks, key=f"k{n}", title=f"In words {n}") for n in range(50)))

    assert sorted(answer["created"] for answer in answers) == [False] * 49 + [True]
    assert len({answer["task"]["id"] for answer in answers}) == 1
    assert await commits(store) == 50


async def test_fifty_sources_at_once_are_fifty_tasks(tasks):
    answers = await asyncio.gather(*(create(tasks, key=f"k{n}", source_id=f"m{n}") for n in range(50)))

    assert all(answer["created"] for answer in answers)
    assert (await tasks.list())[1] == 50


async def test_a_source_that_is_done_keeps_its_task(tasks):
    first = await create(tasks)
    await tasks.complete("k2", first["task"]["id"])

    again = await create(tasks, key="k3")

    assert again["created"] is False
    assert again["task"]["status"] == "done"


async def test_another_namespace_has_a_task_of_its_own_and_sees_no_other(tasks, store):
    await create(tasks)
    prod = Tasks(store, "prod")

    assert await prod.list("all") == ([], 0)
    assert (await create(prod, key="k2"))["created"] is True
    assert (await tasks.list("all"))[1] == 1


# Done


async def test_a_task_is_done_once_and_the_second_time_changes_nothing(tasks):
    task = (await create(tasks))["task"]

    first = await tasks.complete("k2", task["id"])
    second = await tasks.complete("k3", task["id"])

    assert first["task"]["status"] == "done"
    assert second == first
    assert await tasks.list() == ([], 0)


async def test_of_fifty_completions_at_once_one_sets_the_time(tasks):
    task = (await create(tasks))["task"]

    answers = await asyncio.gather(*(tasks.complete(f"c{n}", task["id"]) for n in range(50)))

    assert all(answer == answers[0] for answer in answers)


# Ids that no task has.
NO_TASKS = [999, 0, -1, LARGEST_ID, LARGEST_ID + 1, 2**63, 10**30]


@pytest.mark.parametrize("task_id", NO_TASKS)
async def test_a_task_that_is_not_there_is_told_to_the_model_and_commits_nothing(tasks, store, task_id):
    with pytest.raises(errors.ToolFailed, match="read_tasks lists those that exist"):
        await tasks.complete("k1", task_id)

    assert await commits(store) == 0


async def test_a_task_of_another_namespace_cannot_be_completed(tasks, store):
    task = (await create(tasks))["task"]

    with pytest.raises(errors.ToolFailed):
        await Tasks(store, "prod").complete("k2", task["id"])

    assert (await tasks.list())[1] == 1


# The list


@pytest.fixture
async def three(tasks):
    """Three tasks, the middle one done."""
    made = [(await create(tasks, key=f"k{n}", source_id=f"m{n}"))["task"]["id"] for n in range(3)]
    await tasks.complete("done", made[1])
    return made


@pytest.mark.parametrize(("shown", "expected"), [("open", [0, 2]), ("done", [1]), ("all", [0, 1, 2])])
async def test_the_list_shows_what_was_asked_for_oldest_first_and_counts_the_open_ones(tasks, three, shown, expected):
    rows, open_ = await tasks.list(shown)

    assert [row["id"] for row in rows] == [three[n] for n in expected]
    assert open_ == 2


async def test_a_long_list_is_cut_and_still_says_how_many_are_open(tasks, three):
    rows, open_ = await tasks.list("all", limit=1)

    assert len(rows) == 1
    assert open_ == 2


# Words

# Words that a mail may hold; each makes one task, and finds it again.
WORDS = [
    ("unicode", "<ü👋@שלום>"),
    ("a quote", "m'1; DROP TABLE tasks; --"),
    ("a NUL", "m\x001"),
    ("a lone surrogate", "m\ud8001"),
    ("long", "m" * LONGEST_SOURCE_BYTES),
    ("long and not compressible", "".join(chr(0x100 + n * 7919 % 0x600) for n in range(LONGEST_SOURCE_BYTES // 2))),
]


@pytest.mark.parametrize("source", [row[1] for row in WORDS], ids=[row[0] for row in WORDS])
async def test_any_words_name_a_source(tasks, source):
    first = await create(tasks, source_id=source, title=source, notes=source)
    second = await create(tasks, key="k2", source_id=source)

    assert first["created"] is True
    assert second == {"task": first["task"], "created": False}


async def test_a_source_that_no_index_could_hold_is_told_to_the_model(tasks):
    with pytest.raises(errors.ToolFailed, match=f"longer than {LONGEST_SOURCE_BYTES} bytes"):
        await create(tasks, source_id="ü" * LONGEST_SOURCE_BYTES)

    assert await tasks.list("all") == ([], 0)
