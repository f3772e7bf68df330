"""Rows with unreadable values in a column of a condition: its result is unknown.

Oracle and Spark compare the same rows, for every evaluator of the condition, and show them.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_application.comparison import Answer
from datarecs_application.ports.comparing import Connector
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.proof.run_json import Sealing, proof_document
from datarecs_core.comparison.results.results import Verdict
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.hashing import canonical_json
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_specs.documents import job_of
from datarecs_testing.tables import NOON

pytestmark = pytest.mark.spark

RunJob = Callable[[dict[str, Any], Strategy | None], Answer]
SOURCES = ("one", "two")
VALUES = ((b"x%d", b"ok"), (b"20", b"ok"), (b"5", b"\xff"), (b"", b"ok"), (b"y%d", b"no"))
"""`v` and `s` of the rows 1 to 5; the first and the last `v` are no numbers."""
ROWS = {"name": "rows", "type": "row", "dimensions": ["id"]}
TOTAL = {"name": "total", "type": "aggregate", "dimensions": ["one"]}
CONDITIONS = [
    ("v > 0", [1, 2, 3, 5]),
    ("NOT (v = 5)", [1, 2, 5]),
    ("v IS NULL", [1, 4, 5]),
    ("v IS NOT NULL", [1, 2, 3, 5]),
    ("v > 0 AND s = 'ok'", [1, 2, 3]),
    ("ABS(v) > 0", [1, 2, 3, 5]),
    ("s = 'ok' AND ABS(v) > 0", [1, 2, 3]),
    ("LENGTH(s) > 1 AND v <> 20", [1, 3, 5]),
    ("COALESCE(v, 0) > 30", [1, 5]),
    ("s LIKE 'o%'", [1, 2, 3, 4]),
]


@pytest.fixture
def run_job(by: Callable[..., Answer], tmp_path: Path) -> RunJob:
    """The answer to a job over the files of a folder, by a strategy of Spark or by the oracle."""

    def opened(source: Source) -> Connector:
        policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
        around = Surroundings(roots=(tmp_path,), policy=policy, now=lambda: NOON, any_path=True)
        return open_connector(source, None, {}, surroundings=around)

    return lambda spec, strategy: by(strategy, job_of("files", spec), opened)


def a_job(
    kind: str,
    *,
    place: str,
    condition: str,
    stage: Mapping[str, Any] = ROWS,
    measured: Sequence[str] = ("q", "v", "s"),
) -> dict[str, Any]:
    """Over `q`, which differs in every row; its total shows which rows were compared."""
    source: dict[str, Any] = {"kind": kind, "connection": "c"}
    if kind == "csv":
        source["options"] = {"schema": {"v": "int"}}
    if place == "filter":
        source["filter"] = condition
    measures = [{"name": name} for name in measured]
    if place == "where":
        stage = {**stage, "where": condition}
    return {
        "sources": [{**source, "name": name, "path": f"{name}.{kind}"} for name in SOURCES],
        "stages": [{**stage, "measures": measures}],
    }


def check(run_job: RunJob, spec: dict[str, Any], rows: Sequence[int], *others: Strategy) -> None:
    """The oracle compares these rows and finds their difference; Spark says the same."""
    oracle = run_job(spec, None)
    (stage,) = oracle.outcome.stages
    assert stage.results is not None
    measure = next(each for each in stage.results.measures if each.name == "q")
    assert measure.total_by_source[0] == sum(10**row for row in rows)
    assert oracle.outcome.verdict is Verdict.UNMATCHED
    for strategy in (Strategy.FULL, *others):
        assert proof(run_job(spec, strategy)) == proof(oracle)


def proof(result: Answer) -> bytes:
    sealing = Sealing(versions={}, key_id="k1")
    return canonical_json(proof_document(result.plan, result.outcome, sealing=sealing))


@pytest.mark.parametrize("place", ["filter", "where"])
@pytest.mark.parametrize(("condition", "rows"), CONDITIONS)
def test_a_row_that_only_an_unreadable_value_could_leave_out_is_compared(
    run_job: RunJob, tmp_path: Path, condition: str, rows: list[int], place: str
) -> None:
    for at, name in enumerate(SOURCES, start=1):
        lines = [
            b"%d,%b,%b,%d\n" % (row, v.replace(b"%d", b"%d" % at), s, at * 10**row)
            for row, (v, s) in enumerate(VALUES, start=1)
        ]
        (tmp_path / f"{name}.csv").write_bytes(b"id,v,s,q\n" + b"".join(lines))
    check(run_job, a_job("csv", place=place, condition=condition), rows)


@pytest.mark.parametrize("place", ["filter", "where"])
@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("s = 'ok' AND v > 5", [2, 4]),
        ("s <> 'ok'", [3, 4, 5]),
        ("s IS NULL", [3, 4]),
        ("UPPER(s) = 'NO'", [3, 4, 5]),
    ],
)
def test_so_it_is_where_the_engine_reads_the_files_of_texts_that_are_no_text(
    run_job: RunJob, tmp_path: Path, condition: str, rows: list[int], place: str
) -> None:
    texts = pa.array([b"ok", b"ok", b"\xff", b"o\xc0", b"no"], pa.binary()).view(pa.string())
    for at, name in enumerate(SOURCES, start=1):
        columns = {
            "id": range(1, 6),
            "v": [1, 20, 5, 9, 7],
            "s": texts,
            "q": [at * 10**row for row in range(1, 6)],
        }
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet", row_group_size=1)
    check(run_job, a_job("parquet", place=place, condition=condition), rows, Strategy.NARROW)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("stage", [ROWS, TOTAL], ids=["rows", "total"])
@pytest.mark.parametrize("place", ["filter", "where"])
@pytest.mark.parametrize(
    ("condition", "rows"), [("s = 'zz'", [2, 4]), ("s IS NULL", [2]), ("v > 3 AND s = 'zz'", [4])]
)
def test_statistics_of_files_leave_out_no_text_that_is_no_text(  # noqa: PLR0913, PLR0917 - cases
    run_job: RunJob,
    tmp_path: Path,
    condition: str,
    rows: list[int],
    place: str,
    stage: Mapping[str, Any],
    *,
    dictionary: bool,
) -> None:
    # The least and the most of the first row group are plain texts, and neither is 'zz'.
    texts = pa.array([b"a", b"b\xff", b"c", b"zz"], pa.binary()).view(pa.string())
    for at, name in enumerate(SOURCES, start=1):
        columns = {
            "id": range(1, 5),
            "one": 4 * [1],
            "v": range(1, 5),
            "s": texts,
            "q": [at * 10**row for row in range(1, 5)],
        }
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=3, use_dictionary=dictionary)
    spec = a_job("parquet", stage=stage, measured=["q"], place=place, condition=condition)
    check(run_job, spec, rows, Strategy.NARROW)
