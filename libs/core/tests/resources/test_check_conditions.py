"""What the result of a check says about a connection or job."""

import pytest

from datarecs_core.errors.base import ErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.errors.security import SecurityCode
from datarecs_core.errors.spec import SpecCode
from datarecs_core.resources.check_conditions import connection_conditions, valid_condition
from datarecs_core.resources.checks import Cause, CheckResult, CheckStep, StepState, failed_step

OK = CheckStep(source="a", name="login", state=StepState.OK)
REFUSED = CheckStep(
    source="a",
    name="login",
    state=StepState.FAIL,
    seen="refused the login",
    code="CONNECTION_FAILED",
    cause=Cause.CREDENTIALS,
    fix="check its secret",
)
UNFINISHED = CheckStep(
    source="a", name="check", state=StepState.FAIL, seen="no result", cause=Cause.CHECK
)


def failure(code: ErrorCode, name: str = "relation") -> CheckStep:
    return failed_step("a", name, code, "what is wrong")


@pytest.mark.parametrize(
    ("step", "states", "reason"),
    [
        (OK, "TTTT", "Checked"),
        (failure(RunDetail.CONNECTION_FAILED), "FUUF", "Unreachable"),
        (REFUSED, "TFUF", "CredentialsRefused"),
        (failure(SecurityCode.SECRET_UNAVAILABLE, "secret"), "UFUF", "SecretUnavailable"),
        (failure(RunDetail.PERMISSION_DENIED), "TTFF", "PrivilegeMissing"),
        (failure(RunDetail.NO_FILES), "TTFF", "SourceFailed"),
        (failure(SpecCode.UNKNOWN_COLUMN), "TTFF", "DeclarationInvalid"),
        (UNFINISHED, "UUUU", "CheckUnfinished"),
    ],
)
def test_each_failure_of_a_connection(step: CheckStep, states: str, reason: str) -> None:
    conditions = connection_conditions(CheckResult(steps=(OK, step)))
    assert [one.type for one in conditions] == [
        *("Reachable", "CredentialsValid", "SchemaReadable"),
        "Ready",
    ]
    assert "".join(one.status.value[0] for one in conditions) == states
    assert {one.reason for one in conditions if one.message} <= {reason}
    assert all(bool(one.message) == (one.status.value != "True") for one in conditions)


def test_a_connection_that_was_not_checked_is_unknown() -> None:
    assert {one.status.value for one in connection_conditions(None)} == {"Unknown"}
    assert {one.reason for one in connection_conditions(None)} == {"NotChecked"}


@pytest.mark.case("R60")
def test_the_message_of_a_refused_login_names_the_fix() -> None:
    _, credentials, *_ = connection_conditions(CheckResult(steps=(REFUSED,)))
    assert credentials.message == "refused the login; check its secret"


@pytest.mark.case("R61")
@pytest.mark.parametrize(
    ("steps", "status", "reason"),
    [
        ((OK,), "True", "Checked"),
        ((failure(SpecCode.TOLERANCE_KIND_MISMATCH),), "False", "ToleranceKindMismatch"),
        ((failure(RunDetail.COLUMN_NOT_FOUND),), "False", "ColumnNotFound"),
        ((failure(RunDetail.CONNECTION_FAILED),), "Unknown", "Unreachable"),
        ((REFUSED,), "Unknown", "CredentialsRefused"),
        ((failure(RunDetail.NO_FILES),), "Unknown", "SourceFailed"),
        ((UNFINISHED,), "Unknown", "CheckUnfinished"),
        ((REFUSED, failure(RunDetail.COLUMN_NOT_FOUND)), "False", "ColumnNotFound"),
    ],
)
def test_only_a_fault_of_the_declaration_makes_a_job_invalid(
    steps: tuple[CheckStep, ...], status: str, reason: str
) -> None:
    condition = valid_condition(CheckResult(steps=steps))
    assert (condition.status.value, condition.reason) == (status, reason)


def test_a_job_that_was_not_checked_is_unknown() -> None:
    assert valid_condition(None).status.value == "Unknown"
