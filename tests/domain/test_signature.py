"""The bytes that are signed: the same for the same decision, other for any other."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from domain.signature import Statement

SAID = Statement(
    namespace="default",
    first_execution_run_id="0198c1c2-run",
    action_id="s4.1-3fa9c2",
    arguments_sha256="3f" * 32,
    verdict="approve",
    approver="lead@example.com",
    decision_id="d-1",
    expires_at=datetime(2026, 11, 30, 12, tzinfo=UTC),
)


def test_the_bytes_are_pinned_down():
    assert SAID.signed == (
        b"dayflow decision 1\n"
        b'{"action_id":"s4.1-3fa9c2","approver":"lead@example.com","arguments_sha256":"' + b"3f" * 32 + b'",'
        b'"decision_id":"d-1","expires_at":"2026-11-30T12:00:00.000000+00:00",'
        b'"first_execution_run_id":"0198c1c2-run","namespace":"default","verdict":"approve"}'
    )


@pytest.mark.parametrize(
    "other",
    [
        {"namespace": "other"},
        {"first_execution_run_id": "0198c1c2-other"},
        {"action_id": "s4.1e1-3fa9c2"},
        {"arguments_sha256": "3f" * 31 + "3e"},
        {"verdict": "deny"},
        {"approver": "clerk@example.com"},
        {"decision_id": "d-2"},
        {"decision_id": None},
        {"expires_at": None},
        {"expires_at": datetime(2026, 11, 30, 12, 0, 0, 1, tzinfo=UTC)},
        # Words moved from one field to another.
        {"namespace": 'default","verdict":"deny'},
        {"approver": "lead@example.com\n"},
    ],
    ids=str,
)
def test_every_field_is_signed(other):
    assert replace(SAID, **other).signed != SAID.signed


def test_one_moment_is_signed_alike_in_every_zone():
    berlin = datetime(2026, 11, 30, 13, tzinfo=timezone(timedelta(hours=1)))

    assert replace(SAID, expires_at=berlin).signed == SAID.signed


def test_a_moment_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="no time zone"):
        replace(SAID, expires_at=datetime(2026, 11, 30, 12))  # noqa: DTZ001


def test_what_utf8_cannot_hold_is_signed_too():
    assert b"\\ud800" in replace(SAID, approver="\ud800").signed
