"""How readers sign in: what a server may learn of a password before it is refused."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg import sql

from datarecs_connectors.errors import ConnectionFailedError
from datarecs_connectors.postgres_login import login_parameters
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    PostgresConfig,
    SslMode,
    Transport,
)
from datarecs_testing.certificates import an_authority
from datarecs_testing.clock import ManualClock
from datarecs_testing.stack import PostgresServer

PASSWORD = "canary-password"
REMOTE = "192.168.10.20"
CONFIG = PostgresConfig(host="ledger.example.com", database="d", user="u")
SOURCE = Source(name="ledger", kind=SourceKind.POSTGRES, connection="c", query="SELECT 1 AS id")


def parameters(
    config: PostgresConfig = CONFIG, *, address: str = REMOTE, password: str = PASSWORD
) -> Any:  # noqa: ANN401  texts by parameter
    return login_parameters("ledger", config, address=address, password=password)


def open_source(config: PostgresConfig, *, password: str = PASSWORD) -> Any:  # noqa: ANN401  a connector
    return open_connector(
        SOURCE,
        Connection(type=ConnectionType.POSTGRES, config=config),
        {"password": password} if password else {},
        surroundings=Surroundings(
            roots=(),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=ManualClock().now,
        ),
    )


@pytest.mark.parametrize("mode", [SslMode.DISABLE, SslMode.ALLOW, SslMode.PREFER])
def test_a_remote_address_is_never_dialled_without_encryption(mode: SslMode) -> None:
    config = replace(CONFIG, sslmode=mode)
    with pytest.raises(ConnectionFailedError, match="transport: unencrypted-accepted") as refused:
        parameters(config)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1"])
def test_the_loopback_needs_no_encryption(address: str) -> None:
    config = replace(CONFIG, sslmode=SslMode.PREFER)
    assert parameters(config, address=address)["sslmode"] == "prefer"


def test_a_connection_may_accept_an_unencrypted_network_in_words() -> None:
    config = replace(CONFIG, sslmode=SslMode.DISABLE, transport=Transport.UNENCRYPTED_ACCEPTED)
    assert parameters(config) == {
        "sslmode": "disable",
        "require_auth": "scram-sha-256",
        "password": PASSWORD,
    }


def test_a_server_is_verified_against_the_authorities_of_the_system_by_default() -> None:
    values = parameters()
    assert values["sslmode"] == "verify-full"
    assert values["sslrootcert"] == "system" or Path(values["sslrootcert"]).is_file()


def test_a_connection_may_bring_separate_authorities() -> None:
    config = replace(CONFIG, ca="-----BEGIN CERTIFICATE-----")
    path = parameters(config)["sslrootcert"]
    assert Path(path).read_text(encoding="ascii") == "-----BEGIN CERTIFICATE-----"
    assert parameters(config)["sslrootcert"] == path


def test_without_a_password_none_of_the_environment_is_sent() -> None:
    values = parameters(password="")
    assert values["require_auth"] == "none"
    assert "password" not in values


@contextmanager
def password_server(request: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server that requests the password with its method and records the answer."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            line, _ = door.accept()
            with line:
                line.settimeout(10)
                startup = line.recv(65_536)
                received.append(startup)
                line.sendall(request)
                while part := line.recv(65_536):
                    received.append(part)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield int(door.getsockname()[1]), received
        thread.join(15)


@pytest.mark.integration
@pytest.mark.parametrize(
    "request_bytes",
    [b"R\0\0\0\x08\0\0\0\x03", b"R\0\0\0\x0c\0\0\0\x05salt"],
    ids=["clear text", "md5"],
)
def test_a_server_that_requests_the_password_itself_never_gets_it(request_bytes: bytes) -> None:
    with password_server(request_bytes) as (port, received):
        config = replace(CONFIG, host="127.0.0.1", port=port, sslmode=SslMode.DISABLE)
        with pytest.raises(ConnectionFailedError, match="does not use scram-sha-256"):
            open_source(config).pin(SOURCE)
    answer = b"".join(received[1:])
    assert answer in {b"", b"X\0\0\0\x04"}  # nothing, or libpq's goodbye


@contextmanager
def tls_server(context: ssl.SSLContext) -> Iterator[tuple[int, list[bytes]]]:
    """A server that offers TLS and records what a client says inside it."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            line, _ = door.accept()
            line.settimeout(10)
            line.recv(8)  # may we speak TLS?
            line.sendall(b"S")
            with suppress(OSError), context.wrap_socket(line, server_side=True) as inside:
                received.append(inside.recv(65_536))

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield int(door.getsockname()[1]), received
        thread.join(15)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("authority", "name", "mode", "is_trusted"),
    [
        ("own", "localhost", SslMode.VERIFY_FULL, True),
        ("own", "localhost", SslMode.VERIFY_CA, True),
        ("own", "other.example.com", SslMode.VERIFY_FULL, False),
        ("own", "other.example.com", SslMode.VERIFY_CA, True),
        ("another", "localhost", SslMode.VERIFY_FULL, False),
        ("another", "localhost", SslMode.VERIFY_CA, False),
        ("system", "localhost", SslMode.VERIFY_FULL, False),
        ("system", "localhost", SslMode.VERIFY_CA, False),
    ],
)
def test_nothing_is_said_to_a_server_that_does_not_prove_its_name(
    tmp_path: Path, authority: str, name: str, mode: SslMode, *, is_trusted: bool
) -> None:
    signer = an_authority()
    authorities = {"own": signer.pem, "another": an_authority().pem, "system": None}[authority]
    with tls_server(signer.server(tmp_path, host=name)) as (port, received):
        config = replace(CONFIG, host="localhost", port=port, sslmode=mode, ca=authorities)
        with pytest.raises(ConnectionFailedError) as failed:
            open_source(config).pin(SOURCE)
    assert bool(received and received[0]) is is_trusted
    assert is_trusted or "TLS failed" in str(failed.value)


