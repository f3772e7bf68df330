"""The side port: reports whether the process is alive, started and ready, and its metrics.

Every service answers the same four paths. `Health` decides the answers, without a socket;
`SideServer` sends them.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from datarecs_runtime.metrics import CONTENT_TYPE as METRICS_TYPE

ReadyCheck = Callable[[], str | None]
"""None if ready, else the reason in a few words. It must be fast: it runs on every request."""

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    content_type: str
    body: bytes


@dataclass(slots=True, kw_only=True)
class Health:
    """The answers of the four paths. Liveness never checks a dependency."""

    dead_loops: Callable[[], tuple[str, ...]] = tuple
    ready_when: Mapping[str, ReadyCheck] = field(default_factory=dict)
    exposition: Callable[[], bytes] = bytes
    started: bool = False
    starting: str = "is starting"
    """What the process waits for before it has started."""
    draining: bool = False

    def answer(self, path: str) -> Answer:
        match path.partition("?")[0]:
            case "/livez":
                return _verdict({f"loop {name}": "has ended" for name in self.dead_loops()})
            case "/startupz":
                return _verdict({} if self.started else {"process": self.starting})
            case "/readyz":
                return _verdict(self.reasons())
            case "/metrics":
                return Answer(status=200, content_type=METRICS_TYPE, body=self.exposition())
            case _:
                return Answer(status=404, content_type=JSON_TYPE, body=b'{"status":"not found"}')

    def reasons(self) -> dict[str, str]:
        """Why the process is not ready; empty if it is ready."""
        if self.draining or not self.started:
            return {"process": "is draining" if self.draining else self.starting}
        answers = {name: _run_check(check) for name, check in self.ready_when.items()}
        return {name: reason for name, reason in answers.items() if reason is not None}


def _run_check(check: ReadyCheck) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  on any error of a check the process is not ready
        return f"cannot be checked ({type(error).__name__})"


def _verdict(reasons: Mapping[str, str]) -> Answer:
    body = {"status": "unavailable", "reasons": reasons} if reasons else {"status": "ok"}
    return Answer(
        status=503 if reasons else 200, content_type=JSON_TYPE, body=json.dumps(body).encode()
    )


class SideServer:
    """Answers GET on the side port, on separate threads, until closed."""

    def __init__(self, host: str, port: int, answer: Callable[[str], Answer]) -> None:
        self._server = _Server((host, port), _Handler)
        self._server.answer = answer
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="side", daemon=True
        )

    @property
    def port(self) -> int:
        """The actual port if 0 was configured."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    answer: Callable[[str], Answer]


class _Handler(BaseHTTPRequestHandler):
    timeout = 10  # seconds for a peer that connects and sends nothing

    def do_GET(self) -> None:  # the name is the base class's
        answer = cast("_Server", self.server).answer(self.path)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Log no probes."""
