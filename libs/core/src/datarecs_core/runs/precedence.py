"""Which of several causes becomes the run's one code: TIMED_OUT > CRASHED > QUERY_FAILED > UNKNOWN.

D19, over all that failed, independent of its order. A separate module because supervisor and exit
handler gather different evidence and must agree on the winner.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.model import RunError
from datarecs_core.runs.result_file import ReportedNode
from datarecs_core.runs.wording import storable_text

EXTRACTION = "extract-"
"""Names of steps that read a source begin with this."""

_RANK = {code: rank for rank, code in enumerate(RunErrorCode)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One cause among several."""

    code: RunErrorCode
    message: str
    detail_code: str | None = None
    order: tuple[str | int, ...] = ()
    """Smallest wins among equal codes; lower for surer evidence, then for the earlier failure."""

    def sort_key(self) -> tuple[object, ...]:
        """The sort key: no two different suspects are equal in it."""
        return (_RANK[self.code], self.order, self.detail_code or "", self.message)


def convict(suspects: Iterable[Suspect]) -> RunError:
    """The error of the run: the highest code; among equals the surest, earliest cause.

    Raises:
        ValueError: no suspect at all.
    """
    winner = min(suspects, key=Suspect.sort_key)
    return RunError(
        code=winner.code, message=storable_text(winner.message), detail_code=winner.detail_code
    )


def reported(node: ReportedNode) -> Suspect:
    """The report of a failed step; text patterns are never applied to its message (D19).

    Limits of a step are not the deadline of the run, so a step cannot report TIMED_OUT.
    """
    code = _reported_code(node)
    fallback = {
        RunErrorCode.QUERY_FAILED: RunDetail.QUERY_ERROR,
        RunErrorCode.UNKNOWN: RunDetail.COMPARISON_FAILED,
    }.get(code)
    detail = node.detail_code or (fallback.name if fallback else None)
    return Suspect(code=code, message=node.message, detail_code=detail, order=(0, node.name))


def _reported_code(node: ReportedNode) -> RunErrorCode:
    detail = RunDetail.__members__.get(node.detail_code or "")
    run_code = detail.run_code if detail else None
    if detail is RunDetail.STOPPED:
        return RunErrorCode.UNKNOWN
    if run_code is RunErrorCode.CRASHED or node.code == RunErrorCode.CRASHED:
        return RunErrorCode.CRASHED
    if node.name.startswith(EXTRACTION) or node.code == RunErrorCode.QUERY_FAILED:
        return RunErrorCode.QUERY_FAILED
    return RunErrorCode.UNKNOWN
