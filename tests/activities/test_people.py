"""check_authority and resolve_effect: whether a person may decide, and what their word does to the ledger."""

import base64
import dataclasses
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from temporalio.testing import ActivityEnvironment

from activities.people import People
from domain.decisions import Authority, Decision, Resolution, Standing
from domain.raises import Raise
from domain.signature import Statement
from store import database
from store.effects import Effects
from store.ledger import Entry, Ledger
from store.settings import Settings

NOT_LISTED = "not on the list: DAYFLOW_APPROVERS names the file of those who may approve"
BELOW = "below the needed role: it needs 'lead'"

LEAD, CLERK, SIGNER, DESK = "lead@example.com", "clerk@example.com", "signer@example.com", "desk@example.com"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = base64.b64encode(KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
STAFF = f"""
[[approvers]]
name = "{LEAD}"
roles = ["lead"]
max_amount = {{ lead = "500.00" }}

[[approvers]]
name = "{CLERK}"
roles = ["clerk"]

[[approvers]]
name = "{SIGNER}"
roles = ["lead"]
public_key = "{PUBLIC}"
"""
SHA = "3f" * 32
ROW = "dayflow-1"
REFUND = Entry(
    key=ROW,
    kind="effect",
    namespace="default",
    run_id="b1",
    step=4,
    position=1,
    name="issue_refund",
    digest="a" * 64,
    action_id="s4.1-aaaaaa",
    arguments={},
    intent="refund:order-1042",
    holds="refund:order-1042",
)

# How an approvers file can be broken, a part of what is said about it.
BROKEN = [
    ("[[approvers]", "is no TOML"),
    ('approvers = "everyone"', "approvers: it has to be a list"),
    ('[[approvers]]\nname = "a b"\nroles = ["lead"]', "approvers.0.name: it has to match pattern"),
    ('[[approvers]]\nname = "a"\nroles = []', "approvers.0.roles: it has to have at least 1 item"),
    ('[[approvers]]\nname = "a"\nroles = ["lead"]\npublic_key = "c2hvcnQ="', "public_key is no Ed25519 key"),
    (None, "cannot be read: No such file or directory"),
]


@pytest.fixture
def file(tmp_path):
    """The approvers file."""
    path = tmp_path / "approvers.toml"
    path.write_text(STAFF)
    return path


@pytest.fixture
async def store(tmp_path):
    opened = await database.connect(Settings(DAYFLOW_HOME=tmp_path))
    yield opened
    await opened.close()


@pytest.fixture
def people(tmp_path, store, file):
    return People(Settings(DAYFLOW_HOME=tmp_path, DAYFLOW_APPROVERS=file), Effects(store))


@pytest.fixture
def environment():
    made = ActivityEnvironment()
    made.info = dataclasses.replace(made.info, workflow_id="b1")
    return made


@pytest.fixture
def may(people, environment):
    """Why a decision may not be; None if it may."""

    async def may(asked):
        return (await environment.run(people.check_authority, asked)).why

    return may


@pytest.fixture
def resolve(people, environment):
    """Why a resolution may not be; None if it may."""

    async def resolve(by=LEAD, outcome="done", result=None, **changed):
        resolution = Resolution(action_id="s4.1-aaaaaa", outcome=outcome, result=result, by=by)
        about = {"idempotency_key": ROW, "role": "lead", "requested_by": DESK} | changed
        return (await environment.run(people.resolve_effect, Standing(resolution=resolution, **about))).why

    return resolve


@pytest.fixture
def may_raise(people, environment):
    """Why new limits may not be given; None if they may."""

    async def may_raise(by=LEAD, role="lead", sha256=SHA, signature=None):
        asked = Raise(run="first", by=by, role=role, sha256=sha256, signature=signature)
        return (await environment.run(people.check_raise, asked)).why

    return may_raise


@pytest.fixture
def row(store):
    async def row():
        (found,) = await Ledger(store).rows("default", "b1")
        return found

    return row


def asked(approver=LEAD, role="lead", amount="40.00", **said):
    decision = Decision(**{"action_id": "s4.1-3f3f3f", "verdict": "approve", "approver": approver} | said)
    return Authority(run="first", decision=decision, arguments_sha256=SHA, role=role, amount=amount, requested_by=DESK)


def signed(key=KEY, said=None, **changed):
    """What the signer asks for, signed; `changed` is what the signature says otherwise."""
    wanted = asked(SIGNER, **said or {})
    decision = wanted.decision
    facts = {
        "namespace": "default",
        "first_execution_run_id": wanted.run,
        "action_id": decision.action_id,
        "arguments_sha256": wanted.arguments_sha256,
        "verdict": decision.verdict,
        "approver": decision.approver,
        "decision_id": decision.decision_id,
        "expires_at": decision.expires_at,
    }
    signature = base64.b64encode(key.sign(Statement(**facts | changed).signed)).decode()
    return wanted.model_copy(update={"decision": decision.model_copy(update={"signature": signature})})


# Who may decide

# What is asked, why it may not be.
AUTHORITIES = [
    (asked(), None),
    (asked(verdict="deny"), None),
    (asked(verdict="edit", arguments={}), None),
    (asked(amount="500.00"), None),
    (asked(amount="500.01"), "above their amount: as 'lead' at most 500.00"),
    (asked(amount=None), None),  # it moves nothing
    (asked(CLERK), BELOW),
    (asked(CLERK, verdict="deny"), BELOW),  # a no is a decision, too
    (asked(CLERK, role=None, amount=None), None),  # a conflict where no rule is: being on the list is enough
    (asked("mallory@example.com"), NOT_LISTED),
    (asked("mallory@example.com", role=None), NOT_LISTED),
    (asked("Lead@example.com"), NOT_LISTED),  # a name is exact
    (asked(signature="bm9uZQ=="), None),  # without a key on file nothing can be proved
    (asked(SIGNER), "not signed: this approver has a key on file"),
    (asked(SIGNER, signature="bm9uZQ=="), "bad signature"),
    (asked(SIGNER, signature="no base64 at all"), "bad signature"),
    (asked(SIGNER, signature="ü"), "bad signature"),
]


@pytest.mark.parametrize(("wanted", "why"), AUTHORITIES)
async def test_who_may_decide_what(may, wanted, why):
    assert await may(wanted) == why


FULL = {"decision_id": "d1", "expires_at": datetime(2026, 11, 30, 12, tzinfo=UTC)}


@pytest.mark.parametrize("said", [None, FULL, {"verdict": "deny"}], ids=["short", "full", "no"])
async def test_a_signature_over_exactly_this_decision_counts(may, said):
    assert await may(signed(said=said)) is None


# What the signature says otherwise: it fits one decision and no other.
OTHERWISE = [
    {"namespace": "prod"},
    {"first_execution_run_id": "another"},
    {"action_id": "s4.1e1-3f3f3f"},
    {"arguments_sha256": "3f" * 31 + "3e"},
    {"verdict": "deny"},
    {"approver": LEAD},
    {"decision_id": "d1"},
    {"expires_at": datetime(2026, 11, 30, 12, tzinfo=UTC)},
]


@pytest.mark.parametrize("changed", OTHERWISE, ids=lambda changed: next(iter(changed)))
async def test_a_signature_over_something_else_does_not_count(may, changed):
    assert await may(signed(**changed)) == "bad signature"


async def test_a_signature_by_another_key_does_not_count(may):
    assert await may(signed(OTHER_KEY)) == "bad signature"


async def test_a_signature_counts_in_its_own_namespace_only(may, environment):
    environment.info = dataclasses.replace(environment.info, namespace="prod", workflow_namespace="prod")

    assert await may(signed()) == "bad signature"


@pytest.mark.parametrize(("text", "told"), BROKEN)
async def test_a_broken_approvers_file_lets_nobody_decide_and_says_where_it_is_broken(may, file, text, told):
    file.write_text(text) if text is not None else file.unlink()

    why = await may(asked())

    assert why.startswith("DAYFLOW_APPROVERS: ")
    assert told in why


async def test_the_file_is_read_anew_for_each_decision(may, file):
    before = await may(asked())
    file.write_text("approvers = []\n")
    without = await may(asked())
    file.write_text(STAFF)

    assert (before, without, await may(asked())) == (None, NOT_LISTED, None)


# Who may resolve

# By whom, the role, why it may not be.
RESOLVERS = [
    (LEAD, "lead", None),
    (CLERK, "lead", BELOW),
    (CLERK, None, None),
    ("mallory@example.com", None, NOT_LISTED),
    (DESK, None, "own request: who asks for it may not resolve it"),
    ("Desk@Example.COM", "lead", "own request: who asks for it may not resolve it"),
]


@pytest.mark.parametrize(("by", "role", "why"), RESOLVERS)
async def test_who_may_resolve_and_what_they_may_not_leaves_the_row_as_it_was(store, resolve, row, by, role, why):
    await Effects(store).begin(REFUND)
    await Effects(store).unknown(ROW, "no answer")

    told = await resolve(by, role=role)

    assert told == why
    assert (await row())["status"] == ("done" if why is None else "unknown")


async def test_a_broken_approvers_file_lets_nobody_resolve(store, resolve, row, file):
    await Effects(store).begin(REFUND)
    file.write_text("[[approvers]")

    why = await resolve()

    assert why.startswith("DAYFLOW_APPROVERS: ")
    assert (await row())["status"] == "begun"


# What a resolution does

# What is said, its words, the status and the answer of the row.
WORDS = [
    ("done", "re_1", "done", {"content": "re_1", "outcome": "done"}),
    ("done", None, "done", {"content": f"It happened, as {LEAD} found.", "outcome": "done"}),
    ("not_done", None, "failed", None),
]


@pytest.mark.parametrize("before", ["begun", "unknown"])
@pytest.mark.parametrize(("outcome", "result", "status", "answer"), WORDS)
async def test_the_word_of_a_person_closes_the_row(store, resolve, row, before, outcome, result, status, answer):
    await Effects(store).begin(REFUND)
    if before == "unknown":
        await Effects(store).unknown(ROW, "no answer")

    told = await resolve(outcome=outcome, result=result)

    assert told is None
    assert ((await row())["status"], (await row())["result"]) == (status, answer)


async def test_what_did_not_happen_releases_its_intent(store, resolve):
    await Effects(store).begin(REFUND)
    await Effects(store).unknown(ROW, "no answer")

    await resolve(outcome="not_done")

    again = await Effects(store).begin(dataclasses.replace(REFUND, key="dayflow-2", run_id="b2"))
    assert again.sent is False


async def test_an_answer_that_came_in_the_meantime_stands(store, resolve, row):
    await Effects(store).begin(REFUND)
    await Effects(store).finish(ROW, {"content": "re_1"})

    denied = await resolve(outcome="not_done")
    confirmed = await resolve(outcome="done", result="re_2")

    assert denied == "it happened: its answer came in the meantime; resolve it as done"
    assert confirmed is None
    assert (await row())["result"] == {"content": "re_1"}


async def test_the_answer_of_other_arguments_is_not_that_of_this_action(store, resolve, row):
    await Effects(store).begin(REFUND)
    await Effects(store).finish(ROW, {"content": "re_1"})

    told = await resolve(outcome="not_done", changed=True)

    assert told is None
    assert (await row())["status"] == "done"


@pytest.mark.parametrize("outcome", ["done", "not_done"])
async def test_where_nothing_was_begun_a_person_may_say_so_all_the_same(resolve, outcome):
    assert await resolve(outcome=outcome) is None


async def test_what_happened_is_written_down_although_another_run_did_it_meanwhile(store, resolve, row):
    """The intent was free because the row had failed; a person found out later that it had happened."""
    await Effects(store).begin(REFUND)
    await Effects(store).fail(ROW, "refused")
    await Effects(store).begin(dataclasses.replace(REFUND, key="dayflow-2", run_id="b2"))

    told = await resolve(outcome="done")

    assert told is None
    assert (await row())["status"] == "done"


async def test_new_limits_take_somebody_of_the_role(may_raise):
    assert await may_raise(LEAD) is None
    assert await may_raise(CLERK) == BELOW
    assert await may_raise("nobody@example.com") == NOT_LISTED


async def test_new_limits_of_somebody_with_a_key_have_to_be_signed_for_exactly_these(may_raise):
    fields = {"namespace": "default", "first_execution_run_id": "first", "action_id": "budget", "approver": SIGNER}
    signed = Statement(**fields, arguments_sha256=SHA, verdict="raise_budget").signed
    signature = base64.b64encode(KEY.sign(signed)).decode()
    approval = base64.b64encode(KEY.sign(Statement(**fields, arguments_sha256=SHA, verdict="approve").signed)).decode()

    assert await may_raise(SIGNER, signature=signature) is None
    assert await may_raise(SIGNER) == "not signed: this approver has a key on file"
    assert await may_raise(SIGNER, sha256="0" * 64, signature=signature) == "bad signature"
    assert await may_raise(SIGNER, signature=approval) == "bad signature"


@pytest.mark.parametrize(("content", "said"), BROKEN)
async def test_nobody_raises_by_a_broken_file(may_raise, file, content, said):
    file.unlink() if content is None else file.write_text(content)

    assert said in await may_raise()