@pytest.fixture
def weak_server(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The session's server, requesting the password of one login by `request.param`."""
    admin = psycopg.conninfo.make_conninfo(
        postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    )
    fields = psycopg.conninfo.conninfo_to_dict(admin)
    user = f"weak_{fields['dbname']}"
    with psycopg.connect(admin, autocommit=True) as session:
        session.execute("SET password_encryption = 'md5'")
        role = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        session.execute(role.format(sql.Identifier(user), sql.Literal(PASSWORD)))
        row = session.execute("SELECT current_setting('hba_file')").fetchone()
        file = str(row[0]) if row else ""
        rules = session.execute("SELECT pg_read_file(%s)", (file,)).fetchone()
        before = str(rules[0]) if rules else ""
        write_file(session, file, f"host all {user} all {request.param}\n{before}")
        try:
            yield replace(
                CONFIG,
                host="127.0.0.1",
                port=int(fields["port"] or 5432),
                database=str(fields["dbname"]),
                user=user,
                sslmode=SslMode.DISABLE,
            )
        finally:
            write_file(session, file, before)


def write_file(session: psycopg.Connection[Any], file: str, text: str) -> None:
    """Replace the server's rules of access line by line and let it read them."""
    lines = text.splitlines()
    session.execute(
        sql.SQL("COPY (SELECT unnest({}::text[])) TO {}").format(
            sql.Literal(lines), sql.Literal(file)
        )
    )
    session.execute("SELECT pg_reload_conf()")
    while True:
        loaded = session.execute("SELECT pg_conf_load_time() > now() - interval '1 minute'")
        if loaded.fetchone() == (True,):
            return


@pytest.mark.integration
@pytest.mark.parametrize("weak_server", ["password", "md5"], indirect=True)
def test_a_real_server_with_a_weak_rule_is_refused_and_says_why(
    weak_server: PostgresConfig,
) -> None:
    """The same login with the same password would get in: the rule is what is refused."""
    direct = {"host": "127.0.0.1", "port": weak_server.port, "user": weak_server.user}
    with psycopg.connect(**direct, dbname=weak_server.database, password=PASSWORD):  # type: ignore[arg-type]  # texts and a number
        pass
    with pytest.raises(ConnectionFailedError, match="does not use scram-sha-256") as refused:
        open_source(weak_server).pin(SOURCE)
    assert PASSWORD not in str(refused.value)


@pytest.mark.integration
def test_a_probe_says_whether_the_line_is_encrypted(postgres_server: PostgresServer) -> None:
    fields = psycopg.conninfo.conninfo_to_dict(
        postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    )
    config = replace(
        CONFIG,
        host="127.0.0.1",
        port=int(fields["port"] or 5432),
        database=str(fields["dbname"]),
        user=str(fields["user"]),
        sslmode=SslMode.PREFER,
    )
    steps = open_source(config, password=str(fields["password"])).probe()
    login = next(step for step in steps if step.name == "login")
    assert "not encrypted" in str(login)
