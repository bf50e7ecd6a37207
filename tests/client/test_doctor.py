"""What `dayflow doctor` finds, and what it keeps to itself."""

import json
from pathlib import Path

import pytest
from homes import Home

from client import variables
from store import crash, seal
from store.settings import Settings

FAILED = 1


def test_doctor_finds_a_home_that_runs_healthy(home: Home) -> None:
    told = home.json("doctor")

    assert told["ok"]
    assert [one["name"] for one in told["checks"] if one["state"] == "broken"] == []
    assert {"name": "DAYFLOW_PORT", "value": str(home.port), "source": "env"}.items() <= told["settings"][1].items()
    assert {str(field.alias) for field in Settings.model_fields.values()} <= {row["name"] for row in told["settings"]}


def test_doctor_never_prints_a_secret_and_notices_a_slip(tmp_path: Path) -> None:
    new = Home(tmp_path)
    secrets = {
        "ANTHROPIC_API_KEY": "sk-hidden",
        "TEMPORAL_API_KEY": "also-hidden",
        "DAYFLOW_DATABASE_URL": "postgresql+psycopg://me:hidden@127.0.0.1:1/none?password=hidden",
        "DAYFLOW_INBXO": "slip",
    }
    done = new.dayflow("doctor", env=secrets, code=FAILED)
    as_json = new.json("doctor", env=secrets, code=FAILED)

    assert "hidden" not in done.stdout + done.stderr + json.dumps(as_json)
    assert "DAYFLOW_INBXO is no setting; DAYFLOW_INBOX is" in done.stdout
    values = {row["name"]: row["value"] for row in as_json["settings"]}
    assert (values["ANTHROPIC_API_KEY"], values["TEMPORAL_API_KEY"]) == ("set", "set")


def test_doctor_says_whether_encryption_is_on_by_the_ids_of_its_keys(tmp_path: Path) -> None:
    new = Home(tmp_path)
    keys = [seal.new_key("new"), seal.new_key("old")]

    without, told = new.dayflow("doctor"), new.dayflow("doctor", env={"DAYFLOW_ENCRYPTION_KEYS": ",".join(keys)})

    assert "histories and the store are in clear" in without.stdout
    assert "under the key new, old decrypt too" in told.stdout
    assert not [key for key in keys if key.partition(":")[2] in told.stdout + told.stderr]


def test_doctor_on_a_fresh_home_is_content_and_with_a_bad_setting_is_not(tmp_path: Path) -> None:
    new = Home(tmp_path)
    fresh = new.dayflow("doctor")
    bad = new.dayflow("doctor", env={"DAYFLOW_PORT": "many"}, code=FAILED)

    assert "`dayflow up` starts it" in fresh.stdout
    assert "DAYFLOW_PORT" in bad.stdout


def test_doctor_lists_the_crash_points(tmp_path: Path) -> None:
    assert Home(tmp_path).json("doctor", "--crash-points") == crash.POINTS


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("http://127.0.0.1:8234", "http://127.0.0.1:8234"),
        ("postgresql://me:word@host/db", "postgresql://***@host/db"),
        ("postgresql://host/db?user=me&password=word&x=1", "postgresql://host/db?user=me&password=***&x=1"),
    ],
)
def test_logins_are_masked(value: str, shown: str) -> None:
    assert variables.shown(value) == shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[approvers]\n", "is no TOML"),
        ('[[approvers]]\nname = "ana"\nroles = []\n', "approvers.0.roles"),
        ('[[approvers]]\nname = "ana"\nroles = ["lead"]\n', "1 named"),
    ],
    ids=["no TOML", "no role", "good"],
)
def test_doctor_reads_the_approvers_file_as_a_decision_does(tmp_path: Path, text: str, found: str) -> None:
    file = tmp_path / "approvers.toml"
    file.write_text(text)

    done = Home(tmp_path / "home").dayflow("doctor", env={"DAYFLOW_APPROVERS": str(file)}, code=None)

    assert found in done.stdout
    assert done.returncode == (0 if found == "1 named" else FAILED)
