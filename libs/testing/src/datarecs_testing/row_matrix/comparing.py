"""A combination's files, opened, planned and compared by the engine under test."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

from datarecs_application.opening import Opened, opened_sources
from datarecs_connectors.file_tree import FileTree
from datarecs_connectors.parquet import ParquetConnector, ParquetOptions
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.planner import PlanRequest, plan_comparison
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.spec_hash import spec_hash
from datarecs_spark.session import SparkRuntime
from datarecs_testing.row_matrix.files import Data
from datarecs_testing.tables import NOON


def compare_data(
    runtime: SparkRuntime, data: Data, directory: Path
) -> tuple[StagePlan, StageResults]:
    """The engine's answer; differences go below the directory."""
    with planned(data) as (_, plan):
        engine = runtime.engine(plan, key=COMPARE_KEY, directory=directory)
        (stage,) = plan.stages
        return stage, engine.compare(stage, lambda _: None)


@contextmanager
def planned(data: Data) -> Iterator[tuple[tuple[Opened, ...], ComparisonPlan]]:
    """The open sources and the plan over their files."""
    job = data.job()

    def connector(source: Source) -> ParquetConnector:
        tree = FileTree(source=source.name, root=data.root, now=lambda: NOON)
        return ParquetConnector(tree=tree, options=ParquetOptions())

    with ExitStack() as open_things:
        opened = opened_sources(job.sources, connector, {}, open_things, whole=False)
        request = PlanRequest(
            job=job,
            job_uid=UUID(int=7),
            spec_hash=spec_hash(job),
            schemas={each.source.name: each.schema for each in opened},
            pins={each.source.name: each.pin for each in opened},
        )
        yield opened, plan_comparison(request)
        for each in opened:
            if each.held is not None:
                each.held.check()
