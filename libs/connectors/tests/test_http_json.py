"""Secrets of a catalog over HTTP are checked before any connection."""

import pytest

from datarecs_connectors.errors import ConnectionFailedError
from datarecs_connectors.http_json import JsonServer
from datarecs_core.egress.addresses import Policy, Profile, Purpose

SERVER = JsonServer(source="lake", policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL))
REMOTE = "http://192.168.10.20:8181/v1/config"


@pytest.mark.integration
def test_a_token_never_travels_without_tls_outside_the_loopback() -> None:
    with pytest.raises(ConnectionFailedError, match="only over https") as refused:
        SERVER.get(REMOTE, token="canary-token")
    assert "canary" not in str(refused.value)


@pytest.mark.integration
def test_a_credential_never_travels_without_tls_outside_the_loopback() -> None:
    with pytest.raises(ConnectionFailedError, match="only over https"):
        SERVER.post(REMOTE, {"client_secret": "canary-credential"})


@pytest.mark.parametrize("port", [22, 80, 2375, 6443, 10250])
def test_a_catalog_has_no_port_of_systems_and_clusters(port: int) -> None:
    with pytest.raises(ConnectionFailedError, match=f"port {port} is not allowed"):
        SERVER.get(f"https://192.168.10.20:{port}/v1/config")
