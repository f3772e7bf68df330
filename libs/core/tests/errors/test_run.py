"""The detail codes of runs: complete, each under its run-level code, each id once."""

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail, RunFault

BY_CODE = {
    RunErrorCode.QUERY_FAILED: "CONNECTION_FAILED PERMISSION_DENIED QUERY_ERROR COLUMN_NOT_FOUND "
    "AMBIGUOUS_COLUMN SNAPSHOT_LOST OFFSET_OUT_OF_RANGE NO_FILES CORRUPT_SOURCE SOURCE_LIMIT "
    "SOURCE_UNSUPPORTED SCHEMA_CHANGED PATH_REFUSED STATEMENT_TIMEOUT",
    RunErrorCode.TIMED_OUT: "DEADLINE_EXCEEDED QUEUE_TIMEOUT",
    RunErrorCode.CRASHED: "OUT_OF_MEMORY KILLED TERMINATED DRIVER_LOST UNRESPONSIVE LEASE_EXPIRED",
    RunErrorCode.UNKNOWN: "COMPARISON_FAILED TYPE_MISMATCH ZONE_REQUIRED OVERFLOW DUPLICATE_KEYS "
    "NULL_KEYS EMPTY_SOURCE CLOSURE_FAILED SPILL_EXHAUSTED RESULT_STORE_FAILED "
    "INCONSISTENT_COUNTS SUBMIT_REJECTED SUBMIT_TIMEOUT CANCEL_FORCED RESULT_MISSING "
    "RESULT_INVALID STOPPED STOPPED_EXTERNALLY",
}


def test_every_published_detail_code_travels_under_its_run_code() -> None:
    listed = {name: code for code, names in BY_CODE.items() for name in names.split()}
    assert {detail.name: detail.run_code for detail in RunDetail} == listed


def test_ids_are_unique_and_of_the_family() -> None:
    ids = [one.docs_id for one in (*RunDetail, *RunFault)]
    assert len(set(ids)) == len(ids)
    assert all(one.startswith("DR3") and len(one) == 6 for one in ids)
