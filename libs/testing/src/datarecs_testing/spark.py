"""One Spark session for all tests, and the bench that brings tables to it as files.

Every second table comes as an extract and the others as pinned Parquet files, so both readers meet
every case; types that only one of them has decide for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from datarecs_application.ports.comparing import Engine
from datarecs_cli.stack import classes, java
from datarecs_cli.stack.failures import JavaMissingError, JavaUnusableError
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_kernel.stored import read_differences
from datarecs_runtime.environment import process_environment
from datarecs_spark.session import SparkRuntime, SparkSettings
from datarecs_testing.stack import SHORT_LIVED
from datarecs_testing.stored_tables import stored_scan
from datarecs_testing.tables import Table
from datarecs_testing.ways import TwoWayEngine, partitions_engine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark leaves the sockets of its answers to the garbage collector, which warns about them."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def java_runtime(
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
    java_runtime: java.Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkRuntime]:
    """The session's Spark; tests that use it are marked `spark`."""
    folder = tmp_path_factory.mktemp("spark")
    runtime = SparkRuntime.start(
        SparkSettings(
            master=process_environment().get("DATARECS_TEST_MASTER", "local[2]"),
            driver_memory="1g",
            java_home=str(java_runtime.home),
            java_options=classes.of_spark(java_runtime, SHORT_LIVED),
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
    """Every stage is compared over files and over partitions."""

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
            other = partitions_engine(self.runtime, run / "partitions")
            return TwoWayEngine(planned=engine, other=other), ready
        return engine, ready

    def again(self, plan: ComparisonPlan, tables: Sequence[Table]) -> tuple[Scan, ...]:
        """Files of the tables in another folder."""
        target = self.folder / f"look-{next(self.runs)}"
        return tuple(
            stored_scan(replace(scan, extract=None), tables[scan.index], target / str(scan.index))
            for scan in plan.scans
        )

    def _engine(self, plan: ComparisonPlan, directory: Path) -> Engine:
        engine: Engine = self.runtime.engine(plan, key=COMPARE_KEY, directory=directory)
        return engine

    def differences(self, engine: Engine, results: StageResults) -> Sequence[Difference]:
        """The differences in the stage's files."""
        del engine
        return list(read_differences(Path(results.differences.location or "")))
