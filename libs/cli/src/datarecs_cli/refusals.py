"""Errors for refusals of the server and for missing answers, with what, where, why and fix.

Only this module maps an HTTP status to an exit code.
"""

from collections.abc import Iterator, Mapping

from datarecs_cli.commands.errors import catalogue
from datarecs_cli.exit_codes import ExitCode
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError, ErrorCode
from datarecs_core.errors.client import ClientCode
from datarecs_specs.kinds import KINDS

MAX_FAULTS = 100
_RETRYABLE = frozenset({401, 403, 409, 412, 428, 429})
"""Statuses below 500 about permission or timing, not about the content of the request."""
_SERVER_FAULT = 500
_LISTED = frozenset(entry.path for entry in KINDS.values())
"""What `datarecs get` lists."""
_LISTS = {
    "catalog": "List what the catalogue has with `datarecs catalog ls`.",
    "emails": "List the mails with `datarecs notify log`.",
    "webhook-deliveries": "List the deliveries with `datarecs webhook deliveries`.",
    "webhook-resends": "List the deliveries with `datarecs webhook deliveries`.",
}
"""What other commands list, by the first part of the path."""


class ServerUnreachableError(DatarecsError):
    """No answer after all tries."""

    code = ClientCode.SERVER_UNREACHABLE
    exit_code = ExitCode.SERVER

    def __init__(self, *, server: str, reason: str) -> None:
        super().__init__(f"{server} does not answer: {reason}")
        self.server = server


class UnexpectedAnswerError(DatarecsError):
    """An answer that is not from the datarecs API."""

    code = ClientCode.UNEXPECTED_ANSWER
    exit_code = ExitCode.SERVER

    def __init__(self, *, where: str, what: str) -> None:
        super().__init__(f"{where} answered {what}")
        self.where = where


class WaitedTooLongError(DatarecsError):
    """--timeout has passed; the run or capture continues."""

    code = ClientCode.WAITED_TOO_LONG
    exit_code = ExitCode.ERRORED

    def __init__(self, *, what: str, seconds: float, fix: str = "") -> None:
        super().__init__(f"{what} had not ended after {seconds:g} s")
        self.fix = fix or f"follow it with: datarecs watch {what.removeprefix('run ')}"


class RefusedError(DatarecsError):
    """A problem of the server (RFC 9457), with all its faults."""

    def __init__(self, *, where: str, status: int, problem: Mapping[str, object]) -> None:
        """`where` is method and path; missing members of the problem are left out."""
        known = catalogue().get(str(problem.get("code", "")))
        self.code: ErrorCode = known or ClientCode.UNEXPECTED_ANSWER
        self.status = status
        self.reason = str(problem.get("reason", ""))
        self.exit_code = _exit_code(status, self.code)
        if self.code is ApiCode.NOT_FOUND:
            self.fix = _fix_of_missing(where)
        detail = problem.get("detail") or problem.get("title") or "refused without a reason"
        # The code says it for a request that was understood; the path would be noise.
        is_clear = known is not None and status < _SERVER_FAULT
        lines = [str(detail) if is_clear else f"{detail} ({where} answered {status})"]
        if known is None:
            lines.append(f"the code {problem.get('code')!s} is unknown to this client")
        lines += _fault_lines(problem.get("errors"))
        if status >= _SERVER_FAULT and problem.get("trace_id"):
            lines.append(f"trace id {problem['trace_id']}")
        super().__init__("\n".join(lines))


def _fix_of_missing(where: str) -> str:
    """Names the command that lists what the request looked for; "" if there is none."""
    method, _, path = where.partition(" ")
    first = path.removeprefix("/api/v1/").partition("?")[0].split("/")[0]
    if first in _LISTS:
        return _LISTS[first]
    if (method, first) == ("POST", "capture-jobs"):
        first = "connections"
    if first in _LISTED:
        return f"List the existing ones with `datarecs get {first}`."
    return ""


def _exit_code(status: int, code: ErrorCode) -> ExitCode:
    if code is ApiCode.JOB_NOT_READY:
        return ExitCode.USAGE  # the declaration is at fault: trying again does not help
    if status in _RETRYABLE or status >= _SERVER_FAULT:
        return ExitCode.SERVER
    return ExitCode.USAGE


def _fault_lines(errors: object) -> Iterator[str]:
    listed = errors if isinstance(errors, list) else []
    faults = [one for one in listed if isinstance(one, Mapping)]
    for fault in faults[:MAX_FAULTS]:
        hint = f"; {fault['hint']}" if fault.get("hint") else ""
        place = f"{fault['pointer']}: " if fault.get("pointer") else ""
        yield f"{fault.get('code', '')} {place}{fault.get('message', '')}{hint}".strip()
    if len(faults) > MAX_FAULTS:
        yield f"{len(faults) - MAX_FAULTS} more"
