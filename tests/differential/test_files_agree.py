"""Files as others write them: oracle and Spark have one proof, byte by byte."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

from datarecs_application.comparison import Answer
from datarecs_application.ports.comparing import Connector
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.proof.run_json import Sealing, proof_document
from datarecs_core.comparison.results.results import Verdict
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.hashing import canonical_json
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_kernel.refusals import NotCoveredError
from datarecs_specs.documents import job_of
from datarecs_testing.tables import NOON

pytestmark = pytest.mark.spark

RunJob = Callable[..., Answer]
Tables = tuple[pa.Table, pa.Table]
SECOND = 1_000_000_000
ROWS = 40
NANOS = pa.timestamp("ns", tz="UTC")
NOT_NATIVE = ["u64", "local_ms", "local_ns", "clock"]
"""Columns of `scalars` that the kernel leaves to Spark."""


@pytest.fixture
def run_job(by: Callable[..., Answer], tmp_path: Path) -> RunJob:
    """The answer to a job over two tables, by a strategy of Spark or by the oracle."""

    def opened(source: Source) -> Connector:
        surroundings = Surroundings(
            roots=(tmp_path,),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=lambda: NOON,
            any_path=True,
        )
        return open_connector(source, None, {}, surroundings=surroundings)

    def run(tables: Tables, spec: dict[str, Any], strategy: Strategy | None) -> Answer:
        for name, table in zip(("one", "two"), tables, strict=True):
            pq.write_table(table, tmp_path / f"{name}.parquet")
        sources = [
            {"name": name, "kind": "parquet", "connection": "c", "path": f"{name}.parquet"}
            for name in ("one", "two")
        ]
        return by(strategy, job_of("files", {"sources": sources, **spec}), opened)

    return run


def agreed(run_job: RunJob, tables: Tables, spec: dict[str, Any]) -> Answer:
    """What the oracle says, once Spark has said the same by every strategy."""
    oracle = run_job(tables, spec, None)
    for strategy in (Strategy.FULL, Strategy.NARROW):
        assert proof(run_job(tables, spec, strategy)) == proof(oracle)
    return oracle


def proof(result: Answer) -> bytes:
    sealing = Sealing(versions={}, key_id="k1")
    return canonical_json(proof_document(result.plan, result.outcome, sealing=sealing))


def rows(measures: object, **fields: object) -> dict[str, object]:
    return {"name": "rows", "type": "row", "dimensions": ["id"], "measures": measures, **fields}


def moments(*, later: int = 0) -> pa.Table:
    """Times around a microsecond, some of them later by so many nanoseconds."""
    ticks = [
        None if at % 13 == 0 else (at - 20) * SECOND + at * 137 + (later if at % 5 == 0 else 0)
        for at in range(ROWS)
    ]
    clock = [None if tick is None else tick % (86_400 * SECOND) for tick in ticks]
    return pa.table(
        {
            "id": range(ROWS),
            "part": [f"p{at % 3}" for at in range(ROWS)],
            "at": pa.array(ticks, NANOS),
            "local": pa.array(ticks, pa.timestamp("ns")),
            "clock": pa.array(clock, pa.time64("ns")),
        }
    )


def test_files_with_columns_in_another_order_are_read_by_name(
    by: Callable[..., Answer], tmp_path: Path
) -> None:
    table = pa.table({"id": range(ROWS), "a": range(ROWS), "b": range(100, 100 + ROWS)})
    for folder, second in (("one", ["id", "a", "b"]), ("two", ["b", "id", "a"])):
        (tmp_path / folder).mkdir()
        pq.write_table(table.slice(0, 20), tmp_path / folder / "1.parquet")
        pq.write_table(table.slice(20).select(second), tmp_path / folder / "2.parquet")

    def opened(source: Source) -> Connector:
        policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
        around = Surroundings(roots=(tmp_path,), policy=policy, now=lambda: NOON, any_path=True)
        return open_connector(source, None, {}, surroundings=around)

    sources = [
        {"name": name, "kind": "parquet", "connection": "c", "path": f"{name}/*.parquet"}
        for name in ("one", "two")
    ]
    job = job_of("files", {"sources": sources, "stages": [rows([{"name": "a"}, {"name": "b"}])]})
    for strategy in (None, Strategy.FULL, Strategy.NARROW):
        answer = by(strategy, job, opened)
        assert answer.outcome.verdict is Verdict.MATCHED


def folders_agree(by: Callable[..., Answer], root: Path) -> Answer:
    """What the oracle says of column v in the folders one and two, once Spark has said the same."""

    def opened(source: Source) -> Connector:
        policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
        around = Surroundings(roots=(root,), policy=policy, now=lambda: NOON, any_path=True)
        return open_connector(source, None, {}, surroundings=around)

    sources = [
        {"name": name, "kind": "parquet", "connection": "c", "path": name}
        for name in ("one", "two")
    ]
    job = job_of("files", {"sources": sources, "stages": [rows([{"name": "v"}])]})
    oracle = by(None, job, opened)
    for strategy in (Strategy.FULL, Strategy.NARROW):
        assert proof(by(strategy, job, opened)) == proof(oracle)
    return oracle


@pytest.mark.parametrize("name", ["_b.parquet", ".b.parquet", "b.parquet._COPYING_"])
def test_a_file_whose_name_spark_skips_is_read_like_any_file(
    by: Callable[..., Answer], tmp_path: Path, name: str
) -> None:
    for folder, last in (("one", 7), ("two", 8)):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"id": [1, 2], "v": [5, 6]}), tmp_path / folder / "a.parquet")
        pq.write_table(pa.table({"id": [3], "v": [last]}), tmp_path / folder / name)
    result = folders_agree(by, tmp_path).outcome.stages[0].results
    assert result is not None
    assert [measure.outside for measure in result.measures] == [1]


@pytest.mark.parametrize("twice", ["w", "v"])
def test_columns_beside_one_that_stands_twice_are_compared(
    by: Callable[..., Answer], tmp_path: Path, twice: str
) -> None:
    """A column is ambiguous once a job uses it."""
    names = ["id", "v", twice, twice] if twice != "v" else ["id", "v", "v"]
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        table = pa.table([[1, 2]] * len(names), names=names)
        pq.write_table(table, tmp_path / folder / "a.parquet")
    if twice == "w":
        assert folders_agree(by, tmp_path).outcome.verdict is Verdict.MATCHED
        return
    with pytest.raises(PlanRefusedError, match="column 'v' more than once"):
        folders_agree(by, tmp_path)


def test_nanoseconds_are_values_keys_and_results_of_functions(run_job: RunJob) -> None:
    times = [{"name": name} for name in ("at", "local", "clock")]
    functions = [
        {"name": f"{each['name']}_{function}", "column": each["name"], "function": function}
        for each in times
        for function in ("min", "max", "count", "count_distinct")
    ]
    spec = {
        "stages": [
            rows(times),
            {**rows("*"), "name": "keys", "dimensions": ["at", "clock"]},
            {"name": "parts", "type": "aggregate", "dimensions": ["part"], "measures": functions},
            {"name": "bytes", "type": "digest", "dimensions": ["id"], "measures": "*"},
        ]
    }
    result = agreed(run_job, (moments(), moments(later=1)), spec)
    first = result.outcome.stages[0].results
    assert first is not None
    assert [measure.outside for measure in first.measures] == [7, 7, 7]
    assert first.measures[0].max_abs_delta == Decimal("0.001")
    assert agreed(run_job, (moments(), moments()), spec).outcome.verdict is Verdict.MATCHED


def test_nanoseconds_meet_microseconds_tolerances_and_rules(run_job: RunJob) -> None:
    coarse = moments()
    for name, kind in (("at", pa.timestamp("us", tz="UTC")), ("local", pa.timestamp("us"))):
        ticks = coarse.column(name).cast(pa.int64()).to_pylist()
        cut = pa.array([None if tick is None else tick // 1000 for tick in ticks], kind)
        coarse = coarse.set_column(coarse.column_names.index(name), name, cut)
    lasting = {"tolerances": [{"type": "DURATION", "value": "PT0.000001S"}]}
    spec: dict[str, Any] = {
        "stages": [
            rows([{"name": "at"}, {"name": "local"}]),
            rows([{"name": "at", **lasting}], name="near"),
        ]
    }
    result = agreed(run_job, (moments(), coarse), spec)
    plain, near = (each.results for each in result.outcome.stages)
    assert plain is not None
    assert near is not None
    assert plain.measures[0].precision == plain.measures[0].outside > 0
    assert near.measures[0].outside == 0
    for rounding in ("truncate", "half_even"):
        for precision in ("declared_min", "us", "ms"):
            rule = {"timestamps": {"precision": precision, "rounding": rounding}}
            agreed(run_job, (moments(later=499), coarse), {**spec, "normalize": rule})


def test_declared_nanoseconds_of_text_are_those_of_parquet(run_job: RunJob, tmp_path: Path) -> None:
    write_csv(moments(later=1), tmp_path / "two.csv")
    kinds = {"at": "instant(9)", "local": "local_timestamp(9)", "clock": "time(9)"}
    text = {"kind": "csv", "path": "two.csv", "options": {"schema": kinds}}
    spec = {
        "sources": [
            {"name": "one", "connection": "c", "kind": "parquet", "path": "one.parquet"},
            {"name": "two", "connection": "c", **text},
        ],
        "stages": [rows([{"name": name} for name in kinds])],
    }
    result = agreed(run_job, (moments(), moments()), spec).outcome.stages[0].results
    assert result is not None
    assert [(each.outside, each.invalid) for each in result.measures] == [(7, 0)] * 3


def test_a_condition_over_nanoseconds_is_refused_by_name(run_job: RunJob) -> None:
    """Spark has no type for them, so it would answer about other times."""
    where = rows([{"name": "at"}], where="at >= TIMESTAMP '1970-01-01T00:00:00Z'")
    tables = (moments(), moments())
    assert run_job(tables, {"stages": [where]}, None).outcome.verdict is Verdict.MATCHED
    with pytest.raises(Exception, match="rows") as caught:
        run_job(tables, {"stages": [where]}, Strategy.FULL)
    assert isinstance(caught.value.__cause__, NotCoveredError)


def nested(*, tag: int = 1) -> pa.Table:
    return (
        moments()
        .append_column("tags", pa.array([[tag, None]] * ROWS))
        .append_column("place", pa.array([{"x": 1, "y": [{"z": "a"}]}] * ROWS))
    )


def test_nested_columns_matter_to_nobody_who_does_not_name_them(run_job: RunJob) -> None:
    spec = {
        "stages": [
            {"name": "shape", "type": "schema"},
            {"name": "how-many", "type": "counts"},
            rows("*", **{"except": ["tags", "place"]}),
        ]
    }
    assert agreed(run_job, (nested(), nested(tag=2)), spec).outcome.verdict is Verdict.MATCHED
    other = nested().drop_columns(["place"])
    result = agreed(run_job, (nested(), other), spec)
    shape, counts, same = (each.verdict for each in result.outcome.stages)
    assert (shape, counts, same) == (Verdict.UNMATCHED, Verdict.MATCHED, Verdict.MATCHED)


def test_nested_columns_are_compared_under_star(run_job: RunJob) -> None:
    spec = {"stages": [rows("*")]}
    result = agreed(run_job, (nested(), nested(tag=2)), spec)
    results = result.outcome.stages[0].results
    assert results is not None
    outside = {each.name: each.outside for each in results.measures if each.outside}
    assert outside == {"tags": ROWS}
    assert agreed(run_job, (nested(), nested()), spec).outcome.verdict is Verdict.MATCHED


def test_rows_of_files_that_are_nested_throughout_are_counted(run_job: RunJob) -> None:
    only = nested().select(["tags"])
    spec = {"stages": [{"name": "how-many", "type": "counts"}]}
    result = agreed(run_job, (only, only.slice(1)), spec)
    results = result.outcome.stages[0].results
    assert results is not None
    assert results.counts.source_row_counts == (ROWS, ROWS - 1)


def scalars() -> pa.Table:
    """Every scalar type that Polars writes, with NULL in each of them but the key."""
    seen = [None if at % 7 == 0 else at for at in range(ROWS)]
    kinds = {
        **{f"i{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
        **{f"u{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
        "single": pa.float32(),
        "double": pa.float64(),
        "exact": pa.decimal128(23, 4),
        "day": pa.date32(),
        "at": pa.timestamp("us", tz="UTC"),
        "local": pa.timestamp("us"),
        "local_ms": pa.timestamp("ms"),
        "local_ns": pa.timestamp("ns"),
        "clock": pa.time64("ns"),
    }
    texts = [None if at is None else f"é{at}" for at in seen]
    columns = {
        name: pa.array(seen, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
        if not pa.types.is_floating(kind)
        else pa.array([None if at is None else at / 8 for at in seen], kind)
        for name, kind in kinds.items()
    }
    return pa.table(
        {
            "id": range(ROWS),
            **columns,
            "flag": [None if at is None else at % 2 == 0 for at in seen],
            "words": pa.array(texts, pa.string()),
            "raw": pa.array([None if at is None else at.encode() for at in texts], pa.binary()),
        }
    )


@pytest.mark.parametrize("apart", [False, True], ids=["plain", "apart"])
def test_files_of_polars_hold_the_rows_that_others_write(
    run_job: RunJob, tmp_path: Path, *, apart: bool
) -> None:
    """Their texts and bytes are large ones; some types are Spark's alone to read."""
    table = scalars()
    table = table.select(["id", *NOT_NATIVE]) if apart else table.drop_columns(NOT_NATIVE)
    pl.DataFrame(table).write_parquet(tmp_path / "polars.parquet")
    assert apart or pa.large_string() in pq.read_schema(tmp_path / "polars.parquet").types
    spec = {
        "sources": [
            {"name": name, "kind": "parquet", "connection": "c", "path": f"{path}.parquet"}
            for name, path in (("one", "one"), ("two", "polars"))
        ],
        "stages": [rows("*")],
    }
    result = agreed(run_job, (table, table), spec)
    assert result.outcome.verdict is Verdict.MATCHED
    results = run_job((table, table), spec, Strategy.NARROW).outcome.stages[0].results
    assert results is not None
    assert results.strategy is not None
    assert results.strategy.chosen is Strategy.NARROW


