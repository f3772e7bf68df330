"""JUnit XML of a run: what fails, what is an error, and that nothing foreign breaks it."""

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from datarecs_core.jobs.vocabulary import OnUnmatched
from datarecs_reports.junit import ending_junit, run_junit
from datarecs_testing.comparisons import a_measure, absolute, aggregate_by, counting, rows_by
from datarecs_testing.finished_runs import (
    RUN,
    balance_check,
    books,
    document,
    document_with_recheck,
)
from datarecs_testing.tables import a_job, a_table


def parsed(written: bytes) -> ET.Element:
    return ET.fromstring(written)  # noqa: S314  made one line above


def cases(root: ET.Element) -> dict[str, str]:
    """Name of each case and what is inside: the tag of its failure, or passed."""
    return {
        f"{suite.get('name')}/{case.get('name')}": next((one.tag for one in case), "passed")
        for suite in root.findall("testsuite")
        for case in suite.findall("testcase")
    }


def test_the_sample_of_source_001_fails_by_its_keys_and_its_measure() -> None:
    tables = books()
    root = parsed(run_junit(document(balance_check(tables), tables)))
    assert cases(root) == {
        "balance-check/keys": "failure",
        "balance-check/total_amount": "failure",
    }
    messages = [each.get("message") for each in root.iter("failure")]
    assert messages == [
        "1,005 groups: 5 only in ledger, 20 only in exports",
        "5 of 980 groups outside ABSOLUTE 0.01: 5 outside",
    ]
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "2", "0")


@pytest.mark.case("P57")
def test_what_was_in_flight_is_a_property_and_no_failure() -> None:
    root = parsed(run_junit(document_with_recheck()))
    properties = {each.get("name"): each.get("value") for each in root.iter("property")}
    assert properties["in_flight_resolved"] == "1"
    failing = {case for case, tag in cases(root).items() if tag == "failure"}
    assert failing == {"rows/keys", "rows/v"}


def test_a_matched_run_passes_every_case() -> None:
    tables = [a_table(name, "k int, v int", (1, 1)) for name in ("ledger", "lake")]
    root = parsed(run_junit(document(a_job(tables, rows_by("k", a_measure("v"))), tables)))
    assert set(cases(root).values()) == {"passed"}
    assert root.get("failures") == "0"


def test_a_stage_that_was_not_executed_is_skipped() -> None:
    tables = [
        a_table("ledger", "k int, v int", (1, 1)),
        a_table("lake", "k int, v int", (1, 2), (2, 2)),
    ]
    job = a_job(tables, counting(on_unmatched=OnUnmatched.STOP), aggregate_by("k", a_measure("v")))
    root = parsed(run_junit(document(job, tables)))
    assert list(cases(root).values()) == ["passed", "failure", "skipped"]
    assert root.get("skipped") == "1"


@pytest.mark.parametrize(
    ("run", "tag"),
    [
        ({**RUN, "status": "CANCELLED"}, "skipped"),
        (
            {
                **RUN,
                "status": "ERRORED",
                "error": {"code": "QUERY_FAILED", "detail_code": "NO_FILES", "message": "\x00<a&b"},
            },
            "error",
        ),
        ({"status": "ERRORED"}, "error"),
    ],
)
def test_a_run_without_a_verdict_never_passes(run: dict[str, Any], tag: str) -> None:
    root = parsed(ending_junit(run))
    assert list(cases(root).values()) == [tag]
    if tag == "error" and "error" in run:
        (error,) = root.iter("error")
        assert (error.get("type"), error.get("message")) == ("NO_FILES", "\\x00<a&b")


@pytest.mark.case("P64")
def test_no_value_of_a_row_stands_in_it() -> None:
    tables = [
        a_table("ledger", "k text, v text", ("key-secret", "one-secret")),
        a_table("lake", "k text, v text", ("key-secret", "other-secret")),
    ]
    job = a_job(tables, rows_by("k", a_measure("v")))
    assert b"secret" not in run_junit(document(job, tables))


def test_a_hostile_name_stays_text() -> None:
    name = 'v"><script>\x1b&'
    tables = [a_table("ledger", "k int, v int", (1, 1)), a_table("lake", "k int, v int", (1, 2))]
    made = document(a_job(tables, rows_by("k", a_measure("v", absolute("0")))), tables)
    made["proof"]["stages"][0]["measures"][0]["name"] = name
    assert f"rows/{name}".replace("\x1b", "\\x1b") in cases(parsed(run_junit(made)))
