"""A small S3 server that misbehaves as a test says, and records what it received."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "lake"
_DAY = "2026-01-31T12:00:00.000Z"
_HTTP_DAY = "Sat, 31 Jan 2026 12:00:00 GMT"


@dataclass
class ScriptedStore:
    """Objects of one bucket."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    location: str | None = None
    """Every request is redirected there."""
    missing: bytes | None = None
    """Every request is answered with this body and status 404."""
    has_etags: bool = True
    lists_quotes: bool = True
    """False: a listing has ETags without quotes."""
    checks_conditions: bool = True
    etags: dict[str, str] = field(default_factory=dict)
    """Returned instead of those of the content."""
    requests: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)
    """Method, path, headers."""

    def etag(self, name: str) -> str:
        digest = md5(self.objects[name], usedforsecurity=False).hexdigest()
        return self.etags.get(name, f'"{digest}"')

    def listing(self, prefix: str) -> bytes:
        entries = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(data)}</Size>"
            f"<LastModified>{_DAY}</LastModified>{self._etag_element(name)}</Contents>"
            for name, data in sorted(self.objects.items())
            if name.startswith(prefix)
        )
        return (
            "<ListBucketResult><IsTruncated>false</IsTruncated>"
            f"<Name>{BUCKET}</Name>{entries}</ListBucketResult>"
        ).encode()

    def _etag_element(self, name: str) -> str:
        etag = self.etag(name) if self.lists_quotes else self.etag(name).strip('"')
        return f"<ETag>{escape(etag)}</ETag>" if self.has_etags else ""


class _Handler(BaseHTTPRequestHandler):
    store: ScriptedStore

    def do_GET(self) -> None:
        self.store.requests.append((self.command, self.path, dict(self.headers.items())))
        parts = urlsplit(self.path)
        _, _, name = unquote(parts.path).lstrip("/").partition("/")
        if self.store.location is not None:
            self._reply(307, b"", {"Location": self.store.location})
        elif self.store.missing is not None:
            self._reply(404, self.store.missing, {})
        elif not name:
            prefix = parse_qs(parts.query).get("prefix", [""])[0]
            self._reply(200, self.store.listing(prefix), {})
        elif name not in self.store.objects:
            self._reply(404, b"<Error><Code>NoSuchKey</Code></Error>", {})
        else:
            self._object(name)

    do_HEAD = do_GET  # noqa: N815  a name of the library

    def _object(self, name: str) -> None:
        data, etag = self.store.objects[name], self.store.etag(name)
        wanted = self.headers.get("If-Match")
        if self.store.checks_conditions and wanted not in {None, etag}:
            self._reply(412, b"", {})
            return
        headers = {"ETag": etag} if self.store.has_etags else {}
        span = self.headers.get("Range")
        if span is None:
            self._reply(200, data, headers)
            return
        first, last = (int(each) for each in span.removeprefix("bytes=").split("-"))
        last = min(last, len(data) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        self._reply(206, data[first : last + 1], headers)

    def _reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Last-Modified": _HTTP_DAY, **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def scripted_store(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedStore]:
    """A server on the loopback until the block ends; with TLS in the name `localhost`."""
    store = ScriptedStore()

    handler = type("Handler", (_Handler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    scheme, host = ("https", "localhost") if tls else ("http", "127.0.0.1")
    store.url = f"{scheme}://{host}:{server.server_port}"
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
