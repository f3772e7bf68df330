"""Which values of a job have no effect, each refused by name.

Separate from validation because no rule between fields is broken: the value sets something that its
stage, its source or this release does not do, and an accepted field must have an effect. A stored
job that was accepted before the rule existed still runs: its value had no effect then, either.
"""

from collections.abc import Iterator
from datetime import timedelta

from datarecs_core.errors.faults import Fault, Path, Place, usable
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import (
    ALL_COLUMNS,
    DEFAULT_EXECUTION,
    DEFAULT_LIMITS,
    Breaks,
    Confirm,
    Measure,
    ReconciliationJob,
    Stage,
)
from datarecs_core.jobs.vocabulary import Bound, Combine, CompareTo, SourceKind, StageType

_MOST_KEYS = Confirm(after=timedelta()).max_keys
_HAS_SESSIONS = frozenset({SourceKind.POSTGRES, SourceKind.KAFKA})
Ineffective = tuple[Path, str, str]
"""Path below what is judged, what happens instead, and what takes the field."""


def faults_without_effect(job: ReconciliationJob) -> Iterator[Fault]:
    """A fault for each value without effect; a default is never a fault."""
    yield from map(_refused, _of_job(job))
    if job.execution.memory != DEFAULT_EXECUTION.memory:
        message = "a worker takes its memory from its settings; `datarecs compare` uses this value"
        at: Path = ("spec", "execution", "memory")
        yield Fault(code=SpecCode.WITHOUT_EFFECT, path=at, message=message, warning=True, note=True)


def _refused(ineffective: Ineffective) -> Fault:
    below, message, hint = ineffective
    return Fault(
        code=SpecCode.WITHOUT_EFFECT,
        path=("spec", *below),
        message=f"'{below[-1]}' has no effect: {message}",
        hint=hint,
        place=Place.KEY,
    )


def _of_job(job: ReconciliationJob) -> Iterator[Ineffective]:
    leave_out = "leave it out"
    if job.execution.extract is not DEFAULT_EXECUTION.extract:
        message = "sources are always copied as with `auto`"
        yield ("execution", "extract"), message, leave_out
    if job.execution.resume is not DEFAULT_EXECUTION.resume:
        yield ("execution", "resume"), "a run always starts from its sources", leave_out
    if job.results.breaks.retention != Breaks().retention:
        message = "a RetentionPolicy decides how long stored differences are kept"
        hint = "leave it out, and declare a RetentionPolicy with the target differences"
        yield ("results", "breaks", "retention"), message, hint
    for index, source in usable(job.sources):
        sessions = source.limits.max_connections != DEFAULT_LIMITS.max_connections
        if source.kind not in _HAS_SESSIONS and sessions:
            message = f"a {source.kind} source opens no sessions"
            hint = f"leave it out; it is for kind {', '.join(sorted(_HAS_SESSIONS))}"
            yield ("sources", index, "limits", "max_connections"), message, hint
    for index, stage in usable(job.stages):
        for below, message, hint in _of_stage(stage):
            yield ("stages", index, *below), message, hint


def _of_stage(stage: Stage) -> Iterator[Ineffective]:
    match stage.type:
        case StageType.COUNTS:
            yield from _of_counts(stage)
        case StageType.DIGEST:
            yield from _of_digest(stage)
        case _:
            return


def _of_counts(stage: Stage) -> Iterator[Ineffective]:
    hint = "it is for stages of type aggregate, row, digest, custom_sql"
    if stage.confirm is not None and stage.confirm.max_keys != _MOST_KEYS:
        yield ("confirm", "max_keys"), "a counts stage has one group", hint
    if stage.warn_at is not None and stage.warn_at.unmatched_percent is not None:
        message = "the one group of a counts stage is in every source"
        yield ("warn_at", "unmatched_percent"), message, hint
    for below, measure in _measures(stage):
        for name in ("map", "map_strict"):
            if getattr(measure, name):
                yield (*below, name), "a count does not read values", hint


def _of_digest(stage: Stage) -> Iterator[Ineffective]:
    message = "a digest stage compares fingerprints, which are equal or not"
    hint = "it is for stages of type aggregate, row, custom_sql"
    settings: dict[Path, bool] = {
        ("compare_to",): stage.compare_to is not CompareTo.REFERENCE,
        ("reference",): stage.reference is not None,
        ("warn_at", "gap"): stage.warn_at is not None and bool(stage.warn_at.gap),
        ("accept", "max_gap"): stage.accept is not None and bool(stage.accept.max_gap),
    }
    for below, measure in _measures(stage):
        settings[*below, "combine"] = measure.combine is not Combine.ALL
        settings[*below, "bound"] = measure.bound is not Bound.INCLUSIVE
        settings[*below, "adds_up"] = measure.adds_up is not None
    yield from ((below, message, hint) for below, wanted in settings.items() if wanted)


def _measures(stage: Stage) -> Iterator[tuple[Path, Measure]]:
    if stage.measures != ALL_COLUMNS:
        for index, measure in usable(stage.measures):
            yield ("measures", index), measure
