"""Which catalog a connection of type iceberg leads to, whatever the connection is called.

Two connections with one identity name the same tables. Read from the stored configuration, also
from one that this release cannot read in full, and without logins and secrets.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from datarecs_core.access.references import normal_host
from datarecs_core.resources.connection import CatalogType

CatalogIdentity = tuple[str, ...]
_PORTS = {"https": 443, "http": 80}
_POSTGRES_PORT = "5432"


def catalog_identity(spec: Mapping[str, object]) -> CatalogIdentity | None:
    """Of the spec of a connection; None if it says too little.

    Logins, TLS and the store of the files are left out: they do not change which table a name is.
    """
    catalog = _part(_part(spec, "config"), "catalog")
    match catalog.get("type"):
        case CatalogType.REST if uri := _text(catalog, "uri"):
            return (CatalogType.REST, _address(uri), _text(catalog, "warehouse"))
        case CatalogType.SQL if sqlite := _text(catalog, "sqlite"):
            return (CatalogType.SQL, str(PurePosixPath(sqlite)), _text(catalog, "name"))
        case CatalogType.SQL if postgres := _part(catalog, "postgres"):
            return (
                CatalogType.SQL,
                normal_host(_text(postgres, "host")),
                _text(postgres, "port") or _POSTGRES_PORT,
                _text(postgres, "database"),
                _text(catalog, "name"),
            )
        case CatalogType.HADOOP if warehouse := _text(catalog, "warehouse"):
            return (CatalogType.HADOOP, str(PurePosixPath(warehouse)))
    return None


def _part(values: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = values.get(name)
    return part if isinstance(part, Mapping) else {}


def _text(values: Mapping[str, object], name: str) -> str:
    value = values.get(name)
    return "" if value is None else str(value)


def _address(uri: str) -> str:
    """Without the ways in which one address is spelled differently."""
    try:
        parts = urlsplit(uri)
        host = normal_host(parts.hostname or "")
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return uri
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"
