"""Port LogWriter over the ingress of a Knative Broker: one POST for each event, in binary mode.

The relay has one unacknowledged row for each key, so posts in parallel keep the order of a key. A
post whose answer is lost is sent again with the same id, which receivers ignore.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta

import httpx

from datarecs_application.ports.messaging import NotSent, SendOutcome, Sent
from datarecs_knative.http_headers import http_headers

AT_ONCE = 16
"""Posts at the same time."""
TIMEOUT_S = 10.0
_NEVER = frozenset({400, 413, 415, 422})
"""Answers that the same event gets again; all others may be different later."""


class BrokerIngress:
    """The address of a Broker, such as `http://broker-ingress.knative-eventing.svc/ns/default`."""

    def __init__(self, url: str, *, transport: httpx.BaseTransport | None = None) -> None:
        """`transport` replaces the network, for an ingress in the same process."""
        self._url, self._transport = url, transport

    def producer(self) -> "IngressProducer":
        return IngressProducer(self._url, self._transport)


class IngressProducer:
    """Port LogProducer. The topic is not sent: Triggers choose by attributes."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None) -> None:
        self._url = url
        self._client = httpx.Client(
            timeout=TIMEOUT_S,
            trust_env=False,
            transport=transport,
            limits=httpx.Limits(max_connections=AT_ONCE),
        )
        self._pool = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="ingress")

    def send(
        self,
        topic: str,  # noqa: ARG002  the port's shape
        *,
        key: bytes | None,  # noqa: ARG002  the attribute partitionkey has it
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]],
        partition: int | None = None,  # noqa: ARG002  the port's shape
    ) -> "PostAck":
        return PostAck(self._pool.submit(self._post, value or b"", http_headers(headers)))

    def close(self) -> None:
        self._pool.shutdown()
        self._client.close()

    def _post(self, body: bytes, headers: dict[str, str]) -> SendOutcome:
        try:
            answer = self._client.post(self._url, content=body, headers=headers)
        except httpx.HTTPError as error:
            return NotSent(f"{self._url}: {type(error).__name__}: {error}", permanent=False)
        if answer.is_success:
            return Sent(partition=-1, offset=-1)
        reason = f"{self._url}: {answer.status_code} {answer.text[:200]}".strip()
        return NotSent(reason, permanent=answer.status_code in _NEVER)


class PostAck:
    """Port Ack."""

    def __init__(self, outcome: "Future[SendOutcome]") -> None:
        self._outcome = outcome

    def done(self) -> bool:
        return self._outcome.done()

    def wait(self, timeout: timedelta) -> SendOutcome:
        wait((self._outcome,), timeout.total_seconds())
        if not self._outcome.done():
            return NotSent("the Broker has not answered yet", permanent=False)
        return self._outcome.result()
