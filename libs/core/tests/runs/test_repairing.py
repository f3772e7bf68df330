"""What repair believes: the record, then the file, then the backend."""

import pytest

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.events import RunCompleted, RunErrored
from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core.runs.repairing import outcome_of_repair, recorded_end
from datarecs_core.runs.result_file import ChildOutcome, NoResult, ResultFile
from datarecs_testing.run_facts import a_completion, a_summary, an_errored, the_run

RUN = the_run(status=RunStatus.RUNNING)
NO_FILE = NoResult(RunDetail.RESULT_MISSING, "there is no result file")
FILE = ResultFile(
    outcome=ChildOutcome.COMPLETED,
    result=RunResult.MATCHED,
    nodes=(),
    summary=None,
    pins=None,
    jvm_exit=None,
)
SUMMARY = {
    "stages_total": 1,
    "stages_matched": 0,
    "rows_compared": 1005,
    "rows_matched": 975,
    "rows_unmatched": 30,
    "duration_ms": 48_210,
}


def test_a_recorded_completion_is_read_back() -> None:
    data = {
        "attempt": 1,
        "workflow_name": RUN.execution_name,
        "result": "UNMATCHED",
        "summary": SUMMARY,
    }
    end = recorded_end(RUN, wire_type="any.prefix.run.completed", data=data)
    assert end == a_completion(RUN, RunResult.UNMATCHED)
    bare = {"workflow_name": "w", "result": "MATCHED"}
    result = recorded_end(RUN, wire_type="any.prefix.run.completed", data=bare)
    assert isinstance(result, RunCompleted)
    assert (result.summary, result.attempt) == (None, None)
    assert a_summary().rows_compared == 1005


def test_a_recorded_error_is_read_back() -> None:
    error = {"code": "CRASHED", "message": "It broke.", "detail_code": "KILLED"}
    data = {"attempt": 1, "workflow_name": RUN.execution_name, "error": error}
    end = recorded_end(RUN, wire_type="any.prefix.run.errored", data=data)
    assert end == an_errored(RUN, detail_code="KILLED")


@pytest.mark.parametrize("name", ["run.stage.completed", "run.extraction.errored", "run.queued"])
def test_other_lines_hold_no_end(name: str) -> None:
    assert recorded_end(RUN, wire_type=f"any.prefix.{name}", data={}) is None


@pytest.mark.case("L16")
def test_the_record_is_believed_before_the_file_and_the_file_before_the_backend() -> None:
    recorded = an_errored(RUN)
    assert outcome_of_repair(RUN, recorded=recorded, file=FILE, status="Succeeded") is recorded
    by_file = outcome_of_repair(RUN, recorded=None, file=FILE, status=None)
    assert isinstance(by_file, RunCompleted)
    by_status = outcome_of_repair(RUN, recorded=None, file=NO_FILE, status="Succeeded")
    assert isinstance(by_status, RunErrored)
    assert by_status.error.detail_code == "RESULT_MISSING"


def test_an_execution_that_vanished_was_stopped_outside_datarecs() -> None:
    end = outcome_of_repair(RUN, recorded=None, file=NO_FILE, status=None)
    assert isinstance(end, RunErrored)
    assert end.error.code is RunErrorCode.UNKNOWN
    assert end.error.detail_code == "STOPPED_EXTERNALLY"
