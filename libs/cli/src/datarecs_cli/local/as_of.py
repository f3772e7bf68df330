"""Tables of a local comparison as they were at one time: the flag `--as-of`.

The flag means what `snapshot: {as_of: …}` of every Iceberg source means, so the job with the flag
and the job with the fields have one hash. Other sources keep no earlier state, and are refused.
"""

from collections.abc import Iterator
from dataclasses import replace

from datarecs_cli.invocation import UsageFault
from datarecs_core.comparison.values.canonical import Tag
from datarecs_core.comparison.values.forms import read_moment
from datarecs_core.errors.faults import Fault
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import SourceKind

_EXAMPLE = "2026-01-31T12:00:00Z"


def check_as_of(text: str) -> str:
    """The time as typed. Raises UsageFault for a date alone and for a time without its offset."""
    moment = read_moment(text)
    if moment is None or moment.tag is not Tag.INSTANT:
        raise UsageFault(
            f"--as-of {text}: not a time with its offset, such as {_EXAMPLE}; a date alone does "
            "not say when the day ends"
        )
    return text


def job_as_of(job: ReconciliationJob, as_of: str) -> ReconciliationJob:
    """The job with the time in every Iceberg source that declares no snapshot.

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
    """A fault per source that cannot be read as it was."""
    for index, source in enumerate(job.sources):
        if source.kind is not SourceKind.ICEBERG:
            yield Fault(
                code=SpecCode.FIELD_OF_ANOTHER_KIND,
                path=("spec", "sources", index),
                message=f"--as-of: {_WITHOUT_PAST[source.kind is SourceKind.POSTGRES]}",
                hint="compare a copy from that time, or leave out the flag and declare "
                f"`snapshot: {{as_of: …}}` for the Iceberg sources alone; {_CAPTURED}",
            )


def stored_elsewhere_faults(job: ReconciliationJob) -> Iterator[Fault]:
    """A fault per source of files that asks for an earlier state, which only a server knows."""
    for index, source in enumerate(job.sources):
        if source.kind is not SourceKind.ICEBERG and source.snapshot.as_of is not None:
            yield Fault(
                code=SpecCode.WITHOUT_EFFECT,
                path=("spec", "sources", index, "snapshot", "as_of"),
                message=_WITHOUT_PAST[False],
                hint=f"leave it out, or apply the job and run it; {_CAPTURED}",
            )


_WITHOUT_PAST = {
    True: "a PostgreSQL database does not keep its rows of an earlier time",
    False: "files do not keep the state of an earlier time",
}
_CAPTURED = "a folder that a server has captured is read by a run of the server"


def _is_open(source: Source) -> bool:
    """Whether the job leaves the snapshot to the run."""
    pin = source.snapshot
    return source.kind is SourceKind.ICEBERG and (pin.snapshot_id, pin.ref, pin.as_of) == (
        None,
        None,
        None,
    )
