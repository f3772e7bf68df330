"""core-api in profile `server`: refused while a rule is broken, else https with its certificate."""

import base64
import json
import socket
import ssl
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from datarecs_postgres.roles import API
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.environment import process_environment
from datarecs_testing.certificates import an_authority
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.stack import free_test_port

pytestmark = pytest.mark.integration
KEK = base64.b64encode(bytes(range(32))).decode()
CLOCK = SystemClock()


@dataclass(frozen=True)
class Server:
    """A running core-api of profile `server`."""

    service: ServiceProcess
    settings: dict[str, str]
    authority: Path
    port: int

    def trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority)

    def client(self) -> httpx2.Client:
        return httpx2.Client(
            base_url=self.settings["DATARECS_BASE_URL"], verify=self.trusted(), trust_env=False
        )

    def doctor(self, **changes: str) -> tuple[int, dict[str, str]]:
        """Exit code and states of `datarecs doctor --security core-api`."""
        environment = {
            "PATH": process_environment()["PATH"],
            "HOME": str(self.authority.parent),
            "SSL_CERT_FILE": str(self.authority),
            **self.settings,
            **changes,
        }
        command = [*(sys.executable, "-m", "datarecs_cli", "doctor", "--security", "core-api")]
        done = subprocess.run(
            [*command, "-o", "json"],
            env=environment,
            cwd=self.authority.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        rows = json.loads(done.stdout)["items"]
        return done.returncode, {f"{row['source']}/{row['step']}": row["state"] for row in rows}


def server_settings(database: PreparedDatabase, folder: Path, port: int) -> dict[str, str]:
    return {
        "DATARECS_BASE_URL": f"https://localhost:{port}",
        "DATARECS_API__PORT": str(port),
        "DATARECS_DATABASE__URL": database.url(API),
        "DATARECS_BLOB__URL": f"file://{folder}",
        "DATARECS_SECRETS__KEK": KEK,
        "DATARECS_LINKS__KEY": "0123456789abcdef0123456789abcdef",
    }


@contextmanager
def running(database: PreparedDatabase, folder: Path, **changes: str) -> Iterator[Server]:
    authority, port = an_authority(), free_test_port()
    authority.server(folder, host="localhost")
    (certificate,) = folder.glob("localhost-*.pem")
    trusted = folder / "authority.pem"
    trusted.write_text(authority.pem)
    settings = server_settings(database, folder, port) | {
        "DATARECS_API__TLS_CERT_FILE": str(certificate),
        "DATARECS_API__TLS_KEY_FILE": str(certificate),
    }
    settings |= changes
    with running_service("datarecs_core_api", settings, log=folder / "api.log") as service:
        server = Server(service, settings, trusted, port)
        with server.client() as client:
            wait_until_ready(client, service)
        yield server


def wait_until_ready(client: httpx2.Client, service: ServiceProcess) -> None:
    for _ in range(300):
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx2.TransportError:
            assert service.process.poll() is None, service.text()
        CLOCK.wait(timedelta(seconds=0.1))
    raise AssertionError(service.text())


@pytest.fixture
def server(database: PreparedDatabase, tmp_path: Path) -> Iterator[Server]:
    with running(database, tmp_path, DATARECS_API__HEADER_TIMEOUT="2s") as one:
        yield one


@pytest.mark.case("X91")
def test_every_broken_rule_is_in_one_refusal(database: PreparedDatabase, tmp_path: Path) -> None:
    settings = server_settings(database, tmp_path, free_test_port())
    settings["DATARECS_BASE_URL"] = "http://localhost"
    settings["DATARECS_SECRETS__KEK_ID"] = "local-1"
    settings["DATARECS_LINKS__KEY"] = "k" * 40
    with running_service("datarecs_core_api", settings, log=tmp_path / "x.log") as service:
        assert service.process.wait(timeout=30) == 78
        (line,) = service.text().splitlines()
    record = json.loads(line)
    assert (record["event"], record["code"]) == ("start_refused", "DR5843")
    rules = [text.strip().partition(":")[0] for text in record["message"].splitlines()[1:]]
    assert rules == ["S2", "S3", "S6", "S13"]


@pytest.mark.case("X91")
def test_a_login_with_too_many_rights_is_refused(
    database: PreparedDatabase, tmp_path: Path
) -> None:
    settings = server_settings(database, tmp_path, free_test_port())
    settings["DATARECS_DATABASE__URL"] = database.admin_url.replace("+psycopg", "")
    settings["DATARECS_API__TRUSTED_PROXIES"] = "10.0.0.0/8"
    with running_service("datarecs_core_api", settings, log=tmp_path / "x.log") as service:
        assert service.process.wait(timeout=30) == 78
        assert "S4: the database login" in service.text()


class TestHttps:
    def test_answers_with_the_certificate_and_strict_transport(self, server: Server) -> None:
        with server.client() as client:
            answer = client.get("/api/v1/whoami", headers={"X-Forwarded-Proto": "http"})
        assert answer.status_code == 401
        assert answer.headers["strict-transport-security"] == "max-age=31536000"

    def test_speaks_no_http_and_no_old_tls(self, server: Server) -> None:
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"http://127.0.0.1:{server.port}/livez", trust_env=False)
        old = server.trusted()
        with warnings.catch_warnings(action="ignore"):
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain,
            pytest.raises(ssl.SSLError, match=r"(?i)protocol version|EOF occurred"),
        ):
            old.wrap_socket(plain, server_hostname="localhost")

    @pytest.mark.case("X34")
    def test_a_handshake_that_does_not_begin_is_closed(self, server: Server) -> None:
        before = CLOCK.monotonic()
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as silent:
            assert silent.recv(1) == b""
        assert CLOCK.monotonic() - before < 10

    @pytest.mark.case("X34")
    def test_slow_headers_are_closed_and_long_ones_refused(self, server: Server) -> None:
        with secure(server) as slow:
            slow.sendall(b"GET /livez HTTP/1.1\r\n")
            assert slow.recv(1) == b""
        with secure(server) as long:
            long.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + 40_000 * b"x")
            assert long.recv(65536).startswith(b"HTTP/1.1 400 ")

    def test_drains_like_any_other(self, server: Server) -> None:
        assert server.service.stop() == 0, server.service.text()


