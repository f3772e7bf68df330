"""What a finished run says about itself, as reports show it: run.json read once for every kind.

Page and terminal show this one value, so they cannot differ. Values stay exact text; which words
and separators they get is decided in `words` and `figures`.
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
class PinFacts:
    """What made the read repeatable; which fields are set depends on the kind."""

    kind: str
    database: str | None
    table: str | None
    """Of a lake's catalog; `snapshot` is then its number."""
    snapshot: str | None
    lsn: str | None
    taken_at: str | None
    file_count: int
    size_bytes: int
    digest: str | None
    files: tuple[PinnedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    name: str
    kind: str
    place: Mapping[str, str]
    """Connection, relation, query, path and filter, as far as they were given."""
    pin: PinFacts
    columns: tuple[tuple[str, str], ...]
    """Name and type of everything that was read."""
    read: Closure
    changes: tuple[SealedChange, ...]
    read_as: tuple[str, ...] = ()
    """What was recognised in text files, or left out of them."""
    notes: tuple[str, ...] = ()
    """Why columns are text or values INVALID, with a value; empty for readers without values."""


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
    """None for `$rows`, which no job declares."""
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
    """`outside` broken down; classes without a group are left out."""
    gaps: tuple[str | None, ...]
    """By source."""
    totals: tuple[str | None, ...]
    waterfall: tuple[Waterfall | None, ...]
    """By source; empty entries where the measure has no total."""
    max_abs_delta: str | None
    has_total: bool = True
    """Values are added up, so that there is a gap unless it is unknown."""
    types: tuple[str | None, ...] = ()
    """What is compared, by source; empty where the document does not say."""
    unreadable: tuple[int, ...] = ()
    not_finite: tuple[int, ...] = ()
    """Values by source for which totals are unknown."""
    adds_up: bool = True
    """Its total over all groups is an amount that people may read."""
    mixed_by: str | None = None
    """The compared column that holds currencies or units, which the key does not name."""

    @property
    def counts_rows(self) -> bool:
        """A number of rows, which has no currency."""
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
    """Holds the currency or unit of the amounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceFacts:
    """One stored difference. Its values are by source; a source without the group is absent."""

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
    """By source the key as it is written there, where that is not the key that was compared."""

    @property
    def is_missing(self) -> bool:
        return self.measure == PRESENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class HintFacts:
    """A likely cause with its evidence; no part of the proof."""

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
    """The line of a job that would say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyFacts:
    """How a stage was really compared, and why not otherwise."""

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
    """Of a schema stage alone."""
    hashed: tuple[tuple[str, Mapping[str, str]], ...]
    """Of a digest stage: columns behind the fingerprints, with their rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedFacts:
    """The outcome of rechecks of the differing groups."""

    resolved: int
    first: StageCounts
    """Before any recheck."""
    rechecks: int

    @property
    def initial_differences(self) -> int:
        """Groups that differed at first."""
        return self.first.rows_unmatched


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What a stage asked and found."""

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
    """None where the document does not say."""
    confirmed: ConfirmedFacts | None = None
    """None where nothing was looked at again."""
    unreadable: tuple[Unreadable, ...] = ()
    """Examples; none where values may not be shown."""
    units: tuple[UnitResult, ...] = ()
    """By currency or unit, of those with a difference; empty where the key names none."""

    @property
    def matched(self) -> bool:
        return self.result == "MATCHED"

    @property
    def has_units(self) -> bool:
        """A dimension holds the currency or unit, so that amounts of all groups are not added."""
        return any(each.is_unit for each in self.question.dimensions)

    def is_by_unit(self, measure: MeasureFacts) -> bool:
        """The measure has a total in each currency or unit, and none over all of them."""
        return self.has_units and not measure.counts_rows

    @property
    def outside_groups(self) -> int:
        """Groups of every source with some measure outside its tolerance."""
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
    """Stage, source and column, as far as they apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run that reached a verdict."""

    job: str
    run: Part
    """Ids, attempt, times, execution: of this run alone."""
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
    """Of `proof: rows`."""

    @property
    def source_names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.sources)

    @property
    def matched(self) -> bool:
        return self.result == "MATCHED"
