"""Small tables in the text of a test, and the plan over them through the real planner.

Shared by the unit tests of the oracle, the engine conformance suite and the differential tests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.planner import PlanRequest, plan_comparison
from datarecs_core.comparison.planning.scan import (
    FileList,
    PinnedFile,
    Scan,
    SourceColumn,
    SourceSchema,
)
from datarecs_core.jobs.definition import ReconciliationJob, Source, Stage
from datarecs_core.jobs.spec_hash import spec_hash
from datarecs_core.jobs.types import CanonicalType, parse_type
from datarecs_core.jobs.vocabulary import SourceKind

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
JOB_UID = UUID("018f0000-0000-7000-8000-000000000001")

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A source's name, typed columns and plain rows, one value per column."""

    name: str
    columns: tuple[tuple[str, CanonicalType], ...]
    rows: tuple[Row, ...]
    required: frozenset[str] = frozenset()
    """Columns that are declared to hold no NULL."""

    def delivered(self, scan: Scan) -> list[Row]:
        """The rows as a connector delivers them for a scan."""
        names = [name for name, _ in self.columns]
        at = [names.index(str(column.physical)) for column in scan.columns]
        return [tuple(row[index] for index in at) for row in self.rows]

    @property
    def schema(self) -> SourceSchema:
        return SourceSchema(
            columns=tuple(
                SourceColumn(name=name, type=kind, nullable=name not in self.required)
                for name, kind in self.columns
            )
        )

    @property
    def pin(self) -> FileList:
        file = PinnedFile(path=f"{self.name}.parquet", size_bytes=1, rows=len(self.rows))
        return FileList(root="memory:", files=(file,), taken_at=NOON)


def a_table(name: str, columns: str, *rows: Row) -> Table:
    """`a_table("ledger", "id int, amount decimal(10,2)", (1, Decimal("1.00")))`."""
    parsed = (part.strip().split(" ", 1) for part in _split(columns))
    kinds = tuple((label, parse_type(kind.strip())) for label, kind in parsed)
    return Table(name=name, columns=kinds, rows=rows)


def _split(columns: str) -> list[str]:
    """At commas outside parentheses."""
    parts, depth = [""], 0
    for letter in columns:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def pair(columns: str, first: Sequence[Row], second: Sequence[Row]) -> list[Table]:
    """Two sources, `one` and `two`, of equal columns."""
    return [a_table("one", columns, *first), a_table("two", columns, *second)]


def a_source(name: str, **fields: Any) -> Source:  # noqa: ANN401 - any field of Source
    """A file source; fields as in the job's definition."""
    return Source(name=name, kind=SourceKind.PARQUET, path=f"{name}.parquet", **fields)


def a_job(
    tables: Sequence[Table],
    *stages: Stage,
    sources: Mapping[str, Mapping[str, Any]] | None = None,
    **fields: Any,  # noqa: ANN401 - any field of the job
) -> ReconciliationJob:
    """A job over the tables in their order; `sources` holds extra fields by source name."""
    extra = sources or {}
    return ReconciliationJob(
        name="job",
        sources=tuple(a_source(table.name, **extra.get(table.name, {})) for table in tables),
        stages=stages,
        **fields,
    )


def plan_of(job: ReconciliationJob, tables: Sequence[Table]) -> ComparisonPlan:
    """The plan of a job over the tables, made by the planner; raises PlanRefusedError."""
    return plan_comparison(
        PlanRequest(
            job=job,
            job_uid=JOB_UID,
            spec_hash=spec_hash(job),
            schemas={table.name: table.schema for table in tables},
            pins={table.name: table.pin for table in tables},
        )
    )
