"""A REST catalog over a lake's SQL catalog: the requests of a reader and a sink, with a token."""

import json
import sqlite3
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest

from datarecs_testing.lake import path_at

CLIENT, SECRET, TOKEN = "reader", "rest:secret", "t0ken"
"""The secret holds a colon, as secrets may."""
PREFIX = "wh/one"
_NAMESPACES = (
    "SELECT namespace FROM iceberg_namespace_properties UNION"
    " SELECT table_namespace FROM iceberg_tables"
)
_TABLES = "SELECT table_name FROM iceberg_tables WHERE table_namespace = ? ORDER BY 1"
_ROW = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"


@dataclass
class LakeServer:
    """Settings of a test for the server, and its received requests."""

    database: Path
    url: str = ""
    answer: tuple[int, bytes] | None = None
    """Replaces every answer; for faulty servers."""
    requested_paths: list[str] = field(default_factory=list)
    endpoints: list[str] | None = None
    """As the configuration lists them; None: it does not."""
    views: dict[tuple[str, str], dict[str, object]] = field(default_factory=dict)
    """Metadata of views by namespace, with dots, and name."""
    page_size: int = 2
    """Entries of one page of a list."""
    faults: list[tuple[int, bool]] = field(default_factory=list)
    """Statuses of the next commits, and whether each is stored nevertheless."""
    documents: list[dict[str, Any]] = field(default_factory=list)
    """Received in posts."""
    hold: Callable[[str], object] = lambda _path: None
    """Called with the path of each request before it is answered."""

    def metadata(self, namespace: str, name: str) -> dict[str, object] | None:
        with closing(sqlite3.connect(self.database)) as opened:
            row = opened.execute(_ROW, (namespace, name)).fetchone()
        if row is None:
            return None
        document: dict[str, object] = json.loads(path_at(row[0]).read_bytes())
        return {"metadata-location": row[0], "metadata": document}

    def namespaces(self, parent: str) -> list[object]:
        """The levels of the namespaces directly below another one."""
        with closing(sqlite3.connect(self.database)) as opened:
            rows = opened.execute(_NAMESPACES).fetchall()
        known = [row[0].split(".") for row in rows]
        above = parent.split(".") if parent else []
        size = len(above) + 1
        below = {tuple(each[:size]) for each in known if each[: size - 1] == above}
        return [list(each) for each in sorted(below) if len(each) == size]

    def tables(self, namespace: str) -> list[object]:
        with closing(sqlite3.connect(self.database)) as opened:
            rows = opened.execute(_TABLES, (namespace,)).fetchall()
        return [_identifier(namespace, row[0]) for row in rows]


@contextmanager
def serving(database: Path, tls: ssl.SSLContext | None = None) -> Iterator[LakeServer]:
    """A server on loopback until the block ends; with TLS in the name `localhost`."""
    lake = LakeServer(database)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            lake.hold(self.path)
            self._reply(*_got(lake, self.path, self.headers.get("Authorization")))

        def do_POST(self) -> None:
            lake.hold(self.path)
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._reply(*_posted(lake, self.path, text, self.headers.get("Authorization")))

        def log_message(self, *_: object) -> None:
            """Log nothing."""

        def _reply(self, status: int, content: object) -> None:
            if lake.answer is not None:
                status, body = lake.answer
            else:
                body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status // 100 == 3:
                self.send_header("Location", f"{lake.url}/elsewhere")
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    lake.url = f"http://127.0.0.1:{server.server_port}/cat"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        lake.url = f"https://localhost:{server.server_port}/cat"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield lake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _posted(
    lake: LakeServer, path: str, text: str, authorization: str | None
) -> tuple[int, object]:
    lake.requested_paths.append(path)
    if text.startswith("{"):
        return _stored(lake, path, json.loads(text), authorization)
    return _token(path, text)


def _token(path: str, form: str) -> tuple[int, object]:
    parameters = {name: values[0] for name, values in parse_qs(form).items()}
    wanted = {
        "grant_type": "client_credentials",
        "client_id": CLIENT,
        "client_secret": SECRET,
        "scope": "catalog",
    }
    if path != "/cat/v1/oauth/tokens" or parameters != wanted:
        return 401, {"error": "invalid_client"}
    return 200, {"access_token": TOKEN, "token_type": "bearer"}