@contextmanager
def secure(server: Server) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as plain,
        server.trusted().wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        yield encrypted


def test_the_doctor_sees_no_fault_in_it_and_names_what_is_broken(server: Server) -> None:
    code, states = server.doctor()
    assert code == 0, states
    assert {"fail"}.isdisjoint(states.values())
    assert states["API/https"] == states["API/login required"] == "ok"
    assert (
        states["API/strict transport"] == states["S4, S5, S16/login, row security, clock"] == "ok"
    )
    code, states = server.doctor(
        DATARECS_SECRETS__KEK="", DATARECS_PROFILE="local", SSL_CERT_FILE="/dev/null"
    )
    assert code == 3
    assert {name for name, state in states.items() if state == "fail"} == {
        "profile/profile",
        "S6/key-encryption key",
        "API/https",
    }


def test_profile_local_takes_no_certificate(database: PreparedDatabase, tmp_path: Path) -> None:
    an_authority().server(tmp_path)
    (pem,) = tmp_path.glob("*.pem")
    settings = server_settings(database, tmp_path, free_test_port()) | {
        "DATARECS_PROFILE": "local",
        "DATARECS_API__TLS_CERT_FILE": str(pem),
        "DATARECS_API__TLS_KEY_FILE": str(pem),
    }
    with running_service("datarecs_core_api", settings, log=tmp_path / "x.log") as service:
        assert service.process.wait(timeout=30) == 78
        assert "Traceback" not in service.text()
        assert "DATARECS_API__TLS_CERT_FILE has no use on loopback" in service.text()
