"""What a table says of the sink that writes to it: up to which control offset, and by whom.

Each snapshot of the sink states its lineage and control offset. A property of the table repeats
the newest, because it survives the expiry of snapshots. A rollback shows as a property that names
a snapshot that is there and is no ancestor of the head.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Any
from uuid import UUID

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from datarecs_application.ports.sinking import CommitRequest, TableAcceptance, TableStanding
from datarecs_core.sink.checkpoint import Lineage, TableCommit
from datarecs_core.sink.control import SourcePartition, TableReference

_COMMIT_ID, _TASK_ID = "kafka.connect.commit-id", "kafka.connect.task-id"
_VALID_THROUGH = "kafka.connect.valid-through-ts"
_LINEAGE, _EPOCH = "datarecs.sink.lineage", "datarecs.sink.epoch"
_SOURCE_ENDS, _MOST_ENDS_BYTES = "datarecs.sink.source-ends", 16 * 1024
_CONTROL_PARTITION = "0"
_MOST_STATED = 1_000
"""Snapshots that one commit returns, each with up to 16 KiB of positions."""


def lineage_id(lineage: Lineage) -> str:
    """32 hex digits of SHA-256 over cluster, topic and group, one a line."""
    text = f"{lineage.cluster_id}\n{lineage.topic_id}\n{lineage.group}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def offsets_key(lineage: Lineage) -> str:
    """Group and control topic of a sink have one name."""
    return f"kafka.connect.offsets.{lineage.group}.{lineage.group}"


def property_key(lineage: Lineage) -> str:
    return f"datarecs.sink.{lineage_id(lineage)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Up to where a table holds the messages of a lineage."""

    offset: int = 0
    epoch: int = 0
    since: int = 0
    """Coordinators with a smaller epoch read the control topic from too far ahead."""
    snapshot: Snapshot | None = None
    """The newest of the lineage that is still there."""
    is_rolled_back: bool = False


def watermark_of(metadata: TableMetadata, lineage: Lineage) -> Watermark:
    chain = list(_history(metadata))
    newest = next((each for each in chain if _states(each, lineage)), None)
    latest = _property(metadata, lineage)
    offsets = [_offset(newest, lineage), _number(latest, "offset")]
    epochs = [_number(_facts(newest), _EPOCH), _number(latest, "epoch")]
    return Watermark(
        offset=max(offsets),
        epoch=max(epochs),
        since=_number(latest, "since"),
        snapshot=newest,
        is_rolled_back=_is_rolled_back(metadata, chain, _number(latest, "snapshot")),
    )


def stated_above(offset: int, metadata: TableMetadata, lineage: Lineage) -> list[Snapshot]:
    """Snapshots of the lineage that state more than a control offset, oldest first.

    In the history of the head, where these offsets only grow; of more than 1,000 the newest.
    """
    ours = (one for one in _history(metadata) if _states(one, lineage))
    above = takewhile(lambda one: _offset(one, lineage) > offset, ours)
    return [*islice(above, _MOST_STATED)][::-1]


def _history(metadata: TableMetadata) -> Iterator[Snapshot]:
    """The head and its ancestors that are still there, newest first."""
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    current = metadata.current_snapshot()
    while current is not None:
        yield current
        current = by_id.get(current.parent_snapshot_id or 0)


def _is_rolled_back(metadata: TableMetadata, chain: list[Snapshot], snapshot_id: int) -> bool:
    """Whether the snapshot exists beside the history of the head, not before its known part."""
    ours = metadata.snapshot_by_id(snapshot_id)
    if ours is None or any(each.snapshot_id == snapshot_id for each in chain):
        return False
    return not chain or _age(chain[-1]) <= _age(ours) or not _is_cut(chain[-1])


def _is_cut(oldest: Snapshot) -> bool:
    """Whether snapshots before it were expired."""
    return oldest.parent_snapshot_id is not None or (oldest.sequence_number or 0) > 1


