"""A broker with encrypted listeners, one for each state of a certificate, as tenants have them.

A separate broker, because the session's has the one listener of the local platform.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from datarecs_cli.stack import kafka
from datarecs_testing.certificates import LONG, Authority, an_authority
from datarecs_testing.stack import (
    BrokerPrograms,
    KafkaBroker,
    ServerProcess,
    broker_node,
    for_children,
    free_test_port,
)

LOCALHOST = "localhost"
READER = "reader"
"""The login of a tenant on the encrypted listeners; it is known to PLAIN alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsListener:
    """One listener with a certificate of its own."""

    name: str
    protocol: str = "SASL_SSL"
    host: str = LOCALHOST
    """In the certificate; clients always dial `localhost`."""
    valid: timedelta = LONG
    """Of the certificate, from 2020 on."""
    settings: tuple[tuple[str, str], ...] = ()


VALID = TlsListener(name="VALID")
EXPIRED = TlsListener(name="EXPIRED", valid=timedelta(days=30))
ELSEWHERE = TlsListener(name="ELSEWHERE", host="kafka.example.com")
OPEN = TlsListener(name="OPEN", protocol="SSL")
MUTUAL = TlsListener(name="MUTUAL", protocol="SSL", settings=(("ssl.client.auth", "required"),))
LISTENERS = (VALID, EXPIRED, ELSEWHERE, OPEN, MUTUAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsBroker:
    broker: KafkaBroker
    """Over its listener without TLS, for the administrator."""
    authority: Authority
    """Signs the certificates of all listeners."""
    password: str
    """Of `READER`."""
    ports: Mapping[str, int]
    """Of the listeners, by name."""

    def address(self, listener: TlsListener) -> str:
        return f"{LOCALHOST}:{self.ports[listener.name]}"


def start_tls_kafka(
    directory: Path, environment: Mapping[str, str], programs: BrokerPrograms, *options: str
) -> TlsBroker:
    """A new single-node broker with `LISTENERS`, besides that of every broker of tests."""
    node = broker_node(directory, programs, *options)
    authority, password = an_authority(), secrets.token_urlsafe(16)
    listeners = {one.name: free_test_port() for one in LISTENERS}
    kafka.prepare(node, for_children(environment))
    entries = kafka.properties(node)
    for listener in LISTENERS:
        place = f"{listener.name}://{LOCALHOST}:{listeners[listener.name]}"
        for key in ("listeners", "advertised.listeners"):
            entries[key] += f",{place}"
        entries["listener.security.protocol.map"] += f",{listener.name}:{listener.protocol}"
        entries |= _of_listener(listener, node, authority, password)
    node.properties_file.write_text(kafka.as_text(entries), encoding="ascii")
    part = kafka.part(node, environment=for_children(environment), log=directory / "kafka.log")
    broker = KafkaBroker(
        bootstrap=node.bootstrap,
        username=kafka.ADMIN,
        password=node.password,
        jvm=ServerProcess(part),
    )
    return TlsBroker(broker=broker, authority=authority, password=password, ports=listeners)


def _of_listener(
    listener: TlsListener, node: kafka.KafkaNode, authority: Authority, password: str
) -> dict[str, str]:
    files = node.directory / "certificates"
    files.mkdir(exist_ok=True)
    trusted = files / "authority.pem"
    trusted.write_text(authority.pem, encoding="ascii")
    name = f"listener.name.{listener.name.lower()}."
    logins = f'user_{READER}="{password}" user_{kafka.ADMIN}="{node.password}"'
    login = f'username="{kafka.ADMIN}" password="{node.password}"'
    entries = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": os.fspath(
            authority.server_file(files, host=listener.host, valid=listener.valid)
        ),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": os.fspath(trusted),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "plain.sasl.jaas.config": f"{kafka.PLAIN} required {login} {logins};",
        "scram-sha-256.sasl.jaas.config": f"{kafka.SCRAM} required {login};",
        "scram-sha-512.sasl.jaas.config": f"{kafka.SCRAM} required {login};",
        **dict(listener.settings),
    }
    return {f"{name}{key}": value for key, value in entries.items()}
