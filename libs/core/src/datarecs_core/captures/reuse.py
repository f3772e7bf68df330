"""Which figures of an earlier capture are those that a capture of the same file would give now.

A file that did not change can have other figures: its values are read as the columns of a snapshot
say. So figures are reused only between columns of the same identity and the same type. Separate
from `plan`, because this is decided once for a snapshot, and a plan is made of many files.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from datarecs_core.captures.request import Output
from datarecs_core.captures.source_facts import SourceFile
from datarecs_core.catalog.publication import Captured
from datarecs_core.catalog.records import Completeness, FileStats, ScalarStats, TableColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedColumns:
    """All columns of a snapshot, and what was or is to be captured of it."""

    columns: Sequence[TableColumn]
    captured: Captured


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusableFigures:
    """What holds of the figures of unchanged files."""

    names: Mapping[str, str]
    """Present names of the captured columns by their earlier ones, in the order of the table."""
    has_partial: bool
    """Also of files with a missing figure: it is missing in the new capture as well."""
    has_indexes: bool
    """Indexes have the same columns."""

    def of(self, file: SourceFile, stats: FileStats) -> FileStats | None:
        """The figures as those of a file of the new snapshot; None if it is to be opened."""
        columns = [column for column in stats.columns if column.name in self.names]
        identity = (stats.path, stats.size_bytes, stats.etag, stats.deletes)
        is_same = identity == file.identity and stats.format == file.format
        is_whole = stats.completeness is Completeness.COMPLETE or self.has_partial
        if not is_same or not is_whole or {one.name for one in columns} != self.names.keys():
            return None
        return replace(
            stats,
            columns=self._present(columns),
            partition=file.partition,
            sequence_number=file.sequence_number,
        )

    def _present(self, columns: Sequence[ScalarStats]) -> tuple[ScalarStats, ...]:
        places = {name: at for at, name in enumerate(self.names)}
        ordered = sorted(columns, key=lambda one: places[one.name])
        return tuple(replace(one, name=self.names[one.name]) for one in ordered)


def reusable_figures(
    earlier: CapturedColumns, present: CapturedColumns, names: Sequence[str], *, has_ids: bool
) -> ReusableFigures | None:
    """What holds of the figures of an earlier snapshot; None: every file is to be opened.

    Args:
        earlier: the snapshot with figures.
        present: the new one.
        names: of its captured columns, in the order of the table.
        has_ids: values are read by the ids of columns, as in Iceberg: any other column may change.
            Without, by names, and every file has all columns: the capture of a file fails if it
            has others, so it is opened after any change of a name or type.
    """
    if has_ids:
        pairs = _same_ids(earlier.columns, present.columns, set(names))
    else:
        is_same = _names_and_types(earlier.columns) == _names_and_types(present.columns)
        pairs = {name: name for name in names} if is_same else None
    if pairs is None:
        return None
    before, now = earlier.captured, present.captured
    is_named_alike = all(old == new for old, new in pairs.items())
    has_same_columns = before.columns_sha256 == now.columns_sha256 and is_named_alike
    return ReusableFigures(
        names=pairs,
        has_partial=before == now and has_same_columns,
        has_indexes=Output.PARQUET_PAGE_INDEX in before.outputs and has_same_columns,
    )


def _same_ids(
    earlier: Sequence[TableColumn], present: Sequence[TableColumn], names: Collection[str]
) -> dict[str, str] | None:
    known = {column.field_id: column for column in earlier}
    pairs = dict[str, str]()
    for column in present:
        if column.name in names:
            before = known.get(column.field_id)
            if before is None or before.type != column.type:
                return None
            pairs[before.name] = column.name
    return pairs


def _names_and_types(columns: Sequence[TableColumn]) -> list[tuple[str, str]]:
    return sorted((column.name, column.type) for column in columns)
