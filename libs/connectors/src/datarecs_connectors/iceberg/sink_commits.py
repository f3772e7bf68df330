"""The newest snapshot of a sink in the history of a snapshot: what the table then had of topics.

Snapshots of others above it, such as a compaction, change nothing of that: they are judged as part
of the table.
"""

from collections.abc import Iterator

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from datarecs_connectors.sinking.watermarks import is_of_sink, stated_ends
from datarecs_core.comparison.planning.scan import SinkCommit, TopicEnd


def newest_commit(metadata: TableMetadata, snapshot: Snapshot) -> SinkCommit | None:
    """None where no sink has added the snapshot or an ancestor that is still there."""
    for version in _ancestry(metadata, snapshot):
        if is_of_sink(version):
            return SinkCommit(snapshot_id=version.snapshot_id, ends=_ends(version))
    return None


def _ends(version: Snapshot) -> tuple[TopicEnd, ...] | None:
    stated = stated_ends(version)
    if stated is None:
        return None
    return tuple(
        TopicEnd(topic=partition.topic, partition=partition.number, offset=offset)
        for partition, offset in sorted(stated.items())
    )


def _ancestry(metadata: TableMetadata, snapshot: Snapshot) -> Iterator[Snapshot]:
    """The snapshot, then its ancestors, newest first; damaged metadata may name one twice."""
    by_id = {version.snapshot_id: version for version in metadata.snapshots}
    following: int | None = snapshot.snapshot_id
    while following is not None and following in by_id:
        version = by_id.pop(following)
        yield version
        following = version.parent_snapshot_id
