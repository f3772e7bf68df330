"""One Spark session for all tests, and the bench over it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from datarecs_application.ports.comparing import Engine
from datarecs_cli.stack import classes, java
from datarecs_cli.stack.failures import JavaMissingError, JavaUnusableError
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_runtime.environment import process_environment
from datarecs_spark.session import SparkRuntime, SparkSettings
from datarecs_testing.file_bench import FileBench
from datarecs_testing.stack import SHORT_LIVED
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkBench(FileBench):
    """FileBench over one runtime."""

    runtime: SparkRuntime
    twice: bool = False
    """Every stage is compared over files and over partitions."""

    def engine(self, plan: ComparisonPlan, directory: Path) -> Engine:
        engine: Engine = self.runtime.engine(plan, key=COMPARE_KEY, directory=directory)
        if not self.twice:
            return engine
        other = partitions_engine(self.runtime, directory.with_name("partitions"))
        return TwoWayEngine(planned=engine, other=other)
