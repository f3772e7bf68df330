"""fake-gcs-server on the loopback: Google Cloud Storage, if its program is installed.

The program keeps the objects and decides conditions (version 1.56 or newer). It has the XML API
for reads only, so a front translates writes of that API into its JSON API, and one answer that
differs from Google's.
"""

import json
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Event, Thread
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from datarecs_testing.object_store import ObjectStoreMissingError
from datarecs_testing.smtp_server import free_port

KEY = json.dumps(
    {"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": True}
)
"""Credentials: the key of a service account, without the exchange for a token."""
_START_S = 60
_HELD = frozenset({"content-length", "transfer-encoding", "connection", "date"})
"""Headers that the front writes itself."""
_numbers = count()


class _Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleServer:
    """A running emulator."""

    front: ThreadingHTTPServer
    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.front.server_port}"

    def create_bucket(self) -> str:
        """An empty bucket."""
        name = f"bucket-{next(_numbers)}"
        body = json.dumps({"name": name}).encode()
        status = _request(self.port, "POST", "/storage/v1/b?project=test", body).status
        if status != 200:
            raise RuntimeError(f"bucket {name} was not created: {status}")
        return name

    def stop(self) -> None:
        self.front.shutdown()
        self.front.server_close()
        self.process.kill()
        self.process.wait()


def start_google_store() -> GoogleServer:
    """Raises ObjectStoreMissingError if the program is missing or does not start."""
    program = shutil.which("fake-gcs-server")
    if program is None:
        raise ObjectStoreMissingError(
            "there is no program `fake-gcs-server`; go install "
            "github.com/fsouza/fake-gcs-server@v1.56.1"
        )
    port, front = free_port(), free_port()
    process = subprocess.Popen(
        [
            *(program, "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1"),
            *("-port", str(port), "-public-host", f"127.0.0.1:{port}"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    made = ThreadingHTTPServer(("127.0.0.1", front), _front(_Writes(port)))
    Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    server, pause = GoogleServer(front=made, port=port, process=process), Event()
    for _ in range(_START_S * 10):
        if process.poll() is not None:
            break
        with suppress(OSError, RuntimeError):
            server.create_bucket()
            return server
        pause.wait(0.1)
    server.stop()
    raise ObjectStoreMissingError("fake-gcs-server does not start")


def _request(
    port: int, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> _Answer:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, target, body, headers or {})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return _Answer(answer.status, answer.getheaders(), data)


@dataclass
class _Writes:
    """Writes of the XML API as requests of the JSON API."""

    port: int
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Parts of uploads that are not complete, by id."""

    def answer(
        self, method: str, target: str, body: bytes, headers: dict[str, str]
    ) -> _Answer | None:
        """None for a request that is no write."""
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True)
        upload = query.get("uploadId", [""])[0]
        match method:
            case "PUT" if upload:
                self.parts[upload][int(query["partNumber"][0])] = body
                return _Answer(200, [("ETag", f'"{query["partNumber"][0]}"')], b"")
            case "PUT":
                generation = headers.get("x-goog-if-generation-match")
                return self._stored(parts.path, body, generation)
            case "POST" if "uploads" in query:
                upload = f"upload-{next(_numbers)}"
                self.parts[upload] = {}
                return _document("InitiateMultipartUploadResult", UploadId=upload)
            case "POST" if upload:
                numbered = self.parts.pop(upload)
                data = b"".join(numbered[number] for number in sorted(numbered))
                stored = self._stored(parts.path, data, None)
                etag = dict(stored.headers).get("ETag", "")
                done = _document("CompleteMultipartUploadResult", ETag=etag)
                return done._replace(status=stored.status)
            case "DELETE" if upload:
                self.parts.pop(upload, None)
                return _Answer(204, [], b"")
        return None

    def _stored(self, path: str, data: bytes, generation: str | None) -> _Answer:
        bucket, _, name = path.removeprefix("/").partition("/")
        fields = {"uploadType": "media"}
        if generation is not None:
            fields["ifGenerationMatch"] = generation
        # The name is already encoded.
        target = f"/upload/storage/v1/b/{bucket}/o?{urlencode(fields)}&name={name}"
        made = _request(self.port, "POST", target, data)
        if made.status != 200:
            return made
        stored = json.loads(made.body)
        version = str(stored["generation"])
        return _Answer(200, [("ETag", f'"{stored["etag"]}"'), ("x-goog-generation", version)], b"")


def _document(name: str, **fields: str) -> _Answer:
    inner = "".join(f"<{field}>{text}</{field}>" for field, text in fields.items())
    return _Answer(200, [], f"<{name}>{inner}</{name}>".encode())


def _front(writes: _Writes) -> type[BaseHTTPRequestHandler]:
    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = writes.answer(self.command, self.path, body, headers)
            if answer is None:
                headers["host"] = f"127.0.0.1:{writes.port}"
                answer = _request(writes.port, self.command, self.path, body, headers)
            if b"no bucket named" in answer.body:  # Google's answer to a listing
                text = b"<Error><Code>NoSuchBucket</Code></Error>"
                answer = _Answer(404, [], text)
            with suppress(ConnectionError):  # the client waits no longer
                self._send(answer)

        def _send(self, answer: _Answer) -> None:
            self.send_response(answer.status)
            sent = dict(answer.headers)
            length = sent.get("Content-Length") if self.command == "HEAD" else None
            for name, value in sent.items():
                if name.lower() not in _HELD:
                    self.send_header(name, value)
            self.send_header("Content-Length", length or str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer  # noqa: N815  of the library

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Front
