"""The local receiver on a real socket: whatever comes in, it answers and goes on."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from datarecs_cli.main import run
from datarecs_cli.receiver import MAX_BODY_BYTES, Received, Receiver
from datarecs_core.webhooks.signature import secret_key, sign
from datarecs_testing.clock import NOON, ManualClock

pytestmark = pytest.mark.integration
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
KEYS = (secret_key(SECRET),)
NOW_S = int(NOON.timestamp())
BODY = b'{"type": "io.datarecs.x", "data": {"run_id": "r"}}'


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(keys=KEYS, clock=ManualClock()) as one:
        yield one


def post(receiver: Receiver, event_id: str = "a", body: bytes = BODY, **changed: str) -> int:
    headers = {
        "webhook-id": event_id,
        "webhook-timestamp": str(NOW_S),
        "webhook-signature": sign(KEYS, event_id=event_id, timestamp=NOW_S, body=body),
        "datarecs-attempt": "2",
    } | {name.replace("_", "-"): value for name, value in changed.items()}
    with httpx.Client(trust_env=False) as client:
        return client.post(receiver.url, content=body, headers=headers).status_code


def raw(receiver: Receiver, request: bytes) -> bytes:
    """What comes back for these very bytes; the start of it."""
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=5) as line:
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        return line.recv(4096).split(b"\r\n")[0]


def test_a_genuine_delivery_is_taken_and_shown(receiver: Receiver) -> None:
    assert post(receiver) == 200
    (received,) = receiver.received
    assert received.verified
    assert (received.event_type, received.attempt) == ("io.datarecs.x", "2")
    assert received.data == {"run_id": "r"}


@pytest.mark.case("X94")
def test_everything_malformed_is_401_and_never_500(receiver: Receiver) -> None:
    faults = [
        {"webhook_signature": "v1"},
        {"webhook_signature": "v1,!!!"},
        {"webhook_timestamp": "NaN"},
        {"webhook_timestamp": str(NOW_S - 360)},
        {"webhook_timestamp": str(NOW_S + 360)},
        {"webhook_id": "a.b"},
        {"webhook_signature": ""},
    ]
    assert [post(receiver, "a", BODY, **fault) for fault in faults] == [401] * len(faults)
    assert not any(one.verified for one in receiver.received)
    assert post(receiver) == 200


@pytest.mark.case("X94")
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff\xfe\x00 \r\n\r\n",
        b"POST / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"POST / HTTP/1.1\r\nwebhook-signature: \xff\x00\r\nContent-Length: 2\r\n\r\n{}",
        b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nshort",
        b"",
    ],
)
def test_no_bytes_at_all_stop_it(receiver: Receiver, request_bytes: bytes) -> None:
    assert b" 500" not in raw(receiver, request_bytes)
    assert post(receiver) == 200


def test_a_body_that_is_too_large_is_not_read(receiver: Receiver) -> None:
    length = str(MAX_BODY_BYTES + 1).encode()
    answer = raw(receiver, b"POST / HTTP/1.1\r\nContent-Length: " + length + b"\r\n\r\n")
    assert b" 413" in answer


def test_a_delivery_that_comes_again_is_seen_to(receiver: Receiver) -> None:
    assert [post(receiver, event_id=one) for one in ("a", "b", "a")] == [200] * 3
    assert [one.again for one in receiver.received] == [False, False, True]


def test_a_forged_id_makes_no_later_delivery_a_repetition(receiver: Receiver) -> None:
    post(receiver, webhook_signature="v1,x")
    post(receiver)
    assert not receiver.received[1].again


def test_the_first_ones_may_be_failed_on_purpose() -> None:
    with Receiver(keys=KEYS, clock=ManualClock(), status=204, fail_first=2) as receiver:
        assert [post(receiver, event_id=one) for one in "abc"] == [503, 503, 204]


def test_a_body_that_is_no_event_is_400(receiver: Receiver) -> None:
    assert post(receiver, body=b"[]") == 400


def test_without_a_secret_everything_is_taken_and_nothing_verified() -> None:
    with Receiver(keys=(), clock=ManualClock()) as receiver:
        assert post(receiver, webhook_signature="v1,x") == 200
        assert (receiver.received[0].verified, receiver.received[0].fault) == (False, None)


def test_a_request_for_consent_is_granted(receiver: Receiver) -> None:
    with httpx.Client(trust_env=False) as client:
        answer = client.options(receiver.url, headers={"WebHook-Request-Origin": "127.0.0.1"})
    assert answer.headers["WebHook-Allowed-Origin"] == "*"
    assert receiver.received == []


def test_what_is_wanted_can_be_waited_for(receiver: Receiver) -> None:
    def of_run(received: Received) -> bool:
        return received.data.get("run_id") == "r"

    assert receiver.wait_for(of_run, limit_s=0.01) is None
    post(receiver)
    assert receiver.wait_for(of_run, limit_s=0.01) is receiver.received[0]


def test_a_taken_port_is_reported(receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["webhook", "listen", "--port", str(receiver.port)]) == 3
    assert "DR5009" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "secret", "whsec_short", "whsec_!!!"])
def test_a_secret_that_is_none_is_wrong_usage_and_not_repeated(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert run(["webhook", "listen", "--port", "0", "--secret-stdin"]) == 2
    shown = capsys.readouterr().err
    assert "--secret-stdin" in shown
    assert "!!!" not in shown


def test_the_command_shows_each_delivery_until_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "datarecs_cli", "webhook", "listen", "--port", "0"]
    with subprocess.Popen(
        [*command, "--secret-stdin", "-o", "jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as listening:
        try:
            assert listening.stdin is not None
            assert listening.stdout is not None
            assert listening.stderr is not None
            listening.stdin.write(f"{SECRET}\n")
            listening.stdin.close()
            port = re.search(r":(\d+)/", listening.stderr.readline())
            assert port is not None
            there = Receiver(keys=KEYS, clock=ManualClock(), port=int(port[1]))
            assert post(there) == 401  # its clock is the real one
            shown_delivery = json.loads(listening.stdout.readline())
            assert (shown_delivery["verified"], shown_delivery["answered"]) == (False, 401)
            assert "s from now" in shown_delivery["fault"]
            os.kill(listening.pid, signal.SIGINT)
            assert listening.wait(10) == 130
        finally:
            listening.kill()  # otherwise a failure waits for its end
