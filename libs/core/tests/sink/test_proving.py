"""Whether a job proves a sink: only one that compares its topic with its table, up to the table."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from datarecs_core.jobs.definition import (
    LATEST,
    ReconciliationJob,
    Scope,
    Snapshot,
    Stage,
)
from datarecs_core.jobs.vocabulary import OnUnmatched, SourceKind, StageType
from datarecs_core.sink.definition import (
    DynamicTables,
    SinkMode,
    SinkTable,
    SinkTarget,
    StartAt,
    ValueFormat,
)
from datarecs_core.sink.proof import ProofOptions, proof_job
from datarecs_core.sink.proving import proof_fault, unproven

ORDERS = SinkTarget(catalog="lake", namespace=("sales", "eu"), name="orders")
REFUNDS = replace(ORDERS, name="refunds")
SINK = SinkTable(connection="kafka", topics=("orders",), tables=(ORDERS,))
PROOF = proof_job("orders", SINK, ProofOptions())
WEEK = ProofOptions(window=timedelta(days=7), excluded=("tags",))


def with_source(number: int, **changes: Any) -> ReconciliationJob:  # noqa: ANN401  fields of a source
    sources = list(PROOF.sources)
    sources[number] = replace(sources[number], **changes)
    return replace(PROOF, sources=tuple(sources))


def with_stage(**changes: Any) -> ReconciliationJob:  # noqa: ANN401  fields of a stage
    (stage,) = PROOF.stages
    return replace(PROOF, stages=(replace(stage, **changes),))


def after_counts(on_unmatched: OnUnmatched) -> ReconciliationJob:
    counts = Stage(name="counts", type=StageType.COUNTS, on_unmatched=on_unmatched)
    return replace(PROOF, stages=(counts, *PROOF.stages))


@pytest.mark.parametrize(
    ("sink", "options"),
    [
        (SINK, ProofOptions()),
        (SINK, WEEK),
        (replace(SINK, start=datetime(2026, 1, 1, tzinfo=UTC)), ProofOptions()),
        (replace(SINK, mode=SinkMode.UPSERT, id_columns=("id",)), ProofOptions()),
        (replace(SINK, mode=SinkMode.UPSERT), ProofOptions()),
        (replace(SINK, case_insensitive=True, value=ValueFormat.AVRO), ProofOptions()),
        (replace(SINK, case_insensitive=True, value=ValueFormat.TEXT), ProofOptions()),
    ],
)
def test_the_printed_job_of_a_sink_proves_it(sink: SinkTable, options: ProofOptions) -> None:
    job = proof_job("orders", sink, options)
    assert proof_fault(sink, job) is None
    assert unproven(sink, [job]) == ()


def test_a_filter_of_the_topic_is_allowed_because_routes_need_it() -> None:
    assert proof_fault(SINK, with_source(0, filter="type = 'order'")) is None


def test_a_third_source_is_allowed() -> None:
    ledger = replace(PROOF.sources[1], name="ledger", kind=SourceKind.POSTGRES, connection="books")
    assert proof_fault(SINK, replace(PROOF, sources=(*PROOF.sources, ledger))) is None


def test_a_stage_that_goes_on_restricts_no_later_one() -> None:
    assert proof_fault(SINK, after_counts(OnUnmatched.CONTINUE)) is None


def test_a_digest_is_of_every_row() -> None:
    assert proof_fault(SINK, with_stage(type=StageType.DIGEST)) is None


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (with_source(0, connection="other"), "no topic of the sink"),
        (with_source(0, topic="refunds"), "no topic of the sink"),
        (with_source(0, kind=SourceKind.JSON), "no topic of the sink"),
        (with_source(0, snapshot=Snapshot(end=LATEST)), "up to what the table has"),
        (with_source(1, connection="pond"), "no table of the sink"),
        (with_source(1, relation="sales.orders"), "no table of the sink"),
        (with_source(1, relation=None, query="SELECT 1"), "no table of the sink"),
        (with_source(1, kind=SourceKind.POSTGRES), "no table of the sink"),
        (with_source(1, snapshot=Snapshot(snapshot_id=7)), "an earlier state of the table"),
        (with_source(1, snapshot=Snapshot(ref="audit")), "an earlier state of the table"),
        (with_source(1, snapshot=Snapshot(as_of="2026-01-01T00:00:00Z")), "an earlier state"),
        (with_stage(type=StageType.COUNTS), "does not compare every row"),
        (with_stage(type=StageType.AGGREGATE), "does not compare every row"),
        (with_stage(scope=Scope(from_stage="totals")), "does not compare every row"),
        (after_counts(OnUnmatched.ESCALATE), "does not compare every row"),
        (after_counts(OnUnmatched.STOP), "does not compare every row"),
    ],
)
def test_a_job_that_compares_something_else_proves_nothing(
    job: ReconciliationJob, words: str
) -> None:
    fault = proof_fault(SINK, job)
    assert fault is not None
    assert words in fault


def test_a_namespace_with_a_dot_is_another_table() -> None:
    dotted = replace(SINK, tables=(replace(ORDERS, namespace=("sales.eu",)),))
    assert "no table of the sink" in str(proof_fault(dotted, PROOF))


def test_topics_and_tables_that_no_job_compares_are_named() -> None:
    sink = replace(SINK, topics=("orders", "more"), tables=(ORDERS, REFUNDS))
    assert proof_fault(sink, PROOF) is None
    assert unproven(sink, [PROOF]) == ("topic more", "table sales.eu.refunds")
    other = with_source(1, relation="sales.eu.refunds")
    assert unproven(sink, [PROOF, other]) == ("topic more",)


def test_a_table_that_the_topic_names_is_a_table_of_the_sink() -> None:
    rule = DynamicTables(catalog="lake", namespace=("sales", "eu"))
    sink = replace(SINK, tables=(), dynamic=rule)
    assert proof_fault(sink, PROOF) is None
    assert "no table" in str(proof_fault(sink, with_source(1, relation="sales.eu.refunds")))


@pytest.mark.parametrize(
    ("namespace", "relation", "is_proof"),
    [
        (("sales", "eu"), "sales.eu.anything", True),
        (("sales", "eu"), "sales.us.anything", False),
        ((), "sales.us.anything", True),
        ((), "anything", False),
    ],
)
def test_records_name_tables_of_their_namespace(
    namespace: tuple[str, ...], relation: str, is_proof: bool
) -> None:
    rule = DynamicTables(catalog="lake", namespace=namespace, path="table")
    sink = replace(SINK, tables=(), dynamic=rule, start=StartAt.EARLIEST)
    job = with_source(1, relation=relation)
    assert (proof_fault(sink, job) is None) is is_proof
    assert unproven(sink, [job]) == ()
    elsewhere = with_source(1, relation=relation, connection="pond")
    assert proof_fault(sink, elsewhere) is not None
