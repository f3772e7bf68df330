"""Jobs over files and tables of a folder, run by a chosen engine."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_application.comparison import Answer, Means, Question, answer
from datarecs_application.ports.comparing import Connector, Engine
from datarecs_connectors.extracted import rows_of
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_memory.engine import MemoryEngine
from datarecs_spark.session import SparkRuntime
from datarecs_testing.clock import ManualClock
from datarecs_testing.silent_reporter import SilentReporter


@pytest.fixture
def by(spark_runtime: SparkRuntime, tmp_path: Path) -> Callable[..., Answer]:
    """The answer to a job by a strategy of Spark, or by the oracle where there is none."""

    def answered(
        strategy: Strategy | None,
        job: ReconciliationJob,
        open_source: Callable[[Source], Connector],
    ) -> Answer:
        opened: dict[str, Connector] = {}
        if strategy is not None:
            job = replace(job, execution=replace(job.execution, strategy=strategy))

        def connect(source: Source) -> Connector:
            opened[source.name] = open_source(source)
            return opened[source.name]

        def engine(plan: ComparisonPlan) -> Engine:
            if strategy is None:
                return MemoryEngine(lambda scan: rows_of(opened[scan.source], scan))
            directory = tmp_path / f"differences-{strategy}"
            made: Engine = spark_runtime.engine(plan, key=COMPARE_KEY, directory=directory)
            return made

        means = Means(
            connect=connect,
            engine=engine,
            clock=ManualClock(),
            extracts=str(tmp_path / f"extracts-{strategy}"),
        )
        question = Question(job=job, job_uid=UUID(int=1), spec_hash="sha256:" + 64 * "0")
        return answer(question, means, SilentReporter())

    return answered
