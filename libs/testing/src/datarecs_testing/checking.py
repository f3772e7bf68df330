"""Results of checks, and what workers do with due checks, without a source."""

from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_core.errors.spec import SpecCode
from datarecs_core.resources.checks import Cause, CheckResult, CheckStep, StepState, failed_step

GOOD = CheckResult(
    steps=(CheckStep(source="ledger", name="login", state=StepState.OK, ms=3, seen="PostgreSQL"),)
)
REFUSED = CheckResult(
    steps=(
        CheckStep(
            source="ledger",
            name="login",
            state=StepState.FAIL,
            seen="the server refused the login of user reader",
            code="CONNECTION_FAILED",
            cause=Cause.CREDENTIALS,
            fix="check its secret",
        ),
    )
)
WRONG_TYPE = CheckResult(
    steps=(
        failed_step("", "plan", SpecCode.TOLERANCE_KIND_MISMATCH, "ABSOLUTE does not fit the text"),
    )
)
UNFINISHED = CheckResult(
    steps=(
        CheckStep(
            source="a", name="check", state=StepState.FAIL, seen="no result", cause=Cause.CHECK
        ),
    )
)


def report_checks(unit: UnitOfWork, finder: WorkFinder, result: CheckResult = GOOD) -> int:
    """End every due check with a result, as workers do; how many there were."""
    count = 0
    while (leased := finder.lease_check()) is not None:
        with unit.begin(leased.tenant_id) as tx:
            resource = tx.resources.get_by_uid(leased.uid)
            assert resource is not None
            assert tx.checks.end(leased, result, generation=resource.generation)
            tx.resource_work.due_again(leased.uid)
        count += 1
    return count
