from pathlib import Path

import pytest

from datarecs_cli.commands import admin
from datarecs_cli.stack.layout import Layout


def test_the_administrator_reaches_a_broker_that_is_named_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "BOOTSTRAP": "kafka.example.com:9093",
        "USERNAME": "admin",
        "PASSWORD": "sample",
        "CA_FILE": str(tmp_path / "ca.pem"),
    }.items():
        monkeypatch.setenv(f"DATARECS_KAFKA__{name}", value)
    login, is_local = admin.broker_login(Layout(tmp_path))
    settings = login.access().settings()
    assert (settings["security_protocol"], settings["ssl_cafile"]) == (
        "SASL_SSL",
        str(tmp_path / "ca.pem"),
    )
    assert not is_local
