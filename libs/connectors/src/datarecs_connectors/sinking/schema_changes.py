"""Change the schema of a table for records that need more than it has.

Workers meet the same new field at the same time. The catalog takes a schema only on top of the one
that was read; whoever comes second reads again and finds the column, so that it has one field id.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    update_table_metadata,
)

from datarecs_application.ports.sinking import SinkRecord
from datarecs_connectors.iceberg.catalogs import CurrentTable, TableName
from datarecs_connectors.sinking.catalog_changes import (
    ConflictError,
    OutcomeUnknownError,
    TableChange,
    WritableCatalog,
)
from datarecs_connectors.sinking.evolving import evolved_schema
from datarecs_connectors.sinking.rows import RowConverter
from datarecs_connectors.sinking.values import record_faults
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.definition import Evolution, MetadataColumns

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChanger:
    """The schema of one table, and how far it may follow the records."""

    catalog: WritableCatalog
    name: TableName
    evolution: Evolution
    metadata_columns: MetadataColumns
    ignores_case: bool = False
    """Of names of fields."""

    def evolve(
        self, metadata: TableMetadata, records: Sequence[SinkRecord]
    ) -> TableMetadata | None:
        """Store what the records need. All of them fit then, or nothing is changed.

        Args:
            metadata: as the writer has it.
            records: of one batch.

        Returns:
            The table with another schema than `metadata` has; None if no other one helps.

        Raises:
            BadRecordError: a record fits the table in no permitted form.
            SinkError: TABLE_LOST, COMMIT_FAILED.
        """
        for _ in range(_ATTEMPTS):
            current = self._current(metadata)
            schema = self._wanted(current.metadata, records)
            if schema is None:
                return _other(metadata, current)
            self._store(current, schema)
        current = self._current(metadata)
        if self._wanted(current.metadata, records) is not None:
            raise SinkError(
                SinkCode.COMMIT_FAILED,
                f"the schema of table {self.name} was changed by others, or its catalog gave no "
                f"answer, in {_ATTEMPTS} attempts; the sink reads the records again",
            )
        return _other(metadata, current)

    def _current(self, metadata: TableMetadata) -> CurrentTable:
        current = self.catalog.find(self.name)
        if current is None or current.metadata.table_uuid != metadata.table_uuid:
            raise SinkError(
                SinkCode.TABLE_LOST,
                f"table {self.name} was dropped or created again while records were written to it",
            )
        return current

    def _wanted(self, metadata: TableMetadata, records: Sequence[SinkRecord]) -> Schema | None:
        """Checked before it is stored: a schema for a record that is bad anyway is no use."""
        with record_faults(len(records)):
            schema = evolved_schema(
                metadata, records, self.evolution, ignores_case=self.ignores_case
            )
        if schema is not None:
            changed = update_table_metadata(metadata, _updates(schema))
            converter = RowConverter(changed, self.metadata_columns, ignores_case=self.ignores_case)
            converter.convert(records)
        return schema

    def _store(self, current: CurrentTable, schema: Schema) -> None:
        change = TableChange(
            requirements=(
                AssertTableUUID(uuid=current.metadata.table_uuid),
                AssertCurrentSchemaId.model_validate(
                    {"current-schema-id": current.metadata.current_schema_id}
                ),
            ),
            updates=_updates(schema),
        )
        try:
            self.catalog.commit(self.name, current, change)
        except (ConflictError, OutcomeUnknownError):
            # The next look at the table says what is there now.
            return


def _updates(schema: Schema) -> tuple[AddSchemaUpdate, SetCurrentSchemaUpdate]:
    return (
        AddSchemaUpdate.model_validate({"schema": schema}),
        SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
    )


def _other(metadata: TableMetadata, current: CurrentTable) -> TableMetadata | None:
    is_same = metadata.current_schema_id == current.metadata.current_schema_id
    return None if is_same else current.metadata
