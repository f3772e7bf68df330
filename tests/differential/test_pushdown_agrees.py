"""Pushdown to a database does not change a byte of the proof.

Every job is run by the oracle, which reads every row, and by Spark with groups and keys pushed
down, over the same pins. If a value has no canonical form the rows are read instead, and the
strategy reports this.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import LiteralString
from uuid import UUID

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_application.comparison import Answer, Means, Question, answer
from datarecs_application.ports.comparing import Connector
from datarecs_connectors.extracted import rows_of
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import Pin, Scan
from datarecs_core.comparison.proof.run_json import Sealing, proof_document
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import StageResults, Verdict
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.definition import (
    ColumnMapping,
    Dimension,
    Execution,
    Measure,
    ReconciliationJob,
    Source,
    Stage,
)
from datarecs_core.jobs.vocabulary import (
    Function,
    OnUnmatched,
    ProofMode,
    SourceKind,
    StageType,
    Strategy,
)
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    PostgresConfig,
    SslMode,
)
from datarecs_memory.engine import MemoryEngine
from datarecs_spark.session import SparkRuntime
from datarecs_testing.clock import ManualClock
from datarecs_testing.silent_reporter import SilentReporter
from datarecs_testing.stack import PostgresServer

pytestmark = [pytest.mark.spark, pytest.mark.integration]

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TABLES: LiteralString = """
CREATE TABLE one (id int, account char(6), note varchar, day date, at timestamptz,
  seen timestamp(3), flag boolean, uid uuid, amount numeric(12,2), big bigint, small smallint,
  wide numeric(38,0), loose numeric, ratio float8);
INSERT INTO one SELECT i, CASE WHEN i % 7 = 0 THEN NULL ELSE 'a' || i % 3 END,
  (ARRAY['A', 'a', 'a ', 'B''\\', 'é'])[1 + i % 5], date '2026-01-01' + i % 3,
  timestamptz '2026-03-29 01:30:00.123456+00' + i % 2 * interval '1 hour',
  timestamp '1969-12-31 23:59:59.999', i % 2 = 0,
  ('6f9619ff-8b86-d011-b42d-00c04fc964f' || i % 2)::uuid, CASE WHEN i % 11 > 0 THEN i * 1.01 END,
  9007199254740993 + i, i % 100, 12345678901234567890123456789012345678 / 2, i, i
  FROM generate_series(1, 200) AS i;
CREATE TABLE two AS SELECT * FROM one;
UPDATE two SET amount = amount + 0.01 WHERE id IN (21, 23);
DELETE FROM two WHERE id = 40;
CREATE TABLE three AS SELECT i % 4 AS account,
  CASE WHEN i = 7 THEN 'NaN' ELSE i * 1.01 END::numeric(12,2) AS amount,
  CASE WHEN i = 8 THEN 'infinity' ELSE '2026-01-01'::date + i END AS day,
  CASE WHEN i = 9 THEN '10000-01-01' ELSE '2026-01-01' END::timestamptz AS at,
  CASE WHEN i % 2 = 0 THEN i END AS big FROM generate_series(1, 20) AS i;
CREATE TABLE four AS SELECT * FROM three;
UPDATE four SET big = 0 WHERE big = 4;
"""
DIMENSIONS = ("account", "note", "day", "at", "seen", "flag", "uid")


@dataclass
class House:
    """One database, pinned once, and the job run in two ways."""

    admin: str
    config: PostgresConfig
    password: str
    folder: Path
    runtime: SparkRuntime
    runs: Iterator[int] = field(default_factory=count)

    def run(self, statement: LiteralString) -> None:
        with psycopg.connect(self.admin, autocommit=True) as session:
            session.execute(statement)

    def connect(self, source: Source) -> Connector:
        surroundings = Surroundings(
            roots=(self.folder,),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=lambda: NOON,
            any_path=True,
        )
        if source.kind is not SourceKind.POSTGRES:
            return open_connector(source, None, {}, surroundings=surroundings)
        connection = Connection(type=ConnectionType.POSTGRES, config=self.config)
        secrets = {"password": self.password}
        return open_connector(source, connection, secrets, surroundings=surroundings)

    def both(self, *stages: Stage, **fields: object) -> "Both":
        """The answers of the oracle and of Spark over the same pins."""
        job = a_job(stages, **fields)
        held = [self.connect(source).pin(source) for source in job.sources]
        pins = {one.name: pin.pin for one, pin in zip(job.sources, held, strict=True)}
        try:
            whole = _execute(self, job, Strategy.FULL, pins)
            return Both(whole=whole, pushed=_execute(self, job, Strategy.PUSHDOWN, pins))
        finally:
            for pin in held:
                pin.close()


class Brought(SilentReporter):
    """Remembers how many rows every read brought."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, str | None]] = []

    def extraction_completed(self, index: int, rows: int, stage: str | None = None) -> None:
        self.rows.append((index, rows, stage))


@dataclass(frozen=True)
class EngineRun:
    result: Answer
    brought: tuple[tuple[int, int, str | None], ...]


