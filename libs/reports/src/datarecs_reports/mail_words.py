"""The content of a mail about a run: subject, sentences, numbers, tables, links.

Both parts of a mail are rendered from this value, so that they have the same facts. Only this
module decides the words of an outcome.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.notifications.content import MailContent, StageFacts
from datarecs_core.notifications.evaluation import MailKind
from datarecs_core.notifications.rule import ERRORED, Detail
from datarecs_core.runs.model import RunResult
from datarecs_reports.figures import count, percent
from datarecs_reports.mail_tables import (
    Table,
    cause_words,
    clean,
    cut_table,
    difference_tables,
    single_gap,
)

PREFIX = "[datarecs]"
MAX_ERROR = 500
NO_VERDICT = "No verdict exists: the sources were neither found equal nor different."


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    label: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MailWords:
    """The content of both parts, in order."""

    subject: str
    sign: str
    """●, ▲ or ✖, because colour alone must not show an outcome."""
    headline: str
    title: str
    """The subject: the job, or the runs of a digest."""
    edge: str
    """Colour of the edge, readable on light and dark."""
    sentences: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    next_steps: tuple[str, ...]
    """Commands to copy."""
    links: tuple[Link, ...]
    footer: tuple[str, ...]
    unsubscribe: str = ""
    """URL of the page to unsubscribe; empty if there is none."""


EDGES = {"●": "#16a34a", "▲": "#ea580c", "✖": "#dc2626"}


def mail_words(content: MailContent, *, base_url: str, most_rows: int) -> MailWords:
    """The words of one mail.

    Args:
        content: the facts.
        base_url: without trailing slash; every link starts with it.
        most_rows: most rows of each table; further rows are counted.
    """
    sign, headline = _headline(content)
    prefix = f"{PREFIX} [test]" if content.kind is MailKind.TEST else PREFIX
    return MailWords(
        subject=f"{prefix} {_subject(content, sign)}",
        sign=sign,
        headline=headline,
        title=_job(content),
        edge=EDGES[sign],
        sentences=tuple(_sentences(content)),
        facts=tuple(_facts(content)),
        tables=tuple(_tables(content, most_rows)),
        next_steps=tuple(_next_steps(content)),
        links=tuple(_links(content, base_url)),
        footer=_footer(content),
        unsubscribe=f"{base_url}{content.unsubscribe_path}" if content.unsubscribe_path else "",
    )


def _code(content: MailContent) -> str:
    """MATCHED, UNMATCHED, or the run-level code."""
    return content.outcome.removeprefix(f"{ERRORED}:")


def _job(content: MailContent) -> str:
    return clean(content.job_name)


def _detail_code(content: MailContent) -> str:
    code = content.error.detail_code if content.error else None
    return f" ({clean(code)})" if code else ""


def _headline(content: MailContent) -> tuple[str, str]:
    still = "still " if content.kind is MailKind.REMINDER else ""
    match _code(content):
        case RunResult.MATCHED:
            again = " again" if content.kind is MailKind.RECOVERY else ""
            return "●", f"{still}MATCHED{again}"
        case RunResult.UNMATCHED:
            return "▲", f"{still}UNMATCHED"
        case RunErrorCode.UNKNOWN:
            return "✖", f"{still}ERRORED{_detail_code(content)}"
        case code:
            return "✖", f"{still}{code}{_detail_code(content)}"


def _subject(content: MailContent, sign: str) -> str:
    subject = f"{sign} {_headline(content)[1]} {_job(content)}"
    summary = content.summary
    gap = single_gap(summary)
    if content.kind is MailKind.REMINDER and content.background.since:
        return f"{subject} · since {content.background.since:%Y-%m-%d}"
    match _code(content):
        case RunResult.UNMATCHED if gap is not None:
            return f"{subject} · gap {gap}"
        case RunResult.UNMATCHED if summary:
            unmatched, compared = count(summary.rows_unmatched), count(summary.rows_compared)
            return f"{subject} · {unmatched} of {compared} groups"
        case RunErrorCode.QUERY_FAILED if content.failed_source:
            return f"{subject} · source {clean(content.failed_source)}"
        case RunErrorCode.UNKNOWN:
            return f"{subject} · cause unknown"
        case _:
            return subject


def _sentences(content: MailContent) -> Iterator[str]:
    match _code(content):
        case RunResult.MATCHED:
            yield from _matched(content)
        case RunResult.UNMATCHED:
            yield from _unmatched(content)
        case _:
            yield from _errored(content)


def _matched(content: MailContent) -> Iterator[str]:
    sources = f"{content.source_count} sources agree" if content.source_count else "All agree"
    if content.summary and content.summary.empty:
        yield f"{sources}: all of them are empty."
    elif content.summary:
        groups = count(content.summary.rows_compared)
        yield f"{sources}: {groups} groups, every measure within tolerance."
    before = content.background
    if content.kind is MailKind.RECOVERY and before.since:
        alert = before.alert_outcome
        first_mail = f"; the first mail reported {alert}" if alert else ""
        runs = f"{before.runs} run" + ("s" if before.runs != 1 else "")
        yield f"It had differed since {instant(before.since)}, for {runs}{first_mail}."


def _unmatched(content: MailContent) -> Iterator[str]:
    yield "The comparison completed and found differences."
    differing = [stage.name for stage in content.stages if stage.result is RunResult.UNMATCHED]
    if differing:
        yield f"Stages that differ: {', '.join(map(clean, differing))}."
    if content.detail is Detail.MINIMAL:
        return
    summary = content.summary
    if summary is None or not (summary.measures or summary.missing):
        for stage in content.stages:
            yield from _where_it_differs(stage)
    elif summary.likely_cause is not None:
        yield cause_words(summary.likely_cause)
    if content.background.since and content.background.runs > 1:
        since = instant(content.background.since)
        yield f"Not matched since {since}: this is run {content.background.runs} in a row."


def _where_it_differs(stage: StageFacts) -> Iterator[str]:
    for source, groups in stage.missing:
        if groups:
            yield f"{clean(stage.name)}: {_groups_are(groups)} missing in {clean(source)}."
    for measure in stage.measures:
        if measure.outside:
            outside, name = _groups_are(measure.outside), clean(measure.name)
            yield f"{clean(stage.name)}: {outside} outside tolerance in {name}."


def _groups_are(groups: int) -> str:
    return "1 group is" if groups == 1 else f"{count(groups)} groups are"


def _errored(content: MailContent) -> Iterator[str]:
    match _code(content):
        case RunErrorCode.TIMED_OUT:
            during = f" during {clean(content.open_stage)}" if content.open_stage else ""
            yield f"Stopped after the deadline of {count(content.deadline_seconds)} s{during}."
        case RunErrorCode.CRASHED:
            yield (
                "The worker ended unexpectedly (memory or termination) on attempt "
                f"{content.attempt}."
            )
        case RunErrorCode.QUERY_FAILED:
            source = clean(content.failed_source) if content.failed_source else "A source"
            yield f"{source} could not be read."
        case _ if content.never_started:
            yield "The run could not be submitted, so it never started."
        case _:
            yield "The run ended without a verdict, and the cause is not classified."
    if content.error and content.error.message:
        yield f"Message: {clean(content.error.message)[:MAX_ERROR]}"
    yield NO_VERDICT
    if _code(content) == RunErrorCode.TIMED_OUT:
        yield "Check the slowest source, compare fewer rows, or raise the deadline."


def _facts(content: MailContent) -> Iterator[tuple[str, str]]:
    summary = content.summary
    if summary is None or content.detail is Detail.MINIMAL:
        return
    share = percent(summary.rows_matched, summary.rows_compared)
    yield "Groups compared", count(summary.rows_compared)
    yield "Groups matched", f"{count(summary.rows_matched)} ({share})"
    yield "Groups not matched", count(summary.rows_unmatched)
    yield "Stages matched", f"{summary.stages_matched} of {summary.stages_total}"
    yield "Duration", f"{summary.duration_ms / 1000:.1f} s"


def _tables(content: MailContent, most_rows: int) -> Iterator[Table]:
    if content.detail is not Detail.MINIMAL and content.summary is not None:
        yield from difference_tables(content.summary, most_rows)
    if content.detail is not Detail.FULL or not content.stages:
        return
    yield cut_table(
        "Stages",
        ("Stage", "Result", "Compared", "Not matched"),
        [
            (
                clean(stage.name),
                stage.result.value,
                count(stage.rows_compared),
                count(stage.rows_unmatched),
            )
            for stage in content.stages
        ],
        most_rows,
        numbers_from=2,
    )
    yield cut_table(
        "Measures",
        ("Stage", "Measure", "Tolerance", "Within", "Outside"),
        [
            (
                clean(stage.name),
                clean(measure.name),
                clean(measure.tolerance),
                count(measure.within),
                count(measure.outside),
            )
            for stage in content.stages
            for measure in stage.measures
        ],
        most_rows,
        numbers_from=3,
    )


def _next_steps(content: MailContent) -> Iterator[str]:
    match _code(content):
        case RunResult.MATCHED:
            yield f"datarecs report {content.run_id}"
        case RunResult.UNMATCHED:
            yield f"datarecs diff {content.run_id}"
        case _:
            yield f"datarecs watch {content.run_id}"
            yield f"datarecs run {_job(content)}"


def _links(content: MailContent, base_url: str) -> Iterator[Link]:
    run = f"{base_url}/api/v1/runs/{content.run_id}"
    if content.report_path is not None:
        yield Link(label="Report", url=f"{base_url}{content.report_path}")
        return
    if content.summary is None:
        yield Link(label="Run", url=run)
        return
    yield Link(label="Report", url=f"{run}/report")
    if _code(content) == RunResult.UNMATCHED:
        yield Link(label="Differences", url=f"{run}/mismatches")


def _footer(content: MailContent) -> tuple[str, ...]:
    rules = ", ".join(map(clean, content.rules))
    return (
        f"You get this mail because of notification rule {rules}.",
        f"Run {content.run_id} · finalised {instant(content.finalised_at)}",
    )


def instant(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
