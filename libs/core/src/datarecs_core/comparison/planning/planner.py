"""From a job, its sources' schemas and their pins to the plan, or to every fault at once.

Pure: the caller has pinned and described the sources before. The job has its parameter
values already in `filter` and `where` as typed literals.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from datarecs_core.comparison.expressions.condition import is_plain, named_columns
from datarecs_core.comparison.expressions.syntax import parse_expression
from datarecs_core.comparison.expressions.tree import ExpressionError, Node, columns_of
from datarecs_core.comparison.expressions.typing import check_comparisons
from datarecs_core.comparison.planning.cataloguing import (
    catalogue_faults,
    catalogue_of,
    column_dimension,
    column_measures,
)
from datarecs_core.comparison.planning.computing import condition_column, over_source
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.planning.logical import (
    QUERY_KINDS,
    LogicalSource,
    expression_faults,
    logical_source,
    mapping_faults,
    query_source,
    syntax_fault,
    types_fault,
)
from datarecs_core.comparison.planning.measuring import StageDraft
from datarecs_core.comparison.planning.plan import (
    Caps,
    Catalogue,
    ComparisonPlan,
    DimensionPlan,
    Effort,
    HashedRows,
    InputPlan,
    MeasurePlan,
    StagePlan,
    Warn,
)
from datarecs_core.comparison.planning.pushdown import shared_condition
from datarecs_core.comparison.planning.scan import (
    Only,
    Pin,
    Scan,
    SourceSchema,
)
from datarecs_core.comparison.planning.strategies import with_strategies
from datarecs_core.comparison.planning.units import unit_faults, with_units, without_total
from datarecs_core.comparison.planning.valueless import with_partner_types
from datarecs_core.comparison.results.fingerprints import (
    bucket_dimension,
    bucket_measures,
    hashed_rows,
)
from datarecs_core.errors.faults import Fault, Path, did_you_mean
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import ReconciliationJob, Source, Stage
from datarecs_core.jobs.stage_rules import STAR_STAGES
from datarecs_core.jobs.types import BOOL
from datarecs_core.jobs.vocabulary import (
    DuplicatePolicy,
    OnUnmatched,
    ProofMode,
    StageType,
    Strategy,
)

_QUERIES = (
    "custom_sql queries are for sources of kind postgres; compare files by an aggregate stage"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Everything that a plan needs. Schemas and pins exist for every source, by name."""

    job: ReconciliationJob
    job_uid: UUID
    spec_hash: str
    """Of the job as declared, before parameters were written in."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Name and canonical JSON of each value, sorted."""
    schemas: Mapping[str, SourceSchema]
    pins: Mapping[str, Pin]
    queries: Mapping[str, Mapping[str, SourceSchema]] = field(default_factory=dict)
    """What the queries of custom_sql stages return, by stage and source."""


def plan_comparison(request: PlanRequest) -> ComparisonPlan:
    """The plan of a run.

    Raises:
        PlanRefusedError: with all faults: unknown or ambiguous columns, types that do not compare,
            zones that are missing, and what this release does not have.
    """
    named = _named(request)
    faults = unit_faults(request.job, named)
    if faults:
        raise PlanRefusedError(faults)
    untotalled = without_total(request.job)
    if untotalled:
        request = replace(request, job=with_units(request.job, named))
        named = _named(request)
    sources = with_partner_types(named)
    planning = _Planning(request=request, sources=sources, untotalled=untotalled)
    stages = planning.stages()
    faults = [*planning.job_faults(), *planning.faults]
    if faults:
        raise PlanRefusedError(faults)
    plan = ComparisonPlan(
        job=request.job.name,
        job_uid=request.job_uid,
        spec_hash=request.spec_hash,
        parameters=request.parameters,
        scans=(),
        stages=stages,
        warnings=tuple(planning.warnings),
    )
    scans = tuple(
        _with_notes(
            source.scan(
                request.pins[source.name],
                _wanted_columns(source, stages),
                planning.conditions(source),
            ),
            source,
            stages,
        )
        for source in sources
    )
    return _with_strategies(plan.with_scans(scans), request.job.execution.strategy)


