"""docker-compose.yml and the Dockerfile, checked without an engine: by the compose schema, and by what must be so.

compose-spec.json is the schema of the Compose Specification, under the licence in compose-spec.LICENSE.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from client.variables import OTHERS
from store.settings import Settings

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
OURS = {str(field.alias) for field in Settings.model_fields.values()} | set(OTHERS)
# A tag that names a version, not one that moves.
PINNED = re.compile(r"[\w./-]+:\d+\.\d+(\.\d+)?(-[\w.-]+)?")
SECRET = re.compile(r"PASSWORD|_KEY|_PWD|TOKEN|DATABASE_URL")
JOBS = {"temporal-schema", "temporal-namespace"}
# Jobs end, and the web UI keeps nothing that could go wrong unseen.
UNCHECKED = JOBS | {"temporal-ui"}


def test_it_follows_the_compose_specification():
    schema = json.loads((HERE / "compose-spec.json").read_text("utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)

    assert [error.message for error in validator.iter_errors(COMPOSE)] == []


def test_the_schema_is_really_used():
    schema = json.loads((HERE / "compose-spec.json").read_text("utf-8"))

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"services": {"worker": {"imagine": "x"}}}, schema)


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_waits_for_exists_and_can_be_waited_for(name):
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert other in SERVICES
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert how["condition"] == "service_completed_successfully"
            assert other in JOBS


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_and_looked_after(name):
    service = SERVICES[name]

    assert PINNED.fullmatch(service["image"])
    assert service["restart"]
    assert name in UNCHECKED or service["healthcheck"]["test"]


def test_server_and_its_tools_are_of_one_version():
    versions = {
        service["image"].partition(":")[2]
        for service in SERVICES.values()
        if service["image"].startswith(("temporalio/server", "temporalio/admin-tools"))
    }

    assert len(versions) == 1


def test_the_worker_has_only_settings_that_exist():
    assert set(SERVICES["worker"]["environment"]) - OURS == set()


def test_the_worker_is_tagged_as_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]

    assert SERVICES["worker"]["image"] == f"dayflow:{version}"


def test_every_volume_and_config_that_is_used_is_declared():
    for service in SERVICES.values():
        named = [volume.partition(":")[0] for volume in service.get("volumes", ()) if volume[0].isalnum()]
        assert set(named) <= set(COMPOSE["volumes"])
        assert {one["source"] for one in service.get("configs", ())} <= set(COMPOSE["configs"])


def test_no_secret_stands_in_the_file():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if SECRET.search(name):
                assert re.search(r"\$\{\w+(:\?[^}]+|:-)\}", str(value)), name


def test_what_listens_does_so_on_loopback_only():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_a_dollar_for_the_shell_is_doubled():
    """A single one would be filled in by compose."""
    texts = [config["content"] for config in COMPOSE["configs"].values()]
    texts += [line for service in SERVICES.values() for line in service.get("command", ())]

    assert not any(re.search(r"(?<!\$)\$(?!\$)", text.replace("$$", "")) for text in texts)


def test_the_image_is_pinned_and_runs_as_nobody_in_particular():
    assert PINNED.fullmatch(re.findall(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)[0])
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE) == ["dayflow"]
    assert "--constraint constraints.txt" in DOCKERFILE
    assert 'ENTRYPOINT ["dayflow"]' in DOCKERFILE


def test_the_image_gets_every_folder_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    copied = " ".join(re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE)).split()
    let_in = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE))

    assert set(wanted) <= set(copied)
    assert set(copied) == let_in
