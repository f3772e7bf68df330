"""The page of a run without a verdict: errored, never submitted, or cancelled.

It must not look like a verdict: no counts and no tolerances, only the cause, the reached steps and
what to do next.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from datarecs_core.errors.run import RunDetail
from datarecs_reports.figures import instant, visible
from datarecs_reports.run_lines import text_of, when, who
from datarecs_reports.scope import Facts

NO_VERDICT = "No verdict exists: the sources were neither found equal nor different."
_CODES = {
    "TIMED_OUT": "The run did not end before its deadline and was stopped.",
    "CRASHED": "The process of the run ended unexpectedly.",
    "QUERY_FAILED": "A source could not be read.",
    "UNKNOWN": "The run ended without a verdict.",
}
_FIXES = {
    "TIMED_OUT": "Check the slowest source, compare fewer rows, or raise the deadline.",
    "CRASHED": "Run the job again; if it ends the same way, give the worker more memory.",
    "QUERY_FAILED": "Check the source named in the message, then run the job again.",
    "UNKNOWN": "Read the message; if it does not explain the cause, report it with the run's id.",
}
_STEPS = (
    ("created_at", "triggered"),
    ("queued_at", "queued"),
    ("started_at", "started by a worker"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingPage:
    title: str
    sign: str
    word: str
    kind: str
    """`errored` or `cancelled`, for the colour."""
    reason: str
    message: str
    """The message of the failed part; empty if cancelled."""
    head: Facts
    cause: Facts
    steps: tuple[str, ...]
    """The reached steps, in order."""
    advice: str
    commands: tuple[str, ...]


def ending_page(run: Mapping[str, object]) -> EndingPage:
    """The page of a terminal run without a result."""
    status = text_of(run, "status") or "ERRORED"
    cancelled = status == "CANCELLED"
    error = run.get("error")
    error_fields = error if isinstance(error, Mapping) else {}
    detail = _detail(error_fields)
    job = text_of(run, "job")
    return EndingPage(
        title=visible(job or "comparison"),
        sign="▬" if cancelled else "✖",
        word=status,
        kind="cancelled" if cancelled else "errored",
        reason=_cancelled(run) if cancelled else _reason(status, error_fields, detail),
        message="" if cancelled else _message(error_fields),
        head=(*who(run), *when(run)),
        cause=() if cancelled else tuple(_cause(error_fields, detail)),
        steps=_steps(run),
        advice="Run the job again if you need its result."
        if cancelled
        else _advice(error_fields, detail),
        commands=tuple(_commands(run, job, detail)),
    )


def _detail(error: Mapping[str, object]) -> RunDetail | None:
    """The catalogue's entry of the detail code; None if this release does not know it."""
    name = text_of(error, "detail_code")
    return RunDetail.__members__.get(name) if name else None


def _code(error: Mapping[str, object]) -> str:
    return text_of(error, "code") or "UNKNOWN"


def _reason(status: str, error: Mapping[str, object], detail: RunDetail | None) -> str:
    if status == "QUEUE_ERRORED":
        return "The run could not be submitted, so it never started."
    return detail.entry.meaning if detail else _CODES.get(_code(error), _CODES["UNKNOWN"])


def _cancelled(run: Mapping[str, object]) -> str:
    by, why = text_of(run, "cancelled_by"), text_of(run, "cancel_reason")
    sentence = f"Cancelled by {visible(by)}" if by else "Cancelled"
    return f"{sentence}: {visible(why, most=500)}" if why else f"{sentence}."


def _cause(error: Mapping[str, object], detail: RunDetail | None) -> Iterator[tuple[str, str]]:
    yield "Code", _code(error)
    if name := text_of(error, "detail_code"):
        yield "Detail", f"{visible(name)} ({detail.docs_id})" if detail else visible(name)
    if detail:
        yield "Likely causes", detail.entry.causes


def _message(error: Mapping[str, object]) -> str:
    lines = (text_of(error, "message") or "").splitlines()
    return " ".join(visible(line, most=2000) for line in lines)


def _steps(run: Mapping[str, object]) -> tuple[str, ...]:
    reached = [
        f"{instant(moment)}  {words}"
        for name, words in _STEPS
        if (moment := text_of(run, name)) is not None
    ]
    ended = text_of(run, "ended_at") or text_of(run, "closed_at")
    return (*reached, f"{instant(ended)}  ended") if ended else tuple(reached)


def _advice(error: Mapping[str, object], detail: RunDetail | None) -> str:
    return detail.entry.remedy if detail else _FIXES.get(_code(error), _FIXES["UNKNOWN"])


def _commands(
    run: Mapping[str, object], job: str | None, detail: RunDetail | None
) -> Iterator[str]:
    if detail:
        yield f"datarecs errors {detail.docs_id}"
    if command := text_of(run, "command"):
        yield command
    elif job:
        yield shlex.join(["datarecs", "run", job])