def _named(request: PlanRequest) -> list[LogicalSource]:
    return [
        logical_source(source, index, _unmasked_schema(source, request))
        for index, source in enumerate(request.job.sources)
    ]


def _with_notes(scan: Scan, source: LogicalSource, stages: Sequence[StagePlan]) -> Scan:
    """Notes about reads, and about columns that a stage cannot compare."""
    measures = (each for stage in stages for each in stage.row_measures if not each.comparable)
    named = {entry.column for each in measures if (entry := each.inputs[source.index]) is not None}
    notes = dict.fromkeys((*scan.schema.notes, *source.notes_of(named)))
    return replace(scan, schema=replace(scan.schema, notes=tuple(notes)))


def _unmasked_schema(source: Source, request: PlanRequest) -> SourceSchema:
    """The schema of a source without notes that would show a value of a masked column."""
    schema, masked = request.schemas[source.name], request.job.results.breaks.mask
    if not masked or not schema.notes:
        return schema
    physical = {
        mapping.column for name, mapping in source.columns.items() if name in masked
    } | masked.keys()
    is_computed = any(source.columns[name].expr for name in masked if name in source.columns)
    shown = () if is_computed else schema.notes
    return replace(schema, notes=tuple(each for each in shown if each.column not in physical))


def _with_strategies(plan: ComparisonPlan, requested: Strategy) -> ComparisonPlan:
    """What stages read decides with it how they are compared, and what sources may keep."""
    plan = replace(plan, stages=with_strategies(plan.stages, requested))
    if requested not in {Strategy.AUTO, Strategy.PUSHDOWN}:
        return plan
    conditions = [shared_condition(plan.stages, scan.index) for scan in plan.scans]
    return plan.with_scans(
        tuple(
            replace(scan, only=None if condition is None else Only(where=condition))
            for scan, condition in zip(plan.scans, conditions, strict=True)
        )
    )


