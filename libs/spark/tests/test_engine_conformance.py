"""The Spark engine, held to the suite that every engine passes."""

from pathlib import Path

import pytest

from datarecs_spark.session import SparkRuntime
from datarecs_testing.comparisons import EngineBench, RecheckBench
from datarecs_testing.conformance.engine import (
    DerivedConformance,
    EngineConformance,
    RelaxationConformance,
)
from datarecs_testing.conformance.engine_rechecks import RecheckSpellingConformance
from datarecs_testing.spark import SparkBench

pytestmark = pytest.mark.spark


class TestSparkEngine(EngineConformance, RelaxationConformance, DerivedConformance):
    @pytest.fixture
    def bench(self, spark_runtime: SparkRuntime, tmp_path: Path) -> EngineBench:
        return SparkBench(runtime=spark_runtime, folder=tmp_path, twice=True)


class TestRechecks(RecheckSpellingConformance):
    @pytest.fixture
    def bench(self, spark_runtime: SparkRuntime, tmp_path: Path) -> RecheckBench:
        return SparkBench(runtime=spark_runtime, folder=tmp_path)
