"""What the servers need before a service may start: roles, schema, first tenant, topics, ACLs.

Everything here is idempotent: `up` does it at every start, `datarecs admin` on demand.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from datarecs_cli.stack.credentials import (
    Credentials,
    LocalSecrets,
    read_credentials,
    write_credentials,
)
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.services import RELAY_PRINCIPAL, Service, as_role, principal_secret

if TYPE_CHECKING:
    from datarecs_kafka.access import BrokerAccess
    from datarecs_kafka.outsiders import Outsider
    from datarecs_postgres.parking import ParkedEvent

FIRST_TENANT = "default"
CONSUMER_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogin:
    """A super user of the broker."""

    bootstrap: str
    username: str
    password: str = field(repr=False)


def role_passwords(secrets: LocalSecrets) -> dict[str, str]:
    """A password for each database role that logs in."""
    from datarecs_postgres.roles import LOGINS

    return secrets.passwords(LOGINS)


def principal_passwords(secrets: LocalSecrets, services: tuple[Service, ...]) -> dict[str, str]:
    """A password for each broker principal of these services, the relay and the operators."""
    from datarecs_kafka.topics import OPERATORS

    principals = [service.principal for service in services if service.principal]
    principals += [RELAY_PRINCIPAL, OPERATORS]
    return {name: secrets.password(principal_secret(name)) for name in principals}


def provision_roles(admin_url: str, passwords: Mapping[str, str]) -> None:
    """Create the roles with these passwords; `admin_url` is a superuser's."""
    from datarecs_postgres.bootstrap import bootstrap_database

    bootstrap_database(admin_url, passwords)


def migrate(url: str) -> None:
    """Bring the schema to this release's head; `url` is the migration role's."""
    from datarecs_postgres.migrate import upgrade

    upgrade(url)


def migration_url(url: str, secrets: LocalSecrets) -> str:
    """The same database as the role that may change its schema."""
    from datarecs_postgres.roles import MIGRATE

    return as_role(url, MIGRATE, secrets.password(MIGRATE))


def create_tenant(url: str, name: str) -> tuple[str, str]:
    """(tenant id, its first API key); the key is shown once and not kept."""
    from datarecs_postgres.tenants import create_tenant as create

    tenant_id, api_key = create(url, name)
    return str(tenant_id), api_key


def new_admin_key(url: str, name: str) -> tuple[str, str]:
    """(tenant id, another admin key of it). Raises LookupError for an unknown tenant."""
    from datarecs_postgres.tenants import new_admin_key as make

    tenant_id, api_key = make(url, name)
    return str(tenant_id), api_key


def parked_events(url: str, events: Sequence[UUID]) -> "list[ParkedEvent]":
    """Events that were set aside, all or these; `url` is the relay's."""
    from datarecs_postgres.parking import parked

    return parked(url, events)


def unpark(url: str, events: Sequence[UUID]) -> int:
    """Hand parked events, all or these, to the relay again; how many. `url` is the relay's."""
    from datarecs_postgres.parking import unpark as hand_back

    return hand_back(url, events)


def ensure_first_tenant(url: str, layout: Layout, server: str) -> Credentials:
    """Tenant `default` and its admin key in credentials.toml, made at the first start.

    The server's address is brought up to date at every start, since ports may move. A tenant whose
    key was lost, because the file is gone or an earlier start ended too soon, gets another one.
    """
    known = read_credentials(layout.credentials_file)
    if known is None:
        tenant_id, api_key = _first_key(url)
        known = Credentials(
            server=server, tenant=FIRST_TENANT, tenant_id=tenant_id, api_key=api_key
        )
    current = Credentials(
        server=server, tenant=known.tenant, tenant_id=known.tenant_id, api_key=known.api_key
    )
    write_credentials(layout.credentials_file, current)
    return current


def _first_key(url: str) -> tuple[str, str]:
    from datarecs_postgres.failures import TenantExistsError

    try:
        return create_tenant(url, FIRST_TENANT)
    except TenantExistsError:
        return new_admin_key(url, FIRST_TENANT)


def provision_topics(
    login: BrokerLogin, passwords: Mapping[str, str], *, local: bool
) -> tuple[str, ...]:
    """Topics, principals and ACLs of the catalogue; what was changed, in words."""
    from datarecs_kafka import topics

    return topics.apply(
        login.bootstrap,
        username=login.username,
        password=login.password,
        principals=passwords,
        local=local,
    )


def create_consumer(
    access: "BrokerAccess", name: str, topics: Sequence[str]
) -> "tuple[Outsider, str]":
    """A principal outside the platform that reads these topics, and its secret, kept nowhere."""
    from datarecs_kafka import outsiders

    secret = secrets.token_urlsafe(CONSUMER_SECRET_BYTES)
    return outsiders.create_consumer(access, name, topics, secret=secret), secret


def list_consumers(access: "BrokerAccess") -> "tuple[Outsider, ...]":
    """Principals outside the platform, by name."""
    from datarecs_kafka import outsiders

    return outsiders.list_consumers(access)


def delete_consumer(access: "BrokerAccess", name: str) -> None:
    """Take a principal outside the platform away."""
    from datarecs_kafka import outsiders

    outsiders.delete_consumer(access, name)


def topic_differences(login: BrokerLogin, *, local: bool) -> tuple[str, ...]:
    """What differs between broker and catalogue, in words."""
    from datarecs_kafka import topics

    return topics.verify(
        login.bootstrap, username=login.username, password=login.password, local=local
    )
