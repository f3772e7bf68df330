"""The shape of a Connection's spec: one configuration per type, secrets by reference alone.

Each new type of connection is one entry here and one dataclass in core.
"""

from collections.abc import Mapping

from datarecs_core.errors.spec import SpecCode
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    FilesConfig,
    PostgresConfig,
    SslMode,
)
from datarecs_specs.job_sources import FREE
from datarecs_specs.records import Field, Record, tagged
from datarecs_specs.references import FOLDER, HOST, SECRET_REFERENCE
from datarecs_specs.shapes import IDENT, Whole, Word

_WRITE_AUTH = (SpecCode.INLINE_SECRET, "write `auth: {password: env:NAME}` beside `config`")
_SECRET_KEYS = dict.fromkeys(
    ("password", "passwd", "secret", "token", "api_key", "private_key"), _WRITE_AUTH
)
_DSN_KEYS = dict.fromkeys(
    ("url", "dsn", "uri", "connection_string"),
    (SpecCode.INLINE_SECRET, "write host, port, database and user, the password under `auth`"),
)

_CONFIGS: Mapping[ConnectionType, Record] = {
    ConnectionType.POSTGRES: Record(
        title="config of postgres",
        model=PostgresConfig,
        misplaced={**_SECRET_KEYS, **_DSN_KEYS},
        fields=(
            Field(name="host", shape=HOST, doc="name or address of the server"),
            Field(name="port", shape=Whole(least=1, most=65_535), doc="of the server"),
            Field(name="database", shape=IDENT, doc="name of the database"),
            Field(name="user", shape=IDENT, doc="a role that may only read"),
            Field(
                name="sslmode",
                shape=Word(words=SslMode),
                doc="how the server is verified; verify-full proves it is the one named",
            ),
        ),
    ),
    ConnectionType.FILES: Record(
        title="config of files",
        model=FilesConfig,
        fields=(Field(name="root", shape=FOLDER, doc="folder inside a root the operator allows"),),
    ),
}
_AUTH: Mapping[ConnectionType, tuple[str, ...]] = {
    ConnectionType.POSTGRES: ("password",),
    ConnectionType.FILES: (),
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
        Field(name="config", shape=_CONFIGS[kind], doc="where the system is"),
        Field(name="auth", shape=_auth(*_AUTH[kind]), doc="secret references by field"),
    )


_GENERAL = Record(
    title="a connection",
    model=Connection,
    misplaced=_SECRET_KEYS,
    fields=(
        Field(name="type", shape=Word(words=ConnectionType), doc="of the system"),
        Field(name="config", shape=FREE, doc="where it is"),
        Field(name="auth", shape=_auth("password"), doc="secret references by field"),
    ),
)
CONNECTION = tagged("type", {kind: _fields(kind) for kind in ConnectionType}, record=_GENERAL)
