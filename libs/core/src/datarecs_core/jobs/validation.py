"""Rules over the whole job, beyond single fields, with all faults at once.

Works on a draft: broken parts are Gaps, so that the rest is checked at the same
time. Stage rules are in `stage_rules`; here are the names and references between the parts.
"""

from collections.abc import Iterator, Sequence

from datarecs_core.errors.faults import (
    Fault,
    Path,
    Place,
    did_you_mean,
    dotted,
    is_gap,
    name_of,
    usable,
)
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import (
    ALL_COLUMNS,
    DEFAULT_PARTITION,
    ReconciliationJob,
    Source,
    Stage,
)
from datarecs_core.jobs.parameters import parameter_faults
from datarecs_core.jobs.stage_rules import stage_faults
from datarecs_core.jobs.vocabulary import OnUnmatched, SourceKind, StageType, TopicEdge

SPEC: Path = ("spec",)
_CUT_BY_US = frozenset({SourceKind.POSTGRES})
"""Kinds with rows cut into ranges; files have parts already."""
_ROWLESS = frozenset({StageType.SCHEMA, StageType.CUSTOM_SQL})
"""Stages with groups that are not dimension values of source rows: a scope cannot use them."""


def job_faults(job: ReconciliationJob) -> tuple[Fault, ...]:
    """All faults of the job as a whole, without a source's schema or a server.

    `sources`, `stages`, `dimensions`, `measures` and `tolerances` may hold Gaps in place of broken
    items.
    """
    names = _source_names(job)
    return (
        *_duplicates(job.sources, (*SPEC, "sources"), "source"),
        *_duplicates(job.stages, (*SPEC, "stages"), "stage"),
        *_source_reference(job.reference, (*SPEC, "reference"), names),
        *_partition_faults(job),
        *_watermark_faults(job),
        *_parameter_faults(job),
        *_mask_faults(job),
        *_all_stage_faults(job, names),
    )


def _source_names(job: ReconciliationJob) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for one in job.sources if (name := name_of(one))))


def _duplicates(items: Sequence[object], at: Path, what: str) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        name = name_of(item)
        if name is None:
            continue
        if name in first:
            yield Fault(
                code=SpecCode.DUPLICATE_NAME,
                path=(*at, index, "name"),
                message=f"another {what} has this name: {dotted((*at, first[name]))}",
            )
        first.setdefault(name, index)


def _source_reference(
    name: str | None, at: Path, known: Sequence[str], place: Place = Place.VALUE
) -> Iterator[Fault]:
    if name is not None and name not in known:
        yield Fault(
            code=SpecCode.UNKNOWN_SOURCE,
            path=at,
            message=f"no source has this name; there are {', '.join(known) or 'none'}",
            hint=did_you_mean(name, known),
            place=place,
        )


def _partition_faults(job: ReconciliationJob) -> Iterator[Fault]:
    """Other kinds have only `auto`, which has no effect: stored specs contain it."""
    for index, source in usable(job.sources):
        if source.kind not in _CUT_BY_US and source.partition != DEFAULT_PARTITION:
            yield Fault(
                code=SpecCode.FIELD_OF_ANOTHER_KIND,
                path=(*SPEC, "sources", index, "partition"),
                message=f"a {source.kind} source is not cut into ranges",
                hint=f"leave it out; it is for kind {', '.join(sorted(_CUT_BY_US))}",
                place=Place.KEY,
            )


def _watermark_faults(job: ReconciliationJob) -> Iterator[Fault]:
    """A watermark is that of one table, and only an Iceberg table has one."""
    if any(is_gap(source) for source in job.sources):
        return
    tables = [source.name for source in job.sources if source.kind is SourceKind.ICEBERG]
    for index, source in usable(job.sources):
        if source.snapshot.end.edge is not TopicEdge.WATERMARK or len(tables) == 1:
            continue
        yield Fault(
            code=SpecCode.WITHOUT_EFFECT,
            path=(*SPEC, "sources", index, "snapshot", "to"),
            message="watermark is that of the one iceberg source of a job; this job has "
            f"{', '.join(tables) or 'none'}",
            hint="compare each table with its topic in a job of its own"
            if tables
            else "add the table that the sink writes as a source of kind iceberg, or write latest",
        )


def _parameter_faults(job: ReconciliationJob) -> Iterator[Fault]:
    for name, parameter in job.parameters.items():
        yield from parameter_faults(parameter, (*SPEC, "parameters", name))


