"""Argo's evidence: its texts, its escapings, its random order."""

import json
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.events import RunCompleted, RunErrored
from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core.runs.result_file import ChildOutcome, NoResult, ReportedNode, ResultFile
from datarecs_core.runs.workflow_end import end_of_workflow, suspect_of
from datarecs_core.runs.workflow_failures import FailedNode, go_unquoted, read_failures
from datarecs_testing.run_facts import a_summary, the_run

RUN = the_run(status=RunStatus.RUNNING)
MISSING = NoResult(RunDetail.RESULT_MISSING, "there is no result file")
GOOD = ResultFile(
    outcome=ChildOutcome.COMPLETED,
    result=RunResult.MATCHED,
    nodes=(),
    summary=a_summary(),
    pins=None,
    jvm_exit=None,
)


def a_node(message: str, name: str = "compare", *, at: str = "2026-11-20T06:00:00Z") -> FailedNode:
    return FailedNode(
        display_name=name,
        template_name="recon",
        message=message,
        phase="Failed",
        pod_name=f"pod-{name}",
        finished_at=at,
    )


def raw(*nodes: FailedNode) -> str:
    return json.dumps(
        [
            {
                "displayName": node.display_name,
                "message": node.message,
                "templateName": node.template_name,
                "phase": node.phase,
                "podName": node.pod_name,
                "finishedAt": node.finished_at,
            }
            for node in nodes
        ]
    )


def code_of(message: str, name: str = "compare") -> str:
    return suspect_of(a_node(message, name)).code.value


def the_error(
    *nodes: FailedNode, status: str = "Failed", file: ResultFile | NoResult = MISSING
) -> tuple[str, str | None, str]:
    end = end_of_workflow(RUN, status=status, failures=nodes, file=file)
    assert isinstance(end, RunErrored)
    return end.error.code.value, end.error.detail_code, end.error.message


@pytest.mark.case("L35")
@pytest.mark.parametrize(
    "message",
    [
        "Step exceeded its deadline",
        "activeDeadlineSeconds",
        "Pod was active on the node longer than the specified deadline",
        "exceeded deadline",
        "retry exceeded workflow deadline 2026-11-20",
        "Max duration limit exceeded",
        "DeadlineExceeded",
        "workflow exceeded the deadline",
    ],
)
def test_argos_words_for_the_deadline(message: str) -> None:
    assert code_of(message) == "TIMED_OUT"
    assert code_of(message, "extract-0") == "TIMED_OUT"


@pytest.mark.case("L35")
@pytest.mark.parametrize(
    "message",
    [
        "rpc error: code = DeadlineExceeded desc = slow",
        "context deadline exceeded",
        "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
        "deadlineexceeded",
    ],
)
def test_a_timeout_of_a_call_is_no_deadline_of_the_run(message: str) -> None:
    assert code_of(message) == "UNKNOWN"


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        ("OOMKilled (exit code 137)", "OUT_OF_MEMORY"),
        ("The node was low on resource: memory", "OUT_OF_MEMORY"),
        ("Error (exit code 139)", "KILLED"),
        ("Error (exit code 134)", "KILLED"),
        ("pod deleted", "TERMINATED"),
        ("Evicted", "TERMINATED"),
        ("node lost", "TERMINATED"),
    ],
)
def test_argos_words_for_a_crash(message: str, detail: str) -> None:
    suspect = suspect_of(a_node(message))
    assert (suspect.code, suspect.detail_code) == (RunErrorCode.CRASHED, detail)
    assert code_of("Error (exit code 1370)") == "UNKNOWN"


@pytest.mark.case("L37")
def test_the_step_names_a_query_unless_its_end_was_a_crash() -> None:
    assert code_of("Error (exit code 1)", "extract-0") == "QUERY_FAILED"
    by_template = replace(a_node("Error (exit code 1)"), template_name="extract-source")
    assert suspect_of(by_template).code is RunErrorCode.QUERY_FAILED
    assert code_of("main: OOMKilled (exit code 137)", "extract-0") == "CRASHED"


@pytest.mark.case("L37")
def test_a_reported_error_of_a_source_is_never_searched_for_words() -> None:
    node = ReportedNode(
        name="extract-0",
        code="QUERY_FAILED",
        detail_code=None,
        message='relation "memory_usage" does not exist',
    )
    file = replace(GOOD, outcome=ChildOutcome.ERRORED, result=None, nodes=(node,))
    suspect = the_error(a_node("Error (exit code 70)", "extract-0"), file=file)
    assert suspect[0] == "QUERY_FAILED"
    assert "memory_usage" in suspect[2]


def test_a_workflow_stopped_from_outside_is_recognised_at_any_step() -> None:
    for message in ("Stopped with strategy 'Stop'", "workflow shutdown with strategy:  Terminate"):
        suspect = the_error(a_node(message, "extract-0"))
        assert suspect[:2] == ("UNKNOWN", "STOPPED_EXTERNALLY")


