"""The shape of a Connection's spec: one configuration per type, secrets by reference alone.

Each new type of connection is one entry here and one dataclass in core.
"""

from collections.abc import Mapping
from dataclasses import replace

from datarecs_core.egress.urls import check_source_port, names_loopback
from datarecs_core.errors.faults import Fault, Path, Place
from datarecs_core.errors.security import UrlRefusedError
from datarecs_core.errors.spec import SpecCode
from datarecs_core.resources.connection import (
    UNENCRYPTED_MODES,
    CatalogType,
    Connection,
    ConnectionConfig,
    ConnectionType,
    FilesConfig,
    HadoopCatalog,
    IcebergConfig,
    KafkaConfig,
    ObjectStoreConfig,
    PostgresConfig,
    RestCatalog,
    SqlCatalog,
    SslMode,
    Transport,
    secret_uses,
)
from datarecs_core.resources.object_urls import ObjectUrl, StoreKind
from datarecs_core.resources.store_servers import endpoint_fault
from datarecs_specs.job_sources import FREE
from datarecs_specs.kafka_shape import kafka_config
from datarecs_specs.reading import Reading
from datarecs_specs.records import Field, Record, Tagged, tagged
from datarecs_specs.references import (
    CATALOG_URL,
    CERTIFICATES,
    FOLDER,
    HOST,
    OBJECT_URL,
    SECRET_REFERENCE,
    check_uses,
)
from datarecs_specs.shapes import IDENT, Text, Whole, Word

_WRITE_AUTH = (SpecCode.INLINE_SECRET, "write `auth: {password: env:NAME}` beside `config`")
_SECRET_KEYS = dict.fromkeys(
    ("password", "passwd", "secret", "token", "api_key", "private_key"), _WRITE_AUTH
)
_DSN_KEYS = dict.fromkeys(
    ("url", "dsn", "uri", "connection_string"),
    (SpecCode.INLINE_SECRET, "write host, port, database and user, the password under `auth`"),
)


def _check_server(fields: Mapping[str, object], at: Path, reading: Reading) -> None:
    """Ports a source may have, and TLS outside the loopback; of a stored spec the dial judges."""
    if reading.surroundings.is_stored:
        return
    port, host, sslmode = fields.get("port"), fields.get("host"), fields.get("sslmode")
    if isinstance(port, int):
        try:
            check_source_port(port)
        except UrlRefusedError as refused:
            reading.fault(Fault(code=SpecCode.BAD_URL, path=(*at, "port"), message=str(refused)))
    if (
        sslmode in UNENCRYPTED_MODES
        and isinstance(host, str)
        and not names_loopback(host)
        and fields.get("transport") is not Transport.UNENCRYPTED_ACCEPTED
    ):
        reading.fault(
            Fault(
                code=SpecCode.UNENCRYPTED_TRANSPORT,
                path=(*at, "sslmode"),
                message=f"sslmode {sslmode} may send the password and rows without encryption",
                hint="write sslmode: verify-full, or accept it with "
                "transport: unencrypted-accepted",
            )
        )


_POSTGRES = Record(
    title="config of postgres",
    model=PostgresConfig,
    check=_check_server,
    misplaced={**_SECRET_KEYS, **_DSN_KEYS},
    fields=(
        Field(name="host", shape=HOST, doc="name or address of the server"),
        Field(
            name="port",
            shape=Whole(least=1, most=65_535),
            doc="of the server; 443 or 1024 to 65535, no port of container or cluster control",
        ),
        Field(name="database", shape=IDENT, doc="name of the database"),
        Field(name="user", shape=IDENT, doc="a role that may only read"),
        Field(
            name="sslmode",
            shape=Word(words=SslMode),
            doc="how the server is verified; verify-full also checks its name",
        ),
        Field(
            name="ca",
            shape=CERTIFICATES,
            doc="authorities that may sign the server's certificate, PEM; default: the system's",
        ),
        Field(
            name="transport",
            shape=Word(words=Transport),
            doc="unencrypted-accepted allows a password without TLS outside the loopback",
        ),
    ),
)