@dataclass(frozen=True)
class Both:
    whole: EngineRun
    pushed: EngineRun

    def results(self, stage: str) -> StageResults:
        """Of Spark."""
        stages = {each.plan.name: each.results for each in self.pushed.result.outcome.stages}
        stage_results = stages[stage]
        assert stage_results is not None
        return stage_results

    def agree(self, *strategies: Strategy) -> None:
        """Same proof, byte for byte, and compared in these ways, stage by stage."""
        assert proof(self.pushed.result) == proof(self.whole.result)
        done = [each.results.strategy for each in self.pushed.result.outcome.stages if each.results]
        assert [each.chosen for each in done if each] == list(strategies), done


def proof(result: Answer) -> JsonValue:
    return proof_document(result.plan, result.outcome, Sealing(versions={}, key_id="k"))


def tables(*names: str) -> tuple[Source, ...]:
    return tuple(
        Source(name=name, kind=SourceKind.POSTGRES, connection="c", relation=f"public.{name}")
        for name in names
    )


def a_job(stages: tuple[Stage, ...], **fields: object) -> ReconciliationJob:
    sources = tables("one", "two")
    return replace(ReconciliationJob(name="job", sources=sources, stages=stages), **fields)  # type: ignore[arg-type]  # fields of the job


def _execute(
    house: House, job: ReconciliationJob, strategy: Strategy, pins: Mapping[str, Pin]
) -> EngineRun:
    """By the oracle under `full`, by Spark otherwise."""
    opened: dict[str, Connector] = {}
    place = house.folder / str(next(house.runs))

    def connect(source: Source) -> Connector:
        opened[source.name] = house.connect(source)
        return opened[source.name]

    def rows(scan: Scan) -> Iterator[tuple[object, ...]]:
        return rows_of(opened[scan.source], scan)

    def engine(plan: ComparisonPlan) -> object:
        if strategy is Strategy.FULL:
            return MemoryEngine(rows)
        return house.runtime.engine(plan, key=COMPARE_KEY, directory=place / "differences")

    changed_job = replace(job, execution=replace(job.execution, strategy=strategy))
    means = Means(
        connect=connect,
        engine=engine,  # type: ignore[arg-type]  # one of two engines
        clock=ManualClock(),
        extracts=str(place / "extract"),
        pins=pins,
    )
    question = Question(job=changed_job, job_uid=UUID(int=1), spec_hash="sha256:" + 64 * "0")
    reporter = Brought()
    return EngineRun(result=answer(question, means, reporter), brought=tuple(reporter.rows))


@pytest.fixture(scope="module")
def house(
    postgres_server: PostgresServer,
    spark_runtime: SparkRuntime,
    tmp_path_factory: pytest.TempPathFactory,
) -> House:
    url = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    fields = psycopg.conninfo.conninfo_to_dict(url)
    config = PostgresConfig(
        host="127.0.0.1",
        port=int(str(fields["port"])),
        database=str(fields["dbname"]),
        user=str(fields["user"]),
        sslmode=SslMode.DISABLE,
    )
    made = House(
        admin=psycopg.conninfo.make_conninfo(url),
        config=config,
        password=str(fields["password"]),
        folder=tmp_path_factory.mktemp("pushdown"),
        runtime=spark_runtime,
    )
    made.run(TABLES)
    return made


TOTALS = (
    Measure(name="rows", function=Function.COUNT),
    Measure(name="total", function=Function.SUM, column="amount"),
)
EVERY_FUNCTION = (
    *TOTALS,
    Measure(name="mean", function=Function.AVG, column="amount"),
    Measure(name="n", function=Function.COUNT, column="amount"),
    Measure(name="first", function=Function.MIN, column="note"),
    Measure(name="last", function=Function.MAX, column="day"),
    Measure(name="large", function=Function.SUM, column="big"),
    Measure(name="least", function=Function.MIN, column="small"),
    Measure(name="latest", function=Function.MAX, column="at"),
)


def aggregate(name: str, *dimensions: str, **fields: object) -> Stage:
    stage = Stage(
        name=name,
        type=StageType.AGGREGATE,
        dimensions=tuple(map(_dimension, dimensions)),
        measures=TOTALS,
    )
    return replace(stage, **fields)  # type: ignore[arg-type]  # fields of a stage


def _dimension(name: str) -> Dimension:
    return Dimension(name=name)


LATER = "at > TIMESTAMP '2026-01-01T00:00:00Z'"
COUNTS = Stage(name="counts", type=StageType.COUNTS, where="note <> 'A' AND amount >= 5.005")


@pytest.mark.case("P60")
@pytest.mark.case("E9")
def test_groups_of_every_type_have_the_numbers_of_their_rows(house: House) -> None:
    both = house.both(
        aggregate("all", *DIMENSIONS),
        aggregate(
            "some",
            "account",
            measures=EVERY_FUNCTION,
            where="note IN ('a', 'é') OR day > DATE '2026-01-02'",
        ),
        COUNTS,
    )
    both.agree(*[Strategy.PUSHDOWN] * 3)
    some = both.results("some")
    assert [each.extracted for each in some.closure] == [200, 199]
    assert some.counts.source_row_counts[0] < 200


