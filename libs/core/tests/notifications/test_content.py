from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.notifications.content import MailContent, Paths, Recorded, mail_content
from datarecs_core.notifications.evaluation import MailKind, outcome_of
from datarecs_core.notifications.mail import Mail
from datarecs_core.notifications.rule import Detail
from datarecs_core.runs.model import Run, RunError, RunResult, RunStatus
from datarecs_core.values import JobId, RunId, TenantId

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
RUN = Run(
    tenant_id=TenantId(UUID(int=1)),
    run_id=RunId(UUID(int=2)),
    job_id=JobId(UUID(int=3)),
    job_name="ledger-vs-bank",
    job_generation=1,
    spec_hash="sha256:0",
    spec={"sources": [{"name": "ledger"}, {"name": "bank"}]},
    triggered_by="u",
    execution_name="recon",
    status=RunStatus.COMPLETED,
    result=RunResult.UNMATCHED,
    attempt=2,
    created_at=NOON,
    closed_at=NOON,
)
MAIL = Mail(
    tenant_id=RUN.tenant_id,
    delivery_id=UUID(int=4),
    dedupe_key="run:x:y",
    run_id=RUN.run_id,
    job_id=RUN.job_id,
    recipient="a@example.com",
    recipient_key="a@example.com",
    rules=("r",),
    kind=MailKind.OUTCOME,
    detail=Detail.FULL,
    outcome="UNMATCHED",
    due_at=NOON,
    expires_at=NOON,
    finalised_at=NOON,
    message_id="<run.x@mail.example.com>",
    created_at=NOON,
)
COMPARED: Mapping[str, object] = {
    "attempt": 2,
    "stage_name": "balance",
    "result": "UNMATCHED",
    "rows_compared": 1005,
    "rows_unmatched": 30,
    "join_stats": {"matched_groups": 980},
    "missing_by_source": {"source_1": 5, "source_0": 20, "source_9": 1, "x": "no number"},
    "tolerances": [
        {
            "measure_name": "amount",
            "tolerance_type": "ABSOLUTE",
            "tolerance_value": Decimal("0.01"),
            "within_tolerance_count": 975,
            "outside_tolerance_count": 5,
        },
        {"measure_name": "name", "tolerance_type": "EXACT", "tolerance_value": 0},
        "no mapping",
    ],
}


def content(*events: tuple[str, Mapping[str, object]], run: Run = RUN) -> MailContent:
    history = [Recorded(f"io.example.reconciliation.run.{name}", data) for name, data in events]
    return mail_content(MAIL, run, history, paths=Paths(thread_root="<job.x@mail.example.com>"))


def test_a_compared_stage_is_reported_with_names_of_sources_and_tolerances() -> None:
    (stage,) = content(("comparison.completed", COMPARED)).stages
    assert (stage.name, stage.result) == ("balance", RunResult.UNMATCHED)
    assert [tuple(count) for count in stage.missing] == [
        ("ledger", 20),
        ("bank", 5),
        ("source_9", 1),
    ]
    assert [measure.tolerance for measure in stage.measures] == ["ABSOLUTE 0.01", "EXACT"]
    assert stage.measures[1].within == 0


def test_only_the_last_attempt_counts() -> None:
    earlier = {**COMPARED, "attempt": 1}
    assert content(("comparison.completed", earlier)).stages == ()


def test_the_source_that_could_not_be_read_is_named() -> None:
    mail_content = content(
        ("extraction.started", {"attempt": 2, "extraction_index": 0}),
        ("extraction.errored", {"attempt": 2, "extraction_index": 1}),
    )
    assert mail_content.failed_source == "bank"


def test_the_stage_that_was_under_way_is_named() -> None:
    begun = ("stage.started", {"attempt": 2, "stage_name": "detail"})
    ended = ("stage.completed", {"attempt": 2, "stage_name": "detail"})
    assert content(begun).open_stage == "detail"
    assert content(begun, ended).open_stage is None


def test_a_run_without_history_or_sources_still_has_a_content() -> None:
    mail_content = content(run=replace(RUN, spec={}, status=RunStatus.QUEUE_ERRORED))
    assert (mail_content.stages, mail_content.source_count, mail_content.failed_source) == (
        (),
        0,
        None,
    )
    assert mail_content.never_started


def test_payloads_of_another_form_are_read_as_far_as_they_go() -> None:
    (stage,) = content(("comparison.completed", {"result": "MATCHED", "join_stats": 3})).stages
    assert (stage.name, stage.rows_compared, stage.measures) == ("", 0, ())


def test_the_outcome_is_result_or_error_code_or_none() -> None:
    assert outcome_of(RUN) == "UNMATCHED"
    error = RunError(code=RunErrorCode.CRASHED, message="x")
    assert outcome_of(replace(RUN, result=None, error=error)) == "ERRORED:CRASHED"
    assert outcome_of(replace(RUN, result=None)) is None
