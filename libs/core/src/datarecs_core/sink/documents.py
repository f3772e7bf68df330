"""What is remembered of a sink as JSON documents: for rows, and for the pipe of a task.

Documents have texts as keys, so a partition is written `orders/0` here; a name of a topic has no
slash. Mappings of these classes are by partition, apart from `_BY_NAME`.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from datarecs_core.documents import from_document, to_document
from datarecs_core.hashing import JsonValue
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    SinkCommit,
    SinkState,
    TableCommit,
    TaskReport,
)
from datarecs_core.sink.control import SourcePartition

Remembered = TypeVar("Remembered", Checkpoint, SinkState, TableCommit, SinkCommit, TaskReport)
Record = TypeVar("Record")
_BY_NAME = frozenset({"topics"})
"""Fields with names as keys."""


def sink_document(value: Remembered) -> JsonValue:
    """The document of one of the classes of `checkpoint`."""
    return to_document(_with_keys(value, partition_text))


def from_sink_document(kind: type[Remembered], document: JsonValue) -> Remembered:
    """What `sink_document` wrote.

    Raises:
        ValueError: it is not a document of this class.
    """
    return _with_keys(from_document(kind, document), _partition)


def positions_document(positions: Mapping[SourcePartition, int]) -> JsonValue:
    """Offsets by partition."""
    return {partition_text(partition): offset for partition, offset in positions.items()}


def from_positions(document: Mapping[str, int]) -> dict[SourcePartition, int]:
    """What `positions_document` wrote."""
    return {_partition(text): offset for text, offset in document.items()}


def partition_text(partition: SourcePartition) -> str:
    return f"{partition.topic}/{partition.number}"


def _partition(text: str) -> SourcePartition:
    topic, _, number = text.rpartition("/")
    return SourcePartition(topic=topic, number=int(number))


def _with_keys(value: Record, key: Callable[[Any], object]) -> Record:
    """The same with other keys in each mapping, also in fields below."""
    changed: dict[str, object] = {}
    for each in fields(value):  # type: ignore[arg-type]  # a frozen dataclass
        item = getattr(value, each.name)
        if isinstance(item, Mapping) and each.name not in _BY_NAME:
            changed[each.name] = {key(name): inner for name, inner in item.items()}
        elif is_dataclass(item):
            changed[each.name] = _with_keys(item, key)
    return replace(value, **changed)  # type: ignore[type-var]  # a frozen dataclass
