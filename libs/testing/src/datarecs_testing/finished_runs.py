"""Finished runs and their run.json, made by the real planner, oracle and judge.

For the tests of whatever shows a run; `books` are the numbers of Source 001's sample.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from datarecs_application.ports.comparing import Engine
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import Pin, Scan
from datarecs_core.comparison.proof.run_json import Sealing, run_document
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.hashing import canonical_json
from datarecs_core.jobs.definition import Confirm, ReconciliationJob
from datarecs_memory.engine import MemoryEngine
from datarecs_testing.comparisons import (
    Compared,
    a_measure,
    absolute,
    aggregate_by,
    compare,
    rows_by,
)
from datarecs_testing.tables import Table, a_job, a_table

Json = dict[str, Any]
RUN_ID = "019bc0ef-2a10-7d44-9b6f-0c1d2e3f4a5b"
RUN: Json = {
    "run_id": RUN_ID,
    "job": "ledger-vs-exports",
    "job_generation": 3,
    "mode": "IMMEDIATE",
    "triggered_by": "ana.lopez@example.com",
    "attempt": 1,
    "created_at": "2026-11-20T06:13:58.000000Z",
    "started_at": "2026-11-20T06:14:00.200000Z",
    "ended_at": "2026-11-20T06:14:03.120455Z",
    "status": "COMPLETED",
    "error": None,
}
"""As the API shows a run."""


class MemoryBench:
    """RecheckBench over the oracle."""

    def __init__(self) -> None:
        self._later: dict[Pin, Table] = {}

    def prepare(
        self, plan: ComparisonPlan, tables: Sequence[Table]
    ) -> tuple[Engine, ComparisonPlan]:
        def read(scan: Scan) -> Sequence[tuple[object, ...]]:
            return self._later.get(scan.pin, tables[scan.index]).delivered(scan)

        return MemoryEngine(read), plan

    def again(self, plan: ComparisonPlan, tables: Sequence[Table]) -> tuple[Scan, ...]:
        root = f"look-{len(self._later)}:"
        pins = [replace(table.pin, root=root) for table in tables]
        self._later |= dict(zip(pins, tables, strict=True))
        return tuple(replace(scan, pin=pin) for scan, pin in zip(plan.scans, pins, strict=True))

    def differences(self, engine: Engine, results: StageResults) -> Sequence[Difference]:
        assert isinstance(engine, MemoryEngine)
        return engine.differences(results.stage)


def document(
    job: ReconciliationJob,
    tables: Sequence[Table],
    *,
    later: Sequence[Sequence[Table]] = (),
    **run: Any,  # noqa: ANN401  any member of `run`
) -> Json:
    """The run.json of a job over tables, as it is read back from a store."""
    return document_of(compare(MemoryBench(), job, tables, later=later), job=job.name, **run)


def document_of(comparison: Compared, **run: Any) -> Json:  # noqa: ANN401  any member of `run`
    """The run.json of a finished comparison, as it is read back from a store."""
    made = run_document(
        comparison.plan,
        comparison.outcome,
        sealing=Sealing(versions={"tzdata": "2026f", "unicode": "14.0.0"}, key_id="k1"),
        run={"run_id": RUN_ID, "attempt": 1, **run},
    )
    read: Json = json.loads(canonical_json(made))
    return read


def document_with_recheck() -> Json:
    """Of three groups that differ, one is in flight; with `confirm`, rechecked once."""
    ledger = a_table("ledger", "k int, v int", (1, 1), (2, 2), (3, 3), (4, 4))
    rows = ((1, 1), (2, 9)), ((1, 1), (2, 9), (3, 3))
    first, second = (a_table("lake", "k int, v int", *table) for table in rows)
    stage = rows_by("k", a_measure("v"), confirm=Confirm(after=timedelta(minutes=2), attempts=1))
    return document(a_job([ledger, first], stage), [ledger, first], later=[[ledger, second]])


def books() -> list[Table]:
    """The numbers of Source 001: 1,000 and 1,005 rows, 980 groups in both, 5 and 20 alone."""
    ledger: list[tuple[object, ...]] = []
    exports: list[tuple[object, ...]] = []
    changes = {711: "-1000", 100: "-75.25", 200: "-75.25", 300: "-75.25", 400: "-8.81"}
    for number in range(980):
        account, total = 4000 + number, Decimal(1500) + Decimal(number) / 4
        other = total + Decimal(changes.get(number, "0"))
        halves = [(account, total - 700), (account, Decimal(700))]
        ledger += halves if number < 15 else [(account, total)]
        parts = [(account, other - 1), (account, Decimal(1))]
        exports += parts if 15 <= number < 20 else [(account, other)]
    ledger += [(9000 + number, Decimal(100)) for number in range(5)]
    exports += [(9500 + number, Decimal(25)) for number in range(20)]
    columns = "account int, amount decimal(18,2)"
    return [a_table("ledger", columns, *ledger), a_table("exports", columns, *exports)]


def balance_check(tables: Sequence[Table]) -> ReconciliationJob:
    """The job of the sample: totals by account, one cent apart at most."""
    measure = a_measure("total_amount", absolute("0.01"), column="amount")
    job = a_job(tables, aggregate_by("account", measure, name="balance-check"))
    return replace(job, name="ledger-vs-exports")