def _age(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def is_of_sink(snapshot: Snapshot) -> bool:
    """Whether a sink, of any lineage, has added the snapshot."""
    return {_LINEAGE, _COMMIT_ID} <= _facts(snapshot).keys()


def stated_ends(snapshot: Snapshot) -> Mapping[SourcePartition, int] | None:
    """Source positions of a snapshot of a sink; None where it does not state them readably."""
    text = _facts(snapshot).get(_SOURCE_ENDS)
    try:
        return None if text is None or not isinstance(json.loads(text), dict) else _ends(text)
    except (ValueError, TypeError, AttributeError):  # others may write summaries
        return None


def summary_facts(request: CommitRequest, offset: int, *, task: str) -> dict[str, str]:
    """What a snapshot states besides its totals."""
    facts = {
        offsets_key(request.lineage): json.dumps({_CONTROL_PARTITION: offset}),
        _COMMIT_ID: str(request.commit_id),
        _TASK_ID: task,
        _LINEAGE: lineage_id(request.lineage),
        _EPOCH: str(request.epoch),
    }
    if request.valid_through is not None:
        facts[_VALID_THROUGH] = request.valid_through.astimezone(UTC).isoformat()
    ends = _ends_text(request.source_ends)
    if len(ends) <= _MOST_ENDS_BYTES:
        facts[_SOURCE_ENDS] = ends
    return facts


def table_property(
    request: CommitRequest, mark: Watermark, offset: int, snapshot_id: int
) -> dict[str, str]:
    latest = {"offset": offset, "epoch": request.epoch, "snapshot": snapshot_id}
    if mark.since:
        latest["since"] = mark.since
    return {property_key(request.lineage): json.dumps(latest)}


def accepted_property(acceptance: TableAcceptance) -> dict[str, str]:
    """The property of a table that is right at its present head."""
    latest = {
        "offset": acceptance.offset,
        "epoch": acceptance.epoch,
        "snapshot": acceptance.head or 0,
        "since": acceptance.epoch,
    }
    return {property_key(acceptance.lineage): json.dumps(latest)}


def standing_of(metadata: TableMetadata, lineage: Lineage) -> TableStanding:
    mark = watermark_of(metadata, lineage)
    head = metadata.current_snapshot()
    return TableStanding(
        uuid=metadata.table_uuid,
        is_rolled_back=mark.is_rolled_back,
        offset=mark.offset,
        head=None if head is None else head.snapshot_id,
        remaining=None if mark.snapshot is None else _offset(mark.snapshot, lineage),
        ends=None if mark.snapshot is None else stated_ends(mark.snapshot),
    )


def table_commit(snapshot: Snapshot, lineage: Lineage, table: TableReference) -> TableCommit:
    """The commit that a snapshot of the lineage states."""
    facts = _facts(snapshot)
    valid_through = facts.get(_VALID_THROUGH)
    return TableCommit(
        commit_id=UUID(facts[_COMMIT_ID]),
        table=table,
        snapshot_id=snapshot.snapshot_id,
        control_offset=_offset(snapshot, lineage),
        valid_through=None if valid_through is None else datetime.fromisoformat(valid_through),
        records=_number(facts, "added-records"),
        files=_number(facts, "added-data-files") + _number(facts, "added-delete-files"),
        source_ends=_ends(facts.get(_SOURCE_ENDS, "{}")),
    )


def _ends_text(ends: Mapping[SourcePartition, int]) -> str:
    topics: dict[str, dict[str, int]] = {}
    for partition, end in sorted(ends.items()):
        topics.setdefault(partition.topic, {})[str(partition.number)] = end
    return json.dumps(topics)


def _ends(text: str) -> dict[SourcePartition, int]:
    return {
        SourcePartition(topic, int(number)): end
        for topic, partitions in _object(text).items()
        for number, end in partitions.items()
    }


def _states(snapshot: Snapshot, lineage: Lineage) -> bool:
    facts = _facts(snapshot)
    is_stated = offsets_key(lineage) in facts and _COMMIT_ID in facts
    return is_stated and facts.get(_LINEAGE) == lineage_id(lineage)


def _facts(snapshot: Snapshot | None) -> Mapping[str, str]:
    if snapshot is None or snapshot.summary is None:
        return {}
    return snapshot.summary.additional_properties


def _offset(snapshot: Snapshot | None, lineage: Lineage) -> int:
    offsets = _object(_facts(snapshot).get(offsets_key(lineage), "{}"))
    return _number(offsets, _CONTROL_PARTITION)


def _property(metadata: TableMetadata, lineage: Lineage) -> Mapping[str, Any]:
    return _object(metadata.properties.get(property_key(lineage), "{}"))


def _object(text: str) -> Mapping[str, Any]:
    """Empty for text that is no JSON object: others may change a property."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _number(document: Mapping[str, Any], name: str) -> int:
    """0 where there is no whole number."""
    value = document.get(name)
    try:
        return int(value) if isinstance(value, int | str) else 0
    except ValueError:
        return 0
