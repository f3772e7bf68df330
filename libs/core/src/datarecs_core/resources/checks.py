"""The result of a check of a connection or job against its real sources, and what it means.

A check opens the sources step by step, as `datarecs doctor`. A fault of the declaration is separate
from a source that cannot be opened now: only the first one stays until somebody edits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from datarecs_core.errors.base import ErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.errors.security import SecurityCode
from datarecs_core.errors.spec import SpecCode


class StepState(StrEnum):
    """As in the table of `datarecs doctor`."""

    OK = "ok"
    FAIL = "fail"
    SKIPPED = "skipped"


class Cause(StrEnum):
    """Who or what must change, so that a failed step succeeds."""

    DECLARATION = "DECLARATION"
    """The connection or job does not fit its sources."""
    CREDENTIALS = "CREDENTIALS"
    """The secret is not available, or the server refuses it."""
    PRIVILEGES = "PRIVILEGES"
    """The login is accepted and may not read, or the operator does not allow the place."""
    UNREACHABLE = "UNREACHABLE"
    SOURCE = "SOURCE"
    """The source was reached; its relation or files cannot be read now."""
    CHECK = "CHECK"
    """The check itself did not end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStep:
    """One step; no text holds a secret or a value of a source."""

    source: str
    """Source of the job, or the connection; empty for a step over all sources."""
    name: str
    state: StepState
    ms: int | None = None
    """Duration; None for a step that was not timed."""
    seen: str = ""
    """The result; of a failed step what is wrong."""
    code: str | None = None
    """Wire name of the error code of a failed step."""
    cause: Cause | None = None
    """Set exactly for failed steps."""
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Every step in the order of the check; the first failed step ends the steps of its source."""

    steps: tuple[CheckStep, ...]

    def first_failure(self, *causes: Cause) -> CheckStep | None:
        """The first failed step with one of the causes; of any cause if none is named."""
        return next(
            (
                step
                for step in self.steps
                if step.state is StepState.FAIL and (not causes or step.cause in causes)
            ),
            None,
        )


FAMILIES: tuple[type[ErrorCode], ...] = (RunDetail, SecurityCode, SpecCode)
"""The codes of faults of sources and declarations."""

_CAUSES: Mapping[ErrorCode, Cause] = {
    RunDetail.COLUMN_NOT_FOUND: Cause.DECLARATION,
    RunDetail.AMBIGUOUS_COLUMN: Cause.DECLARATION,
    RunDetail.TYPE_MISMATCH: Cause.DECLARATION,
    RunDetail.ZONE_REQUIRED: Cause.DECLARATION,
    RunDetail.CONNECTION_FAILED: Cause.UNREACHABLE,
    RunDetail.PERMISSION_DENIED: Cause.PRIVILEGES,
    RunDetail.PATH_REFUSED: Cause.PRIVILEGES,
    SecurityCode.SECRET_REFUSED: Cause.CREDENTIALS,
    SecurityCode.SECRET_UNAVAILABLE: Cause.CREDENTIALS,
    SecurityCode.SECRET_TAMPERED: Cause.CREDENTIALS,
    SecurityCode.URL_REFUSED: Cause.UNREACHABLE,
    SecurityCode.BLOCKED_ADDRESS: Cause.UNREACHABLE,
}


def known_code(name: object) -> ErrorCode | None:
    """The code with this wire name; None for any other text."""
    return next(
        (
            family.__members__[name]
            for family in FAMILIES
            if isinstance(name, str) and name in family.__members__
        ),
        None,
    )


def cause_of(code: ErrorCode | None, *, login_refused: bool = False) -> Cause:
    """Why a step failed.

    Args:
        code: of the error; None for an error without a code, which is a defect.
        login_refused: the server was reached and refused the credentials.
    """
    if login_refused:
        return Cause.CREDENTIALS
    if code is None:
        return Cause.CHECK
    if isinstance(code, SpecCode):
        return Cause.DECLARATION
    return _CAUSES.get(code, Cause.SOURCE)


def failed_step(
    source: str, name: str, code: ErrorCode, seen: str, *, ms: int | None = None
) -> CheckStep:
    """A failed step with the cause and the remedy of its code."""
    return CheckStep(
        source=source,
        name=name,
        state=StepState.FAIL,
        ms=ms,
        seen=seen,
        code=code.name,
        cause=cause_of(code),
        fix=code.entry.remedy,
    )
