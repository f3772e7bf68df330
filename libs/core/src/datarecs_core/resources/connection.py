"""The declared Connection: the address of a system and the reference to its secret.

A separate concept because jobs name connections, connectors open them, and neither may have a
secret: `auth` maps a field to a reference, never to a value.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from datarecs_core.access.references import SecretPurpose, SecretUse, normal_host
from datarecs_core.errors.faults import Fault, did_you_mean
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.object_urls import (
    ObjectUrl,
    endpoint_of,
    is_object_url,
    object_url_fault,
)


class ConnectionType(StrEnum):
    POSTGRES = "postgres"
    FILES = "files"
    """A folder below the roots that the operator allows."""
    ICEBERG = "iceberg"
    """A catalog of Iceberg tables, with files below the roots that the operator allows."""
    OBJECT_STORE = "object_store"
    """A bucket of S3, Google Cloud Storage or Azure, or a prefix of it."""
    KAFKA = "kafka"
    """A cluster of Kafka brokers."""


class CatalogType(StrEnum):
    """What stores the place of the current metadata of a table."""

    SQL = "sql"
    """A table `iceberg_tables` in PostgreSQL or SQLite, as JdbcCatalog and pyiceberg keep it."""
    REST = "rest"
    HADOOP = "hadoop"
    """No catalog at all: the newest metadata file in the table's folder."""


class SslMode(StrEnum):
    """As libpq spells them; below VERIFY_FULL the server is not proven to be the one named."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


UNENCRYPTED_MODES = frozenset({SslMode.DISABLE, SslMode.ALLOW, SslMode.PREFER})
"""Values with which libpq may connect without TLS."""


class KafkaSecurity(StrEnum):
    """As Kafka's clients spell them."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_login(self) -> bool:
        return self in (KafkaSecurity.SASL_PLAINTEXT, KafkaSecurity.SASL_SSL)

    @property
    def is_encrypted(self) -> bool:
        return self in (KafkaSecurity.SSL, KafkaSecurity.SASL_SSL)


class KafkaMechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class Transport(StrEnum):
    """Whether a password may travel over a connection that TLS does not protect."""

    ENCRYPTED = "encrypted"
    UNENCRYPTED_ACCEPTED = "unencrypted-accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresConfig:
    host: str
    """A name or an address; which addresses may be dialled is decided at each dial."""
    port: int = 5432
    database: str
    user: str
    sslmode: SslMode = SslMode.VERIFY_FULL
    ca: str | None = None
    """Certificates of the authorities that may sign the server's, PEM. None: the system's."""
    transport: Transport = Transport.ENCRYPTED
    """What an `sslmode` below `require` needs outside the loopback."""

    @property
    def may_be_unencrypted(self) -> bool:
        """Whether libpq would connect without TLS under this `sslmode`."""
        return self.sslmode in UNENCRYPTED_MODES


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesConfig:
    root: str
    """Folder from which the paths of sources start, inside a root the operator allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlCatalog:
    """Exactly one of `postgres` and `sqlite` is set."""

    type: CatalogType
    name: str
    """Of the catalog, as its rows carry it."""
    postgres: PostgresConfig | None = None
    sqlite: str | None = None
    """Database file inside a root the operator allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCatalog:
    type: CatalogType
    uri: str
    warehouse: str | None = None
    """The warehouse, where the server has several."""
    token_uri: str | None = None
    """Where a `credential` is exchanged for a token; None: `v1/oauth/tokens` of the catalog."""
    scope: str = "catalog"
    """Of that token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopCatalog:
    type: CatalogType
    warehouse: str
    """Folder of the tables, inside a root the operator allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStoreConfig:
    url: str
    """Where the paths of sources start, such as `s3://bucket/prefix`."""
    endpoint: str | None = None
    """Address of the server. None: the provider's; Azure needs it, because it names the account."""
    region: str | None = None
    """Of an S3 bucket; None: us-east-1."""
    ca: str | None = None
    """Certificates of more authorities that may sign the server's, PEM. None: the system's."""

    @property
    def server(self) -> str:
        """The endpoint or its default."""
        return endpoint_of(ObjectUrl.parse(self.url), self.endpoint, self.region)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergConfig:
    catalog: SqlCatalog | RestCatalog | HadoopCatalog
    store: ObjectStoreConfig | None = None
    """Where the tables' files are; None: below the roots that the operator allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """A schema registry with the interface of Confluent's."""

    url: str
    username: str | None = None
    """None: without login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConfig:
    brokers: tuple[str, ...]
    """Each `host:port`; the first connection goes to any of them, and they name the others."""
    security: KafkaSecurity = KafkaSecurity.SASL_SSL
    mechanism: KafkaMechanism = KafkaMechanism.SCRAM_SHA_512
    """Of the login; without effect where `security` has none."""
    user: str | None = None
    """None where `security` has no login."""
    ca: str | None = None
    """Certificates of the authorities that may sign the brokers', PEM. None: the system's."""
    transport: Transport = Transport.ENCRYPTED
    """What a `security` without TLS needs outside the loopback."""
    registry: RegistryConfig | None = None
    """The schemas of records in Avro."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Without ports, IPv6 addresses without brackets; no host twice."""
        return tuple(dict.fromkeys(split_broker(broker)[0] for broker in self.brokers))


