"""The plan: everything a run will read, compare and judge, fixed before the run.

A plan is data (D7): tuples and frozen dataclasses, so it can be printed, hashed, stored and sent
to a child process (`comparison.document`). Every per-source tuple has one entry per source, in
declaration order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from datarecs_core.comparison.planning.additivity import is_unit
from datarecs_core.comparison.planning.rules import STRICT, Rules
from datarecs_core.comparison.planning.scan import Groups, Pin, Scan
from datarecs_core.comparison.planning.tolerance import ExactTolerance, Tolerance
from datarecs_core.jobs.definition import (
    DEFAULT_EXECUTION,
    Accept,
    Confirm,
    SchemaPolicy,
    WarnAt,
)
from datarecs_core.jobs.types import CanonicalType
from datarecs_core.jobs.vocabulary import (
    Bound,
    Combine,
    CompareTo,
    DuplicatePolicy,
    EmptyPolicy,
    Function,
    MaskRule,
    NullKeys,
    OnUnmatched,
    StageType,
    Strategy,
)

CANONICAL_VERSION = "c1"
ROWS = "$rows"
"""The measure that compares multiplicities in row stages."""
PRESENCE = "$presence"
"""The measure name in the difference of an unmatched group."""
MAX_PATTERNS = 4096
MIN_SOURCES_FOR_ODD = 3
"""Of fewer sources none is the odd one."""
_SINGLE_ROWS = frozenset({StageType.SCHEMA, StageType.CUSTOM_SQL})
_TOTALS = frozenset({StageType.COUNTS, StageType.AGGREGATE})
_NUMERIC_RESULTS = frozenset({Function.COUNT, Function.COUNT_DISTINCT, Function.SUM, Function.AVG})


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPlan:
    """How one source delivers a dimension or measure: a column, its map, its cast."""

    column: str
    """Logical column of the source's scan."""
    type: CanonicalType
    """As the scan delivers it."""
    mapped: bool = False
    """The source has a map here."""
    map: tuple[tuple[str, str], ...] = ()
    """Canonical text to text, sorted; what it yields is read as `result`."""
    map_strict: bool = False
    cast: CanonicalType | None = None
    """Declared, or added by the planner (text to uuid, naive to aware)."""
    zone: str | None = None
    """IANA zone for a cast from naive to aware."""

    @property
    def result(self) -> CanonicalType:
        return self.cast or self.type


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionPlan:
    name: str
    inputs: tuple[InputPlan, ...]
    rules: Rules = STRICT
    mask: MaskRule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The coarsest declaration among the sources, which separates PRECISION from OUTSIDE.

    At most one field is set. Numbers are cut towards zero, times to the earlier moment.
    """

    scale: int | None = None
    second_digits: int | None = None
    float32: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePlan:
    name: str
    index: int
    """Position in the stage."""
    function: Function
    inputs: tuple[InputPlan | None, ...]
    """None in every source for `count` of rows, and where a `"*"` column is absent."""
    rules: Rules = STRICT
    tolerances: tuple[Tolerance, ...] = (ExactTolerance(),)
    combine: Combine = Combine.ALL
    bound: Bound = Bound.INCLUSIVE
    compare_to: CompareTo = CompareTo.REFERENCE
    comparable: bool = True
    """False: NOT_COMPARABLE, outside in every matched group (`"*"` alone)."""
    places: int | None = None
    """Digits after the point to which `avg` is rounded, half-even, once."""
    cut: Cut | None = None
    """None when every source declares the same precision."""
    has_total: bool = False
    """Whether totals and gaps exist: numbers, but for values, minima and maxima of floats."""
    total_scale: int | None = None
    """Digits after the point of a total, which has at most 38 in all; None = all digits."""
    mask: MaskRule | None = None
    adds_up: bool | None = None
    """As the job declares it; changes which totals are shown, and no number."""

    @property
    def subtractable(self) -> bool:
        """Numbers and times: deltas exist."""
        first = self.inputs[0]
        if first is None or self.function in _NUMERIC_RESULTS:
            return self.comparable
        return self.comparable and (first.result.is_number or first.result.is_time)


ROWS_MEASURE = MeasurePlan(
    name=ROWS, index=0, function=Function.COUNT, inputs=(None,), has_total=True, total_scale=0
)
"""Multiplicity, compared exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRow:
    """A logical column of one source, which a schema stage compares like a row."""

    name: str
    type: str
    """The canonical type as a job writes it, after a declared cast."""
    nullable: bool
    position: int
    """From 1, in the order of the source, ignored columns not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What a schema stage compares, known before any row is read."""

    policy: SchemaPolicy = field(hash=False)
    columns: tuple[tuple[ColumnRow, ...], ...]
    """Per source its columns but the ignored ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedRows:
    """The rows for the fingerprints of a digest stage."""

    dimensions: tuple[DimensionPlan, ...]
    measures: tuple[MeasurePlan, ...] = ()
    """In the code point order of their names, so that no source's column order matters; all are
    comparable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopePlan:
    """Only rows that pass `where` and whose `dimensions` are a differing group of `from_stage`."""

    from_stage: str
    dimensions: tuple[DimensionPlan, ...]
    where: str | None = None
    buckets: bool = False
    """`from_stage` is a digest: what differs there is the bucket of the dimensions' values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyChoice:
    chosen: Strategy
    requested: Strategy
    rejected: tuple[tuple[Strategy, str], ...] = ()
    """Each with its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How many differences are stored and shown; counts are always complete."""

    max_rows: int = 1_000_000
    largest_per_measure: int = 1000
    """Of the largest |delta| stored first when `max_rows` is exceeded."""
    sample_per_class: int = 50
    deltas: bool = True
    """Keep WITHIN rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Settings of the execution; no number depends on them."""

    partitions: int | None = None
    """Into which rows are cut for the exact comparison; None leaves it to the engine."""
    spill: int = DEFAULT_EXECUTION.spill
    """Bytes of disk for intermediate data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """One comparison over all sources, as an engine gets it."""

    name: str
    index: int
    type: StageType
    job_uid: UUID
    """Part of every break id."""
    scans: tuple[Scan, ...]
    dimensions: tuple[DimensionPlan, ...] = ()
    measures: tuple[MeasurePlan, ...] = ()
    """Of a counts stage the one measure `row_count`; `$rows` is never listed."""
    reference: int = 0
    """Index of the reference source."""
    duplicates: DuplicatePolicy = DuplicatePolicy.MULTISET
    null_keys: NullKeys = NullKeys.GROUP
    empty: EmptyPolicy = EmptyPolicy.WARN
    where: str | None = None
    """Comparisons of columns; any other expression is a column that sources compute."""
    written_where: str | None = None
    """The condition as the job has it."""
    scope: ScopePlan | None = None
    stores_scope: bool = field(default=False, metadata={"yaml": "keep_scope"})
    """A later stage is scoped to this one: the engine stores its differing groups."""
    on_unmatched: OnUnmatched = OnUnmatched.CONTINUE
    warn_at: WarnAt | None = field(default=None, hash=False)
    accept: Accept | None = field(default=None, hash=False)
    strategy: StrategyChoice = StrategyChoice(chosen=Strategy.FULL, requested=Strategy.AUTO)
    groups: tuple[Groups | None, ...] = ()
    """With `pushdown`: per source the groups to read; None where it sends rows."""
    by_keys: tuple[int, ...] = ()
    """Sources that send only rows of the groups in the scope, where these are few."""
    caps: Caps = Caps()
    effort: Effort = Effort()
    catalogue: Catalogue | None = None
    """Of a schema stage alone."""
    hashed: HashedRows | None = None
    """Only of a digest stage, with the bucket as dimension."""
    queries: tuple[Scan, ...] = ()
    """Only of a custom_sql stage: its scan of every source, as in `scans`."""
    seal_rows: bool = False
    """`proof: rows`: the engine returns the sums of fingerprints by bucket."""
    confirm: Confirm | None = None
    rechecks: tuple[tuple[Scan, ...], ...] = field(default=(), metadata={"yaml": "looks"})
    """Scans of every source at newer pins, one entry per recheck; the rows of the groups that
    differed before a recheck are those that it read."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Names, by index."""
        return tuple(scan.source for scan in self.scans)

    @property
    def everywhere(self) -> int:
        """The presence mask of a matched group."""
        return (1 << len(self.scans)) - 1

    @property
    def has_groups(self) -> bool:
        """Some source sends groups, not rows."""
        return any(scan.groups is not None for scan in self.scans)

    @property
    def compares_multisets(self) -> bool:
        """Rows of a key are compared as multisets, and `$rows` exists."""
        return self.type is StageType.ROW and self.duplicates is not DuplicatePolicy.AGGREGATE

    @property
    def pairs_rows(self) -> bool:
        """Values are compared row by row: of multisets, or where every group is one row."""
        return self.compares_multisets or self.type in _SINGLE_ROWS

    @property
    def collapses(self) -> bool:
        """Functions make one row of all that a source has of a group."""
        return not self.pairs_rows and self.type is not StageType.DIGEST

    @property
    def fingerprints_rows(self) -> bool:
        """Under `proof: rows` source rows are fingerprinted; of other stages groups' results."""
        return self.compares_multisets or self.hashed is not None

    @property
    def always_present(self) -> bool:
        """The one group is in every source, rows or not: a grand total."""
        return self.type in _TOTALS and not self.dimensions

    @property
    def unit_dimensions(self) -> tuple[int, ...]:
        """Places of the dimensions that hold the currency or unit of amounts; none is masked."""
        places = tuple(
            at
            for at, each in enumerate(self.dimensions)
            if is_unit([each.name, *(one.column for one in each.inputs)])
        )
        is_masked = any(self.dimensions[at].mask is not None for at in places)
        has_rows = self.hashed is None and self.catalogue is None
        return places if has_rows and not is_masked else ()

    @property
    def zones(self) -> frozenset[str]:
        """IANA zones that casts of this stage and of its scope need."""
        dimensions = (*self.row_dimensions, *(self.scope.dimensions if self.scope else ()))
        inputs = [each for dimension in dimensions for each in dimension.inputs]
        inputs += [each for measure in self.row_measures for each in measure.inputs if each]
        return frozenset(each.zone for each in inputs if each.zone is not None)

    @property
    def groups_of_rows(self) -> ScopePlan:
        """This stage's groups as rows are limited to them."""
        return ScopePlan(
            from_stage=self.name,
            dimensions=self.row_dimensions,
            where=self.where,
            buckets=self.hashed is not None,
        )

    @property
    def row_dimensions(self) -> tuple[DimensionPlan, ...]:
        """Dimensions of the rows that are read: those for fingerprints, none for a schema."""
        if self.catalogue is not None:
            return ()
        return self.dimensions if self.hashed is None else self.hashed.dimensions

    @property
    def row_measures(self) -> tuple[MeasurePlan, ...]:
        """Measures of the rows that are read: those for fingerprints, none for a schema."""
        if self.catalogue is not None:
            return ()
        return self.measures if self.hashed is None else self.hashed.measures


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn:
    """A warning with its code and whom it concerns; never a measured value."""

    code: str
    message: str
    stage: str | None = None
    source: str | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPlan:
    """All stages of a run in order, over one cut."""

    job: str
    job_uid: UUID
    spec_hash: str
    """`sha256:` and 64 hexadecimal characters."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Name and canonical JSON of the value, sorted."""
    scans: tuple[Scan, ...]
    stages: tuple[StagePlan, ...]
    warnings: tuple[Warn, ...] = ()
    """What is known before a row is read."""
    canonical: str = CANONICAL_VERSION

    def with_scans(self, scans: tuple[Scan, ...]) -> "ComparisonPlan":
        """The same plan over other scans, for instance their extracts; custom_sql queries stay."""
        stages = tuple(replace(stage, scans=stage.queries or scans) for stage in self.stages)
        return replace(self, scans=scans, stages=stages)

    def with_pins(self, pins: Mapping[str, Pin]) -> "ComparisonPlan":
        """The same plan over the same reads, with these pins; by source."""
        return self.with_scans(tuple(replace(scan, pin=pins[scan.source]) for scan in self.scans))
