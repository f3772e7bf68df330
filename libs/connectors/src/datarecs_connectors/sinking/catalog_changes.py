"""What a catalog that writes is asked for, and how it may answer.

A catalog takes a change only if its requirements hold for the table as it is then. A refusal says
which of three things is true: the table has changed, nobody knows, or it is not allowed.
"""

from dataclasses import dataclass
from typing import Protocol

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import TableRequirement, TableUpdate

from datarecs_connectors.iceberg.catalogs import CurrentTable, TableName


class ConflictError(Exception):
    """The table has changed since it was read; nothing was stored."""


class OutcomeUnknownError(Exception):
    """The catalog did not answer; the change may be stored, also later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """Stored as a whole or not at all."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    schema: Schema
    spec: PartitionSpec
    properties: dict[str, str]


class WritableCatalog(Protocol):
    """A catalog that compares and sets.

    Every method may raise ConnectionFailedError and PermissionDeniedError.
    """

    def find(self, name: TableName) -> CurrentTable | None:
        """The table now; None if there is none."""

    def commit(self, name: TableName, current: CurrentTable, change: TableChange) -> None:
        """Store the change of the table that `current` is.

        Raises:
            ConflictError, OutcomeUnknownError.
            SinkError: TABLE_LOST, COMMIT_FAILED for a refusal.
        """

    def create(self, name: TableName, table: NewTable) -> None:
        """Create the table and its namespaces; nothing happens if it exists.

        Raises:
            SinkError: COMMIT_FAILED for a refusal, FILE_LOCATION_REFUSED.
        """
