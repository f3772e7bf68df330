"""What the catalogue knows about the table of a source: its snapshots, and the files of one time.

The supervisor of a run reads it from the catalogue, and the child that opens the source uses it: a
separate module because both need it and neither reads the other's part.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from datarecs_core.captures.selecting import snapshot_id_of
from datarecs_core.comparison.planning.scan import CataloguedSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguedFile:
    """A file of a snapshot, as its capture listed it."""

    path: str
    size_bytes: int
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguedTable:
    """The table of one source in the catalogue."""

    table_id: UUID
    name: str
    """Of the table, without its namespace."""
    snapshots: Mapping[str, datetime] = field(default_factory=dict)
    """Time of commit by id, of the newest ones."""
    as_of: CataloguedSnapshot | None = None
    """The snapshot that the source asks for, if its kind keeps no earlier state itself."""
    files: tuple[CataloguedFile, ...] = ()
    """Of that snapshot."""

    def has(self, snapshot: CataloguedSnapshot) -> bool:
        """Whether it is one of this table."""
        listed = self.snapshots.get(str(snapshot.snapshot_id))
        is_listed = snapshot.table_id == self.table_id and listed == snapshot.committed_at
        return is_listed or snapshot == self.as_of

    def snapshot(self, native_id: str) -> CataloguedSnapshot | None:
        """The snapshot with an id of the source; None for one that was not captured."""
        number = snapshot_id_of(native_id)
        committed_at = self.snapshots.get(str(number))
        if committed_at is None:
            return None
        return CataloguedSnapshot(
            table_id=self.table_id, snapshot_id=number, committed_at=committed_at
        )
