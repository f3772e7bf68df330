"""Any number of sources is one job: each is read once, and Spark answers like the oracle.

Whole runs over real files, from pins to proof, so that what is counted is what a run does.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from datarecs_application.comparison import Means, Question, answer
from datarecs_application.ports.comparing import Connector, Engine, Read
from datarecs_connectors.extracted import rows_of
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.proof.run_json import Sealing, proof_document
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import CompareTo, Function, SourceKind
from datarecs_memory.engine import MemoryEngine
from datarecs_spark.session import SparkRuntime
from datarecs_testing.clock import ManualClock
from datarecs_testing.comparisons import a_measure, absolute, aggregate_by, digest_by, rows_by
from datarecs_testing.silent_reporter import SilentReporter

pytestmark = pytest.mark.spark

STAGES = (
    aggregate_by("account", a_measure("amount", function=Function.SUM), name="totals"),
    rows_by("id", a_measure("amount", absolute("0.01")), name="rows"),
    rows_by("id", a_measure("amount"), name="pairs", compare_to=CompareTo.ALL_PAIRS),
    digest_by("id", name="whole"),
)
MOST_PAIRED = 10
"""Sources up to which all pairs are compared as well."""


@dataclass(slots=True)
class Reads:
    """Opens sources, and counts how often the rows of each are brought."""

    folder: Path
    brought: Counter[str] = field(default_factory=Counter)
    opened: dict[str, Connector] = field(default_factory=dict)

    def connect(self, source: Source) -> Connector:
        surroundings = Surroundings(
            roots=(self.folder,),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=lambda: datetime(2026, 1, 31, tzinfo=UTC),
            any_path=True,
        )
        made = open_connector(source, None, {}, surroundings=surroundings)
        self.opened[source.name] = made
        return _Counted(made, source.name, self.brought)


class _Counted:
    """Port Connector: the real one, with its extracts counted."""

    def __init__(self, real: Connector, name: str, brought: Counter[str]) -> None:
        self._real, self._name, self._brought = real, name, brought

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the real one has
        return getattr(self._real, name)

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        self._brought[self._name] += 1
        return self._real.extract(scan, directory, progress)


def written(folder: Path, number: int) -> ReconciliationJob:
    """So many files of which most rows agree, each lacking some and changing others."""
    chance = random.Random(number)  # noqa: S311  no secret
    plain = [(key, f"a{key % 3}", 100 * key) for key in range(40)]
    for at in range(number):
        rows = [
            (key, account, cents + chance.choice([0] * 30 + [1, 1, 7, -3]))
            for key, account, cents in plain
            if chance.random() > 1 / 30
        ]
        rows += chance.sample(rows, chance.randrange(2))
        lines = [f"{key},{account},{cents / 100:.2f}" for key, account, cents in rows]
        (folder / f"s{at}.csv").write_text("\n".join(["id,account,amount", *lines, ""]))
    sources = [
        Source(name=f"s{at}", kind=SourceKind.CSV, path=f"s{at}.csv") for at in range(number)
    ]
    stages = STAGES if number <= MOST_PAIRED else STAGES[:2]
    return ReconciliationJob(name="many", sources=tuple(sources), stages=stages)


def proof(
    job: ReconciliationJob, reads: Reads, engine: Callable[[ComparisonPlan], Engine], folder: Path
) -> object:
    """What a run over the files proves."""
    question = Question(job=job, job_uid=UUID(int=1), spec_hash="sha256:" + 64 * "0")
    means = Means(
        connect=reads.connect, engine=engine, clock=ManualClock(), extracts=str(folder / "extract")
    )
    result = answer(question, means, SilentReporter())
    return proof_document(result.plan, result.outcome, Sealing(versions={}, key_id="k1"))


@pytest.mark.case("P70")
@pytest.mark.case("E1")
@pytest.mark.parametrize("number", [2, 3, 5, 10, 32])
def test_sources_are_read_once_for_all_stages_and_agree_with_the_oracle(
    spark_runtime: SparkRuntime, tmp_path: Path, number: int
) -> None:
    job = written(tmp_path, number)
    oracle, spark = Reads(tmp_path), Reads(tmp_path)
    expected = proof(
        job,
        oracle,
        lambda _: MemoryEngine(lambda scan: rows_of(oracle.opened[scan.source], scan)),
        tmp_path / "oracle",
    )
    directory = tmp_path / "differences"
    result = proof(
        job,
        spark,
        lambda plan: spark_runtime.engine(plan, key=COMPARE_KEY, directory=directory),
        tmp_path / "spark",
    )
    assert result == expected
    assert spark.brought == {source.name: 1 for source in job.sources}
    assert _unmatched(result)


def _unmatched(result: Any) -> bool:  # noqa: ANN401  a JSON document
    """The files do differ, in every stage."""
    stages: Sequence[Any] = result["stages"]
    return all(stage["counts"]["rows_unmatched"] > 0 for stage in stages)
