"""Which result files are believed, and that no other one ever raises."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.model import RunResult
from datarecs_core.runs.result_file import (
    MAX_BYTES,
    Attempt,
    ChildOutcome,
    NoResult,
    ResultFile,
    read_result,
)
from datarecs_testing.run_facts import RUN, a_summary

OF = Attempt(run_id=RUN, attempt=2, lease_epoch=7)
COMPLETED: dict[str, Any] = {
    "schema": 1,
    "run_id": str(RUN),
    "attempt": 2,
    "lease_epoch": 7,
    "outcome": "COMPLETED",
    "result": "UNMATCHED",
    "nodes": [],
    "summary": {
        "stages_total": 1,
        "stages_matched": 0,
        "rows_compared": 1005,
        "rows_matched": 975,
        "rows_unmatched": 30,
        "duration_ms": 48210,
    },
    "pins": {"ledger": {"files": []}},
}
ERRORED = COMPLETED | {
    "outcome": "ERRORED",
    "result": None,
    "nodes": [{"name": "extract-0", "code": "QUERY_FAILED", "detail_code": None, "message": "no"}],
    "jvm_exit": 3,
}


def read(value: object) -> ResultFile | NoResult:
    return read_result(json.dumps(value).encode(), of=OF)


def test_a_file_of_this_attempt_is_believed() -> None:
    file = read(COMPLETED)
    assert isinstance(file, ResultFile)
    assert (file.outcome, file.result) == (ChildOutcome.COMPLETED, RunResult.UNMATCHED)
    assert file.summary == a_summary()
    assert file.pins == {"ledger": {"files": []}}


def test_a_summary_may_contain_more() -> None:
    more = {"empty": True, "acceptance": "ACCEPTED", "report_path": "runs/r/report.html"}
    file = read(COMPLETED | {"summary": COMPLETED["summary"] | more})
    assert isinstance(file, ResultFile)
    assert file.summary == replace(
        a_summary(), empty=True, acceptance="ACCEPTED", report_path="runs/r/report.html"
    )


def test_a_file_of_an_error_names_what_failed() -> None:
    file = read(ERRORED)
    assert isinstance(file, ResultFile)
    assert (file.nodes[0].name, file.jvm_exit) == ("extract-0", 3)


def test_unknown_fields_are_left_aside() -> None:
    assert isinstance(read(COMPLETED | {"later": 1}), ResultFile)


@pytest.mark.case("L34")
def test_without_a_file_the_result_is_missing() -> None:
    assert read_result(None, of=OF) == NoResult(RunDetail.RESULT_MISSING, "there is no result file")


@pytest.mark.case("L34")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        json.dumps(COMPLETED).encode()[:-20],
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"schema":1,"x":' + b"[" * 100_000,
        json.dumps(COMPLETED | {"pins": {"x": "y" * MAX_BYTES}}).encode(),
    ],
    ids=["empty", "cut", "binary", "list", "null", "deep", "two MiB"],
)
def test_bytes_that_are_no_file_are_invalid(data: bytes) -> None:
    result = read_result(data, of=OF)
    assert isinstance(result, NoResult)
    assert result.detail is RunDetail.RESULT_INVALID


@pytest.mark.case("L34")
@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "019b0000-0000-7000-8000-0000000000b2"},
        {"attempt": 1},
        {"lease_epoch": 6},
        {"schema": 2},
        {"outcome": "DONE"},
        {"result": "FAILED"},
        {"result": None},
        {"outcome": "ERRORED"},
        {"outcome": "ERRORED", "result": None},
        {"nodes": ERRORED["nodes"]},
        {"nodes": {}},
        {"nodes": ["extract-0"]},
        {"nodes": [{"name": "extract-0"}]},
        {"nodes": [{"name": "a", "code": "B", "message": "c", "detail_code": 1}]},
        {"nodes": [{"name": "a", "code": "B", "message": "c", "detail_code": "two words"}]},
        {"nodes": [{"name": "a", "code": "x" * 65, "message": "c"}]},
        {"pins": {"ledger": [{"path": "a\0b"}]}},
        {"pins": {"\ud800": 1}},
        {"summary": {"stages_total": 1}},
        {"summary": {"stages_total": -1}},
        {"summary": {"stages_total": True}},
        {"pins": []},
        {"jvm_exit": "3"},
    ],
)
def test_a_file_that_fits_not_wholly_is_not_believed(changes: dict[str, Any]) -> None:
    result = read(COMPLETED | changes)
    assert isinstance(result, NoResult)
    assert result.detail is RunDetail.RESULT_INVALID


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    assert isinstance(read_result(data, of=OF), NoResult)


@given(st.sampled_from(sorted(COMPLETED)), JSON)
def test_no_value_of_any_field_raises(name: str, value: object) -> None:
    assert read(COMPLETED | {name: value}) is not None


GAP = {
    "stage_name": "rows",
    "measure_name": "amount",
    "source": "bank",
    "reference": "ledger",
    "gap": "-12.50",
    "outside_tolerance_count": 3,
}
MISSING = {"stage_name": "rows", "source": "bank", "groups": 2}
CAUSE = {
    "stage_name": "rows",
    "measure_name": "amount",
    "source": "bank",
    "pattern": "ROUNDED",
    "explained": 3,
    "of": 3,
}


def with_summary(**fields: object) -> ResultFile | NoResult:
    return read(COMPLETED | {"summary": {**COMPLETED["summary"], **fields}})


def test_a_summary_may_list_measures_missing_groups_and_a_cause() -> None:
    file = with_summary(measures=[GAP], missing=[MISSING], likely_cause=CAUSE)
    assert isinstance(file, ResultFile)
    assert file.summary is not None
    assert file.summary.measures is not None
    assert file.summary.measures[0].gap == "-12.50"
    assert file.summary.missing is not None
    assert file.summary.likely_cause is not None


def test_a_child_decides_neither_the_name_of_the_job_nor_a_url() -> None:
    file = with_summary(job_name="other", report_url="https://evil.example")
    assert isinstance(file, ResultFile)
    assert file.summary is not None
    assert (file.summary.job_name, file.summary.report_url) == (None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"measures": "none"},
        {"measures": [GAP] * 21},
        {"measures": [GAP | {"gap": "<b>1</b>"}]},
        {"measures": [GAP | {"source": "x" * 257}]},
        {"measures": [{"gap": "1"}]},
        {"measures": [GAP | {"more": 1}]},
        {"missing": [MISSING | {"groups": -1}]},
        {"likely_cause": []},
    ],
)
def test_a_list_of_a_summary_that_breaks_its_bounds_makes_the_file_invalid(
    fields: dict[str, object],
) -> None:
    answer = with_summary(**fields)
    assert isinstance(answer, NoResult)
    assert answer.detail is RunDetail.RESULT_INVALID
