"""Headers of control messages: what is the sink's own, as Java's readers never look at them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from datarecs_core.sink.control import (
    ControlHeaders,
    DataComplete,
    DataWritten,
    KeyFile,
    Message,
    SourcePartition,
    SourceRange,
    StartCommit,
)

EPOCH = "datarecs-epoch"
RANGES = "datarecs-ranges"
PARTS = "datarecs-parts"
EXPECTED = "datarecs-expected"
KEYS = "datarecs-keys"


def encode_headers(message: Message, headers: ControlHeaders) -> list[tuple[str, bytes]]:
    """Those that belong to the type of the message."""
    texts = {EPOCH: str(headers.epoch)}
    match message:
        case DataComplete():
            ranges = [[*one.partition, one.start, one.end] for one in headers.ranges]
            texts |= {RANGES: json.dumps(ranges), PARTS: str(headers.parts)}
        case StartCommit() if headers.expected:
            positions = [[*partition, at] for partition, at in headers.expected.items()]
            texts[EXPECTED] = json.dumps(positions)
        case DataWritten() if headers.keys is not None:
            file = headers.keys
            texts[KEYS] = json.dumps([file.path, file.sha256, file.rows])
    return [(name, text.encode()) for name, text in texts.items()]


def is_of_sink(raw: Sequence[tuple[str, bytes | None]]) -> bool:
    return any(name == EPOCH for name, _ in raw)


def decode_headers(message: Message, raw: Sequence[tuple[str, bytes | None]]) -> ControlHeaders:
    """Raises ValueError for a header that is missing or not what it should be."""
    texts = {name: content.decode() for name, content in raw if content is not None}
    try:
        epoch = int(texts[EPOCH])
        match message:
            case DataComplete():
                return ControlHeaders(
                    epoch=epoch, ranges=_ranges(texts[RANGES]), parts=int(texts[PARTS])
                )
            case StartCommit():
                return ControlHeaders(epoch=epoch, expected=_expected(texts.get(EXPECTED, "[]")))
            case DataWritten() if KEYS in texts:
                return ControlHeaders(epoch=epoch, keys=_key_file(texts[KEYS]))
        return ControlHeaders(epoch=epoch)
    except KeyError as cause:
        raise ValueError(f"the header {cause.args[0]} is missing") from cause
    except (TypeError, RecursionError) as cause:
        raise ValueError("a header is not of the form that it should have") from cause


def _ranges(text: str) -> tuple[SourceRange, ...]:
    return tuple(
        SourceRange(
            partition=SourcePartition(str(topic), int(number)), start=int(start), end=int(end)
        )
        for topic, number, start, end in _rows(text)
    )


def _expected(text: str) -> Mapping[SourcePartition, int]:
    return {SourcePartition(str(topic), int(number)): int(at) for topic, number, at in _rows(text)}


def _key_file(text: str) -> KeyFile:
    path, sha256, rows = _rows(text)
    return KeyFile(path=str(path), sha256=str(sha256), rows=int(rows))


def _rows(text: str) -> list[Any]:
    rows = json.loads(text)
    if not isinstance(rows, list):
        raise TypeError
    return rows