class _Planning:
    """One pass over the stages, collecting faults and warnings instead of stopping."""

    def __init__(
        self,
        *,
        request: PlanRequest,
        sources: Sequence[LogicalSource],
        untotalled: frozenset[tuple[str, str]],
    ) -> None:
        self.request, self.job, self.sources = request, request.job, sources
        self.untotalled = untotalled
        """Stage and name of measures over several units."""
        self.faults: list[Fault] = []
        self.warnings: list[Warn] = []

    def stages(self) -> tuple[StagePlan, ...]:
        plans: dict[str, StagePlan] = {}
        escalated: str | None = None
        for index, stage in enumerate(self.job.stages):
            scope_of = stage.scope.from_stage if stage.scope else escalated
            plan = self._stage(stage, index)
            if scope_of is not None and scope_of in plans:
                plan = replace(plan, scope=plans[scope_of].groups_of_rows)
                plans[scope_of] = replace(plans[scope_of], stores_scope=True)
            plans[stage.name] = plan
            if stage.scope is None:
                escalated = None
            if stage.on_unmatched is OnUnmatched.ESCALATE:
                escalated = stage.name
        return tuple(plans.values())

    def _stage(self, stage: Stage, index: int) -> StagePlan:
        path: Path = ("spec", "stages", index)
        sources = self._read_by(stage, path)
        draft = StageDraft(job=self.job, sources=sources, stage=stage, path=path)
        content = self._over_rows(draft) if sources else _StageContent(dimensions=())
        if stage.type is StageType.SCHEMA:
            content = self._over_columns(draft)
        elif stage.type is StageType.DIGEST:
            content = self._over_buckets(draft, content)
        measures = tuple(
            replace(each, has_total=False, total_scale=None)
            if (stage.name, each.name) in self.untotalled
            else each
            for each in content.measures
        )
        self.faults.extend((*draft.faults, *self._where_faults(stage, path)))
        self.warnings.extend(draft.warnings)
        return StagePlan(
            name=stage.name,
            index=index,
            type=stage.type,
            job_uid=self.request.job_uid,
            scans=(),
            dimensions=content.dimensions,
            measures=measures,
            catalogue=content.catalogue,
            hashed=content.hashed,
            reference=self.job.source_index(stage.reference or self.job.reference_source),
            duplicates=self._duplicates(stage),
            queries=self._queries(stage, sources, content),
            null_keys=self.job.normalize.nulls.keys,
            empty=self.job.empty,
            where=self._where(stage),
            written_where=stage.where,
            on_unmatched=stage.on_unmatched,
            warn_at=stage.warn_at,
            accept=stage.accept,
            confirm=stage.confirm,
            stores_scope=stage.confirm is not None,
            caps=self._caps(),
            effort=self._effort(),
            seal_rows=self.job.execution.proof is ProofMode.ROWS,
        )

    def _read_by(self, stage: Stage, path: Path) -> Sequence[LogicalSource]:
        """The job's sources, or the results of the stage's queries; none where one cannot run."""
        if stage.type is not StageType.CUSTOM_SQL:
            return self.sources
        unfit = [each for each in self.sources if each.source.kind not in QUERY_KINDS]
        self.faults.extend(
            _absent(
                (*path, "queries", each.name), f"a query over a source of kind {kind}", _QUERIES
            )
            for each in unfit
            for kind in (each.source.kind,)
        )
        returned = self.request.queries.get(stage.name, {})
        if unfit:
            return ()
        named = [
            logical_source(
                query_source(each.source, stage.queries[each.name]), each.index, returned[each.name]
            )
            for each in self.sources
        ]
        return with_partner_types(named)

    def _effort(self) -> Effort:
        execution = self.job.execution
        cut = None if execution.partitions == "auto" else execution.partitions
        return Effort(partitions=cut, spill=execution.spill)

    def _duplicates(self, stage: Stage) -> DuplicatePolicy:
        """A query returns a group once; twice is an error, also where rows may repeat."""
        if stage.type is StageType.CUSTOM_SQL:
            return DuplicatePolicy.ERROR
        return stage.duplicates or self.job.duplicates

    def _queries(
        self, stage: Stage, sources: Sequence[LogicalSource], content: "_StageContent"
    ) -> tuple[Scan, ...]:
        if stage.type is not StageType.CUSTOM_SQL:
            return ()
        parts: list[DimensionPlan | MeasurePlan] = [*content.dimensions, *content.measures]
        wanted = frozenset(each.column for part in parts for each in part.inputs if each)
        return tuple(each.scan(self.request.pins[each.name], wanted) for each in sources)

    def _over_rows(self, draft: StageDraft) -> "_StageContent":
        """Groups of the sources' rows; without dimensions whole rows are the key."""
        stage = draft.stage
        if stage.type in STAR_STAGES and not stage.dimensions:
            return _StageContent(dimensions=draft.measures_as_key())
        keyless = stage.type in (StageType.COUNTS, StageType.SCHEMA)
        dimensions = () if keyless else draft.dimensions()
        return _StageContent(dimensions=dimensions, measures=draft.measures())

    def _over_columns(self, draft: StageDraft) -> "_StageContent":
        """Groups of the sources' columns."""
        catalogue = catalogue_of(self.sources, self.job.schema)
        draft.faults.extend(catalogue_faults(self.sources, catalogue, draft.path))
        return _StageContent(
            dimensions=(column_dimension(len(self.sources)),),
            measures=column_measures(self.sources, catalogue),
            catalogue=catalogue,
        )

    def _over_buckets(self, draft: StageDraft, rows: "_StageContent") -> "_StageContent":
        """Groups of the hashes of the sources' rows."""
        return _StageContent(
            dimensions=(bucket_dimension(len(self.sources)),),
            measures=bucket_measures(rows.measures, len(self.sources), draft.stage.compare_to),
            hashed=hashed_rows(rows.dimensions, rows.measures),
        )

    def _caps(self) -> Caps:
        breaks = self.job.results.breaks
        return Caps(
            max_rows=breaks.max_rows,
            sample_per_class=breaks.sample_per_class,
            deltas=breaks.deltas,
        )

    def _where(self, stage: Stage) -> str | None:
        """The condition as engines evaluate it: anything beyond comparisons is a column."""
        if stage.where is None or is_plain(stage.where):
            return stage.where
        return f'"{condition_column(stage.name)}"'

    def conditions(self, source: LogicalSource) -> Mapping[str, str]:
        """Conditions that a source computes, over its columns, by the column of each."""
        return {
            condition_column(stage.name): over_source(stage.where, source.columns)
            for stage in self.job.stages
            if stage.where is not None and not is_plain(stage.where)
        }

    def _where_faults(self, stage: Stage, path: Path) -> list[Fault]:
        if stage.where is None:
            return []
        where, path = stage.where, (*path, "where")
        try:
            node = parse_expression(where)
        except ExpressionError as cause:
            return [syntax_fault(cause, path)]
        columns = columns_of(node)
        candidates = (
            source.fault_of(column, path) for column in sorted(columns) for source in self.sources
        )
        faults = [fault for fault in candidates if fault is not None]
        if faults:
            return faults
        if is_plain(where):
            return [fault for each in self.sources for fault in _mixed(each, node, path)]
        return [
            fault
            for source in self.sources
            for fault in expression_faults(
                source, over_source(where, source.columns), path, wanted=BOOL
            )
        ]

    def job_faults(self) -> list[Fault]:
        """Faults of the sources and of the job as a whole."""
        faults = [fault for source in self.sources for fault in mapping_faults(source)]
        known = sorted({name for source in self.sources for name in source.columns})
        faults.extend(
            Fault(
                code=SpecCode.UNKNOWN_MASK_COLUMN,
                path=("spec", "results", "breaks", "mask", column),
                message=f"no source has a column {column!r}",
                hint=did_you_mean(column, known),
            )
            for column in self.job.results.breaks.mask
            if column not in known
        )
        return faults


