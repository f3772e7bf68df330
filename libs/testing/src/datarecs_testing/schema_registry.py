"""A schema registry on loopback, with the answers of Confluent's to the requests of readers.

It stands in for a real one: paths, codes and documents are those of its published interface.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

_TYPE = "application/vnd.schemaregistry.v1+json"
_MISSING = {
    "schemas": {"error_code": 40403, "message": "Schema not found"},
    "subjects": {"error_code": 40401, "message": "Subject not found."},
}


@dataclass(slots=True, kw_only=True)
class Registry:
    """Register schemas, and read which requests came."""

    url: str
    login: tuple[str, str] = ("reader", "s3cret-of-a-registry")
    """Name and password that requests must have."""
    requests: list[str] = field(default_factory=list)
    """Paths, in their order."""
    is_down: bool = False
    """Every answer is status 503."""
    answers: dict[str, object] = field(default_factory=dict)
    """By path; bytes are sent as they are."""

    def __post_init__(self) -> None:
        self.answers["/schemas/types"] = ["JSON", "PROTOBUF", "AVRO"]

    def register(
        self,
        written: object,
        *,
        subject: str = "any-value",
        uses: Sequence[tuple[str, int]] = (),
        facts: Mapping[str, object] | None = None,
    ) -> int:
        """The id of a schema, which is JSON or text; it is also version 1 of its subject.

        Args:
            written: the schema.
            subject: of the schema.
            uses: subject and version of each that it refers to.
            facts: of the answer, instead of those that belong there.
        """
        number = len(self.answers)
        text = written if isinstance(written, str) else json.dumps(written)
        listed = [{"name": name, "subject": name, "version": version} for name, version in uses]
        document = {"schema": text, **({"references": listed} if listed else {}), **(facts or {})}
        self.answers[f"/schemas/ids/{number}"] = document
        self.answers[f"/subjects/{subject}/versions/1"] = {
            "subject": subject,
            "version": 1,
            "id": number,
            **document,
        }
        return number


@contextmanager
def running_registry() -> Iterator[Registry]:
    class Handler(_Handler):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry = Registry(url=f"http://127.0.0.1:{server.server_address[1]}")
        Handler.registry = registry
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    registry: ClassVar[Registry]

    def do_GET(self) -> None:
        registry = self.registry
        registry.requests.append(self.path)
        if registry.is_down:
            self._answer(503, b"down")
        elif self.headers.get("Authorization") != _basic(registry.login):
            self._answer(401, {"error_code": 401, "message": "Unauthorized"})
        elif self.path in registry.answers:
            self._answer(200, registry.answers[self.path])
        else:
            missing = _MISSING.get(self.path.split("/")[1])
            self._answer(404, missing if missing is not None else b"nothing here")

    def _answer(self, status: int, document: object) -> None:
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", _TYPE)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  http.server's name
        """Print nothing."""


def _basic(login: tuple[str, str]) -> str:
    return f"Basic {b64encode(':'.join(login).encode()).decode()}"