def split_broker(broker: str) -> tuple[str, int]:
    """Host and port of `host:port`, an IPv6 address without its brackets.

    Raises:
        ValueError: it is not of this form.
    """
    host, colon, port = broker.rpartition(":")
    plain = host.removeprefix("[").removesuffix("]")
    is_address = plain != host
    if not colon or not plain or (":" in plain) != is_address:
        raise ValueError("not host:port")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < _PORTS):
        raise ValueError("its port is not a number up to 65535")
    return plain, int(port)


_PORTS = 65_536
ConnectionConfig = PostgresConfig | FilesConfig | IcebergConfig | ObjectStoreConfig | KafkaConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Spec of the kind Connection."""

    type: ConnectionType
    config: ConnectionConfig
    auth: Mapping[str, str] = field(default_factory=dict)
    """Secret references by field, such as `password`: `env:NAME` or `file:/path`."""


def secret_uses(config: ConnectionConfig, name: str) -> tuple[SecretUse, ...]:
    """Where the secret of an `auth` field is sent; none when this configuration does not send it.

    A credential is exchanged at one host for a token for another, so it counts for both.
    """
    match config, name:
        case (PostgresConfig() as server, "password") | (
            IcebergConfig(catalog=SqlCatalog(postgres=PostgresConfig() as server)),
            "password",
        ):
            return (SecretUse(purpose=SecretPurpose.POSTGRES, host=normal_host(server.host)),)
        case IcebergConfig(catalog=RestCatalog() as catalog), "token":
            return _catalog_uses(catalog.uri)
        case IcebergConfig(catalog=RestCatalog() as catalog), "credential":
            return _catalog_uses(catalog.token_uri or catalog.uri, catalog.uri)
        case (ObjectStoreConfig() as store, "credentials") | (
            IcebergConfig(store=ObjectStoreConfig() as store),
            "credentials",
        ):
            host = normal_host(urlsplit(store.server).hostname or "")
            return (SecretUse(purpose=SecretPurpose.OBJECT_STORE, host=host),)
        case KafkaConfig() as cluster, _:
            return tuple(
                SecretUse(purpose=SecretPurpose.KAFKA, host=normal_host(host))
                for host in _cluster_hosts(cluster, name)
            )
        case _:
            return ()


def _cluster_hosts(cluster: KafkaConfig, name: str) -> tuple[str, ...]:
    """The hosts that a secret of a cluster is sent to."""
    if name == "password" and cluster.security.has_login:
        return cluster.hosts
    registry = cluster.registry
    if name == "registry_password" and registry is not None and registry.username is not None:
        return (urlsplit(registry.url).hostname or "",)
    return ()


def _catalog_uses(*urls: str) -> tuple[SecretUse, ...]:
    hosts = dict.fromkeys(normal_host(urlsplit(url).hostname or "") for url in urls)
    return tuple(SecretUse(purpose=SecretPurpose.ICEBERG, host=host) for host in hosts)


_FILES = (ConnectionType.FILES, ConnectionType.OBJECT_STORE)
SERVES: Mapping[SourceKind, tuple[ConnectionType, ...]] = {
    SourceKind.POSTGRES: (ConnectionType.POSTGRES,),
    SourceKind.PARQUET: _FILES,
    SourceKind.CSV: _FILES,
    SourceKind.JSON: _FILES,
    SourceKind.ICEBERG: (ConnectionType.ICEBERG,),
    SourceKind.KAFKA: (ConnectionType.KAFKA,),
}
"""Which connections a kind of source can use; kinds that are not listed have none yet."""

_REFUSED_PATHS = (
    (re.compile(r"\\\\|//|[A-Za-z]:"), "a network path or drive letter is not allowed"),
    (re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:"), "write a path, not a URL"),
    (re.compile(r"(?i).*%(2e|2f|5c|00)"), "percent-encoded dots, slashes and NUL are not allowed"),
    (re.compile(r"(.*[/\\])?\.\.([/\\].*)?"), "`..` is not allowed"),
)

ANY_FOLDERS = "**"
"""The part of a path that matches any number of folders, zero included."""


def path_fault(path: str, *, absolute: bool = False) -> str | None:
    """What is wrong with the path of a file source or root by its text alone, or None.

    Args:
        path: as declared; may hold `*` and `?`.
        absolute: a leading slash is fine (roots, and `datarecs compare` on a workstation).
    """
    if not path.isprintable():
        return "a path holds no NUL, line break or other invisible character"
    for refused, why in _REFUSED_PATHS:
        if refused.match(path):
            return why
    if path.startswith("/") and not absolute:
        return "the path starts at the connection's root; write it without a leading /"
    return None


def source_path_fault(path: str, *, absolute: bool = False) -> str | None:
    """As `path_fault`, for a source: patterns and an address of objects are allowed."""
    if is_object_url(path):
        return object_url_fault(path) or pattern_fault(path)
    return path_fault(path, absolute=absolute) or pattern_fault(path)


def pattern_fault(path: str) -> str | None:
    """What is wrong with the patterns of a path or address, or None."""
    if any(ANY_FOLDERS in part and part != ANY_FOLDERS for part in path.split("/")):
        return (
            f"`{ANY_FOLDERS}` matches folders only between slashes, as in "
            f"exports/{ANY_FOLDERS}/*.csv; inside a name write `*`"
        )
    return None


def connection_faults(
    job: ReconciliationJob, known: Mapping[str, ConnectionType]
) -> tuple[Fault, ...]:
    """The faults between a job and the connections of its namespace, by name.

    Checked where connections are available: by the server's planning, never by `validate`.
    """
    return tuple(
        fault
        for index, source in enumerate(job.sources)
        if source.connection is not None
        for fault in _connection_faults(index, source, known)
    )


def _connection_faults(
    index: int, source: Source, known: Mapping[str, ConnectionType]
) -> Iterator[Fault]:
    path = ("spec", "sources", index, "connection")
    name = source.connection or ""
    if name not in known:
        yield Fault(
            code=SpecCode.UNKNOWN_CONNECTION,
            path=path,
            message="no connection has this name",
            hint=did_you_mean(name, known) or "declare it in the same file, or apply it first",
        )
    elif known[name] not in (wanted := SERVES.get(source.kind, ())):
        yield Fault(
            code=SpecCode.CONNECTION_MISMATCH,
            path=path,
            message=f"a {source.kind} source cannot use a connection of type {known[name]}",
            hint=f"name a connection of type {' or '.join(wanted)}" if wanted else "",
        )