def test_inferred_nanoseconds_of_text_are_those_of_parquet(run_job: RunJob, tmp_path: Path) -> None:
    names = ["at", "local"]
    write_csv(moments(later=1).select(["id", *names]), tmp_path / "two.csv")
    sources = [
        {"name": "one", "connection": "c", "kind": "parquet", "path": "one.parquet"},
        {"name": "two", "connection": "c", "kind": "csv", "path": "two.csv"},
    ]
    spec = {"sources": sources, "stages": [rows([{"name": name} for name in names])]}
    result = agreed(run_job, (moments(), moments()), spec).outcome.stages[0].results
    assert result is not None
    assert [(each.outside, each.invalid) for each in result.measures] == [(7, 0)] * 2
    twice = [{**sources[1], "name": name} for name in ("one", "two")]
    same = agreed(run_job, (moments(), moments()), {**spec, "sources": twice})
    assert same.outcome.verdict is Verdict.MATCHED


@pytest.mark.parametrize("zone", ["Z", "+05:30", ""], ids=["utc", "offset", "local"])
def test_nanoseconds_of_folders_are_those_of_columns(
    run_job: RunJob, tmp_path: Path, zone: str
) -> None:
    written = [
        f"{moment}{zone}"
        for moment in (
            "1969-12-31T23:59:59.1234567",
            "1969-12-31T23:59:59.000000001",
            "2026-01-31T12:00:00.5",
            "2026-01-31T12:00:00.123456789",
        )
    ]
    for number, moment in enumerate(written):
        folder = tmp_path / "parts" / f"at={moment}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), folder / "a.parquet")
    lines = [f"{number},{moment}" for number, moment in enumerate([*written[:3], written[2]])]
    (tmp_path / "two.csv").write_text("\n".join(["id,at", *lines, ""]))
    spec = {
        "sources": [
            {"name": "one", "connection": "c", "kind": "parquet", "path": "parts"},
            {"name": "two", "connection": "c", "kind": "csv", "path": "two.csv"},
        ],
        "stages": [rows([{"name": "at"}])],
    }
    result = agreed(run_job, (moments(), moments()), spec).outcome.stages[0].results
    assert result is not None
    assert [(each.outside, each.invalid) for each in result.measures] == [(1, 0)]
    assert result.measures[0].max_abs_delta == Decimal("376543.211")