def _check_database(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    """A SQL catalog is in one database."""
    places = [name for name in ("postgres", "sqlite") if name in values]
    if len(places) != 1:
        reading.fault(
            Fault(
                code=SpecCode.FIELD_GIVEN_TWICE if places else SpecCode.MISSING_FIELD,
                path=(*at, "postgres"),
                others=((*at, "sqlite"),) if places else (),
                message="give exactly one of postgres and sqlite",
                place=Place.KEY if places else Place.MISSING,
            )
        )


_WAREHOUSE = Text(most=1_024, normal=False)
_CATALOG_FIELDS: Mapping[CatalogType, tuple[Field, ...]] = {
    CatalogType.SQL: (
        Field(name="name", shape=IDENT, doc="name of the catalog in its rows"),
        Field(name="postgres", shape=_POSTGRES, doc="the server with the table `iceberg_tables`"),
        Field(name="sqlite", shape=FOLDER, doc="the file with this table, inside an allowed root"),
    ),
    CatalogType.REST: (
        Field(name="uri", shape=CATALOG_URL, doc="address of the catalog, before `/v1`"),
        Field(name="warehouse", shape=_WAREHOUSE, doc="one warehouse, if the catalog has several"),
        Field(
            name="token_uri", shape=CATALOG_URL, doc="address that returns a token for a credential"
        ),
        Field(name="scope", shape=IDENT, doc="scope of that token"),
    ),
    CatalogType.HADOOP: (
        Field(name="warehouse", shape=FOLDER, doc="folder of the tables inside an allowed root"),
    ),
}


def _catalogs() -> Tagged:
    """The catalogs by type, each read into its own dataclass."""
    models = {
        CatalogType.SQL: SqlCatalog,
        CatalogType.REST: RestCatalog,
        CatalogType.HADOOP: HadoopCatalog,
    }
    misplaced = {**_SECRET_KEYS, **_DSN_KEYS}
    del misplaced["uri"]
    general = Record(
        title="a catalog",
        model=dict,
        misplaced=misplaced,
        fields=(Field(name="type", shape=Word(words=CatalogType), doc="of the catalog"),),
    )
    fields: Mapping[str, tuple[Field, ...]] = {
        kind: (
            Field(name="type", shape=Word(words=CatalogType, only=(kind,)), doc="of the catalog"),
            *catalog_fields,
        )
        for kind, catalog_fields in _CATALOG_FIELDS.items()
    }
    every = {one.name: one for catalog_fields in fields.values() for one in catalog_fields}
    shape = tagged("type", fields, record=general)
    variants = {
        str(kind): replace(
            shape.variants[kind],
            model=model,
            check=_check_database if kind is CatalogType.SQL else None,
        )
        for kind, model in models.items()
    }
    whole = {**every, "type": general.fields[0]}
    return replace(shape, variants=variants, general=replace(general, fields=tuple(whole.values())))


def _check_store(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    """Azure needs its endpoint, only S3 has a region; of a stored endpoint the opening judges."""
    if not isinstance(values.get("url"), str):
        return
    kind, endpoint = ObjectUrl.parse(str(values["url"])).kind, values.get("endpoint")
    if isinstance(endpoint, str) and not reading.surroundings.is_stored:
        problem = endpoint_fault(kind, endpoint)
        if problem is not None:
            message, _, hint = problem.partition("; ")
            place = (*at, "endpoint")
            reading.fault(Fault(code=SpecCode.BAD_URL, path=place, message=message, hint=hint))
    if kind is StoreKind.AZ and "endpoint" not in values:
        reading.fault(
            Fault(
                code=SpecCode.MISSING_FIELD,
                path=(*at, "endpoint"),
                message="az:// needs the endpoint, which contains the name of the account",
                hint="write endpoint: https://<account>.blob.core.windows.net",
                place=Place.MISSING,
            )
        )
    if kind is not StoreKind.S3 and "region" in values:
        reading.fault(
            Fault(
                code=SpecCode.WITHOUT_EFFECT,
                path=(*at, "region"),
                message=f"{kind}:// has no region",
                hint="leave it out",
                place=Place.KEY,
            )
        )


_STORE_SECRETS = dict.fromkeys(
    ("access_key_id", "secret_access_key", "session_token", "account_key", "sas", "credentials"),
    (SpecCode.INLINE_SECRET, "write `auth: {credentials: env:NAME}` beside `config`"),
)
_OBJECT_STORE = Record(
    title="config of object_store",
    model=ObjectStoreConfig,
    check=_check_store,
    misplaced={**_SECRET_KEYS, **_STORE_SECRETS},
    fields=(
        Field(name="url", shape=OBJECT_URL, doc="where the paths of sources start"),
        Field(
            name="endpoint",
            shape=CATALOG_URL,
            doc="address of the server; default: the provider's, az:// has none",
        ),
        Field(name="region", shape=IDENT, doc="region of an S3 bucket; default: us-east-1"),
        Field(
            name="ca",
            shape=CERTIFICATES,
            doc="more authorities that may sign the server's certificate, PEM",
        ),
    ),
)
_CONFIGS: Mapping[ConnectionType, Record] = {
    ConnectionType.POSTGRES: _POSTGRES,
    ConnectionType.FILES: Record(
        title="config of files",
        model=FilesConfig,
        fields=(Field(name="root", shape=FOLDER, doc="folder inside a root the operator allows"),),
    ),
    ConnectionType.ICEBERG: Record(
        title="config of iceberg",
        model=IcebergConfig,
        misplaced=_SECRET_KEYS,
        fields=(
            Field(name="catalog", shape=_catalogs(), doc="where tables are looked up"),
            Field(
                name="store",
                shape=_OBJECT_STORE,
                doc="the object store with the tables' files; default: folders of the worker",
            ),
        ),
    ),
    ConnectionType.OBJECT_STORE: _OBJECT_STORE,
    ConnectionType.KAFKA: kafka_config(_SECRET_KEYS),
}
_AUTH: Mapping[ConnectionType, tuple[str, ...]] = {
    ConnectionType.POSTGRES: ("password",),
    ConnectionType.FILES: (),
    ConnectionType.ICEBERG: ("password", "token", "credential", "credentials"),
    ConnectionType.OBJECT_STORE: ("credentials",),
    ConnectionType.KAFKA: ("password", "registry_password"),
}


def _auth(*names: str) -> Record:
    return Record(
        title="auth",
        model=dict,
        fields=tuple(
            Field(name=name, shape=SECRET_REFERENCE, doc="reference to the secret")
            for name in names
        ),
    )


def _fields(kind: ConnectionType) -> tuple[Field, ...]:
    return (
        Field(name="type", shape=Word(words=ConnectionType, only=(kind,)), doc="of the system"),
        Field(name="config", shape=_CONFIGS[kind], doc="address of the system"),
        Field(name="auth", shape=_auth(*_AUTH[kind]), doc="secret references by field"),
    )


_GENERAL = Record(
    title="a connection",
    model=Connection,
    misplaced=_SECRET_KEYS,
    fields=(
        Field(name="type", shape=Word(words=ConnectionType), doc="of the system"),
        Field(name="config", shape=FREE, doc="address of the system"),
        Field(
            name="auth",
            shape=_auth("password", "token", "credential", "credentials", "registry_password"),
            doc="secret references by field",
        ),
    ),
)


def _check_secrets(fields: Mapping[str, object], at: Path, reading: Reading) -> None:
    """Each reference may go to the host beside it; a login of Kafka has a password."""
    config, auth = fields.get("config"), fields.get("auth", {})
    if not isinstance(config, ConnectionConfig) or not isinstance(auth, Mapping):
        return
    if isinstance(config, KafkaConfig):
        _check_password(config, auth, at, reading)
        _check_registry(config, auth, at, reading)
    for name, reference in auth.items():
        if isinstance(reference, str):
            check_uses(reference, secret_uses(config, name), (*at, "auth", name), reading)


def _check_password(
    config: KafkaConfig, auth: Mapping[str, object], at: Path, reading: Reading
) -> None:
    if config.security.has_login == ("password" in auth):
        return
    is_missing = config.security.has_login
    reading.fault(
        Fault(
            code=SpecCode.MISSING_FIELD if is_missing else SpecCode.WITHOUT_EFFECT,
            path=(*at, "auth", "password"),
            message="the login needs a password"
            if is_missing
            else f"security {config.security} sends no password",
            hint="write auth: {password: env:NAME}" if is_missing else "leave it out",
            place=Place.MISSING if is_missing else Place.KEY,
        )
    )


def _check_registry(
    config: KafkaConfig, auth: Mapping[str, object], at: Path, reading: Reading
) -> None:
    """A login of the registry has both, a name and a password."""
    has_login = config.registry is not None and config.registry.username is not None
    if has_login == ("registry_password" in auth):
        return
    reading.fault(
        Fault(
            code=SpecCode.MISSING_FIELD if has_login else SpecCode.WITHOUT_EFFECT,
            path=(*at, "auth", "registry_password"),
            message="the login of the registry needs a password"
            if has_login
            else "the registry has no username, so no password is sent",
            hint="write auth: {registry_password: env:NAME}"
            if has_login
            else "write registry: {username: NAME} in config, or leave it out",
            place=Place.MISSING if has_login else Place.KEY,
        )
    )


CONNECTION = tagged(
    "type",
    {kind: _fields(kind) for kind in ConnectionType},
    record=replace(_GENERAL, check=_check_secrets),
)
