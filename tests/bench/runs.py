"""A whole run as a contestant: pinned, described, planned, read, compared and judged.

Where sources have to be extracted first, or a small job is measured whose planning counts, the
engine alone would not be the figure. Nothing is written here but extracts and differences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from datarecs_application.comparison import Means, Question, answer
from datarecs_application.ports.comparing import Connector, Engine
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.spec_hash import spec_hash
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection
from datarecs_runtime.clock import SystemClock
from datarecs_spark.session import SparkRuntime
from datarecs_testing.silent_reporter import SilentReporter
from tests.bench.compare import counts_of, rows_stage
from tests.bench.data import Case, Counts


def around(folder: Path) -> Surroundings:
    """Files below a folder, and this machine's servers."""
    return Surroundings(
        roots=(folder,),
        policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
        now=lambda: datetime(2026, 1, 31, tzinfo=UTC),
        any_path=True,
    )


def parquet_source(name: str, path: Path, root: Path) -> Source:
    return Source(name=name, kind=SourceKind.PARQUET, path=str(path.relative_to(root)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """One run of a job with one row stage over every column, in a warm session."""

    runtime: SparkRuntime
    case: Case
    sources: tuple[Source, ...]
    surroundings: Surroundings
    connections: Mapping[str, Connection]

    def __call__(self) -> Counts:
        job = ReconciliationJob(
            name="bench",
            sources=self.sources,
            stages=(rows_stage(self.case.data),),
        )

        def connect(source: Source) -> Connector:
            connection = self.connections.get(source.connection or "")
            return open_connector(source, connection, {}, surroundings=self.surroundings)

        def engine(plan: ComparisonPlan) -> Engine:
            made: Engine = self.runtime.engine(
                plan, key=COMPARE_KEY, directory=self.case.out / "differences"
            )
            return made

        means = Means(
            connect=connect,
            engine=engine,
            clock=SystemClock(),
            extracts=str(self.case.out / "extracts"),
        )
        question = Question(job=job, job_uid=UUID(int=7), spec_hash=spec_hash(job))
        (stage,) = answer(question, means, SilentReporter()).outcome.stages
        if stage.results is None:
            raise RuntimeError(f"the stage was skipped: {stage.skipped}")
        return counts_of(stage.results)
