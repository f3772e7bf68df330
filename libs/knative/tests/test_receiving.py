"""The port that Triggers call: what it answers, and that it stops in order."""

import select
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest

from datarecs_application.ports.messaging import Delivery
from datarecs_knative.receiving import MAX_BODY_BYTES, NOT_LISTENING, EventReceiver, Headers
from datarecs_runtime.clock import Latch

pytestmark = pytest.mark.integration


class Taken:
    """What arrived, and the answer to it."""

    def __init__(self) -> None:
        self.events: list[tuple[bytes, Headers]] = []
        self.answer: Delivery | Exception = Delivery.DONE

    def take(self, body: bytes, headers: Headers) -> Delivery:
        self.events.append((body, headers))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture
def client(taken: Taken) -> Iterator[httpx.Client]:
    receiver, stop = EventReceiver(taken.take, host="127.0.0.1", port=0), Latch()
    assert receiver.ready() == NOT_LISTENING
    thread = threading.Thread(target=receiver.run, args=(stop,))
    thread.start()
    while receiver.ready() is not None:
        threading.Event().wait(0.01)
    with httpx.Client(base_url=f"http://127.0.0.1:{receiver.port}", trust_env=False) as client:
        yield client
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert receiver.ready() == NOT_LISTENING


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Delivery.DONE, 204),
        (Delivery.NEVER, 400),
        (Delivery.LATER, 503),
        (RuntimeError("a defect"), 503),
    ],
)
def test_the_answer_says_what_the_broker_is_to_do(
    client: httpx.Client, taken: Taken, answer: Delivery | Exception, status: int
) -> None:
    taken.answer = answer
    headers = {
        "ce-id": "1",
        "CE-Type": "a.b",
        "ce-subject": "run%2F1%20%C3%A9",
        "Content-Type": "application/json",
        "traceparent": "x",
    }
    assert client.post("/ce", content=b"{}", headers=headers).status_code == status
    ((body, seen),) = taken.events
    assert body == b"{}"
    assert dict(seen) == {
        "ce_id": b"1",
        "ce_type": b"a.b",
        "ce_subject": "run/1 é".encode(),
        "content-type": b"application/json",
    }


def test_what_is_no_event_reaches_no_handler(client: httpx.Client, taken: Taken) -> None:
    refused = [
        client.post("/other", content=b"{}"),
        client.get("/ce"),
        client.post("/ce", content=b"x" * (MAX_BODY_BYTES + 1)),
        client.post("/ce", content=iter([b"{}"])),
    ]
    assert [answer.status_code for answer in refused] == [404, 501, 413, 411]
    assert {answer.headers["Connection"] for answer in refused} == {"close"}
    assert taken.events == []


def test_a_peer_that_is_still_sending_gets_the_refusal(client: httpx.Client) -> None:
    size = MAX_BODY_BYTES + 1
    with socket.create_connection((client.base_url.host, client.base_url.port or 0)) as peer:
        peer.sendall(f"POST /ce HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        select.select([peer], [], [], 10)  # it is refused already
        for _ in range(4):
            peer.sendall(b"x" * (size // 4))
        assert peer.recv(100).startswith(b"HTTP/1.1 413 ")
