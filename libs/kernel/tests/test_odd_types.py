"""Types and files that are rarely alike: the kernel over files answers each case of the table."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_application.comparison import Means, Question, answer
from datarecs_application.ports.comparing import Connector, Progress
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_kernel.database import Resources, connected
from datarecs_kernel.delivered import delivered
from datarecs_kernel.layout import check_covered, layout_of
from datarecs_kernel.relations import create_relation, rows_behind_filter
from datarecs_kernel.results import stage_results
from datarecs_kernel.stages import Attempt, compare_stage
from datarecs_kernel.stored import read_differences
from datarecs_testing.clock import ManualClock
from datarecs_testing.kernel_bench import KernelEngine
from datarecs_testing.odd_types.case import OddCase, differences_of, job_of_case, write_files
from datarecs_testing.odd_types.table import cases
from datarecs_testing.silent_reporter import SilentReporter
from datarecs_testing.tables import NOON

ANSWERED = [case for case in cases() if case.refused is None]


class KernelOverFiles(KernelEngine):
    """Port Engine over relations of the files themselves."""

    def __init__(self, directory: Path) -> None:
        super().__init__(lambda _: [], directory)

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        if plan.catalogue is not None:
            return super().compare(plan, progress)
        check_covered(plan)
        spill = self._directory / "spill"
        spill.mkdir(parents=True, exist_ok=True)
        resources = Resources(
            directory=str(spill), threads=1, memory_bytes=2**28, spill_bytes=2**28
        )
        with connected(resources) as connection:
            sources = [delivered(connection, scan, check_texts=True) for scan in plan.scans]
            sink = self._sink(layout_of(plan, sources))
            relations = [
                create_relation(connection, sink.layout.of_rows, each, conditions=[plan.where])
                for each in sources
            ]
            made = compare_stage(connection, sink, relations, Attempt(name="test"))
            for tally, each in zip(made.tallies, sources, strict=True):
                tally.extracted = rows_behind_filter(connection, each)
        results = stage_results(sink.layout, made.counted, made.tallies, sink.directory)
        return replace(results, strategy=plan.strategy)


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case.name)
def test_the_kernel_answers_what_a_case_says(case: OddCase, tmp_path: Path) -> None:
    write_files(case, tmp_path)

    def connect(source: Source) -> Connector:
        policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
        around = Surroundings(roots=(tmp_path,), policy=policy, now=lambda: NOON, any_path=True)
        return open_connector(source, None, {}, surroundings=around)

    means = Means(
        connect=connect,
        engine=lambda _: KernelOverFiles(tmp_path / "work"),
        clock=ManualClock(),
        extracts=str(tmp_path / "extracts"),
    )
    question = Question(job=job_of_case(case), job_uid=UUID(int=1), spec_hash="sha256:" + 64 * "0")
    result = answer(question, means, SilentReporter())

    def stored(stage: str) -> Sequence[Difference]:
        (only,) = (each for each in result.outcome.stages if each.plan.name == stage)
        assert only.results is not None
        return list(read_differences(Path(only.results.differences.location or "")))

    assert differences_of(result, stored) == case.differences
    assert result.outcome.verdict is case.verdict
