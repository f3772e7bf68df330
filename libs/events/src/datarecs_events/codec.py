"""Converts events to Kafka records and back: the two functions for all other code.

`encode` makes the bytes once, in the transaction of the state; `decode` checks any record of a
topic. They share only catalogue, shapes and envelope.
"""

from datarecs_events.decoding import (
    Decoded,
    Note,
    Received,
    Refused,
    Skipped,
    decode,
    read_data,
)
from datarecs_events.encoding import (
    MAX_DATA_BYTES,
    EncodedEvent,
    EventEncodeError,
    Stamp,
    encode,
)
from datarecs_events.envelope import Envelope, to_structured
from datarecs_events.incoming import MAX_VALUE_BYTES, RefusalReason

__all__ = [
    "MAX_DATA_BYTES",
    "MAX_VALUE_BYTES",
    "Decoded",
    "EncodedEvent",
    "Envelope",
    "EventEncodeError",
    "Note",
    "Received",
    "RefusalReason",
    "Refused",
    "Skipped",
    "Stamp",
    "decode",
    "encode",
    "read_data",
    "to_structured",
]