@dataclass(frozen=True, slots=True, kw_only=True)
class _StageContent:
    """What a stage groups by and compares."""

    dimensions: tuple[DimensionPlan, ...]
    measures: tuple[MeasurePlan, ...] = ()
    catalogue: Catalogue | None = None
    hashed: HashedRows | None = None


def _mixed(source: LogicalSource, node: Node, path: Path) -> Iterator[Fault]:
    """A condition that engines judge compares values of one kind."""
    try:
        check_comparisons(node, {name: each.type for name, each in source.columns.items()})
    except ExpressionError as cause:
        yield types_fault(source.name, cause, path)


def _absent(path: Path, what: str, hint: str) -> Fault:
    return Fault(
        code=SpecCode.FEATURE_NOT_INSTALLED,
        path=path,
        message=f"{what} is not part of this release",
        hint=hint,
    )


def _wanted_columns(source: LogicalSource, stages: Sequence[StagePlan]) -> frozenset[str]:
    """Logical columns that some stage takes from the rows of a source, and no others."""
    wanted: set[str] = set()
    for stage in (each for each in stages if each.type is not StageType.CUSTOM_SQL):
        wanted.update(named_columns(stage.where))
        wanted.update(
            entry.column for inputs in _inputs(stage) if (entry := inputs[source.index]) is not None
        )
    return frozenset(wanted)


def _inputs(stage: StagePlan) -> list[Sequence[InputPlan | None]]:
    """By key part and measure; a measure that cannot be compared is not read."""
    measures = (measure.inputs for measure in stage.row_measures if measure.comparable)
    return [*(dimension.inputs for dimension in stage.row_dimensions), *measures]
