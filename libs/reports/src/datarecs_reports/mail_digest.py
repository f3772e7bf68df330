"""The texts of a digest and of a notice: one line per run, or a message about the platform.

`mail_words` has the texts of mails about one run.
"""

from collections.abc import Sequence

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.notifications.content import DigestContent, DigestLine
from datarecs_core.notifications.evaluation import MailKind
from datarecs_core.notifications.mail import Notice
from datarecs_core.notifications.rule import ERRORED
from datarecs_core.runs.model import RunResult
from datarecs_reports.figures import count
from datarecs_reports.mail_tables import Table, clean, cut_table, single_gap
from datarecs_reports.mail_words import EDGES, PREFIX, Link, MailWords, instant

_SIGNS = ("✖", "▲", "●")
"""Worst first."""
MAX_LINKS = 20


def digest_words(content: DigestContent, *, base_url: str, most_rows: int) -> MailWords:
    """The words of one digest, the worst outcome first.

    Args:
        content: the runs.
        base_url: without trailing slash; every link starts with it.
        most_rows: most rows of the table; further rows are counted.
    """
    lines = sorted(content.lines, key=lambda line: (_SIGNS.index(_sign(line)), line.finalised_at))
    shares = {sign: sum(_sign(line) == sign for line in lines) for sign in _SIGNS}
    counted = ", ".join(f"{shares[sign]} {sign}" for sign in ("▲", "✖", "●") if shares[sign])
    worst = _sign(lines[0]) if lines else "●"
    rules = ", ".join(map(clean, content.rules))
    runs = "1 run" if len(lines) == 1 else f"{count(len(lines))} runs"
    return MailWords(
        subject=f"{PREFIX} {runs}: {counted}",
        sign=worst,
        headline=runs,
        title=counted,
        edge=EDGES[worst],
        sentences=(),
        facts=(),
        tables=(_table(lines, most_rows),),
        next_steps=(),
        links=tuple(_link(line, base_url) for line in lines[: min(MAX_LINKS, most_rows)]),
        footer=(
            f"You get this mail because of notification rule {rules}.",
            f"Collected until {instant(content.finalised_at)}",
        ),
        unsubscribe=f"{base_url}{content.unsubscribe_path}" if content.unsubscribe_path else "",
    )


def _sign(line: DigestLine) -> str:
    if line.outcome.startswith(ERRORED):
        return "✖"
    return "●" if line.outcome == RunResult.MATCHED else "▲"


def _table(lines: Sequence[DigestLine], most_rows: int) -> Table:
    rows = [
        (
            f"{_sign(line)} {_outcome(line)}",
            clean(line.job_name),
            instant(line.finalised_at),
            _difference(line),
        )
        for line in lines
    ]
    head = ("Outcome", "Job", "Finalised", "Difference")
    return cut_table("Runs", head, rows, most_rows, numbers_from=3)


def _outcome(line: DigestLine) -> str:
    word = line.outcome.removeprefix(f"{ERRORED}:")
    if word == RunErrorCode.UNKNOWN:
        word = ERRORED
    match line.kind:
        case MailKind.RECOVERY:
            return f"{word} again"
        case MailKind.REMINDER:
            return f"still {word}"
        case _:
            return word


def _difference(line: DigestLine) -> str:
    if line.outcome != RunResult.UNMATCHED or line.summary is None:
        return ""
    gap = single_gap(line.summary)
    if gap is not None:
        return gap
    unmatched, compared = line.summary.rows_unmatched, line.summary.rows_compared
    return f"{count(unmatched)} of {count(compared)} groups"


def _link(line: DigestLine, base_url: str) -> Link:
    path = line.report_path or f"/api/v1/runs/{line.run_id}/report"
    when = line.finalised_at.strftime("%H:%M")
    return Link(label=f"{clean(line.job_name)} {when}", url=f"{base_url}{path}")


def notice_words(notice: Notice) -> MailWords:
    """The words of a notice; it has no links, because its subject needs a sign-in."""
    sign = "●" if notice.is_good else "▲"
    return MailWords(
        subject=f"{PREFIX} {sign} {clean(notice.subject)}",
        sign=sign,
        headline=clean(notice.headline),
        title="",
        edge=EDGES[sign],
        sentences=tuple(map(clean, notice.sentences)),
        facts=tuple((clean(label), clean(value)) for label, value in notice.facts),
        tables=(),
        next_steps=(),
        links=(),
        footer=("You get this mail because your address is named for alerts of the platform.",),
    )