def test_a_succeeded_workflow_has_the_outcome_of_its_file() -> None:
    end = end_of_workflow(RUN, status="Succeeded", failures=(), file=GOOD)
    assert isinstance(end, RunCompleted)
    assert end.result is RunResult.MATCHED


@pytest.mark.case("L34")
def test_a_succeeded_workflow_without_a_file_is_unknown() -> None:
    assert the_error(status="Succeeded")[:2] == ("UNKNOWN", "RESULT_MISSING")
    broken = NoResult(RunDetail.RESULT_INVALID, "it is not JSON")
    assert the_error(status="Succeeded", file=broken)[:2] == ("UNKNOWN", "RESULT_INVALID")


def test_a_failed_workflow_is_no_success_even_with_a_file() -> None:
    assert the_error(status="Error", file=GOOD)[0] == "UNKNOWN"


DEADLINE = a_node("Step exceeded its deadline", "compare")
CRASH = a_node("OOMKilled (exit code 137)", "extract-1")
QUERY = a_node("Error (exit code 1)", "extract-0", at="2026-11-20T05:00:00Z")
PARENT = a_node("child 'recon-1' failed", "recon")
SET = [PARENT, QUERY, CRASH, DEADLINE]


@pytest.mark.case("L36")
@given(st.permutations(SET))
def test_one_failure_set_has_one_code_and_one_message(nodes: list[FailedNode]) -> None:
    assert the_error(*nodes) == (
        "TIMED_OUT",
        "DEADLINE_EXCEEDED",
        "Step exceeded its deadline",
    )


@pytest.mark.case("L36")
@pytest.mark.parametrize("pair", list(combinations([DEADLINE, CRASH, QUERY, PARENT], 2)))
def test_of_each_pair_the_higher_code_wins(pair: tuple[FailedNode, FailedNode]) -> None:
    assert the_error(*pair) == the_error(*pair[::-1])
    assert the_error(*pair)[0] == suspect_of(pair[0]).code.value


@given(st.permutations([replace(QUERY, finished_at=str(n), message=str(n)) for n in range(3)]))
def test_among_equal_codes_the_earliest_node_wins(nodes: list[FailedNode]) -> None:
    assert the_error(*nodes)[2] == "0"


def go_quote(text: str) -> str:
    """Go's strconv.Quote, for what occurs here."""
    letters = []
    for letter in text:
        if letter in '"\\':
            letters.append("\\" + letter)
        elif letter == "\n":
            letters.append("\\n")
        elif ord(letter) < 0x20 or ord(letter) == 0x7F:
            letters.append(f"\\x{ord(letter):02x}")
        elif letter == "\U0001f600":
            letters.append("\\U0001f600")
        else:
            letters.append(letter)
    return '"' + "".join(letters) + '"'


@pytest.mark.case("L36")
def test_failures_are_read_through_every_layer_of_quoting() -> None:
    awkward = replace(QUERY, message='say "no"\nthen \\ and \x7f and \U0001f600 and größe')
    plain = raw(awkward, PARENT).replace("\\u007f", "\x7f")
    plain = plain.replace("\\ud83d\\ude00", "\U0001f600")
    for text in (plain, go_quote(plain), go_quote(go_quote(plain)), json.dumps(plain)):
        assert read_failures(text) == (awkward, PARENT)


@pytest.mark.case("L36")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        '"null"',
        "{{workflow.failures}}",
        "[",
        '"[',
        "{}",
        "[1, null]",
        "\\x",
        "[" * 9999,
    ],
)
def test_what_cannot_be_read_is_no_node(text: str) -> None:
    assert read_failures(text) == ()
    assert the_error(status="Failed")[:2] == ("UNKNOWN", None)


def test_text_quoted_without_end_is_skipped() -> None:
    text = raw(QUERY)
    for _ in range(6):
        text = json.dumps(text)
    assert read_failures(text) == ()


def test_go_escapes_become_text() -> None:
    assert go_unquoted(r'"\a\b\f\v\x41\101\u00e4\U0001f600\'\""') == "\a\b\f\vAAä\U0001f600'\""
    assert go_unquoted(r'"\xc3\xa4"') == "ä"
    assert go_unquoted(r"\xff") == "\N{REPLACEMENT CHARACTER}"
    assert go_unquoted(r"\ud800\UFFFFFFFF") == "\N{REPLACEMENT CHARACTER}" * 2


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    assert isinstance(read_failures(text), tuple)
    assert isinstance(read_failures('"' + text + '"'), tuple)


def test_a_long_message_is_cut() -> None:
    assert len(the_error(a_node("x" * 5000))[2]) == 2000
