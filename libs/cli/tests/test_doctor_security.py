"""`doctor --security SERVICE`: the rules of profile `server` without a start; no secret shows."""

import base64
import json
import os
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_cli.security_check import service_names, settings_class_of
from datarecs_runtime.server_rules import RULES, Checked

Shown = pytest.CaptureFixture[str]
PASSWORD = "hunter2-secret"
KEK = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    kek = tmp_path / "key"
    kek.write_text(KEK)
    values = {
        "DATARECS_BASE_URL": "https://127.0.0.1:1",
        "DATARECS_DATABASE__URL": f"postgresql://datarecs_api:{PASSWORD}@127.0.0.1:1/x",
        "DATARECS_BLOB__URL": tmp_path.as_uri(),
        "DATARECS_API__TRUSTED_PROXIES": "10.0.0.0/8",
        "DATARECS_SECRETS__KEK_FILE": str(kek),
        "DATARECS_EGRESS__ALLOWED_CIDRS__WEBHOOK": "10.30.0.0/16",
        "DATARECS_LOG__LEVEL": "debug",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def rows(capsys: Shown) -> dict[str, dict[str, str]]:
    output = capsys.readouterr()
    assert PASSWORD not in output.out + output.err
    assert KEK not in output.out + output.err
    return {f"{row['source']}/{row['step']}": row for row in json.loads(output.out)["items"]}


@pytest.mark.integration
def test_settings_database_and_api_are_checked(capsys: Shown, tmp_path: Path) -> None:
    os.utime(tmp_path / "key", (1, 1))
    assert run(["doctor", "--security", "core-api", "-o", "json"]) == 3
    shown = rows(capsys)
    states = {name: row["state"] for name, row in shown.items()}
    assert states == {
        "profile/profile": "ok",
        "S2/encryption of the API": "ok",
        "S3/base URL": "ok",
        "S6/key-encryption key": "ok",
        "S8/addresses of the platform": "ok",
        "S12/side port": "ok",
        "S13/passwords": "ok",
        "S14/certificate of the database": "ok",
        "S6/age of the key": "warn",
        "S11/level of the log": "warn",
        "S17/opened addresses": "warn",
        "S4, S5, S16/login, row security, clock": "fail",
        "API/https": "skipped",
        "API/login required": "skipped",
        "API/no foreign origin": "skipped",
        "API/strict transport": "skipped",
        "API/no metrics": "skipped",
    }
    assert "ALLOWED_CIDRS__WEBHOOK=10.30.0.0/16" in shown["S17/opened addresses"]["seen"]
    assert "refused" in shown["S4, S5, S16/login, row security, clock"]["seen"]
    assert all(row["fix"] for row in shown.values() if row["state"] in {"warn", "fail"})


@pytest.mark.integration
def test_a_broken_rule_is_a_failed_step(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATARECS_API__TRUSTED_PROXIES", "0.0.0.0/0")
    monkeypatch.setenv("DATARECS_BASE_URL", "http://recs.example.com")
    assert run(["doctor", "--security", "core-api", "-o", "json"]) == 3
    shown = rows(capsys)
    assert shown["S2/encryption of the API"]["state"] == "fail"
    assert "contains 0.0.0.0/0" in shown["S2/encryption of the API"]["seen"]
    assert shown["S3/base URL"]["state"] == "fail"


@pytest.mark.parametrize("arguments", [[], ["core"], ["job.yaml"]])
def test_the_service_is_named(capsys: Shown, arguments: list[str]) -> None:
    assert run(["doctor", "--security", *arguments]) == 2
    assert "doctor --security core-api | run-controller" in capsys.readouterr().err


@pytest.mark.parametrize("name", service_names())
def test_every_service_has_rules(name: str) -> None:
    kind = settings_class_of(name)
    checked = Checked(
        kind.model_construct(
            **{
                section: construct()
                for section, field in kind.model_fields.items()
                if (construct := getattr(field.annotation, "model_construct", None))
            }
        )
    )
    numbers = {rule.number for rule in RULES if rule.applies(checked)}
    assert {"S12", "S13", "S14"} <= numbers
    assert ("S2" in numbers) is (name == "core-api")
    assert ("S9" in numbers) is (
        name in {"capture-worker", "iceberg-sink", "reconciliation-worker"}
    )


def test_a_wrong_setting_is_refused_as_at_a_start(
    capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATARECS_DATABASE__URL")
    monkeypatch.setenv("DATARECS_API__PORT", "x")
    assert run(["doctor", "--security", "core-api"]) != 0
    shown = capsys.readouterr().err
    assert "DATARECS_DATABASE" in shown
    assert "DATARECS_API__PORT" in shown
