"""The data of a finished run for reports: run.json, decoded once for all kinds of reports.

Page and terminal show the same value, so they cannot differ. Values stay exact text; `words` and
`figures` decide words and separators.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from datarecs_core.comparison.planning.plan import PRESENCE
from datarecs_core.comparison.proof.reading import Part
from datarecs_core.comparison.proof.sealed import SealedChange
from datarecs_core.comparison.results.results import (
    Closure,
    DifferenceClass,
    StageCounts,
    UnitResult,
    Waterfall,
)
from datarecs_core.comparison.values.unreadable import Unreadable
from datarecs_core.jobs.definition import SchemaPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFile:
    path: str
    size_bytes: int
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedOffsets:
    """Offsets of one partition of a topic, `[start, end)`."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PinFacts:
    """The pin of a source; the kind decides which fields are set."""

    kind: str
    database: str | None
    table: str | None
    """Table of a lake's catalog; `snapshot` is then its snapshot number."""
    snapshot: str | None
    lsn: str | None
    taken_at: str | None
    file_count: int
    size_bytes: int
    digest: str | None
    files: tuple[PinnedFile, ...]
    catalogued: str | None = None
    """Id of the equal snapshot of the catalogue."""
    committed_at: str | None = None
    """Of that snapshot."""
    topic: str | None = None
    offsets: tuple[PinnedOffsets, ...] = ()
    table_snapshot: str | None = None
    """The snapshot of a sink's table that states the ends of the offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    name: str
    kind: str
    place: Mapping[str, str]
    """Connection, relation, query, path and filter, if declared."""
    pin: PinFacts
    columns: tuple[tuple[str, str], ...]
    """Name and type of every column that was read."""
    read: Closure
    changes: tuple[SealedChange, ...]
    read_as: tuple[str, ...] = ()
    """Format of text files, and lines left out of them."""
    notes: tuple[str, ...] = ()
    """Why columns are text or values INVALID, with a value; empty if the reader may see none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceFacts:
    type: str
    value: str
    """Seconds of a DURATION, percent of a PERCENTAGE."""
    base: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureFacts:
    name: str
    tolerances: tuple[ToleranceFacts, ...]
    function: str | None
    """None for `$rows`, which jobs do not declare."""
    combine: str
    bound: str
    compare_to: str
    rules: Mapping[str, str]
    comparable: bool
    within: int
    outside: int
    equal: int
    within_not_equal: int
    classes: Mapping[DifferenceClass, int]
    """`outside` by class; classes without groups are left out."""
    gaps: tuple[str | None, ...]
    """By source."""
    totals: tuple[str | None, ...]
    waterfall: tuple[Waterfall | None, ...]
    """By source; empty entries if the measure has no total."""
    max_abs_delta: str | None
    has_total: bool = True
    """Whether values are added up, so that there is a gap unless it is unknown."""
    types: tuple[str | None, ...] = ()
    """The compared columns, by source; empty if the document does not have them."""
    unreadable: tuple[int, ...] = ()
    not_finite: tuple[int, ...] = ()
    """Number of values by source that make totals unknown."""
    adds_up: bool = True
    """Whether its total over all groups is a meaningful amount."""
    mixed_by: str | None = None
    """The compared column with currencies or units that are not in the key."""

    @property
    def counts_rows(self) -> bool:
        """Whether it is a number of rows, which has no currency."""
        return self.function in (None, "count")

    @property
    def compared(self) -> int:
        return self.within + self.outside

    @property
    def passed(self) -> bool:
        return self.outside == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionFacts:
    name: str
    rules: Mapping[str, str]
    types: tuple[str, ...] = ()
    """By source."""
    is_unit: bool = False
    """Whether the column has the currency or unit of the amounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceFacts:
    """One stored difference. Its values are by source, without sources that miss the group."""

    break_id: str
    measure: str
    is_break: bool
    difference_class: DifferenceClass
    presence: int
    odd_one_out: str | None
    key: tuple[str | None, ...]
    values: Mapping[str, str | None]
    raw_values: Mapping[str, str | None]
    deltas: Mapping[str, str | None]
    delta_percent: Mapping[str, str | None]
    raw_keys: Mapping[str, str | None] = field(default_factory=dict)
    """The key as written in a source, if it is not the compared key; by source."""

    @property
    def is_missing(self) -> bool:
        return self.measure == PRESENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class HintFacts:
    """A likely cause with its evidence; not part of the proof."""

    rule: str
    measure: str
    """`$presence` for keys."""
    source: str
    what: str
    explained: int
    of: int
    examples: tuple[str, ...]
    """Break ids."""
    declare: str
    """The line of a job that declares it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyFacts:
    """The strategy of a stage, and the reasons against the others."""

    chosen: str
    rejected: tuple[tuple[str, str], ...]
    """Strategy and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFacts:
    dimensions: tuple[DimensionFacts, ...]
    reference: str
    where: str | None
    scope: str | None
    duplicates: str
    null_keys: str
    empty: str
    on_unmatched: str
    accept: Mapping[str, str]
    warn_at: Mapping[str, str]
    schema: SchemaPolicy | None
    """Only for a schema stage."""
    hashed: tuple[tuple[str, Mapping[str, str]], ...]
    """Only for a digest stage: the columns of the fingerprints, with their rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedFacts:
    """The outcome of rechecks of the differing groups."""

    resolved: int
    first: StageCounts
    """Number of differing groups before the first recheck."""
    rechecks: int

    @property
    def initial_differences(self) -> int:
        """Groups that differed at first."""
        return self.first.rows_unmatched


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """The declaration and the result of a stage."""

    result: str
    acceptance: str
    question: QuestionFacts
    counts: StageCounts
    measures: tuple[MeasureFacts, ...]
    stored: int
    truncated: bool
    samples: tuple[DifferenceFacts, ...]
    hints: tuple[HintFacts, ...]
    strategy: StrategyFacts | None
    """None if the document does not have it."""
    confirmed: ConfirmedFacts | None = None
    """None without a recheck."""
    unreadable: tuple[Unreadable, ...] = ()
    """Examples; none if values may not be shown."""
    units: tuple[UnitResult, ...] = ()
    """Currencies or units with a difference; empty if the key has none."""

    @property
    def matched(self) -> bool:
        return self.result == "MATCHED"

    @property
    def has_units(self) -> bool:
        """Whether a dimension is the currency or unit, so that amounts are not added over all."""
        return any(each.is_unit for each in self.question.dimensions)

    def is_by_unit(self, measure: MeasureFacts) -> bool:
        """Whether the measure has a total in each currency or unit, and none over all."""
        return self.has_units and not measure.counts_rows

    @property
    def outside_groups(self) -> int:
        """Groups in every source with a measure outside its tolerance."""
        return self.counts.rows_unmatched - self.counts.unmatched_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    name: str
    type: str
    executed: Executed | None
    skipped: str | None
    stopped_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningFacts:
    code: str
    message: str
    where: tuple[str, ...]
    """Stage, source and column, if they apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run with a verdict."""

    job: str
    run: Part
    """Ids, attempt, times and execution of this run."""
    result: str
    acceptance: str
    proof_hash: str
    spec_hash: str
    key_id: str
    canonical: str
    versions: Mapping[str, str]
    parameters: Mapping[str, str]
    warnings: tuple[WarningFacts, ...]
    sources: tuple[SourceFacts, ...]
    stages: tuple[StageFacts, ...]
    samples_cut: bool
    merkle_root: str | None
    """The Merkle root, only with `proof: rows`."""

    @property
    def source_names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.sources)

    @property
    def matched(self) -> bool:
        return self.result == "MATCHED"