def _stored(
    lake: LakeServer, path: str, document: dict[str, Any], authorization: str | None
) -> tuple[int, object]:
    """Create a namespace or a table, or commit to one."""
    if authorization != f"Bearer {TOKEN}":
        return 401, {"error": {"message": "who are you?"}}
    lake.documents.append(document)
    below = path.removeprefix(f"/cat/v1/{PREFIX}/namespaces").strip("/")
    levels, *rest = (unquote(part).replace("\x1f", ".") for part in below.split("/"))
    catalog = SqlCatalog(
        "lake",
        uri=f"sqlite:///{lake.database}",
        warehouse=f"file://{lake.database.parent}/warehouse",
    )
    with closing(catalog):
        try:
            if not levels:
                catalog.create_namespace(tuple(document["namespace"]))
                return 200, document
            if rest == ["tables"]:
                _create(catalog, levels, document)
                return 200, lake.metadata(levels, document["name"])
            return _commit(lake, catalog, document)
        except (NamespaceAlreadyExistsError, TableAlreadyExistsError, CommitFailedException):
            return 409, {"error": {"code": 409}}
        except (NoSuchNamespaceError, NoSuchTableError):
            return 404, {"error": {"code": 404}}


def _create(catalog: SqlCatalog, namespace: str, document: dict[str, Any]) -> None:
    catalog.create_table(
        f"{namespace}.{document['name']}",
        Schema.model_validate(document["schema"]),
        partition_spec=PartitionSpec.model_validate(document["partition-spec"]),
        properties=document["properties"],
    )


def _commit(lake: LakeServer, catalog: SqlCatalog, document: dict[str, Any]) -> tuple[int, object]:
    request = CommitTableRequest.model_validate(document)
    status, is_stored = lake.faults.pop(0) if lake.faults else (200, True)
    if is_stored:
        name = (*request.identifier.namespace.root, request.identifier.name)
        table = catalog.load_table(name)
        catalog.commit_table(table, request.requirements, request.updates)
    return status, {"metadata-location": "", "metadata": {}}


def _got(lake: LakeServer, path: str, authorization: str | None) -> tuple[int, object]:
    lake.requested_paths.append(path)
    if authorization != f"Bearer {TOKEN}":
        return 401, {"error": {"message": "who are you?"}}
    parts = urlsplit(path)
    if parts.path == "/cat/v1/config":
        listed = {} if lake.endpoints is None else {"endpoints": lake.endpoints}
        return 200, {"defaults": {}, "overrides": {"prefix": PREFIX}, **listed}
    head = f"/cat/v1/{PREFIX}/namespaces"
    if not parts.path.startswith(head):
        return 404, {}
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    below = parts.path.removeprefix(head).lstrip("/")
    if not below:
        parent = query.get("parent", "").replace("\x1f", ".")
        return _page(lake, "namespaces", lake.namespaces(parent), query)
    return _below(lake, below, query)


def _below(lake: LakeServer, path: str, query: dict[str, str]) -> tuple[int, object]:
    """A list of a namespace, or one of its tables or views."""
    namespace, kind, *names = (unquote(part).replace("\x1f", ".") for part in path.split("/"))
    if names:
        view = lake.views.get((namespace, names[0]))
        answer = lake.metadata(namespace, names[0]) if kind == "tables" else view
        return (404, {"error": {}}) if answer is None else (200, answer)
    tables = lake.tables(namespace)
    views: list[object] = [_identifier(*each) for each in lake.views if each[0] == namespace]
    return _page(lake, "identifiers", tables if kind == "tables" else views, query)


def _identifier(namespace: str, name: str) -> dict[str, object]:
    return {"namespace": namespace.split("."), "name": name}


def _page(
    lake: LakeServer, member: str, entries: list[object], query: dict[str, str]
) -> tuple[int, object]:
    first = int(query.get("pageToken", "0"))
    following = first + lake.page_size
    more = {"next-page-token": str(following)} if following < len(entries) else {}
    return 200, {member: entries[first:following], **more}
