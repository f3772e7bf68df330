"""From the result of a check to the conditions of a connection or job.

A fault of the declaration makes a job invalid. A source that cannot be opened leaves it unknown,
because the job may be right; runs of it may start.
"""

from dataclasses import dataclass
from enum import StrEnum

from datarecs_core.resources.checks import Cause, CheckResult, CheckStep
from datarecs_core.resources.conditions import Condition, ConditionType, Truth
from datarecs_core.resources.reconciling import RECONCILED
from datarecs_core.resources.resource import Kind

NOT_CHECKED = "NotChecked"
_WAITS = "no worker has checked this declaration yet; a reconciliation-worker does within seconds"


class CheckCondition(StrEnum):
    """Conditions of a connection, in the order in which they are shown."""

    REACHABLE = "Reachable"
    CREDENTIALS_VALID = "CredentialsValid"
    SCHEMA_READABLE = "SchemaReadable"


_OF_SINKS = frozenset(
    map(
        str,
        (
            ConditionType.COMMITTING,
            ConditionType.LAGGING,
            ConditionType.FENCED,
            ConditionType.PROVEN,
        ),
    )
)


def condition_types(kind: Kind) -> frozenset[str]:
    """Every condition that an object of the kind may have; empty for kinds without a controller."""
    if kind not in RECONCILED:
        return frozenset()
    every = frozenset(map(str, ConditionType))
    if kind is Kind.SINK_TABLE:
        return every - {str(ConditionType.PROGRESSING)}
    every -= _OF_SINKS
    if kind is Kind.CONNECTION:
        return (every | frozenset(map(str, CheckCondition))) - {
            *map(str, (ConditionType.REFERENCES_RESOLVED, ConditionType.PROGRESSING))
        }
    if kind is Kind.CAPTURE:
        return every - {str(ConditionType.DELETION_BLOCKED)}
    return every - {*map(str, (ConditionType.DELETION_BLOCKED, ConditionType.PROGRESSING))}


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The three conditions of a connection after a failed step."""

    reachable: Truth
    credentials: Truth
    schema: Truth
    reason: str


_T, _F, _U = Truth.TRUE, Truth.FALSE, Truth.UNKNOWN
_OUTCOMES = {
    Cause.UNREACHABLE: _Outcome(_F, _U, _U, "Unreachable"),
    Cause.CREDENTIALS: _Outcome(_T, _F, _U, "CredentialsRefused"),
    Cause.PRIVILEGES: _Outcome(_T, _T, _F, "PrivilegeMissing"),
    Cause.SOURCE: _Outcome(_T, _T, _F, "SourceFailed"),
    Cause.DECLARATION: _Outcome(_T, _T, _F, "DeclarationInvalid"),
    Cause.CHECK: _Outcome(_U, _U, _U, "CheckUnfinished"),
}
_SECRET_UNAVAILABLE = _Outcome(_U, _F, _U, "SecretUnavailable")


def connection_conditions(result: CheckResult | None) -> tuple[Condition, ...]:
    """Reachable, CredentialsValid, SchemaReadable and Ready.

    Args:
        result: of the current declaration; None: not checked yet.
    """
    if result is None:
        outcome, message = _Outcome(_U, _U, _U, NOT_CHECKED), _WAITS
    elif (failure := result.first_failure()) is None:
        outcome, message = _Outcome(_T, _T, _T, "Checked"), ""
    else:
        outcome, message = _outcome_of(failure), words_of(failure)
    states = (outcome.reachable, outcome.credentials, outcome.schema)
    claims = zip(CheckCondition, states, strict=True)
    return (
        *(_claim(name, state, outcome.reason, message) for name, state in claims),
        _claim(ConditionType.READY, _together(states), outcome.reason, message),
    )


def valid_condition(result: CheckResult | None) -> Condition:
    """Valid of a job: whether it fits its sources.

    Args:
        result: of the current declaration; None: not checked yet.
    """
    if result is None:
        return _claim(ConditionType.VALID, _U, NOT_CHECKED, _WAITS)
    if (fault := result.first_failure(Cause.DECLARATION)) is not None:
        return _claim(ConditionType.VALID, _F, _reason_of(fault), words_of(fault))
    if (failure := result.first_failure()) is not None:
        reason = _outcome_of(failure).reason
        return _claim(ConditionType.VALID, _U, reason, words_of(failure))
    return _claim(ConditionType.VALID, _T, "Checked", "")


def words_of(step: CheckStep) -> str:
    """What failed and what to do."""
    fix = f"; {step.fix}" if step.fix else ""
    return f"{step.seen}{fix}"


def _outcome_of(failure: CheckStep) -> _Outcome:
    if failure.cause is Cause.CREDENTIALS and failure.name == "secret":
        return _SECRET_UNAVAILABLE
    return _OUTCOMES[failure.cause or Cause.CHECK]


def _reason_of(fault: CheckStep) -> str:
    """`TOLERANCE_KIND_MISMATCH` as a reason: `ToleranceKindMismatch`."""
    words = (fault.code or "DECLARATION_INVALID").split("_")
    return "".join(word.capitalize() for word in words)


def _together(states: tuple[Truth, ...]) -> Truth:
    if _F in states:
        return _F
    return _U if _U in states else _T


def _claim(name: str, status: Truth, reason: str, message: str) -> Condition:
    """A message stands where something is not true."""
    is_true = status is _T
    return Condition(
        type=name,
        status=status,
        reason="Checked" if is_true else reason,
        message="" if is_true else message,
    )
