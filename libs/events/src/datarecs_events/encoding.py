"""Converts an event to the bytes that are stored in the outbox and sent, once at insert.

An event that violates its schema, contradicts itself or is larger than 64 KiB is a defect: nothing
is written. Only the list of tolerances may be cut, and the event shows it. Encoding runs in the
transaction of the state and may fail it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail, RunFault
from datarecs_core.resources.events import ResourceEvent
from datarecs_core.runs.events import RunComparisonCompleted, RunStageCompleted
from datarecs_core.runs.numbers import inconsistencies
from datarecs_core.values import EventId, instant_text
from datarecs_events.catalogue import EventDef, EventKind, definition_of
from datarecs_events.conversion import to_plain
from datarecs_events.envelope import JSON_TYPE, SPECVERSION, BadAttributeError, read_attributes
from datarecs_events.json_text import write
from datarecs_events.scalars import MismatchError
from datarecs_events.shapes import shape_of

MAX_DATA_BYTES = 64 * 1024


class EventEncodeError(DatarecsError):
    """An event that no reader would accept; the transaction that writes it must fail."""

    code: RunFault | RunDetail = RunFault.EVENT_NOT_ENCODABLE

    def __init__(self, *, event: object, why: str, counts: bool = False) -> None:
        super().__init__(f"{type(event).__name__} cannot be written: {why}")
        self.event_class, self.why = type(event).__name__, why
        if counts:
            self.code = RunDetail.INCONSISTENT_COUNTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The values set when the outbox row of an event is inserted; every resend has the same."""

    event_id: EventId
    time: datetime
    """Database clock at insert."""
    sequence: int | None = None
    """The number in its run or capture; an event of a resource takes its resource_version."""
    caused_by: EventId | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    service: str | None = None
    """The writing service; must be an emitter of the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedEvent:
    """An event ready for its outbox row and for Kafka; exactly these bytes are sent."""

    type: str
    kind: EventKind
    topic: str | None
    """None: sent only over HTTP."""
    key: str
    attributes: Mapping[str, str]
    """CloudEvents attributes and extensions as text, including `datacontenttype`."""
    data: bytes

    @property
    def source(self) -> str:
        return self.attributes["source"]

    @property
    def subject(self) -> str:
        return self.attributes["subject"]

    @property
    def key_bytes(self) -> bytes:
        return self.key.encode()

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """Headers of the binary mode, in the order of the attributes; `content-type` last."""
        named = [
            (f"ce_{name}", text.encode())
            for name, text in self.attributes.items()
            if name != "datacontenttype"
        ]
        return (*named, ("content-type", self.attributes["datacontenttype"].encode()))


def encode(event: object, stamp: Stamp) -> EncodedEvent:
    """Encode the event to store and send.

    Raises:
        EventEncodeError: not an event, a value that readers refuse, contradictory numbers, more
            than 64 KiB, or a service that does not emit the type.
    """
    definition = _definition(event)
    if stamp.service is not None and stamp.service not in definition.emitters:
        raise EventEncodeError(event=event, why=f"{stamp.service} does not emit its type")
    data, dataref = _data(event, definition)
    attributes = _attributes(event, definition, stamp)
    if dataref is not None:
        attributes["dataref"] = dataref
    try:
        read_attributes(attributes)
    except BadAttributeError as cause:
        raise EventEncodeError(event=event, why=str(cause)) from cause
    return EncodedEvent(
        type=definition.type.value,
        kind=definition.kind,
        topic=None if definition.topic is None else definition.topic.value,
        key=attributes["partitionkey"],
        attributes=attributes,
        data=data,
    )


def _definition(event: object) -> EventDef:
    try:
        return definition_of(event)
    except KeyError as cause:
        raise EventEncodeError(event=event, why="its class is not in the catalogue") from cause


def _attributes(event: object, definition: EventDef, stamp: Stamp) -> dict[str, str]:
    try:
        time = instant_text(stamp.time)
    except ValueError as cause:
        raise EventEncodeError(event=event, why=str(cause)) from cause
    sequence = _sequence(event, definition, stamp)
    optional = {
        "runsequence": None if sequence is None else f"{sequence:020d}",
        "causationid": None if stamp.caused_by is None else str(stamp.caused_by),
        "traceparent": stamp.traceparent,
        "tracestate": stamp.tracestate,
    }
    return {
        "specversion": SPECVERSION,
        "id": str(stamp.event_id),
        "source": definition.source,
        "type": definition.type.value,
        "subject": definition.subject_of(event),
        "time": time,
        "tenantid": str(event.tenant_id),  # type: ignore[attr-defined]  # a test checks every class
        "partitionkey": definition.key_of(event),
        **{name: text for name, text in optional.items() if text is not None},
        "dataschema": definition.dataschema,
        "datacontenttype": JSON_TYPE,
    }


def _sequence(event: object, definition: EventDef, stamp: Stamp) -> int | None:
    if definition.kind.is_numbered and stamp.sequence is None:
        raise EventEncodeError(event=event, why="an event of a run or capture needs its sequence")
    if stamp.sequence is None and isinstance(event, ResourceEvent):
        return int(event.resource_version) if event.resource_version.isdecimal() else None
    return stamp.sequence


def _data(event: object, definition: EventDef) -> tuple[bytes, str | None]:
    """The payload's bytes, and the URI of the complete data if they are cut."""
    data = _written(event, definition)
    if isinstance(event, RunComparisonCompleted | RunStageCompleted):
        broken = inconsistencies(event)
        if broken:
            raise EventEncodeError(event=event, why="; ".join(broken), counts=True)
        return (data, None) if len(data) <= MAX_DATA_BYTES else _cut(event, definition)
    if len(data) > MAX_DATA_BYTES:
        raise EventEncodeError(event=event, why=f"its data has {len(data)} bytes")
    return data, None


def _cut(
    event: RunComparisonCompleted | RunStageCompleted, definition: EventDef
) -> tuple[bytes, str]:
    """The data with as many tolerances as fit: failed ones first, otherwise in declared order."""
    ranked = sorted(event.tolerances, key=lambda item: item.passed)
    frame = replace(event, tolerances=(), tolerances_total=len(ranked), tolerances_truncated=True)
    room = MAX_DATA_BYTES - len(_written(frame, definition))
    count = 0
    for item in ranked:
        room -= len(write(to_plain(shape_of(type(item)), item)).encode()) + 1
        if room < 0:
            break
        count += 1
    path = f"/api/v1/runs/{event.run_id}"
    whole = f"{path}/stages/{quote(event.stage_name, safe='')}" if event.stage_name else path
    return _written(replace(frame, tolerances=tuple(ranked[:count])), definition), whole


def _written(event: object, definition: EventDef) -> bytes:
    try:
        plain = to_plain(shape_of(definition.event_class), event)
        definition.check(plain)
        return write(plain).encode()
    except MismatchError as cause:
        raise EventEncodeError(event=event, why=str(cause)) from cause
