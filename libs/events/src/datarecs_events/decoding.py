"""Converts a record to an event, or to the reason why it can never be handled.

A refusal is a value: the consumer writes a dead letter with it and continues. The checks follow the
order of the security rules, the first failure decides, and bad input never raises.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from datarecs_events.catalogue import BY_TYPE, EventDef
from datarecs_events.conversion import from_plain
from datarecs_events.envelope import (
    REQUIRED,
    SPECVERSION,
    BadAttributeError,
    Envelope,
    read_attributes,
)
from datarecs_events.incoming import (
    Headers,
    Incoming,
    RefusalReason,
    RefusedError,
    read_record,
)
from datarecs_events.json_text import JsonFaultError, parse_object
from datarecs_events.scalars import MismatchError
from datarecs_events.shapes import shape_of


class Note(StrEnum):
    """Irregularities of an accepted record, to be counted."""

    KEY_DIFFERS = "KEY_DIFFERS"
    """The record's key is not the `partitionkey`."""
    HEADERS_IGNORED = "HEADERS_IGNORED"
    """A structured record has `ce_` headers with other values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """An event of the catalogue, from an allowed topic and source, with a valid payload."""

    event: object
    """An instance of the catalogue's class for the type."""
    envelope: Envelope
    data: bytes
    """The received bytes of the payload."""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A well-formed event of a type that this release does not know: count it and continue."""

    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A record for the dead letters."""

    reason: RefusalReason
    detail: str
    """For people, without values of the record."""

    @property
    def alarm(self) -> bool:
        """Whether the writer had no permission: then also a security alert."""
        return self.reason in {RefusalReason.WRONG_ORIGIN, RefusalReason.TENANT_MISMATCH}


Decoded = Received | Skipped | Refused


def decode(topic: str | None, key: bytes | None, value: bytes | None, headers: Headers) -> Decoded:
    """Decode and check a record; never raises on bad input.

    Args:
        topic: the topic of the record; None for an HTTP body.
        key: only compared with `partitionkey`, never a source of attributes.
        value: the data (binary mode) or the whole event (structured mode).
        headers: names in any case, attributes as `ce_<name>`, plus `content-type`.
    """
    try:
        incoming = read_record(value, headers)
        envelope = _envelope(incoming.attributes)
        definition = BY_TYPE.get(envelope.type)
        if definition is None:
            return Skipped(type=envelope.type)
        _check_origin(topic, envelope, definition)
        event = _event(incoming.data, envelope, definition)
    except RefusedError as refusal:
        return Refused(reason=refusal.reason, detail=refusal.detail)
    notes = _notes(key, envelope, incoming)
    return Received(event=event, envelope=envelope, data=incoming.data, notes=notes)


def read_data(data: bytes) -> dict[str, object]:
    """The payload as plain values, with all digits of decimals, for the history of a run.

    Raises:
        JsonFaultError: the bytes are not a JSON object that is accepted.
    """
    return parse_object(data)


def _envelope(attributes: Mapping[str, str]) -> Envelope:
    for name in REQUIRED:
        if not attributes.get(name):
            raise RefusedError(RefusalReason.MISSING_ATTRIBUTE, f"{name} is missing or empty")
    if attributes["specversion"] != SPECVERSION:
        raise RefusedError(RefusalReason.BAD_SPECVERSION, f"specversion is not {SPECVERSION}")
    if not attributes.get("tenantid"):
        raise RefusedError(RefusalReason.TENANT_MISSING, "tenantid is missing or empty")
    try:
        return read_attributes(attributes)
    except BadAttributeError as cause:
        raise RefusedError(RefusalReason.BAD_HEADER, str(cause)) from cause


def _check_origin(topic: str | None, envelope: Envelope, definition: EventDef) -> None:
    if topic is not None and topic != definition.topic:
        raise RefusedError(RefusalReason.WRONG_ORIGIN, f"{definition.type} on topic {topic}")
    if envelope.source != definition.source:
        raise RefusedError(RefusalReason.WRONG_ORIGIN, f"{definition.type} from another source")


def _event(data: bytes, envelope: Envelope, definition: EventDef) -> object:
    try:
        plain = parse_object(data)
    except JsonFaultError as cause:
        raise RefusedError(RefusalReason.BAD_JSON, str(cause)) from cause
    if not definition.tenant_required:
        plain.setdefault("tenant_id", str(envelope.tenant_id))
    try:
        definition.check(plain)
        event = from_plain(shape_of(definition.event_class), plain)
    except MismatchError as cause:
        raise RefusedError(RefusalReason.SCHEMA_INVALID, str(cause)) from cause
    if plain["tenant_id"] != str(envelope.tenant_id):
        raise RefusedError(RefusalReason.TENANT_MISMATCH, "tenantid is not the payload's tenant")
    return event


def _notes(key: bytes | None, envelope: Envelope, incoming: Incoming) -> tuple[Note, ...]:
    wanted = None if envelope.partitionkey is None else envelope.partitionkey.encode()
    return (
        *([Note.KEY_DIFFERS] if key is not None and wanted is not None and key != wanted else []),
        *([Note.HEADERS_IGNORED] if incoming.headers_differ else []),
    )
