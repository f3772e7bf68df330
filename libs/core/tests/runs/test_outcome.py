"""The evidence table of the supervisor, and D19's precedence over every mixture of it."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.events import RunCompleted, RunErrored
from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core.runs.outcome import Evidence, classify
from datarecs_core.runs.precedence import Suspect, convict, reported
from datarecs_core.runs.result_file import ChildOutcome, NoResult, ReportedNode, ResultFile
from datarecs_testing.run_facts import a_summary, the_run

RUN = the_run(status=RunStatus.RUNNING)
MISSING = NoResult(RunDetail.RESULT_MISSING, "there is no result file")
INVALID = NoResult(RunDetail.RESULT_INVALID, "it is not JSON")
GOOD = ResultFile(
    outcome=ChildOutcome.COMPLETED,
    result=RunResult.UNMATCHED,
    nodes=(),
    summary=a_summary(),
    pins=None,
    jvm_exit=None,
)


def a_node(
    name: str = "compare", code: str = "UNKNOWN", detail: str | None = None, message: str = "m"
) -> ReportedNode:
    return ReportedNode(name=name, code=code, detail_code=detail, message=message)


def failed(*nodes: ReportedNode, jvm_exit: int | None = None) -> ResultFile:
    return replace(
        GOOD,
        outcome=ChildOutcome.ERRORED,
        result=None,
        nodes=nodes or (a_node(),),
        jvm_exit=jvm_exit,
    )


def the_code(evidence: Evidence) -> tuple[str, str | None]:
    end = classify(RUN, evidence)
    assert isinstance(end, RunErrored)
    return end.error.code.value, end.error.detail_code


@pytest.mark.case("L34")
@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(file=GOOD, exit_code=0),
        Evidence(file=GOOD, signal=11),
        Evidence(file=GOOD, exit_code=1, gateway_lost=True, jvm_exit=3),
        Evidence(file=GOOD, out_of_memory=True, signal=9),
        Evidence(file=GOOD, stopped=True, signal=15),
    ],
)
def test_a_valid_file_decides_alone_whatever_tear_down_does(evidence: Evidence) -> None:
    end = classify(RUN, evidence)
    assert isinstance(end, RunCompleted)
    assert (end.result, end.summary, end.attempt) == (RunResult.UNMATCHED, GOOD.summary, 1)
    assert end.workflow_name == RUN.execution_name


@pytest.mark.case("L29")
@pytest.mark.parametrize(
    ("evidence", "code", "detail"),
    [
        (Evidence(file=GOOD, deadline_fired=True), "TIMED_OUT", "DEADLINE_EXCEEDED"),
        (Evidence(file=MISSING, out_of_memory=True), "CRASHED", "OUT_OF_MEMORY"),
        (Evidence(file=MISSING, exit_code=70, jvm_exit=3), "CRASHED", "OUT_OF_MEMORY"),
        (Evidence(file=failed(jvm_exit=3), exit_code=70), "CRASHED", "OUT_OF_MEMORY"),
        (
            Evidence(file=failed(a_node(detail="OUT_OF_MEMORY")), exit_code=70),
            "CRASHED",
            "OUT_OF_MEMORY",
        ),
        (Evidence(file=MISSING, signal=9), "CRASHED", "KILLED"),
        (Evidence(file=MISSING, exit_code=1), "CRASHED", "TERMINATED"),
        (Evidence(file=INVALID, exit_code=134), "CRASHED", "TERMINATED"),
        (Evidence(file=MISSING, exit_code=1, gateway_lost=True), "CRASHED", "DRIVER_LOST"),
        (
            Evidence(file=MISSING, signal=9, stopped=True, unresponsive=True),
            "CRASHED",
            "UNRESPONSIVE",
        ),
        (
            Evidence(file=failed(a_node("extract-1", "QUERY_FAILED", "COLUMN_NOT_FOUND"))),
            "QUERY_FAILED",
            "COLUMN_NOT_FOUND",
        ),
        (Evidence(file=failed(a_node("extract-1"))), "QUERY_FAILED", "QUERY_ERROR"),
        (
            Evidence(file=failed(a_node("compare:bank", detail="TYPE_MISMATCH")), exit_code=70),
            "UNKNOWN",
            "TYPE_MISMATCH",
        ),
        (Evidence(file=MISSING, exit_code=0), "UNKNOWN", "RESULT_MISSING"),
        (Evidence(file=INVALID, exit_code=0), "UNKNOWN", "RESULT_INVALID"),
        (Evidence(file=MISSING, exit_code=75), "UNKNOWN", "STOPPED"),
        (Evidence(file=MISSING, signal=15, stopped=True), "UNKNOWN", "STOPPED"),
    ],
)
def test_the_evidence_table(evidence: Evidence, code: str, detail: str) -> None:
    assert the_code(evidence) == (code, detail)


@pytest.mark.case("L38")
def test_a_comparator_failure_has_no_separate_code_on_the_run() -> None:
    assert the_code(Evidence(file=failed(a_node(code="COMPARISON_FAILED")), exit_code=70)) == (
        "UNKNOWN",
        "COMPARISON_FAILED",
    )


@pytest.mark.case("L37")
def test_words_in_a_sources_error_are_no_evidence() -> None:
    node = a_node("extract-0", "QUERY_FAILED", None, 'relation "memory_usage" does not exist')
    end = classify(RUN, Evidence(file=failed(node), exit_code=70))
    assert isinstance(end, RunErrored)
    assert end.error.code is RunErrorCode.QUERY_FAILED
    assert "memory_usage" in end.error.message


def test_a_step_cannot_declare_the_runs_deadline() -> None:
    node = a_node("extract-0", "TIMED_OUT", "STATEMENT_TIMEOUT")
    assert reported(node).code is RunErrorCode.QUERY_FAILED


def test_a_broken_file_has_the_reason_in_its_message() -> None:
    end = classify(RUN, Evidence(file=INVALID, exit_code=0))
    assert isinstance(end, RunErrored)
    assert "it is not JSON" in end.error.message


@pytest.mark.parametrize("pair", list(combinations(RunErrorCode, 2)))
def test_of_each_pair_of_codes_the_higher_one_wins(pair: tuple[RunErrorCode, ...]) -> None:
    for order in (pair, pair[::-1]):
        suspects = [Suspect(code=code, message=code.value) for code in order]
        assert convict(suspects).code is pair[0]


FLAGS = st.booleans()
EVIDENCE = st.builds(
    Evidence,
    file=st.sampled_from(
        [GOOD, MISSING, INVALID, failed(), failed(a_node("extract-0")), failed(jvm_exit=3)]
    ),
    exit_code=st.sampled_from([None, 0, 1, 70, 75]),
    signal=st.sampled_from([None, 9, 15]),
    stopped=FLAGS,
    deadline_fired=FLAGS,
    out_of_memory=FLAGS,
    jvm_exit=st.sampled_from([None, 0, 3]),
    gateway_lost=FLAGS,
    unresponsive=FLAGS,
)


@given(EVIDENCE)
def test_every_mixture_of_evidence_has_one_outcome(evidence: Evidence) -> None:
    end = classify(RUN, evidence)
    if isinstance(end, RunCompleted):
        assert evidence.file is GOOD
        assert not evidence.deadline_fired
    elif evidence.deadline_fired:
        assert end.error.code is RunErrorCode.TIMED_OUT
    elif evidence.out_of_memory:
        assert end.error.detail_code == "OUT_OF_MEMORY"
    assert classify(RUN, evidence) == end


@given(st.permutations([a_node("b", detail="OVERFLOW"), a_node("a", detail="NULL_KEYS")]))
def test_among_equals_the_order_of_the_report_does_not_matter(nodes: list[ReportedNode]) -> None:
    assert the_code(Evidence(file=failed(*nodes), exit_code=70)) == ("UNKNOWN", "NULL_KEYS")
