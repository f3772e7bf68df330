"""The CloudEvents attributes around an event's data: their names, writing and reading.

Binary mode on Kafka has them in `ce_` headers, the JSON format beside `data`; here both are one
mapping of names to text.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from datarecs_core.values import EventId, TenantId
from datarecs_events.scalars import read_id, read_instant

SPECVERSION = "1.0"
JSON_TYPE = "application/json"
NAME = re.compile(r"[a-z0-9]{1,20}")
REQUIRED = ("id", "source", "type", "specversion")
FIRST = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema")
"""Order of the JSON format; extensions follow by name, then `data`."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SEQUENCE = re.compile(r"[0-9]{20}")


class BadAttributeError(ValueError):
    """An attribute has an illegal form; the message names the attribute, never the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The attributes of an accepted event."""

    id: EventId
    source: str
    type: str
    tenant_id: TenantId
    subject: str | None = None
    time: datetime | None = None
    partitionkey: str | None = None
    runsequence: int | None = None
    """Compare only within one subject."""
    causationid: EventId | None = None
    traceparent: str | None = None
    attributes: Mapping[str, str]
    """Every attribute and extension as received text."""


def read_attributes(attributes: Mapping[str, str]) -> Envelope:
    """The envelope of these attributes; the required ones are present and not empty.

    Raises:
        BadAttributeError: a control character, or a malformed id, time or sequence.
    """
    for name, value in attributes.items():
        if _CONTROL.search(value) is not None:
            raise BadAttributeError(f"{name} has a control character")
    sequence = attributes.get("runsequence")
    if sequence is not None and _SEQUENCE.fullmatch(sequence) is None:
        raise BadAttributeError("runsequence is not a number of 20 digits")
    cause = _id(attributes, "causationid") if "causationid" in attributes else None
    return Envelope(
        id=_id(attributes, "id"),
        source=attributes["source"],
        type=attributes["type"],
        tenant_id=TenantId(_id(attributes, "tenantid")),
        subject=attributes.get("subject"),
        time=_time(attributes),
        partitionkey=attributes.get("partitionkey"),
        runsequence=None if sequence is None else int(sequence),
        causationid=cause,
        traceparent=attributes.get("traceparent"),
        attributes=attributes,
    )


def to_structured(attributes: Mapping[str, str], data: bytes) -> bytes:
    """The event in the JSON format of CloudEvents: compact UTF-8, with the exact bytes of `data`.

    Args:
        attributes: every attribute and extension as text (`Envelope.attributes`).
        data: the encoded JSON object.
    """
    known = [(name, attributes[name]) for name in FIRST if name in attributes]
    others = sorted((name, text) for name, text in attributes.items() if name not in FIRST)
    head = json.dumps(dict(known + others), ensure_ascii=False, separators=(",", ":"))
    return head[:-1].encode() + b',"data":' + data + b"}"


def _id(attributes: Mapping[str, str], name: str) -> EventId:
    try:
        return EventId(read_id(attributes[name]))
    except ValueError as cause:
        raise BadAttributeError(f"{name} is not a UUID in canonical form") from cause


def _time(attributes: Mapping[str, str]) -> datetime | None:
    if "time" not in attributes:
        return None
    try:
        return read_instant(attributes["time"])
    except ValueError as cause:
        raise BadAttributeError("time is not RFC 3339") from cause
