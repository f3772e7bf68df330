"""Dead letters: a record that cannot be handled, stored unchanged with its reason.

Writing and reading of dead letters are in one module, so that reading restores exactly what was
written.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from datarecs_application.ports.messaging import LogClient, LogProducer, LogRecord, NotSent, Sent
from datarecs_application.ports.outside import Clock
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.values import instant_text
from datarecs_events.catalogue import dead_letter_topic

VERSION = b"1"
HANDLER_FAILED = "HANDLER_FAILED"
ACK_TIMEOUT = timedelta(seconds=35)
"""Above the producer's delivery timeout, so that every wait ends with the library's result."""
MAX_ERROR_BYTES = 512
_PREFIX = "dlq_"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Why and where a record failed; the record itself is the original, byte for byte."""

    record: LogRecord
    reason: str
    """A refusal of the codec, the code of the error, or HANDLER_FAILED."""
    error: str
    attempts: int
    failed_at: str = ""
    """Time of the write, RFC 3339; empty before it."""


def headers_of(letter: DeadLetter, *, group: str) -> list[tuple[str, bytes]]:
    """The original headers and the `dlq_` ones.

    If the client library cannot send a header (a null value, a name that is not UTF-8), the whole
    list is in `dlq_headers` as base64 of JSON instead. A record without key and value cannot be
    sent
    either: it carries an empty value and `dlq_null_value`.
    """
    record = letter.record
    facts = {
        "group": group,
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp_ms),
        "reason": letter.reason,
        "error": letter.error,
        "attempts": str(letter.attempts),
        "failed_at": letter.failed_at,
    }
    dlq_headers = [(f"{_PREFIX}{name}", _cut(text)) for name, text in facts.items()]
    dlq_headers.append((f"{_PREFIX}version", VERSION))
    if record.key is None and record.value is None:
        dlq_headers.append((f"{_PREFIX}null_value", b"1"))
    plain = [(name, content) for name, content in record.headers if content is not None]
    if len(plain) == len(record.headers) and all(_sendable(name) for name, _ in plain):
        return [*plain, *dlq_headers]
    return [*dlq_headers, (f"{_PREFIX}headers", _packed(record.headers))]


def letter_of(record: LogRecord) -> DeadLetter:
    """Read the dead letter of a record of a dead letter topic.

    Raises:
        ValueError: the record is not a dead letter of this platform.
    """
    dlq_headers = {
        name: content or b"" for name, content in record.headers if name.startswith(_PREFIX)
    }
    if dlq_headers.get(f"{_PREFIX}version") != VERSION:
        raise ValueError(f"no dead letter at {record.topic}/{record.partition}/{record.offset}")
    facts = {name.removeprefix(_PREFIX): content.decode() for name, content in dlq_headers.items()}
    packed = dlq_headers.get(f"{_PREFIX}headers")
    return DeadLetter(
        record=LogRecord(
            topic=facts["topic"],
            partition=int(facts["partition"]),
            offset=int(facts["offset"]),
            timestamp_ms=int(facts["timestamp"]),
            key=record.key,
            value=None if "null_value" in facts else record.value,
            headers=_unpacked(packed)
            if packed
            else tuple(header for header in record.headers if not header[0].startswith(_PREFIX)),
        ),
        reason=facts["reason"],
        error=facts["error"],
        attempts=int(facts["attempts"]),
        failed_at=facts["failed_at"],
    )


def _sendable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return not name.startswith(_PREFIX)  # an external dlq_ header must not be used as one of these


def _cut(text: str) -> bytes:
    return text.encode(errors="replace")[:MAX_ERROR_BYTES].decode(errors="ignore").encode()


def _packed(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    pairs = [
        (
            b64encode(name.encode(errors="surrogateescape")).decode(),
            None if content is None else b64encode(content).decode(),
        )
        for name, content in headers
    ]
    return b64encode(json.dumps(pairs).encode())


def _unpacked(packed: bytes) -> tuple[tuple[str, bytes | None], ...]:
    pairs: list[tuple[str, str | None]] = json.loads(b64decode(packed))
    return tuple(
        (
            b64decode(name).decode(errors="surrogateescape"),
            None if content is None else b64decode(content),
        )
        for name, content in pairs
    )


@dataclass(slots=True, kw_only=True)
class DeadLetters:
    """Writes dead letters of one group, and waits for each acknowledgement."""

    client: LogClient
    group: str
    clock: Clock
    _producer: LogProducer | None = field(default=None, init=False)

    @property
    def topic(self) -> str:
        return dead_letter_topic(self.group)

    def park(self, letter: DeadLetter) -> str | None:
        """None after the broker has stored the letter; else the reason, and nothing was written.

        May repeat a letter if an acknowledgement was lost: its headers contain the original's
        position.
        """
        failed_at = letter.failed_at or instant_text(self.clock.now())
        stamped = headers_of(replace(letter, failed_at=failed_at), group=self.group)
        record = letter.record
        lone = record.key is None and record.value is None
        try:
            if self._producer is None:
                self._producer = self.client.producer()
            outcome = self._producer.send(
                self.topic,
                key=record.key,
                value=b"" if lone else record.value,
                headers=stamped,
            ).wait(ACK_TIMEOUT)
        except LogUnavailableError as cause:
            return cause.cause
        match outcome:
            case Sent():
                return None
            case NotSent(reason=reason):
                return reason

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