def _mask_faults(job: ReconciliationJob) -> Iterator[Fault]:
    columns = known_columns(job)
    for column in job.results.breaks.mask if columns is not None else ():
        if columns is not None and column not in columns:
            yield Fault(
                code=SpecCode.UNKNOWN_MASK_COLUMN,
                path=(*SPEC, "results", "breaks", "mask", column),
                message="no stage uses a column of this name",
                hint=did_you_mean(column, columns),
                place=Place.KEY,
            )


def known_columns(job: ReconciliationJob) -> frozenset[str] | None:
    """Every logical column the job names; None when a stage compares columns it does not name."""
    columns: set[str] = set()
    for _, source in usable(job.sources):
        columns.update(source.columns, source.cast)
    for stage in job.stages:
        if is_gap(stage) or stage.measures == ALL_COLUMNS:
            return None
        for _, dimension in usable(stage.dimensions):
            columns.update({dimension.name, dimension.column or dimension.name})
        for _, measure in usable(stage.measures):
            columns.update({measure.name, measure.column or measure.name})
    return frozenset(columns)


def _all_stage_faults(job: ReconciliationJob, names: Sequence[str]) -> Iterator[Fault]:
    for index, stage in usable(job.stages):
        at: Path = (*SPEC, "stages", index)
        yield from stage_faults(stage, job, at)
        yield from _source_reference(stage.reference, (*at, "reference"), names)
        yield from _map_faults(stage, at, names)
        yield from _query_faults(stage, at, names)
        yield from _scope_faults(job, index, at)
        yield from _confirm_faults(job, stage, at)


def _map_faults(stage: Stage, at: Path, names: Sequence[str]) -> Iterator[Fault]:
    if stage.measures == ALL_COLUMNS:
        return
    for index, measure in usable(stage.measures):
        for source in measure.map:
            path = (*at, "measures", index, "map", source)
            yield from _source_reference(source, path, names, Place.KEY)


def _query_faults(stage: Stage, at: Path, names: Sequence[str]) -> Iterator[Fault]:
    if stage.type is not StageType.CUSTOM_SQL:
        return
    for source in stage.queries:
        yield from _source_reference(source, (*at, "queries", source), names, Place.KEY)
    lacking = [name for name in names if name not in stage.queries]
    if lacking:
        yield Fault(
            code=SpecCode.QUERY_MISSING,
            path=(*at, "queries", lacking[0]),
            message=f"no query for {', '.join(lacking)}",
            place=Place.MISSING,
        )


def _scope_faults(job: ReconciliationJob, index: int, at: Path) -> Iterator[Fault]:
    stage = job.stages[index]
    earlier = {name: one for one in job.stages[:index] if (name := name_of(one))}
    if stage.scope is not None:
        path = (*at, "scope", "from_stage")
        wanted = earlier.get(stage.scope.from_stage)
        if wanted is None:
            yield Fault(
                code=SpecCode.UNKNOWN_STAGE,
                path=path,
                message="no earlier stage has this name",
                hint=did_you_mean(stage.scope.from_stage, earlier),
            )
        else:
            yield from _availability(wanted, stage, path)
    elif index and _escalates(job.stages[index - 1]):
        path = (*SPEC, "stages", index - 1, "on_unmatched")
        yield from _availability(job.stages[index - 1], stage, path)


def _escalates(stage: Stage) -> bool:
    return not is_gap(stage) and stage.on_unmatched is OnUnmatched.ESCALATE


def _availability(wanted: Stage, stage: Stage, at: Path) -> Iterator[Fault]:
    """The rows of a stage can be limited only by dimension values that rows have."""
    if is_gap(wanted):
        return
    unfit = next((one for one in (wanted, stage) if one.type in _ROWLESS), None)
    if unfit is not None:
        yield Fault(
            code=SpecCode.SCOPE_DIMENSION_UNAVAILABLE,
            path=at,
            message=f"stages of type {unfit.type} have no groups of source rows for a scope",
        )


def _confirm_faults(job: ReconciliationJob, stage: Stage, at: Path) -> Iterator[Fault]:
    sources = [source for _, source in usable(job.sources)]
    if stage.confirm is not None and sources and all(map(_is_fixed, sources)):
        yield Fault(
            code=SpecCode.CONFIRM_NOT_READABLE,
            path=(*at, "confirm"),
            message="every source is fixed to one snapshot; a second reading gives the same",
        )


def _is_fixed(source: Source) -> bool:
    """Whether a new pin would read the same rows again."""
    pin = source.snapshot
    return pin.snapshot_id is not None or pin.as_of is not None
