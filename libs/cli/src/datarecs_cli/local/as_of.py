"""Sources of a local comparison as they were at one time: the flag `--as-of`.

The flag means what `snapshot: {as_of: …}` of every source means, so the job with the flag and the
job with the fields have one hash. Iceberg tables keep their past; of folders and buckets the
catalogue of a server knows it. Other sources keep no earlier state, and are refused.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from datarecs_application.captured_tables import FILE_KINDS, names_a_time
from datarecs_cli.invocation import UsageFault
from datarecs_core.comparison.values.moments import future_fault, micros_of
from datarecs_core.errors.faults import Fault
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import SourceKind

_EXAMPLE = "2026-01-31T12:00:00Z"


def check_as_of(text: str, now: datetime) -> str:
    """The time as typed.

    Raises UsageFault for a date alone, a time without its offset, and one that is still to come.
    """
    micros = micros_of(text)
    if micros is None:
        raise UsageFault(
            f"--as-of {text}: not a time with its offset, such as {_EXAMPLE}; a date alone does "
            "not say when the day ends"
        )
    fault = future_fault(micros, now)
    if fault is not None:
        raise UsageFault(f"--as-of {text} {fault}")
    return text


def job_as_of(job: ReconciliationJob, as_of: str) -> ReconciliationJob:
    """The job with the time in every source that can have one and declares no snapshot.

    Raises:
        UsageFault: every source declares its own snapshot, so the flag changes nothing.
    """
    sources = tuple(
        replace(source, snapshot=replace(source.snapshot, as_of=as_of))
        if _is_open(source)
        else source
        for source in job.sources
    )
    if sources == job.sources and not list(as_of_faults(job)):
        raise UsageFault(
            "--as-of has no effect: every source of the job declares its snapshot; remove the "
            "flag, or `snapshot` of a source"
        )
    return replace(job, sources=sources)


def as_of_faults(job: ReconciliationJob) -> Iterator[Fault]:
    """A fault per source that `--as-of` cannot read as it was."""
    for index, source in enumerate(job.sources):
        reason = _without_past(source)
        if reason:
            yield Fault(
                code=SpecCode.FIELD_OF_ANOTHER_KIND,
                path=("spec", "sources", index),
                message=f"--as-of: {reason}",
                hint="compare a copy from that time, or leave out the flag and declare "
                f"`snapshot: {{as_of: …}}` for the other sources alone{_hint(source)}",
            )


def stored_elsewhere_faults(job: ReconciliationJob) -> Iterator[Fault]:
    """A fault per source of files whose earlier state no catalogue knows."""
    for index, source in enumerate(job.sources):
        if names_a_time(source) and source.connection is None:
            yield Fault(
                code=SpecCode.WITHOUT_EFFECT,
                path=("spec", "sources", index, "snapshot", "as_of"),
                message=_FILES,
                hint=f"leave it out{_hint(source)}",
            )


_FILES = "files without a connection do not keep the state of an earlier time"
_JOINED = "a query over further `tables` reads their files as they are now"


def _without_past(source: Source) -> str:
    """Why a source has no earlier state; "" if it has one."""
    if source.kind is SourceKind.POSTGRES:
        return "a PostgreSQL database does not keep its rows of an earlier time"
    if source.kind is SourceKind.KAFKA:
        return "a topic ends at `snapshot.to` of its source"
    if source.kind not in FILE_KINDS:
        return ""
    if source.connection is None:
        return _FILES
    return _JOINED if source.tables else ""


def _hint(source: Source) -> str:
    if source.kind not in FILE_KINDS or source.connection is not None:
        return ""
    return (
        "; to read a folder or bucket that a server captures, declare the `connection` of the "
        "captures, and the `path` below its root, in a job"
    )


def _is_open(source: Source) -> bool:
    """Whether the job leaves the snapshot to the run, and the source has a past."""
    pin = source.snapshot
    is_free = (pin.snapshot_id, pin.ref, pin.as_of) == (None, None, None)
    return is_free and not _without_past(source)
