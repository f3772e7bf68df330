"""Which launcher and which transport of events the settings choose."""

from collections.abc import Callable
from pathlib import Path

import pytest

from datarecs_core.errors.process import SettingsError
from datarecs_kafka.client import KafkaLogClient
from datarecs_knative.sending import BrokerIngress
from datarecs_run_controller.settings import Settings
from datarecs_run_controller.wiring import outlet, remote_launcher
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.settings import load

DATABASE = {"DATARECS_DATABASE__URL": "postgresql://a@localhost/b", "DATARECS_PROFILE": "local"}


Load = Callable[..., Settings]


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Load:
    """The settings of a process with these names in its environment."""

    def loaded(**names: str) -> Settings:
        more = {f"DATARECS_{name}": value for name, value in names.items()}
        for name, value in (DATABASE | more).items():
            monkeypatch.setenv(name, value)
        return load(Settings)

    return loaded


def test_without_a_setting_runs_go_to_the_queue_and_events_to_kafka(settings: Load) -> None:
    chosen = settings()
    assert remote_launcher(chosen, SystemClock()) is None
    assert isinstance(outlet(chosen), KafkaLogClient)


@pytest.mark.parametrize(("named", "namespace"), [("", "team-a"), ("runs", "runs")])
def test_argo_runs_in_the_namespace_of_the_account_or_the_setting(
    settings: Load, tmp_path: Path, named: str, namespace: str
) -> None:
    (tmp_path / "namespace").write_text("team-a\n")
    chosen = settings(
        LAUNCHER__BACKEND="argo",
        LAUNCHER__ARGO__NAMESPACE=named,
        LAUNCHER__ARGO__ACCOUNT_DIR=str(tmp_path),
    )
    launcher = remote_launcher(chosen, SystemClock())
    assert launcher is not None
    assert launcher.api.namespace == namespace


def test_argo_without_an_account_says_what_to_do(settings: Load, tmp_path: Path) -> None:
    chosen = settings(
        LAUNCHER__BACKEND="argo", LAUNCHER__ARGO__ACCOUNT_DIR=str(tmp_path / "missing")
    )
    with pytest.raises(SettingsError) as refused:
        remote_launcher(chosen, SystemClock())
    for word in ("DATARECS_LAUNCHER__BACKEND=argo", "missing/namespace", "ARGO__NAMESPACE"):
        assert word in str(refused.value)


@pytest.mark.parametrize("value", ["Team", "a_b", "-a", "a" * 64])
def test_a_namespace_is_a_name_of_kubernetes(settings: Load, value: str) -> None:
    with pytest.raises(SettingsError, match="LAUNCHER__ARGO__NAMESPACE"):
        settings(LAUNCHER__ARGO__NAMESPACE=value)


def test_knative_needs_the_address_of_its_broker(settings: Load) -> None:
    with pytest.raises(SettingsError, match="DATARECS_EVENTING__BROKER_URL is missing"):
        outlet(settings(EVENTING__MODE="knative"))
    named = settings(EVENTING__MODE="knative", EVENTING__BROKER_URL="http://broker/default")
    assert isinstance(outlet(named), BrokerIngress)
