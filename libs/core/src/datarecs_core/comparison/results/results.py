"""What an engine returns for a stage: counts, measures, differences, warnings, closure.

Engines count; `comparison.verdict` judges. Every per-source tuple has one entry per source, in
declaration order.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from datarecs_core.comparison.planning.plan import StrategyChoice, Warn
from datarecs_core.comparison.planning.scan import Pin
from datarecs_core.comparison.planning.tolerance import Tolerance
from datarecs_core.comparison.values.unreadable import Unreadable
from datarecs_core.values import EXACT


class Verdict(StrEnum):
    """Of a stage or a run: a business outcome, never an error. The values of RunResult."""

    MATCHED = "MATCHED"
    UNMATCHED = "UNMATCHED"


class DifferenceClass(StrEnum):
    """Why a difference is one; the first that fits, in this order."""

    MISSING = "MISSING"
    MULTIPLICITY = "MULTIPLICITY"
    INVALID = "INVALID"
    NULL_MISMATCH = "NULL_MISMATCH"
    NOT_COMPARABLE = "NOT_COMPARABLE"
    PRECISION = "PRECISION"
    OUTSIDE = "OUTSIDE"
    WITHIN = "WITHIN"


class Outcome(StrEnum):
    BREAK = "BREAK"
    WITHIN = "WITHIN"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCounts:
    """Complete, however many are stored or sampled; invariants F01 to F07 hold (`verdict`)."""

    source_row_counts: tuple[int, ...]
    """Rows of the stage: after filter, `where` and scope, before NULL keys are excluded."""
    groups_by_source: tuple[int, ...]
    matched_groups: int
    unmatched_by_source: tuple[int, ...]
    missing_by_source: tuple[int, ...]
    presence: tuple[tuple[int, int], ...]
    """(mask, groups), most frequent first, ties by smaller mask; at most 4,096."""
    presence_other: int = 0
    """Groups of the patterns beyond those."""
    rows_compared: int
    """Groups in the union; Source 001 calls them rows."""
    rows_matched: int
    rows_unmatched: int
    duplicate_keys_by_source: tuple[int, ...]
    """Keys with more than one row; 0 in stages other than row stages."""
    null_keys_by_source: tuple[int, ...]
    """Rows with a NULL in any dimension, under every policy."""
    invalid_values_by_source: tuple[int, ...]
    """Values without a canonical form, in dimensions and measures."""
    excluded_rows_by_source: tuple[int, ...]
    """Rows left out by the policy for NULL keys."""
    odd_one_out: tuple[int, ...]
    """Groups in which all breaks name this source."""

    @property
    def unmatched_groups(self) -> int:
        return self.rows_compared - self.matched_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceResult:
    """One declared tolerance; within and outside of the measure are the combined ones."""

    tolerance: Tolerance
    alone_within: int
    """Matched groups that are within this tolerance alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """How a source's total results from the reference's; every amount is exact."""

    missing_here: Decimal
    """Of the reference, over the groups that are missing in this source."""
    missing_in_reference: Decimal
    """Of this source, over the groups that are missing in the reference."""
    changed: Decimal
    """This source minus the reference, over the groups that both have."""

    @property
    def gap(self) -> Decimal:
        return EXACT.add(EXACT.subtract(self.missing_in_reference, self.missing_here), self.changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureResult:
    """A measure over the matched groups. within + outside = matched_groups."""

    name: str
    tolerances: tuple[ToleranceResult, ...]
    within: int
    outside: int
    equal: int
    within_not_equal: int
    null_mismatch: int = 0
    invalid: int = 0
    precision: int = 0
    multiplicity: int = 0
    not_comparable: int = 0
    """Outside groups by class; the rest of `outside` is class OUTSIDE."""
    total_by_source: tuple[Decimal | None, ...]
    """Sum over all groups of the source; None where the measure has no total, where a value is
    unreadable, NaN or infinite, and where it needs more than 38 digits."""
    gap_by_source: tuple[Decimal | None, ...]
    """Total minus the reference's total; a missing group counts with its whole value."""
    unreadable_by_source: tuple[int, ...] = ()
    """Values without a canonical form; where there is one the source has no total (F18)."""
    not_finite_by_source: tuple[int, ...] = ()
    """NaN and infinities of a measure with a total, which then is unknown too (F18)."""
    waterfall_by_source: tuple[Waterfall | None, ...] = ()
    """The steps of each gap (F15); None where the gap is, or where a step needs over 38 digits."""
    max_abs_delta: Decimal | None = None
    """Largest |other - reference| over matched groups; microseconds for times, None without a
    finite pair."""

    @property
    def passed(self) -> bool:
        return self.outside == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitAmounts:
    """A measure in one currency or unit: the steps from the reference's total to every other."""

    measure: str
    waterfall_by_source: tuple[Waterfall | None, ...]
    """None where a value is no number, and where a step needs over 38 digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """The groups of one currency or unit, where a dimension names it and is not masked.

    Values of a source, so not part of a proof. Equal groups are not counted: they add nothing to
    a difference.
    """

    unit: str
    differing: int
    """Groups that do not agree."""
    missing_here: tuple[int, ...]
    """By source: groups of the reference that are missing in it."""
    missing_in_reference: tuple[int, ...]
    """By source: its groups that are missing in the reference."""
    measures: tuple[UnitAmounts, ...]
    """Those that have a total, in the plan's order."""


MAX_UNITS = 200
"""Of a stage; with more of them the column is not a unit, and there are no numbers by unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One (group, measure) that is not equal, or one unmatched group (spec comparison 9.2)."""

    break_id: str
    """26 base32 characters, stable over runs for every class."""
    stage: str
    measure: str
    """`$presence` for an unmatched group; the values are then its row counts."""
    outcome: Outcome
    difference_class: DifferenceClass
    presence: int
    odd_one_out: str | None
    key: tuple[str | None, ...]
    """Canonical text of each dimension, masked where declared."""
    key_encoded: bytes
    """The key tuple in encoding c1, after masking."""
    key_hash: bytes
    """16 bytes, keyed, of the key before masking."""
    values: tuple[tuple[str, str | None], ...]
    """(source, canonical text or None for NULL), by source index; of several rows of a key the
    first rank that is outside, else the first that is not equal. Empty for MULTIPLICITY of a
    measure; counts for `$rows`."""
    raw_values: tuple[tuple[str, str | None], ...] = ()
    """(source, text before rules) where a rule changed it."""
    deltas: tuple[tuple[str, Decimal], ...] = ()
    """(source, exact other minus reference); microseconds for times."""
    delta_percent: tuple[tuple[str, Decimal], ...] = ()
    """(source, percent of |reference| cut to 6 places); absent for base 0."""
    locator: tuple[tuple[str, str], ...] = ()
    raw_keys: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """(source, the key as it is written there) where cast or rules changed it: up to three
    spellings and how many there are. Outside the digest, like the locator."""

    @property
    def max_abs_delta(self) -> Decimal | None:
        """Orders differences by size; None where nothing can be subtracted."""
        return max((delta.copy_abs() for _, delta in self.deltas), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceSet:
    """The stored differences of a stage and a sample of them."""

    rows: int
    """Stored rows; fewer than found when `truncated`."""
    digest: str
    """`sha256:` and 64 hexadecimal characters: the sum of the rows' hashes modulo 2^256."""
    truncated: bool = False
    location: str | None = None
    """Where the Parquet parts are; None when nothing was stored outside the process."""
    samples: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """Rows of one source in one stage: extracted = grouped + excluded + out_of_scope."""

    extracted: int
    grouped: int
    excluded: int
    out_of_scope: int

    @property
    def closed(self) -> bool:
        return self.extracted == self.grouped + self.excluded + self.out_of_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSum:
    """The fingerprints of one source in one bucket of a stage; only buckets with rows exist."""

    source: int
    bucket: int
    """0 to 4,095."""
    rows: int
    total: int
    """Their sum modulo 2^128."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """One second read of the groups that differed."""

    pins: tuple[Pin, ...]
    """Of every source."""
    counts: StageCounts
    """Of the whole stage, with the rows of this recheck for these groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """How differing groups were confirmed: the counts before, and each recheck."""

    first: StageCounts
    rechecks: tuple[Recheck, ...]
    """At least one; the counts of the last one are the stage's."""

    @property
    def in_flight_resolved(self) -> int:
        """Groups that agreed when they were read again."""
        return self.first.rows_unmatched - self.rechecks[-1].counts.rows_unmatched


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResults:
    """Everything a stage yields. The verdict is not in here: `verdict.stage_verdict` decides."""

    stage: str
    counts: StageCounts
    measures: tuple[MeasureResult, ...]
    """In the plan's order."""
    rows: MeasureResult | None = None
    """`$rows`, in row stages that compare multisets."""
    differences: DifferenceSet
    closure: tuple[Closure, ...]
    warnings: tuple[Warn, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    """One example for each measure and source that has any; a value, so no part of a proof."""
    units: tuple[UnitResult, ...] = ()
    """Of the units with a difference, in their order; empty where no dimension names a unit."""
    digests: tuple[BucketSum, ...] = ()
    """Under `proof: rows`, in any order."""
    metrics: tuple[tuple[str, int], ...] = ()
    """Facts about the execution (rows scanned, partitions); never part of a proof."""
    strategy: StrategyChoice | None = None
    """What was really done, with the reasons of what was not; never part of a proof."""
    confirmed: Confirmed | None = None
    """None where nothing was rechecked."""

    @property
    def all_measures(self) -> tuple[MeasureResult, ...]:
        """The declared ones, then `$rows` where it exists."""
        return self.measures if self.rows is None else (*self.measures, self.rows)

    @property
    def breaks(self) -> int:
        """Unmatched groups, and per measure the matched ones outside: a stored row each."""
        return self.counts.unmatched_groups + sum(each.outside for each in self.all_measures)

    @property
    def within_differences(self) -> int:
        """Per measure the matched groups within tolerances but not equal."""
        return sum(each.within_not_equal for each in self.all_measures)
