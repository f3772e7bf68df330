"""docker-compose.yml against the compose schema, the settings, and the rules of security 16."""

import json
import re
import subprocess
from collections.abc import Mapping
from importlib import import_module
from ipaddress import ip_network
from pathlib import Path
from socket import AddressFamily, SocketKind
from typing import Any

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from datarecs_cli.stack.services import SERVICES
from datarecs_postgres.roles import LOGINS
from datarecs_runtime.environment import process_environment
from datarecs_runtime.server_rules import server_faults
from datarecs_runtime.settings import known_names, load

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")
CONTAINERS: Mapping[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, one in CONTAINERS.items() if "datarecs" in one["image"])
MODULES = {f"datarecs-{one.name}": one.argv[-1] for one in SERVICES}


def mounted(container: str) -> dict[str, str]:
    """Path in the container to the name of the secret."""
    return {one["target"]: one["source"] for one in CONTAINERS[container].get("secrets", ())}


@pytest.mark.case("K26")
def test_it_follows_the_schema_of_compose_files() -> None:
    schema = json.loads((ROOT / "tests/containers/compose-spec.json").read_text(encoding="utf-8"))
    Draft7Validator.check_schema(schema)
    faults = [error.message for error in Draft7Validator(schema).iter_errors(COMPOSE)]
    assert faults == []
    wrong = COMPOSE | {"services": {"x": {"read_onyl": True}}}
    assert list(Draft7Validator(schema).iter_errors(wrong)) != []


@pytest.mark.case("K26")
@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_has_no_rights_and_a_limit(name: str) -> None:
    container = CONTAINERS[name]
    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in container["security_opt"]
    assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", container["user"])
    assert container["mem_limit"]
    assert not {"privileged", "cap_add", "devices", "network_mode", "pid", "env_file"} & set(
        container
    )


@pytest.mark.case("K26")
@pytest.mark.parametrize("name", CONTAINERS)
def test_ports_are_published_on_the_loopback_alone(name: str) -> None:
    for port in CONTAINERS[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:[0-9]+:[0-9]+", port)


@pytest.mark.case("K26")
@pytest.mark.parametrize("name", CONTAINERS)
def test_every_secret_is_a_file_that_compose_secrets_writes(name: str) -> None:
    written = (ROOT / "deploy/compose/secrets.sh").read_text(encoding="utf-8")
    assert all(source in COMPOSE["secrets"] for source in mounted(name).values())
    for variable, value in (CONTAINERS[name].get("environment") or {}).items():
        if variable.endswith(("_FILE", "_CERT", "_KEY")):
            assert value in mounted(name), variable
        else:
            assert not re.search(r"PASSWORD|SECRET|_URL$|KEK", variable) or value.startswith(
                ("file:", "https:")
            )
    assert "rand -hex 24" in written


@pytest.mark.case("K26")
def test_images_of_others_are_pinned_by_digest() -> None:
    for name in set(CONTAINERS) - set(OURS):
        assert re.fullmatch(
            r"docker\.io/\S+:[\w.-]+@sha256:[0-9a-f]{64}", CONTAINERS[name]["image"]
        )


def test_every_service_that_exists_runs() -> None:
    commands = {CONTAINERS[name]["command"][0] for name in OURS}
    assert commands == {*MODULES, "datarecs"}


@pytest.mark.case("K44")
@pytest.mark.parametrize("name", OURS)
def test_every_setting_is_known(name: str) -> None:
    environment = CONTAINERS[name]["environment"]
    assert set(environment) <= known_names()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of new secrets."""
    folder = tmp_path_factory.mktemp("compose")
    write_secrets(folder)
    return folder / ".secrets"


def write_secrets(folder: Path) -> None:
    script = folder / "deploy/compose/secrets.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text((ROOT / "deploy/compose/secrets.sh").read_text(encoding="utf-8"))
    subprocess.run(["sh", str(script)], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("name", [one.name for one in SERVICES])
def test_a_service_accepts_its_settings_and_follows_the_rules_of_servers(
    name: str, written: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in [one for one in process_environment() if one.startswith("DATARECS_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    secrets = mounted(name)
    for variable, value in CONTAINERS[name]["environment"].items():
        usual = "" if "${" in value else value
        monkeypatch.setenv(variable, str(written / secrets[value]) if value in secrets else usual)
    monkeypatch.setattr("socket.getaddrinfo", _in_the_network_of_servers)
    module = import_module(f"{MODULES[f'datarecs-{name}']}.settings")
    settings = load(module.Settings)
    assert settings.profile == "server"
    assert server_faults(settings) == ()


def _in_the_network_of_servers(*_arguments: object, **_options: object) -> list[Any]:
    (network,) = COMPOSE["networks"]["back"]["ipam"]["config"]
    address = str(ip_network(network["subnet"])[2])
    return [(AddressFamily.AF_INET, SocketKind.SOCK_STREAM, 6, "", (address, 0))]


def test_logins_of_database_and_broker_are_those_that_exist() -> None:
    roles = {Path(path).name for path in mounted("bootstrap") if "/roles/" in path}
    assert roles == set(LOGINS)
    logins = {Path(path).name for path in mounted("topics") if "/logins/" in path}
    principals = {one.principal for one in SERVICES if one.principal}
    assert logins == {f"kafka-{one}" for one in (*principals, "relay", "operators")}
    for service in SERVICES:
        secrets = set(mounted(service.name).values())
        assert f"{service.role}.url" in secrets
        assert (f"kafka-{service.principal}" in secrets) == (service.principal is not None)


def test_the_secrets_are_written_once(tmp_path: Path) -> None:
    def secrets() -> dict[str, bytes]:
        write_secrets(tmp_path)
        return {path.name: path.read_bytes() for path in (tmp_path / ".secrets").iterdir()}

    first = secrets()
    assert {Path(one["file"]).name for one in COMPOSE["secrets"].values()} <= set(first)
    assert secrets() == first
    folder = tmp_path / ".secrets"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "ca.key").stat().st_mode & 0o777 == 0o600
    assert (folder / "kek").stat().st_mode & 0o777 == 0o644
    assert len({content for name, content in first.items() if name.startswith("kafka-")}) == 6
    for server in ("postgres", "kafka", "mail", "core-api"):
        check = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.crt", f"{server}.crt"]
        subprocess.run(check, cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(("days", "is_renewed"), [(29, True), (31, False)])
@pytest.mark.parametrize("name", ["postgres", "core-api", "ca"])
def test_certificates_that_end_soon_are_renewed_and_others_stay(
    tmp_path: Path, name: str, days: int, is_renewed: bool
) -> None:
    write_secrets(tmp_path)
    folder = tmp_path / ".secrets"
    request = ["openssl", "req", "-x509", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}"]
    request += ["-days", str(days), "-out", f"{name}.crt"]
    subprocess.run(request, check=True, capture_output=True, cwd=folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    write_secrets(tmp_path)
    changed = {file for file, content in before.items() if (folder / file).read_bytes() != content}
    renewed = {f"{name}.crt"} if name == "ca" else {f"{name}.crt", f"{name}.key"}
    assert changed - {"ca.srl"} == (renewed if is_renewed else set())


def test_a_renewed_authority_still_signs_the_certificates_of_the_servers(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    folder = tmp_path / ".secrets"
    (folder / "ca.crt").unlink()
    write_secrets(tmp_path)
    check = ["openssl", "verify", "-CAfile", "ca.crt", "postgres.crt", "core-api.crt"]
    subprocess.run(check, check=True, capture_output=True, cwd=folder)
