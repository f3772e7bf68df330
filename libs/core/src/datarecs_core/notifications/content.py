"""The content of a mail, without layout: facts of the run, as data.

Read from the run's row and its recorded events, which are committed before `run.finalised`. The
renderer turns it into text and HTML that state the same facts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from datarecs_core.notifications.evaluation import Background, MailKind
from datarecs_core.notifications.mail import Mail, Notice
from datarecs_core.notifications.rule import Detail
from datarecs_core.runs.model import Run, RunError, RunResult, RunStatus, RunSummary
from datarecs_core.values import JobId, RunId


class Count(NamedTuple):
    """A number about a source."""

    source: str
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureFacts:
    """One declared tolerance of one stage."""

    name: str
    tolerance: str
    """Kind and bound, such as `ABSOLUTE 0.01`."""
    within: int
    outside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """A stage that was compared to the end."""

    name: str
    result: RunResult
    rows_compared: int
    rows_unmatched: int
    matched_groups: int
    missing: tuple[Count, ...]
    """Per source the groups that are missing in it, in the sources' order."""
    measures: tuple[MeasureFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MailContent:
    """Everything a template may show."""

    recipient: str
    rules: tuple[str, ...]
    kind: MailKind
    detail: Detail
    outcome: str
    """MATCHED, UNMATCHED or `ERRORED:<code>`."""
    background: Background
    run_id: RunId
    job_id: JobId
    job_name: str
    message_id: str
    thread_root: str
    finalised_at: datetime
    summary: RunSummary | None
    error: RunError | None
    stages: tuple[StageFacts, ...]
    source_count: int
    failed_source: str | None
    """Which source could not be read."""
    open_stage: str | None
    """The stage that had begun and not ended."""
    never_started: bool
    attempt: int
    deadline_seconds: int
    report_path: str | None = None
    """Path of the signed link to the report; None without a key for links."""
    unsubscribe_path: str | None = None
    """Path that ends mails of these rules to the recipient by one POST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestLine:
    """One run in a digest."""

    kind: MailKind
    outcome: str
    job_name: str
    finalised_at: datetime
    summary: RunSummary | None
    report_path: str | None
    """Path of the signed link; None without a key for links."""
    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestContent:
    """Several runs in one mail."""

    recipient: str
    rules: tuple[str, ...]
    message_id: str
    finalised_at: datetime
    """When it was put together."""
    lines: tuple[DigestLine, ...]
    unsubscribe_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeContent:
    """A mail about no run."""

    recipient: str
    message_id: str
    finalised_at: datetime
    notice: Notice


Content = MailContent | DigestContent | NoticeContent


class Recorded(NamedTuple):
    """An event of the run as its history holds it."""

    type: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """What a mail links to, below the base URL; None without a key for links."""

    thread_root: str
    report: str | None = None
    unsubscribe: str | None = None


def mail_content(mail: Mail, run: Run, history: Iterable[Recorded], *, paths: Paths) -> MailContent:
    """The facts for one mail; of several attempts the last one's stages count."""
    sources = _source_names(run)
    events = [event for event in history if _attempt(event) in {None, run.attempt}]
    return MailContent(
        recipient=mail.recipient,
        rules=mail.rules,
        kind=mail.kind,
        detail=mail.detail,
        outcome=mail.outcome,
        background=mail.background,
        run_id=run.run_id,
        job_id=run.job_id,
        job_name=run.job_name,
        message_id=mail.message_id,
        thread_root=paths.thread_root,
        report_path=paths.report,
        unsubscribe_path=paths.unsubscribe,
        finalised_at=mail.finalised_at,
        summary=run.summary,
        error=run.error,
        stages=tuple(_stage(e.data, sources) for e in events if _is(e, "comparison.completed")),
        source_count=len(sources),
        failed_source=_failed_source(events, sources),
        open_stage=_open_stage(events),
        never_started=run.status is RunStatus.QUEUE_ERRORED,
        attempt=run.attempt,
        deadline_seconds=run.deadline_seconds,
    )


def _is(event: Recorded, name: str) -> bool:
    return event.type.endswith(f".run.{name}")


def _attempt(event: Recorded) -> object:
    return event.data.get("attempt")


def _source_names(run: Run) -> tuple[str, ...]:
    return tuple(_text(source, "name") for source in _mappings(run.spec.get("sources")))


def _source_name(key: str, sources: tuple[str, ...]) -> str:
    """The name of `source_<n>`; the key itself where the job has none."""
    index = key.removeprefix("source_")
    return sources[int(index)] if index.isdigit() and int(index) < len(sources) else key


def _stage(data: Mapping[str, object], sources: tuple[str, ...]) -> StageFacts:
    return StageFacts(
        name=_text(data, "stage_name"),
        result=RunResult(_text(data, "result")),
        rows_compared=_number(data, "rows_compared"),
        rows_unmatched=_number(data, "rows_unmatched"),
        matched_groups=_number(_mapping(data, "join_stats"), "matched_groups"),
        missing=tuple(
            Count(_source_name(key, sources), groups)
            for key, groups in sorted(_mapping(data, "missing_by_source").items(), key=_position)
            if isinstance(groups, int)
        ),
        measures=tuple(_measure(item) for item in _mappings(data.get("tolerances"))),
    )


def _position(item: tuple[str, object]) -> tuple[int, str]:
    index = item[0].removeprefix("source_")
    return (int(index) if index.isdigit() else 0, item[0])


def _measure(item: Mapping[str, object]) -> MeasureFacts:
    bound = item.get("tolerance_value_exact") or item.get("tolerance_value")
    kind = _text(item, "tolerance_type")
    return MeasureFacts(
        name=_text(item, "measure_name"),
        tolerance=kind if kind == "EXACT" else f"{kind} {bound}",
        within=_number(item, "within_tolerance_count"),
        outside=_number(item, "outside_tolerance_count"),
    )


def _failed_source(events: list[Recorded], sources: tuple[str, ...]) -> str | None:
    for event in events:
        index = event.data.get("extraction_index")
        if _is(event, "extraction.errored") and isinstance(index, int):
            return _source_name(f"source_{index}", sources)
    return None


def _open_stage(events: list[Recorded]) -> str | None:
    """The stage last begun that has no end."""
    still_open: str | None = None
    for event in events:
        if _is(event, "stage.started"):
            still_open = _text(event.data, "stage_name")
        elif _is(event, "stage.completed"):
            still_open = None
    return still_open


def _text(data: Mapping[str, object], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _number(data: Mapping[str, object], name: str) -> int:
    value = data.get(name)
    return value if isinstance(value, int) else 0


def _mapping(data: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> tuple[Mapping[str, object], ...]:
    """The mappings of a list from JSON."""
    items = value if isinstance(value, (list, tuple)) else ()
    return tuple(item for item in items if isinstance(item, Mapping))
