from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.runs.model import RunResult
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.endpoint import DataFilter, Filter, WebhookEndpoint
from datarecs_core.webhooks.globs import glob_fault, glob_matches, nearest_glob, short_type
from datarecs_core.webhooks.matching import (
    ERROR_CODE,
    RESULT,
    EndpointFacts,
    EventFacts,
    JobFacts,
    is_operational,
    match_endpoint,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)

PREFIX = "io.datarecs."
RUN = "reconciliation.run."
RUN_TYPES = [
    *("triggered", "queued", "queue_errored", "finalised", "cancel_requested", "cancelled"),
    *("completed", "errored", "rows_processed", "extraction.started", "extraction.completed"),
    *("extraction.errored", "comparison.started", "comparison.completed", "comparison.errored"),
    *("stage.started", "stage.completed", "stage.errored"),
]
HERE = ResourceUid(UUID(int=1))
ELSEWHERE = ResourceUid(UUID(int=2))


def an_endpoint(**filters: object) -> EndpointFacts:
    spec = WebhookEndpoint(url="https://a.example.com/", filter=Filter(**filters))  # type: ignore[arg-type]  # keyword table of the cases
    return EndpointFacts(uid=HERE, created_at=NOON, spec=spec)


def delivered(endpoint: EndpointFacts, types: Sequence[str], about: ResourceUid | None) -> int:
    return sum(
        match_endpoint(endpoint, EventFacts(type=PREFIX + kind, time=NOON, endpoint_id=about))
        for kind in types
    )


@pytest.mark.case("W03")
def test_without_a_filter_every_run_type_is_sent_and_operational_ones_need_a_flag() -> None:
    published = [RUN + name for name in RUN_TYPES]
    assert len(published) == 18
    assert delivered(an_endpoint(), published, None) == 18
    failed = "webhook.delivery.failed"
    assert delivered(an_endpoint(), [*published, failed], ELSEWHERE) == 18
    assert delivered(an_endpoint(operational=True), [*published, failed], ELSEWHERE) == 19


@pytest.mark.case("X53")
@pytest.mark.parametrize(
    "kind", ["webhook.delivery.failed", "webhook.endpoint.auto_disabled", "webhook.test"]
)
def test_an_operational_event_never_goes_to_the_endpoint_it_is_about(kind: str) -> None:
    assert delivered(an_endpoint(operational=True), [kind], HERE) == 0
    assert delivered(an_endpoint(operational=True), [kind], ELSEWHERE) == 1


def test_other_endpoints_of_a_tenant_get_the_event_of_a_disabled_one_by_default() -> None:
    assert delivered(an_endpoint(), ["webhook.endpoint.auto_disabled"], ELSEWHERE) == 1
    assert delivered(an_endpoint(), ["webhook.endpoint.test_requested"], ELSEWHERE) == 0


@pytest.mark.case("W04")
def test_one_star_is_one_segment_two_are_one_or_more_and_exclusion_wins() -> None:
    finalised, stage = RUN + "finalised", RUN + "stage.completed"
    assert delivered(an_endpoint(types=(RUN + "*",)), [finalised], None) == 1
    assert delivered(an_endpoint(types=(RUN + "*",)), [stage], None) == 0
    assert delivered(an_endpoint(types=(RUN + "**",)), [finalised, stage], None) == 2
    chosen = an_endpoint(types=("**",), exclude_types=(RUN + "finalised",))
    assert delivered(chosen, [finalised, stage], None) == 1


@pytest.mark.parametrize(
    ("glob", "event_type", "expected"),
    [
        ("**", "a", True),
        ("**.c", "a.b.c", True),
        ("**.c", "c", False),
        ("a.**", "a", False),
        ("a.**.d", "a.b.c.d", True),
        ("a.*.c", "a.b.c", True),
        ("a.*.c", "a.c", False),
        ("A.b", "a.b", False),
        ("io.datarecs.a.b", "io.datarecs.a.b", True),
        ("a.b", "io.datarecs.a.b", True),
        ("**.**.**", "a.b", False),
    ],
)
def test_globs(glob: str, event_type: str, *, expected: bool) -> None:
    assert glob_matches(glob, event_type) is expected