@pytest.mark.case("P56")
@pytest.mark.case("P60")
def test_only_rows_of_groups_that_differ_are_brought(house: House) -> None:
    """NULL, quotes and a backslash are among the keys; the rest never leaves the database."""
    rows = Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=(Dimension(name="id"),),
        measures=(Measure(name="amount"),),
    )
    groups = aggregate("groups", "account", "note", on_unmatched=OnUnmatched.ESCALATE)
    both = house.both(groups, rows)
    both.agree(Strategy.PUSHDOWN, Strategy.FULL)
    counts = both.results("rows").counts
    assert counts.source_row_counts == (29, 28)
    assert both.pushed.brought == ((0, 200, None), (1, 199, None), (0, 29, "rows"), (1, 28, "rows"))
    assert (counts.rows_unmatched, counts.missing_by_source) == (3, (0, 1))


@pytest.mark.case("P60")
@pytest.mark.case("F14")
def test_rows_beside_a_condition_of_every_stage_stay_and_are_counted(house: House) -> None:
    rows = Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=(Dimension(name="id"),),
        measures=(Measure(name="amount"),),
        where="note = 'a' AND amount > 10",
    )
    both = house.both(rows)
    both.agree(Strategy.FULL)
    (first, second) = both.results("rows").closure
    assert [rows for _, rows, _ in both.pushed.brought] == [first.grouped, second.grouped]
    assert first.grouped < first.extracted == 200


@pytest.mark.case("P60")
def test_expressions_change_what_a_database_answers_and_the_query_it_receives(house: House) -> None:
    first, second = tables("one", "one")
    second = replace(second, name="again", filter="LENGTH(TRIM(note)) < 3 AND amount * 2 > -1")
    first = replace(first, filter=second.filter)
    where = "LOWER(note) = 'a' AND id + small > 10"
    stages = (
        aggregate("groups", "account", where=where),
        Stage(
            name="rows",
            type=StageType.ROW,
            dimensions=(Dimension(name="id"),),
            measures=(Measure(name="amount"),),
            where=where,
        ),
    )
    both = house.both(*stages, sources=(first, second))
    both.agree(Strategy.PUSHDOWN, Strategy.FULL)
    assert both.pushed.result.outcome.verdict is Verdict.MATCHED
    doubled = replace(second, columns={"amount": ColumnMapping(expr="amount * 2")})
    both = house.both(*stages, sources=(first, doubled))
    both.agree(Strategy.PUSHDOWN, Strategy.FULL)
    assert both.pushed.result.outcome.verdict is Verdict.UNMATCHED
    (closure, _) = both.results("rows").closure
    assert 0 < closure.grouped < closure.extracted < 200


@pytest.mark.case("P60")
def test_values_without_a_canonical_form_bring_the_rows_after_all(house: House) -> None:
    stages = tuple(
        Stage(
            name=name,
            type=StageType.AGGREGATE,
            dimensions=tuple(map(_dimension, dimensions)),
            measures=(Measure(name="m", function=function, column=column),),
            where=where,
        )
        for name, dimensions, function, column, where in (
            ("sums", ("account",), Function.SUM, "amount", None),
            ("key", ("day",), Function.COUNT, None, None),
            (
                "condition",
                ("account",),
                Function.SUM,
                "big",
                LATER,
            ),
            ("exact", ("account",), Function.SUM, "big", None),
        )
    )
    both = house.both(*stages, sources=tables("three", "four"))
    both.agree(Strategy.FULL, Strategy.FULL, Strategy.FULL, Strategy.PUSHDOWN)
    strategy = both.results("sums").strategy
    assert strategy is not None
    chosen, reason = strategy.rejected[0]
    assert chosen is Strategy.PUSHDOWN
    assert "four sends rows: four holds NaN, infinity or a year outside 1 to 9999" in reason


@pytest.mark.case("P17")
@pytest.mark.case("P60")
def test_a_database_groups_beside_files_whose_rows_are_read(house: House) -> None:
    """Three sources: two databases, one of which has a condition in common, and a file."""
    with psycopg.connect(house.admin) as session:
        rows = session.execute("SELECT account, big FROM four").fetchall()
    table = pa.table([list(column) for column in zip(*rows, strict=True)], ["account", "big"])
    pq.write_table(table, house.folder / "file.parquet")
    file = Source(name="file", kind=SourceKind.PARQUET, path="file.parquet")
    stage = Stage(
        name="groups",
        type=StageType.AGGREGATE,
        dimensions=(Dimension(name="account"),),
        measures=(
            Measure(name="n", function=Function.COUNT),
            Measure(name="big", function=Function.AVG, column="big"),
            Measure(name="most", function=Function.MAX, column="big"),
        ),
        where="account > 0 AND NOT big = 14",
    )
    sources = (*tables("three", "four"), file)
    both = house.both(stage, sources=sources, execution=Execution(proof=ProofMode.ROWS))
    both.agree(Strategy.PUSHDOWN)
    strategy = both.results("groups").strategy
    assert strategy is not None
    assert strategy.rejected[-1] == (
        Strategy.PUSHDOWN,
        "file sends rows: parquet sources do not group",
    )
