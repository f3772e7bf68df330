"""The shape of a RetentionPolicy: what is removed of which jobs, and after how long.

Fields of later releases are unknown here: they are refused, never ignored.
"""

from collections.abc import Mapping
from datetime import timedelta

from datarecs_core.errors.faults import Fault, Path, Place
from datarecs_core.errors.spec import SpecCode
from datarecs_core.retention.policy import (
    LEAST_INTERVAL,
    LEAST_TTL,
    MAX_NEWEST,
    MAX_TTL,
    Lifetime,
    RetentionPolicy,
    RunLifetime,
    Target,
    Targets,
)
from datarecs_specs.envelope import LABEL_KEY, LABEL_VALUE, MAX_LABELS
from datarecs_specs.reading import Reading
from datarecs_specs.records import Field, MapOf, Record
from datarecs_specs.shapes import FLAG, Length, Whole

_TTL = Length(least=LEAST_TTL, most=MAX_TTL)
_NEWEST = Field(
    name="keep_last",
    shape=Whole(least=0, most=MAX_NEWEST),
    doc="keep it for this many of the newest runs of each job, whatever their age",
)
_RUNS = Record(
    title="how long runs are kept",
    model=RunLifetime,
    fields=(Field(name="ttl", shape=_TTL, doc="time after the end of a run"), _NEWEST),
)
_DIFFERENCES = Record(
    title="how long differences are kept",
    model=RunLifetime,
    fields=(
        Field(
            name="ttl",
            shape=Length(least=timedelta(days=1), most=MAX_TTL),
            doc="time after the end of a run",
        ),
        _NEWEST,
    ),
)
_CREATED = Record(
    title="how long it is kept",
    model=Lifetime,
    fields=(Field(name="ttl", shape=_TTL, doc="time after its creation"),),
)


def _check_targets(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    if not values:
        message = f"no target; set at least one of {', '.join(Target)}"
        reading.fault(
            Fault(
                code=SpecCode.MISSING_FIELD,
                path=(*at, Target.RUNS.value),
                message=message,
                place=Place.MISSING,
            )
        )


_TARGETS = Record(
    title="targets of a RetentionPolicy",
    model=Targets,
    check=_check_targets,
    fields=(
        Field(name="runs", shape=_RUNS, doc="runs that have ended, with their artefacts"),
        Field(
            name="differences",
            shape=_DIFFERENCES,
            doc="stored differences; run, counts and report stay",
        ),
        Field(name="mails", shape=_CREATED, doc="mails that were sent, failed or skipped"),
        Field(name="ticks", shape=_CREATED, doc="lines of the history of schedules"),
    ),
)
RETENTION = Record(
    title="spec of a RetentionPolicy",
    model=RetentionPolicy,
    fields=(
        Field(name="targets", shape=_TARGETS, doc="what is removed, and after how long"),
        Field(
            name="job_labels",
            shape=MapOf(key=LABEL_KEY, value=LABEL_VALUE, most=MAX_LABELS),
            doc="only jobs of the policy's namespace that have these labels",
        ),
        Field(
            name="deleted_jobs",
            shape=FLAG,
            doc="also runs and mails of jobs that no longer exist, of every namespace",
        ),
        Field(
            name="sweep_interval",
            shape=Length(least=LEAST_INTERVAL, most=timedelta(days=7)),
            doc="time between sweeps",
        ),
        Field(name="dry_run", shape=FLAG, doc="true counts, and removes nothing"),
    ),
)
