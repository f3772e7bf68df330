"""One Spark session for all tests, and the bench that brings tables to it as files.

Every second table comes as an extract and the others as pinned Parquet files, so both readers meet
every case; types that only one of them has decide for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_application.ports.comparing import Engine
from datarecs_cli.stack import classes, java
from datarecs_cli.stack.failures import JavaMissingError, JavaUnusableError
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import Extract, FileList, PinnedFile, Scan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.types import CLOCK_TIMES, CanonicalType, TypeKind
from datarecs_kernel.stored import read_differences
from datarecs_runtime.environment import process_environment
from datarecs_spark.session import SparkRuntime, SparkSettings
from datarecs_testing.narrowing import AskedTwice
from datarecs_testing.stack import SHORT_LIVED
from datarecs_testing.tables import NOON, Table

_ARROW = {
    TypeKind.BOOL: pa.bool_(),
    TypeKind.INT: pa.int64(),
    TypeKind.FLOAT64: pa.float64(),
    TypeKind.FLOAT32: pa.float32(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIME: pa.time64("us"),
    TypeKind.INSTANT: pa.timestamp("us", tz="UTC"),
    TypeKind.LOCAL_TIMESTAMP: pa.timestamp("us"),
}
_FINER = {
    TypeKind.TIME: pa.time64("ns"),
    TypeKind.INSTANT: pa.timestamp("ns", tz="UTC"),
    TypeKind.LOCAL_TIMESTAMP: pa.timestamp("ns"),
}
_MICROS = 6
"""Digits of a second."""
_SPLIT_ROWS = 4
"""From so many rows on a pinned table lies in two files."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark leaves the sockets of its answers to the garbage collector, which tells of them."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def found_java(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> java.Java:
    """The Java of tests that start Spark themselves; they are marked `spark`."""
    from datarecs_testing.plugin import lacking  # noqa: PLC0415 - the plugin loads this module

    try:
        return java.find_java(
            process_environment(),
            shim_home=tmp_path_factory.mktemp("java") / "java",
            places=java.Places(packaged=java.packaged_home()),
        )
    except (JavaMissingError, JavaUnusableError) as failure:
        lacking(request.config, "spark", str(failure))


@pytest.fixture(scope="session")
def spark_runtime(
    found_java: java.Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkRuntime]:
    """The session's Spark; tests that use it are marked `spark`."""
    folder = tmp_path_factory.mktemp("spark")
    runtime = SparkRuntime.start(
        SparkSettings(
            master=process_environment().get("DATARECS_TEST_MASTER", "local[2]"),
            driver_memory="1g",
            java_home=str(found_java.home),
            java_options=classes.of_spark(found_java, SHORT_LIVED),
            scratch=folder / "scratch",
        )
    )
    yield runtime
    runtime.close()


@dataclass(frozen=True, slots=True)
class SparkBench:
    """Port EngineBench over one runtime."""

    runtime: SparkRuntime
    folder: Path
    runs: Iterator[int] = field(default_factory=count)
    twice: bool = False
    """Stages that may be narrowed are compared both ways."""

    def prepare(
        self, plan: ComparisonPlan, tables: Sequence[Table]
    ) -> tuple[Engine, ComparisonPlan]:
        """Files of the tables below the folder, and the plan over them."""
        run = self.folder / f"run-{next(self.runs)}"
        scans = tuple(
            stored_scan(scan, tables[scan.index], run / f"source-{scan.index}")
            for scan in plan.scans
        )
        ready = plan.with_scans(scans)
        engine = self._engine(ready, run / "differences")
        if self.twice:
            return AskedTwice(planned=engine, forced=self._engine(ready, run / "narrow")), ready
        return engine, ready

    def again(self, plan: ComparisonPlan, tables: Sequence[Table]) -> tuple[Scan, ...]:
        """Files of the tables in another folder."""
        look = self.folder / f"look-{next(self.runs)}"
        return tuple(
            stored_scan(replace(scan, extract=None), tables[scan.index], look / str(scan.index))
            for scan in plan.scans
        )

    def _engine(self, plan: ComparisonPlan, directory: Path) -> Engine:
        engine: Engine = self.runtime.engine(plan, key=COMPARE_KEY, directory=directory)
        return engine

    def differences(self, engine: Engine, results: StageResults) -> Sequence[Difference]:
        """As they stand in the stage's files."""
        del engine
        return list(read_differences(Path(results.differences.location or "")))


def stored_scan(scan: Scan, table: Table, folder: Path) -> Scan:
    """The table as files below the folder, and the scan that reads them."""
    folder.mkdir(parents=True)
    as_text = any(_is_written(kind) for _, kind in table.columns)
    if as_text or scan.index % 2:
        return _extracted(scan, table, folder)
    pinned = pa.table(
        [_column(table, at) for at in range(len(table.columns))],
        names=[name for name, _ in table.columns],
    )
    cuts = [pinned]
    if pinned.num_rows >= _SPLIT_ROWS:
        half = pinned.num_rows // 2
        cuts = [pinned.slice(0, half), pinned.slice(half)]
    files = [_file(cut, folder, f"part {at}.parquet") for at, cut in enumerate(cuts)]
    pin = FileList(root=str(folder), files=tuple(files), taken_at=NOON)
    return replace(scan, pin=pin)


def _extracted(scan: Scan, table: Table, folder: Path) -> Scan:
    """Columns by logical name, with a companion where some value is invalid."""
    names = [name for name, _ in table.columns]
    columns: dict[str, pa.Array] = {}
    invalid = []
    for wanted in scan.columns:
        at = names.index(str(wanted.physical))
        columns[wanted.name] = _column(table, at, without_invalid=True)
        broken = [value.raw if isinstance(value, Invalid) else None for value in _values(table, at)]
        if any(raw is not None for raw in broken):
            invalid.append(wanted.name)
            columns[f"$invalid.{wanted.name}"] = pa.array(broken, pa.binary())
    rows = pa.table(columns) if columns else pa.table({"none": pa.nulls(len(table.rows))})
    extract = Extract(
        root=str(folder),
        files=(_file(rows, folder, "part-00000.parquet"),),
        rows=len(table.rows),
        decoded_bytes=rows.nbytes,
        invalid_columns=tuple(sorted(invalid)),
    )
    return replace(scan, extract=extract)


def _file(rows: pa.Table, folder: Path, name: str) -> PinnedFile:
    pq.write_table(rows, folder / name)
    size = (folder / name).stat().st_size
    return PinnedFile(path=name, size_bytes=size, rows=rows.num_rows)


def _is_written(kind: CanonicalType) -> bool:
    """Held as text, which a plain Parquet column of that type is not."""
    bare = kind.kind is TypeKind.DECIMAL and kind.precision is None
    return bare or kind.kind in {TypeKind.UUID, TypeKind.JSON}


def _values(table: Table, at: int) -> list[object]:
    return [row[at] for row in table.rows]


def _column(table: Table, at: int, *, without_invalid: bool = False) -> pa.Array:
    kind = table.columns[at][1]
    values = _values(table, at)
    if kind.kind is TypeKind.TEXT:
        raw = [_bytes(value, without_invalid=without_invalid) for value in values]
        return pa.array(raw, pa.binary()).view(pa.string())
    plain = [None if isinstance(value, Invalid) else value for value in values]
    if _is_written(kind):
        return pa.array([None if value is None else _text(value) for value in plain], pa.string())
    if kind.kind is TypeKind.DECIMAL:
        return pa.array(plain, pa.decimal128(kind.precision or 0, kind.scale or 0))
    if kind.kind in CLOCK_TIMES and kind.second_digits > _MICROS:
        return pa.array(map(_nanos, plain), pa.int64()).cast(_FINER[kind.kind])
    return pa.array(plain, _ARROW[kind.kind])


def _nanos(micros: object) -> int | None:
    return int(micros * 1000) if isinstance(micros, Decimal) else None


def _bytes(value: object, *, without_invalid: bool) -> bytes | None:
    if isinstance(value, Invalid):
        return None if without_invalid else value.raw
    return None if value is None else str(value).encode()


def _text(value: object) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)
