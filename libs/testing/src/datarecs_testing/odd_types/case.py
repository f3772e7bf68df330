"""Definition of a case of types and files, and of its job.

Each case writes the files of two sources, `one` and `two`, below a folder and declares the required
answer of every engine. This module defines a case; the cases are in the modules of this package.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_application.comparison import Answer
from datarecs_core.comparison.results.results import Difference, Verdict
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_specs.documents import job_of

Write = Callable[[Path], None]
"""Makes the files of one source in its folder."""
Shown = tuple[str, str, tuple[str | None, ...], tuple[str | None, ...]]
"""Of a difference: measure, class, key and the values by source, as people read them; no values of
`$presence`."""
PLAIN: Mapping[str, object] = {"id": [1, 2, 3]}
"""Most tables begin with these columns."""
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class OddCase:
    """Two sources, their job, and the only correct answer."""

    name: str
    files: tuple[Write, Write]
    kinds: tuple[str, str] = ("parquet", "parquet")
    sources: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Fields of a source, by its name."""
    job: Mapping[str, object] = field(default_factory=dict)
    """Fields of the job; by default a row stage by `id` over all other columns."""
    verdict: Verdict = Verdict.MATCHED
    differences: frozenset[Shown] = frozenset()
    refused: str | None = None
    """Part of the planner's message if the case cannot be compared."""


def job_of_case(case: OddCase) -> ReconciliationJob:
    """The job of the case, over the folders `one` and `two`."""
    sources = [
        {"name": name, "kind": kind, "connection": "c", "path": name, **case.sources.get(name, {})}
        for name, kind in zip(("one", "two"), case.kinds, strict=True)
    ]
    return job_of("odd", {"sources": sources, "stages": [ROWS], **case.job})


def write_files(case: OddCase, folder: Path) -> None:
    """The files of both sources."""
    for name, write in zip(("one", "two"), case.files, strict=True):
        place = folder / name
        place.mkdir(parents=True)
        write(place)


def differences_of(answer: Answer, stored: Callable[[str], Iterable[Difference]]) -> set[Shown]:
    """The differences of all stages as people read them.

    Args:
        answer: of an engine.
        stored: the engine's differences of a stage, by its name.
    """
    names = [stage.plan.name for stage in answer.outcome.stages]
    return {
        (
            row.measure,
            row.difference_class.value,
            row.key,
            () if row.measure == "$presence" else tuple(value for _, value in row.values),
        )
        for name in names
        for row in stored(name)
    }


ROWS: Mapping[str, object] = {"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}


def by(*keys: str, measures: object = "*", **fields: object) -> dict[str, object]:
    """The fields of a job with one row stage."""
    stage = {**ROWS, "dimensions": list(keys), "measures": measures}
    return {"stages": [{**stage, **fields}]}


def parquet(*tables: pa.Table | Mapping[str, object], **options: Any) -> Write:  # noqa: ANN401 - of pyarrow's writer
    """One file per table."""

    def write(folder: Path) -> None:
        for at, table in enumerate(tables):
            rows = table if isinstance(table, pa.Table) else pa.table(dict(table))
            pq.write_table(rows, folder / f"part-{at}.parquet", **options)

    return write


def text(*bodies: str | bytes, ending: str = "csv") -> Write:
    """One file per body."""

    def write(folder: Path) -> None:
        for at, body in enumerate(bodies):
            raw = body.encode() if isinstance(body, str) else body
            (folder / f"part-{at}.{ending}").write_bytes(raw)

    return write


def partitions(tables: Mapping[str, Mapping[str, object]]) -> Write:
    """One Parquet file in each folder, such as `day=2026-01-31`."""

    def write(folder: Path) -> None:
        for name, table in tables.items():
            place = folder / name
            place.mkdir()
            pq.write_table(pa.table(dict(table)), place / "part.parquet")

    return write


def unequal(name: str, key: str, *values: str | None, kind: str = "OUTSIDE") -> frozenset[Shown]:
    return frozenset({(name, kind, (key,), values)})


def missing(
    key: tuple[str | None, ...],
) -> Shown:
    return ("$presence", "MISSING", key, ())
