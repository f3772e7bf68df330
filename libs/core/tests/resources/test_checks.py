"""Causes of failed steps, and what they mean for a declaration."""

import pytest

from datarecs_core.documents import from_document, to_document
from datarecs_core.errors.base import ErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.errors.security import SecurityCode
from datarecs_core.errors.spec import SpecCode
from datarecs_core.resources.checks import (
    Cause,
    CheckResult,
    CheckStep,
    StepState,
    cause_of,
    failed_step,
    known_code,
)

GOOD = CheckStep(source="a", name="login", state=StepState.OK, ms=2, seen="PostgreSQL 16")


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (SpecCode.TOLERANCE_KIND_MISMATCH, Cause.DECLARATION),
        (SpecCode.UNKNOWN_CONNECTION, Cause.DECLARATION),
        (RunDetail.COLUMN_NOT_FOUND, Cause.DECLARATION),
        (RunDetail.TYPE_MISMATCH, Cause.DECLARATION),
        (RunDetail.CONNECTION_FAILED, Cause.UNREACHABLE),
        (RunDetail.PERMISSION_DENIED, Cause.PRIVILEGES),
        (RunDetail.PATH_REFUSED, Cause.PRIVILEGES),
        (SecurityCode.SECRET_UNAVAILABLE, Cause.CREDENTIALS),
        (RunDetail.NO_FILES, Cause.SOURCE),
        (RunDetail.QUERY_ERROR, Cause.SOURCE),
        (RunDetail.SOURCE_UNSUPPORTED, Cause.SOURCE),
        (None, Cause.CHECK),
    ],
)
def test_each_code_has_one_cause(code: ErrorCode | None, cause: Cause) -> None:
    assert cause_of(code) is cause


def test_a_refused_login_is_no_unreachable_server() -> None:
    assert cause_of(RunDetail.CONNECTION_FAILED, login_refused=True) is Cause.CREDENTIALS


@pytest.mark.parametrize("name", ["MADE_UP", "", None, 7])
def test_other_names_are_no_codes(name: object) -> None:
    assert known_code(name) is None


def test_a_code_of_each_family_is_known() -> None:
    for code in (RunDetail.NO_FILES, SecurityCode.SECRET_REFUSED, SpecCode.UNKNOWN_COLUMN):
        assert known_code(code.name) is code


def test_a_result_is_read_back_from_its_document() -> None:
    failed = failed_step("b", "files", RunDetail.NO_FILES, "no file matches", ms=3)
    result = CheckResult(steps=(GOOD, failed))
    assert from_document(CheckResult, to_document(result)) == result
    assert failed.fix == RunDetail.NO_FILES.entry.remedy


def test_the_first_failure_of_a_cause() -> None:
    away = failed_step("a", "login", RunDetail.CONNECTION_FAILED, "away")
    fault = failed_step("", "plan", SpecCode.UNKNOWN_COLUMN, "no column")
    result = CheckResult(steps=(GOOD, away, fault))
    assert result.first_failure() is away
    assert result.first_failure(Cause.DECLARATION) is fault
    assert result.first_failure(Cause.PRIVILEGES) is None
    assert CheckResult(steps=(GOOD,)).first_failure() is None
