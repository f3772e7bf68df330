"""What is written once into the outbox: bytes, headers, order, limits, and what is refused."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.decision import Decision
from datarecs_core.errors.run import RunDetail, RunFault
from datarecs_core.runs.events import (
    RunComparisonCompleted,
    RunErrored,
    RunFinalised,
    RunStageCompleted,
    RunTriggered,
    ToleranceCount,
)
from datarecs_core.runs.model import MeasureGap, MissingGroups, RunResult
from datarecs_core.runs.result_file import MAX_ENTRIES
from datarecs_core.values import EventId
from datarecs_events.catalogue import DataRecsEventType, EventKind, Topic
from datarecs_events.codec import (
    MAX_DATA_BYTES,
    EventEncodeError,
    Received,
    Stamp,
    decode,
    encode,
    to_structured,
)
from datarecs_events.examples import example_of

Type = DataRecsEventType
STAMP = Stamp(
    event_id=EventId(UUID("0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c01")),
    time=datetime(2026, 11, 20, 6, 14, 3, 120455, tzinfo=UTC),
    sequence=17,
    caused_by=EventId(UUID("0198c0de-7a0c-7b11-8d02-6a1f0c9be4aa")),
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)


def the(event_type: Type, wanted: type[Any]) -> Any:  # noqa: ANN401 - the class requested
    event = example_of(event_type)
    assert isinstance(event, wanted)
    return event


def finalised(**changes: Any) -> RunFinalised:  # noqa: ANN401 - fields of RunFinalised
    event: RunFinalised = the(Type.RUN_FINALISED, RunFinalised)
    return replace(event, **changes)


def comparison(**changes: Any) -> RunComparisonCompleted:  # noqa: ANN401 - its fields
    event: RunComparisonCompleted = the(Type.RUN_COMPARISON_COMPLETED, RunComparisonCompleted)
    return replace(event, **changes)


def refusal(event: object, stamp: Stamp = STAMP) -> EventEncodeError:
    with pytest.raises(EventEncodeError) as caught:
        encode(event, stamp)
    return caught.value


@pytest.mark.parametrize("name", [Type.RUN_FINALISED, Type.CAPTURE_JOB_STARTED])
def test_an_event_of_a_run_or_capture_needs_its_number(name: Type) -> None:
    event = example_of(name)
    assert encode(event, STAMP).attributes["runsequence"] == f"{STAMP.sequence:020d}"
    assert "needs its sequence" in refusal(event, replace(STAMP, sequence=None)).why


def test_a_record_is_as_the_specification_shows_it() -> None:
    record = encode(finalised(summary=None), STAMP)
    assert record.topic == Topic.RUN_PLATFORM
    assert record.kind is EventKind.PLATFORM
    run_id = "019b0000-0000-7000-8000-0000000000b1"
    assert record.key == run_id
    assert record.key_bytes == run_id.encode()
    assert record.subject == f"run/{run_id}"
    assert record.headers == (
        ("ce_specversion", b"1.0"),
        ("ce_id", b"0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c01"),
        ("ce_source", b"/datarecs/core-api"),
        ("ce_type", b"io.datarecs.reconciliation.run.finalised"),
        ("ce_subject", f"run/{run_id}".encode()),
        ("ce_time", b"2026-11-20T06:14:03.120455Z"),
        ("ce_tenantid", b"019b0000-0000-7000-8000-000000000001"),
        ("ce_partitionkey", run_id.encode()),
        ("ce_runsequence", b"00000000000000000017"),
        ("ce_causationid", b"0198c0de-7a0c-7b11-8d02-6a1f0c9be4aa"),
        ("ce_traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("ce_dataschema", b"urn:datarecs:schema:reconciliation.run.finalised:1.2"),
        ("content-type", b"application/json"),
    )
    assert record.data == (
        b'{"run_id":"019b0000-0000-7000-8000-0000000000b1",'
        b'"job_id":"019b0000-0000-7000-8000-0000000000a1",'
        b'"tenant_id":"019b0000-0000-7000-8000-000000000001","attempt":1,"result":"UNMATCHED"}'
    )


def test_absent_attributes_have_no_header() -> None:
    bare = Stamp(event_id=STAMP.event_id, time=STAMP.time, sequence=1)
    assert {"causationid", "traceparent", "tracestate"}.isdisjoint(
        encode(finalised(), bare).attributes
    )


def test_times_of_any_zone_are_written_in_utc() -> None:
    berlin = STAMP.time.astimezone(timezone(timedelta(hours=1)))
    record = encode(finalised(), replace(STAMP, time=berlin))
    assert record.attributes["time"] == "2026-11-20T06:14:03.120455Z"


def test_the_webhook_test_vector_is_reproduced_byte_for_byte() -> None:
    stamp = Stamp(
        event_id=EventId(UUID("019bc0fd-8a3b-7c31-8a52-6f1e2d3c4b5a")),
        time=datetime(2026, 1, 15, 9, 30, 0, 123456, tzinfo=UTC),
        traceparent=STAMP.traceparent,
    )
    record = encode(example_of(Type.WEBHOOK_TEST), stamp)
    assert record.topic is None
    body = to_structured(record.attributes, record.data)
    assert len(body) == 676
    assert hashlib.sha256(body).hexdigest() == (
        "850797072a37d2da0ec2443b5f52aea48f508fb1a66d7d5644ed00c06a9bd362"
    )


def test_an_event_of_a_resource_is_numbered_by_its_version() -> None:
    event = example_of(Type.CONNECTION_UPDATED)
    record = encode(event, Stamp(event_id=STAMP.event_id, time=STAMP.time))
    assert record.attributes["runsequence"] == "00000000000000088121"
    assert record.subject == "connection/finance/bank"
    assert record.attributes["source"] == "/datarecs/resources/connection"


@pytest.mark.case("L39")
@pytest.mark.parametrize("text", ["1E-18", "12345678901234567.89", "0.010", "1E+3", "0", "-0.5"])
def test_decimals_survive_digit_for_digit(text: str) -> None:
    value = Decimal(text)
    event = comparison()
    items = tuple(replace(item, tolerance_value=value) for item in event.tolerances)
    record = encode(replace(event, tolerances=items), STAMP)
    decoded = decode(record.topic, record.key_bytes, record.data, record.headers)
    assert isinstance(decoded, Received)
    assert isinstance(decoded.event, RunComparisonCompleted)
    assert decoded.event.tolerances[0].tolerance_value == value
    assert encode(decoded.event, STAMP).data == record.data


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_any_decimal_is_read_as_it_was_written(value: Decimal) -> None:
    event = comparison()
    items = tuple(replace(item, tolerance_value=value) for item in event.tolerances)
    try:
        record = encode(replace(event, tolerances=items), STAMP)
    except EventEncodeError as refused:
        assert "digits" in refused.why  # noqa: PT017 - either it is too long, or it survives
        return
    decoded = decode(record.topic, record.key_bytes, record.data, record.headers)
    assert isinstance(decoded, Received)
    assert isinstance(decoded.event, RunComparisonCompleted)
    assert decoded.event.tolerances[0].tolerance_value == value


MANY = tuple(
    ToleranceCount(
        measure_name=f"measure_{number}_of_a_wide_table_with_a_long_name",
        tolerance_type="ABSOLUTE",
        tolerance_value=Decimal("0.01"),
        tolerance_value_exact="0.01",
        within_tolerance_count=980 - number % 7 // 6,
        outside_tolerance_count=number % 7 // 6,
        passed=number % 7 != 6,
    )
    for number in range(400)
)


@pytest.mark.case("L39")
def test_a_wide_stage_is_cut_to_64_kib_failing_measures_first() -> None:
    event = comparison(
        tolerances=MANY,
        tolerances_total=None,
        tolerances_truncated=None,
        rows_matched=979,
        rows_unmatched=26,
    )
    record = encode(event, STAMP)
    assert len(record.data) <= MAX_DATA_BYTES
    assert record.attributes["dataref"] == (
        "/api/v1/runs/019b0000-0000-7000-8000-0000000000b1/stages/balance-check"
    )
    decoded = decode(record.topic, record.key_bytes, record.data, record.headers)
    assert isinstance(decoded, Received)
    assert isinstance(decoded.event, RunComparisonCompleted)
    tolerances = decoded.event.tolerances
    assert (decoded.event.tolerances_total, decoded.event.tolerances_truncated) == (400, True)
    failing = [item for item in MANY if not item.passed]
    assert list(tolerances[: len(failing)]) == failing
    assert all(item.passed for item in tolerances[len(failing) :])
    assert 200 < len(tolerances) < 400
    room = MAX_DATA_BYTES - len(record.data)
    assert room < 400


@pytest.mark.case("L39")
def test_a_wide_stage_completion_is_cut_too_and_a_strange_name_is_quoted() -> None:
    event: RunStageCompleted = the(Type.RUN_STAGE_COMPLETED, RunStageCompleted)
    record = encode(replace(event, tolerances=MANY, stage_name="a/b ä"), STAMP)
    assert len(record.data) <= MAX_DATA_BYTES
    assert record.attributes["dataref"].endswith("/stages/a%2Fb%20%C3%A4")


def test_a_wide_stage_without_name_refers_to_its_run() -> None:
    event = comparison(stage_name=None, tolerances=MANY, rows_matched=979, rows_unmatched=26)
    dataref = encode(event, STAMP).attributes["dataref"]
    assert dataref == "/api/v1/runs/019b0000-0000-7000-8000-0000000000b1"


@pytest.mark.case("L38")
def test_numbers_that_contradict_each_other_are_never_written() -> None:
    error = refusal(comparison(rows_matched=976))
    assert error.code is RunDetail.INCONSISTENT_COUNTS
    assert "rows_matched" in error.why


def test_other_events_have_no_list_to_cut() -> None:
    event: Any = example_of(Type.NOTIFICATION_EMAIL_SENT)
    rules = tuple("r" * 2000 for _ in range(40))
    assert "bytes" in refusal(replace(event, rule_names=rules)).why


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (finalised(error=the(Type.RUN_ERRORED, RunErrored).error), "exactly one"),
        (finalised(result=None), "exactly one"),
        (finalised(attempt=0), "attempt"),
        (finalised(attempt=True), "attempt"),
        (finalised(result="MATCHED"), "result"),
        (finalised(run_id="x"), "run_id"),
        (finalised(job_id=None), "job_id: it is required"),
        (comparison(stage_name="x" * 2001), "stage_name"),
        (comparison(stage_name="\ud800"), "stage_name"),
        (comparison(stage_name="a\0"), "stage_name"),
        (comparison(tolerances=[]), "tolerances: a tuple is needed"),
        (comparison(tolerances=("x",)), "tolerances[0]: a ToleranceCount is needed"),
        (comparison(source_names={"ledger": "a"}), "source_names: keys are"),
        (comparison(source_names=["a"]), "source_names: an object is needed"),
        (
            replace(the(Type.WEBHOOK_TEST, object), probe=0.1),
            "probe: a number is needed",
        ),
        (
            replace(the(Type.WEBHOOK_TEST, object), probe=Decimal("NaN")),
            "probe: a finite number",
        ),
        (
            replace(the(Type.WEBHOOK_TEST, object), probe=Decimal("1E+999999")),
            "probe: at most 38 digits",
        ),
        (
            replace(
                the(Type.WEBHOOK_ENDPOINT_AUTO_DISABLED, object),
                disabled_at=datetime(2026, 1, 1),  # noqa: DTZ001 - naive, to be refused
            ),
            "disabled_at: a time without a zone",
        ),
        (
            replace(the(Type.WEBHOOK_ENDPOINT_AUTO_DISABLED, object), disabled_at="now"),
            "disabled_at: a datetime is needed",
        ),
    ],
)
def test_what_a_reader_would_refuse_is_not_written(event: object, words: str) -> None:
    error = refusal(event)
    assert words in error.why
    assert error.code in {RunFault.EVENT_NOT_ENCODABLE, RunDetail.INCONSISTENT_COUNTS}
    assert not error.retryable


def test_only_events_of_the_catalogue_are_written() -> None:
    assert "catalogue" in refusal(Decision("state")).why


def test_a_service_writes_its_events_alone() -> None:
    encode(finalised(), replace(STAMP, service="run-controller"))
    error = refusal(finalised(), replace(STAMP, service="email-notifier"))
    assert "email-notifier does not emit" in str(error)


def test_a_stamp_must_be_sound() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - naive, to be refused
    assert "zone" in refusal(finalised(), replace(STAMP, time=naive)).why
    assert "sequence" in refusal(finalised(), replace(STAMP, sequence=None)).why
    assert "traceparent" in refusal(finalised(), replace(STAMP, traceparent="a\nb")).why


def test_text_outside_ascii_is_written_as_it_is() -> None:
    event: RunTriggered = the(Type.RUN_TRIGGERED, RunTriggered)
    record = encode(replace(event, triggered_by="Jürgen \U0001f600"), STAMP)
    assert '"triggered_by":"Jürgen \U0001f600"'.encode() in record.data


def test_the_same_event_has_the_same_bytes_and_stays_as_it_was() -> None:
    event = comparison()
    before = replace(event)
    one, other = encode(event, STAMP), encode(event, STAMP)
    assert (one.data, one.headers) == (other.data, other.headers)
    assert event == before


def test_the_verdict_is_a_word_and_not_its_name() -> None:
    assert json.loads(encode(finalised(), STAMP).data)["result"] == RunResult.UNMATCHED.value


def test_the_longest_summary_leaves_run_finalised_below_64_kib() -> None:
    name, digits = "\N{GRINNING FACE}" * 63, "-" + "9" * 38 + "." + "9" * 38
    gap = MeasureGap(
        stage_name=name,
        measure_name=name * 2,
        source=name,
        reference=name,
        gap=digits,
        missing_in_source=digits,
        missing_in_reference=digits,
        changed=digits,
        outside_tolerance_count=2**53 - 1,
    )
    missing = MissingGroups(stage_name=name, source=name, groups=2**53 - 1)
    summary = finalised().summary
    assert summary is not None
    long = replace(summary, measures=(gap,) * MAX_ENTRIES, missing=(missing,) * MAX_ENTRIES)
    assert len(encode(finalised(summary=long), STAMP).data) < MAX_DATA_BYTES
