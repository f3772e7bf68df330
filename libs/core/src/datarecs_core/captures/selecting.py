"""Which snapshots a capture is about, and their ids in the catalogue."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Protocol, TypeVar

from datarecs_core.captures.request import SnapshotChoice, SnapshotSelection

MOST_SNAPSHOTS = 10_000
"""Of one table in one capture, the newest first."""
_LARGEST = 2**63
_DIGITS = 19


class Committed(Protocol):
    @property
    def committed_at(self) -> datetime: ...
    @property
    def sequence_number(self) -> int | None: ...


S = TypeVar("S", bound=Committed)


def snapshot_id_of(native_id: str) -> int:
    """The id in the catalogue: the number itself, or 63 bits of a hash of any other text."""
    is_short = native_id.isascii() and native_id.isdecimal() and len(native_id) <= _DIGITS
    if is_short and str(int(native_id)) == native_id and int(native_id) < _LARGEST:
        return int(native_id)
    return int.from_bytes(sha256(native_id.encode()).digest()[:8], "big") >> 1


def selected(
    snapshots: Sequence[tuple[int, S]], selection: SnapshotSelection
) -> tuple[list[tuple[int, S]], list[int]]:
    """The snapshots of a selection, the newest first, and the ids that do not exist.

    Newest by time of commit, then by sequence number; never by id, which grows in no order.

    Args:
        snapshots: id and snapshot.
        selection: CURRENT is the newest commit.
    """
    ordered = sorted(
        snapshots,
        key=lambda pair: (pair[1].committed_at, pair[1].sequence_number or 0),
        reverse=True,
    )
    match selection.kind:
        case SnapshotChoice.CURRENT:
            return ordered[:1], []
        case SnapshotChoice.LATEST_N:
            return ordered[: selection.latest], []
        case SnapshotChoice.ALL:
            return ordered[:MOST_SNAPSHOTS], []
        case SnapshotChoice.EXPLICIT:
            wanted = set(selection.snapshot_ids)
            known = {number for number, _ in snapshots}
            return [pair for pair in ordered if pair[0] in wanted], sorted(wanted - known)
