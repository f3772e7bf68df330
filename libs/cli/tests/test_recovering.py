"""`admin recover` before it changes anything: wrong times, missing results, and what to do next."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_cli.invocation import UsageFault
from datarecs_cli.lost_future import LostEvent, advice
from datarecs_cli.main import run
from datarecs_cli.recovering import (
    MissingResult,
    Recovery,
    document_of,
    lines_of,
    missing_results,
    moment_of,
    refuse_wrong_time,
)
from datarecs_core.catalog.layout import run_document
from datarecs_core.values import EventId, RunId
from datarecs_kafka.rewinding import Rewound
from datarecs_postgres.recovery import Recovered, RestoredState
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id

Shown = pytest.CaptureFixture[str]
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
RUN = "io.datarecs.reconciliation.run."


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("yesterday", "not a time"),
        ("2026-13-01T00:00:00Z", "not a time"),
        ("2026-01-31T12:00:00", "the time zone is missing"),
    ],
)
def test_a_time_must_be_one_instant(text: str, fault: str) -> None:
    with pytest.raises(UsageFault, match=fault) as refused:
        moment_of(text)
    assert "2026-01-31T12:00:00Z" in str(refused.value)


def test_an_offset_is_the_same_instant() -> None:
    assert moment_of("2026-01-31T13:00:00+01:00") == moment_of("2026-01-31T12:00:00Z") == NOON


def a_state(**changes: object) -> RestoredState:
    facts: dict[str, object] = {
        "now": NOON + timedelta(hours=2),
        "newest": NOON - timedelta(minutes=1),
        "handled": {},
    }
    return RestoredState(**(facts | changes))  # type: ignore[arg-type]  # fields of the state


def test_a_time_in_the_future_is_refused() -> None:
    with pytest.raises(UsageFault, match="in the future"):
        refuse_wrong_time(a_state(now=NOON - timedelta(seconds=1)), NOON)


def test_a_database_with_later_events_was_not_restored_to_that_time() -> None:
    """Also the answer to who starts it after the services have run again."""
    with pytest.raises(UsageFault, match=r"has an event of 2026-01-31T12:00:01"):
        refuse_wrong_time(a_state(newest=NOON + timedelta(seconds=1)), NOON)


def test_an_empty_database_has_no_wrong_time() -> None:
    refuse_wrong_time(a_state(newest=None), NOON)


@pytest.mark.case("K47")
def test_a_result_without_its_document_is_missing(tmp_path: Path) -> None:
    stores = open_blob_stores((tmp_path / "blobs").as_uri())
    runs = [(tenant, RunId(an_id())) for tenant in (A_TENANT, A_TENANT, B_TENANT)]
    for tenant, run_id in runs[:1]:
        stores.of(tenant).put(run_document(tenant, run_id), b"{}")
    stores.of(B_TENANT).put(f"{run_document(*runs[2]).removesuffix('run.json')}other.json", b"{}")
    assert list(missing_results(stores, runs)) == [
        MissingResult(tenant_id=tenant, run_id=run_id) for tenant, run_id in runs[1:]
    ]


def an_event(kind: str, run_id: RunId | None = None, subject: str = "") -> LostEvent:
    return LostEvent(
        time="2026-01-31T12:00:00.000000Z",
        tenant_id=A_TENANT,
        type=kind,
        subject=subject or f"run/{run_id}",
        event_id=EventId(an_id()),
        run_id=run_id,
    )


def test_each_kind_of_lost_effect_has_its_advice() -> None:
    known, gone = RunId(an_id()), RunId(an_id())
    job = "io.datarecs.resource.reconciliationjob"
    lost = [
        an_event(f"{RUN}triggered", gone),
        an_event(f"{RUN}finalised", gone),
        an_event(f"{RUN}completed", known),
        an_event(f"{RUN}finalised", known),
        an_event(f"{RUN}cancel_requested", known),
        an_event(f"{job}.updated", subject="reconciliationjob/default/orders"),
        an_event(f"{job}.status_updated", subject="reconciliationjob/default/orders"),
        an_event("io.datarecs.notification.email.sent"),
        an_event("io.datarecs.webhook.delivery.failed"),
    ]
    lines = list(advice(lost, known={known}))
    assert [line.partition(" ")[0] for line in lines] == ["1", "1", "1", "1", "1", "1"]
    assert "trigger them again" in lines[0]
    assert "close them again" in lines[1]
    assert "apply them again" in lines[3]
    assert list(advice([], known=())) == []


def a_recovery(**changes: object) -> Recovery:
    facts: dict[str, object] = {
        "restored_at": NOON,
        "dry_run": False,
        "newest": NOON,
        "recovered": Recovered(leases=3, events=4),
        "groups": (Rewound(group="run-controller", since=NOON, partitions=2, records=9),),
        "results": 25,
        "missing": (),
        "lost": (),
        "lost_progress": 0,
        "unreadable": 0,
        "advice": (),
    }
    return Recovery(**(facts | changes))  # type: ignore[arg-type]  # fields of the report


def test_the_report_names_missing_files_and_where_the_rest_is() -> None:
    missing = tuple(MissingResult(tenant_id=A_TENANT, run_id=RunId(an_id())) for _ in range(23))
    lines = list(lines_of(a_recovery(missing=missing)))
    shown = [line.strip() for line in lines if line.strip().startswith("accounts/")]
    assert shown == [run_document(A_TENANT, one.run_id) for one in missing[:20]]
    assert any("23 of 25 are MISSING" in line and "DATARECS_BLOB__URL" in line for line in lines)
    assert any("and 3 more" in line for line in lines)


def test_the_document_holds_every_number_of_the_report() -> None:
    lost = (an_event(f"{RUN}triggered", RunId(an_id())),)
    document = document_of(a_recovery(lost=lost, lost_progress=5, unreadable=1))
    assert document["leases_fenced"] == 3
    assert document["events_sent_again"] == 4
    assert document["groups"] == [
        {
            "group": "run-controller",
            "since": "2026-01-31T12:00:00.000000Z",
            "partitions": 2,
            "records": 9,
        }
    ]
    assert document["lost"] == [
        {
            "time": lost[0].time,
            "tenant_id": str(A_TENANT),
            "type": lost[0].type,
            "subject": lost[0].subject,
            "event_id": str(lost[0].event_id),
        }
    ]
    assert UUID(str(lost[0].event_id)).version == 7
    assert (document["lost_progress_events"], document["unreadable_records"]) == (5, 1)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--restored-at", "noon"], "not a time"),
        (["--restored-at", "2026-01-31T12:00:00"], "time zone"),
        (["--restored-at", "2026-01-31T12:00:00Z", "-o", "csv"], "-o csv"),
        ([], "--restored-at"),
        (["--restored-at", "2026-01-31T12:00:00Z"], "DATARECS_DATABASE__URL"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_the_way_out(
    arguments: list[str],
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Shown,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["admin", "recover", *arguments]) == 2
    assert word in capsys.readouterr().err