@pytest.mark.parametrize("glob", ["", "a..b", "a.b*", "a.B", "a b", "***", "a.", "[a]"])
def test_anything_but_segments_and_stars_is_refused(glob: str) -> None:
    assert glob_fault(glob)


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("a.run.finalized", "a.run.finalised"),
        ("io.datarecs.a.run.finalized", "a.run.finalised"),
        ("run.finalised", "a.run.finalised"),
        ("run.*", "a.run.*"),
        ("a.rum.**", "a.run.**"),
        ("**.finalizeed", "**.finalized"),
        ("c.**", None),
        ("a.run.finalised.**", None),
    ],
)
def test_a_glob_that_matches_no_type_is_corrected(glob: str, expected: str | None) -> None:
    types = ("io.datarecs.a.run.finalised", "io.datarecs.b.finalized")
    assert not any(glob_matches(glob, one) for one in types)
    assert nearest_glob(glob, types) == expected


def test_a_hostile_glob_is_judged_in_linear_time() -> None:
    assert not glob_matches(".".join(["**"] * 60 + ["x"]), ".".join(["a"] * 200))


@pytest.mark.case("W40")
def test_events_from_before_the_endpoint_was_made_do_not_come() -> None:
    finalised = PREFIX + RUN + "finalised"
    earlier = EventFacts(type=finalised, time=NOON - timedelta(microseconds=1))
    assert not match_endpoint(an_endpoint(), earlier)
    assert match_endpoint(an_endpoint(), EventFacts(type=finalised, time=NOON))


def test_a_disabled_endpoint_gets_nothing() -> None:
    spec = WebhookEndpoint(url="https://a.example.com/", enabled=False)
    endpoint = EndpointFacts(uid=HERE, created_at=NOON, spec=spec)
    assert not match_endpoint(endpoint, EventFacts(type=RUN + "finalised", time=NOON))


def test_operational_types_are_those_about_webhooks() -> None:
    assert is_operational(PREFIX + "webhook.delivery.failed")
    assert not is_operational(PREFIX + RUN + "finalised")
    assert short_type(PREFIX + "a.b") == "a.b"


UNMATCHED = DataFilter(results=(RunResult.UNMATCHED,))
ENDS = DataFilter(results=(RunResult.UNMATCHED,), error_codes=(RunErrorCode.CRASHED,))


def passes(
    data: DataFilter, values: Mapping[str, str] | None = None, *, job: JobFacts | None = None
) -> bool:
    event = EventFacts(type=PREFIX + RUN + "finalised", time=NOON, values=values or {}, job=job)
    return match_endpoint(an_endpoint(data=data), event)


@pytest.mark.case("W06")
def test_results_and_error_codes_name_the_ends_that_pass() -> None:
    assert passes(UNMATCHED, {RESULT: "UNMATCHED"})
    assert not passes(UNMATCHED, {RESULT: "MATCHED"})
    assert not passes(UNMATCHED, {ERROR_CODE: "CRASHED"})
    assert not passes(UNMATCHED)
    assert passes(ENDS, {RESULT: "UNMATCHED"})
    assert passes(ENDS, {ERROR_CODE: "CRASHED"})
    assert not passes(ENDS, {ERROR_CODE: "TIMED_OUT"})
    assert not passes(ENDS, {RESULT: "MATCHED"})


@pytest.mark.case("W06")
def test_jobs_pass_by_name_and_by_all_labels_of_the_selector() -> None:
    ledger = JobFacts(name="ledger", labels={"team": "finance", "tier": "1"})
    assert passes(DataFilter(jobs=("ledger", "bank")), job=ledger)
    assert not passes(DataFilter(jobs=("bank",)), job=ledger)
    assert not passes(DataFilter(jobs=("ledger",)), job=None)
    assert passes(DataFilter(job_selector={"team": "finance"}), job=ledger)
    assert not passes(DataFilter(job_selector={"team": "finance", "tier": "2"}), job=ledger)
    both = DataFilter(jobs=("ledger",), results=(RunResult.MATCHED,))
    assert passes(both, {RESULT: "MATCHED"}, job=ledger)
    assert not passes(both, {RESULT: "UNMATCHED"}, job=ledger)