def written_as(tmp_path: Path, kind: str, name: str, table: pa.Table) -> dict[str, Any]:
    """A source of the kind that holds the table."""
    path = f"{name}.{kind}"
    if kind == "csv":
        write_csv(table, tmp_path / path)
    elif kind == "json":
        lines = [json.dumps(row, default=str) for row in table.to_pylist()]
        (tmp_path / path).write_text("\n".join(lines))
    else:
        pq.write_table(table, tmp_path / path)
    declared = {"options": {"schema": {"amt": "decimal(12,2)"}}} if kind != "parquet" else {}
    return {"name": name, "kind": kind, "connection": "c", "path": path, **declared}


AMOUNTS = pa.table(
    {
        "id": range(ROWS),
        "amt": pa.array([Decimal(at) for at in range(1, ROWS + 1)], pa.decimal128(12, 2)),
        "word": [None if at % 9 == 0 else f" W{at % 4}" for at in range(ROWS)],
    }
)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_an_expression_of_a_file_changes_what_is_compared(
    run_job: RunJob, tmp_path: Path, kind: str
) -> None:
    first, second = (written_as(tmp_path, kind, name, AMOUNTS) for name in ("one", "two"))
    doubled = {**second, "columns": {"amt": {"expr": "amt * 2"}}}
    stages = [rows([{"name": "amt"}]), {"name": "counts", "type": "counts"}]
    totals = {"name": "t", "type": "aggregate", "dimensions": ["word"]}
    stages.append({**totals, "measures": [{"name": "amt", "function": "sum"}]})

    def verdict_of(*sources: dict[str, Any]) -> Verdict | None:
        spec = {"sources": list(sources), "stages": stages}
        return agreed(run_job, (AMOUNTS, AMOUNTS), spec).outcome.verdict

    assert verdict_of(first, second) is Verdict.MATCHED
    assert verdict_of(first, doubled) is Verdict.UNMATCHED
    halved = {**doubled, "columns": {"amt": {"expr": "CAST(amt * 2 * 0.5 AS decimal(12,2))"}}}
    assert verdict_of(first, halved) is Verdict.MATCHED


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_filters_and_conditions_say_more_than_compare(
    run_job: RunJob, tmp_path: Path, kind: str
) -> None:
    """A filter leaves rows out at the source; a condition sets them aside, in each engine alike."""
    first, second = (written_as(tmp_path, kind, name, AMOUNTS) for name in ("one", "two"))
    some = {"filter": "LOWER(TRIM(word)) IN ('w1', 'w2') OR amt * 3 < 10"}
    where = rows([{"name": "amt"}], where="LENGTH(word) = 3 AND id + 1 > 5")
    spec = {"sources": [{**first, **some}, {**second, **some}], "stages": [where]}
    result = agreed(run_job, (AMOUNTS, AMOUNTS), spec)
    (stage,) = result.outcome.stages
    assert stage.results is not None
    chosen = [at for at in range(ROWS) if (at % 9 and at % 4 in {1, 2}) or at < 3]
    counts = [len(chosen), sum(1 for at in chosen if at % 9 and at > 4)]
    assert [[each.extracted, each.grouped] for each in stage.results.closure] == [counts] * 2
    assert stage.plan.written_where == "LENGTH(word) = 3 AND id + 1 > 5"


def test_a_text_that_spark_would_replace_stays_text(run_job: RunJob) -> None:
    """A condition of comparisons reaches Spark as a literal, and `${env:…}` means nothing there."""
    table = AMOUNTS.set_column(2, "word", pa.array(["${env:HOME}"] * ROWS))
    spec = {"stages": [rows([{"name": "amt"}], where="word = '${env:HOME}' AND amt > 0")]}
    (stage,) = agreed(run_job, (table, table), spec).outcome.stages
    assert stage.results is not None
    assert [each.grouped for each in stage.results.closure] == [ROWS, ROWS]
