"""A pin as JSON: what was read, in a form that another machine can find.

Separate from `run_json` because a rechecked stage has the pins of every recheck as well.
"""

import hashlib

from datarecs_core.comparison.planning.scan import (
    CataloguedSnapshot,
    ExportedSnapshot,
    Pin,
    TableSnapshot,
    TopicOffsets,
)
from datarecs_core.documents import to_document
from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.values import instant_text

Document = dict[str, JsonValue]
MAX_LISTED_FILES = 1000


def pin_document(pin: Pin, *, listed: int = MAX_LISTED_FILES) -> Document:
    """A pin in the proof: no session handle, no absolute path.

    Args:
        pin: of one source.
        listed: a longer list of files is replaced by its count and digest.
    """
    if isinstance(pin, ExportedSnapshot):
        return {
            "kind": "exported_snapshot",
            "system_id": pin.system_id,
            "database": pin.database,
            "snapshot": pin.snapshot,
            "lsn": pin.lsn,
            "taken_at": instant_text(pin.taken_at),
        }
    if isinstance(pin, TableSnapshot):
        return {
            "kind": "table_snapshot",
            "catalog": pin.catalog,
            "table": pin.table,
            "table_uuid": pin.table_uuid,
            # A random number of 63 bits: readers of JSON would round it.
            "snapshot_id": None if pin.snapshot_id is None else str(pin.snapshot_id),
            "schema_id": pin.schema_id,
            "taken_at": instant_text(pin.taken_at),
            **_catalogued(pin.catalogued),
        }
    if isinstance(pin, TopicOffsets):
        return {
            "kind": "topic_offsets",
            "cluster_id": pin.cluster_id,
            "topic": pin.topic,
            "topic_id": pin.topic_id,
            # Offsets have 63 bits: readers of JSON would round them.
            "ranges": [
                {"partition": each.partition, "start": str(each.start), "end": str(each.end)}
                for each in pin.ranges
            ],
            "taken_at": instant_text(pin.taken_at),
            **_watermark(pin),
        }
    files = [to_document(each) for each in pin.files]
    return {
        "kind": "file_list",
        "count": len(files),
        "size_bytes": str(sum(each.size_bytes for each in pin.files)),
        "digest": f"sha256:{hashlib.sha256(canonical_json(files)).hexdigest()}",
        **({"files": files} if len(files) <= listed else {}),
        **_catalogued(pin.catalogued),
    }


def _watermark(pin: TopicOffsets) -> Document:
    """Nothing for ends that no table states."""
    return {} if pin.table_snapshot is None else {"table_snapshot": str(pin.table_snapshot)}


def _catalogued(snapshot: CataloguedSnapshot | None) -> Document:
    """Nothing for a pin that the catalogue does not have."""
    if snapshot is None:
        return {}
    return {
        "catalogued": {
            "table_id": str(snapshot.table_id),
            "snapshot_id": str(snapshot.snapshot_id),
            "committed_at": instant_text(snapshot.committed_at),
        }
    }
