"""The control API over HTTP on loopback, with tokens of an issuer, in the process of a test."""

import asyncio
import socket
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import httpx
import uvicorn

from datarecs_application.capturing.wire import REMOTE_KINDS
from datarecs_application.ports.capturing import (
    Assignment,
    CaptureControl,
    ClaimRequest,
    Claims,
    Renewed,
)
from datarecs_core.captures.items import WorkToken
from datarecs_core.captures.outcomes import Outcome
from datarecs_core_api.worker_door import WorkerDoor
from datarecs_core_api.worker_tokens import TokenVerifier
from datarecs_outbound.issuer import Issuer, MachineToken, plain_client
from datarecs_outbound.worker_api import RemoteControl, WorkerCalls
from datarecs_runtime.clock import SystemClock
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.issuer import AUDIENCE, CLIENT, PASSWORD, TestIssuer

SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlApi:
    """A running application."""

    house: MemoryApiHouse
    url: str
    issuer: TestIssuer
    _closing: ExitStack

    def worker(self, *, password: str = PASSWORD) -> RemoteControl:
        """A worker with a token of its own."""
        clock = SystemClock()
        token = MachineToken(
            issuer=Issuer(self.issuer.url, self._client()),
            client_id=CLIENT,
            client_secret=password,
            skew=timedelta(seconds=30),
            clock=clock,
        )
        calls = WorkerCalls(
            url=self.url,
            client=self._client(),
            token=token,
            header="Authorization",
            clock=clock,
        )
        return RemoteControl(calls=calls)

    def _client(self) -> httpx.Client:
        return self._closing.enter_context(plain_client(SECOND, read_s=30))


@contextmanager
def serving(control: CaptureControl, issuer: TestIssuer) -> Iterator[ControlApi]:
    """The application with this control behind it, on a free port."""
    clock = SystemClock()
    closing = ExitStack()
    keys = Issuer(issuer.url, closing.enter_context(plain_client(SECOND)))
    verifier = TokenVerifier(read_keys=keys.keys, issuer=issuer.url, audience=AUDIENCE, clock=clock)
    door = WorkerDoor(control=control, verifier=verifier, header="Authorization")
    house = memory_api(worker_door=door)
    server = uvicorn.Server(uvicorn.Config(house.app, log_level="critical", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(
            target=lambda: asyncio.run(server.serve([listening])), daemon=True
        )
        thread.start()
        try:
            yield ControlApi(
                house=house,
                url=f"http://127.0.0.1:{listening.getsockname()[1]}",
                issuer=issuer,
                _closing=closing,
            )
        finally:
            closing.close()
            server.should_exit = True
            thread.join(20)


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideFinalizer:
    """Port CaptureControl: a remote worker, and beside the database what only a local one does."""

    remote: CaptureControl
    local: CaptureControl
    _finalizing: set[WorkToken] = field(default_factory=set)

    def claim(self, request: ClaimRequest) -> Claims:
        kinds = [kind for kind in request.kinds if kind in REMOTE_KINDS]
        claims = self.remote.claim(replace(request, kinds=kinds)) if kinds else Claims(tokens=())
        rest = [kind for kind in request.kinds if kind not in REMOTE_KINDS]
        if not claims.tokens and rest:
            claims = self.local.claim(replace(request, kinds=rest))
            self._finalizing.update(claims.tokens)
        return claims

    def begin(self, token: WorkToken) -> Assignment | None:
        return self._of(token).begin(token)

    def renew(self, tokens: Collection[WorkToken]) -> Mapping[WorkToken, Renewed]:
        return self.remote.renew(tokens)

    def put_sidecar(self, token: WorkToken, path: str, sha256: str, content: bytes) -> None:
        self._of(token).put_sidecar(token, path, sha256, content)

    def end(self, token: WorkToken, outcome: Outcome) -> None:
        self._of(token).end(token, outcome)

    def _of(self, token: WorkToken) -> CaptureControl:
        return self.local if token in self._finalizing else self.remote
