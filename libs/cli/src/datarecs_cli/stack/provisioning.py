"""Prepares the servers for the services: roles, schema, first tenant, topics, ACLs.

Every step is idempotent: `up` performs it at every start, `datarecs admin` on demand.
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
    from datarecs_postgres.resealing import Resealed
    from datarecs_runtime.sections import Secrets

FIRST_TENANT = "default"
CONSUMER_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogin:
    """A super user of the broker."""

    bootstrap: str
    username: str
    password: str = field(repr=False)
    security: str = "SASL_PLAINTEXT"
    """Of the local node; elsewhere `SASL_SSL` unless a setting changes it."""
    ca_file: str | None = None

    def access(self) -> "BrokerAccess":
        from datarecs_kafka.access import BrokerAccess

        return BrokerAccess(
            bootstrap=self.bootstrap,
            username=self.username,
            password=self.password,
            security=self.security,
            ca_file=self.ca_file,
        )


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
    """Create the roles with these passwords; `admin_url` is the URL of a superuser."""
    from datarecs_postgres.bootstrap import bootstrap_database

    bootstrap_database(admin_url, passwords)


def migrate(url: str) -> None:
    """Migrate the schema to this release; `url` is the URL of the migration role."""
    from datarecs_postgres.migrate import upgrade

    upgrade(url)


def migration_url(url: str, secrets: LocalSecrets) -> str:
    """The URL of the same database for the role that may change its schema."""
    from datarecs_postgres.roles import MIGRATE

    return as_role(url, MIGRATE, secrets.password(MIGRATE))


def create_tenant(url: str, name: str) -> tuple[str, str]:
    """(tenant id, its first API key); the key is shown once and not stored."""
    from datarecs_postgres.tenants import create_tenant as create

    tenant_id, api_key = create(url, name)
    return str(tenant_id), api_key


def new_admin_key(url: str, name: str, *, system: bool = False) -> tuple[str, str]:
    """(tenant id, another admin key). Raises LookupError for an unknown tenant."""
    from datarecs_postgres.tenants import new_admin_key as make

    tenant_id, api_key = make(url, name, system=system)
    return str(tenant_id), api_key


def parked_events(url: str, events: Sequence[UUID]) -> "list[ParkedEvent]":
    """Parked events, all or these; `url` is the URL of the relay's role."""
    from datarecs_postgres.parking import parked

    return parked(url, events)


def unpark(url: str, events: Sequence[UUID]) -> int:
    """Unpark events, all or these, and return their number; `url` is that of the relay's role."""
    from datarecs_postgres.parking import unpark as hand_back

    return hand_back(url, events)


def note_profile(url: str, profile: str) -> None:
    """Note the profile of the deployment in its database; `url` is that of the migration role."""
    from datarecs_core.egress.addresses import Profile
    from datarecs_postgres.server_checks import note_profile as note

    note(url, Profile(profile))


def rotate_kek(url: str, settings: "Secrets") -> "Resealed":
    """Seal all stored secrets under the current key; `url` is that of the migration role."""
    from datarecs_core.webhooks.signature import secret_context
    from datarecs_postgres.resealing import StoredSecret, reseal_secrets
    from datarecs_runtime.secrets import Keyring, TenantSecrets

    store = TenantSecrets(settings, keyring=Keyring.of(settings), environment={})

    def reseal(stored: StoredSecret) -> bytes | None:
        context = secret_context(stored.tenant_id, stored.resource_uid, stored.key_id)
        return store.reseal(stored.sealed, context=context)

    return reseal_secrets(url, reseal)


def ensure_first_tenant(url: str, layout: Layout, server: str) -> Credentials:
    """Create tenant `default` and its admin key in credentials.toml at the first start.

    The server's address is updated at every start, since ports may change. A tenant gets another
    key if the file is missing, or if an earlier start ended before it was written.
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
    """Apply topics, principals and ACLs of the catalogue; returns the changes in words."""
    from datarecs_kafka import topics

    return topics.apply(login.access(), principals=passwords, local=local)


def create_consumer(
    access: "BrokerAccess", name: str, topics: Sequence[str]
) -> "tuple[Outsider, str]":
    """Create a principal that reads these topics; returns it and its secret, stored nowhere."""
    from datarecs_kafka import outsiders

    secret = secrets.token_urlsafe(CONSUMER_SECRET_BYTES)
    return outsiders.create_consumer(access, name, topics, secret=secret), secret


def list_consumers(access: "BrokerAccess") -> "tuple[Outsider, ...]":
    """Principals outside the platform, by name."""
    from datarecs_kafka import outsiders

    return outsiders.list_consumers(access)


def delete_consumer(access: "BrokerAccess", name: str) -> None:
    """Delete a principal outside the platform."""
    from datarecs_kafka import outsiders

    outsiders.delete_consumer(access, name)


def topic_differences(login: BrokerLogin, *, local: bool) -> tuple[str, ...]:
    """The differences between broker and catalogue, in words."""
    from datarecs_kafka import topics

    return topics.verify(login.access(), local=local)
