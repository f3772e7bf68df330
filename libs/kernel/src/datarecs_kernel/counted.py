"""Counts of tasks that the driver adds: groups, measures, totals, stored parts and samples.

Tasks send plain numbers to the driver as JSON; merging only adds them, so retries and partitionings
have no effect on the result.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from datarecs_core.comparison.results.fingerprints import FINGERPRINT_BYTES
from datarecs_core.comparison.results.results import BucketSum, DifferenceClass
from datarecs_core.hashing import JsonValue
from datarecs_core.values import EXACT

GroupKind = tuple[int, int, bool, int | None]
"""Presence mask, bits of sources with several rows, whether it differs, the odd one out."""

_MODULUS = 2 ** (8 * FINGERPRINT_BYTES)
"""Of sums of fingerprints."""


@dataclass(slots=True)
class MeasureTally:
    """Matched groups with an unequal value of one measure."""

    unequal: int = 0
    outside: int = 0
    alone_outside: Counter[int] = field(default_factory=Counter)
    """By position of the tolerance: groups outside it."""
    classes: Counter[str] = field(default_factory=Counter)
    largest: str | None = None
    """`canonical.size_key` of the largest |delta|."""

    def see(
        self, alone_outside: Sequence[int], *, outside: int, kinds: Mapping[DifferenceClass, int]
    ) -> None:
        """Count groups: those outside each tolerance alone, and those per class."""
        self.unequal += sum(kinds.values())
        self.outside += outside
        self.classes.update({kind.value: groups for kind, groups in kinds.items() if groups})
        self.alone_outside.update({at: groups for at, groups in enumerate(alone_outside) if groups})

    def reach(self, size: str | None) -> None:
        if size is not None and (self.largest is None or size > self.largest):
            self.largest = size

    def add(self, other: "MeasureTally") -> None:
        self.unequal += other.unequal
        self.outside += other.outside
        self.alone_outside += other.alone_outside
        self.classes += other.classes
        self.reach(other.largest)


@dataclass(slots=True)
class Counted:
    """All counts of one task, or of all tasks."""

    sources: int
    groups: Counter[GroupKind] = field(default_factory=Counter)
    grouped: list[int] = field(default_factory=list)
    """Rows per source in all groups."""
    measures: dict[int, MeasureTally] = field(default_factory=dict)
    totals: dict[tuple[int, int], Decimal] = field(default_factory=dict)
    """Totals by measure and source, of aggregates."""
    rounded: list[int] = field(default_factory=list)
    """Float values per source that lost digits in sums."""
    overflows: set[tuple[int, int]] = field(default_factory=set)
    """Measure and source of sums of more than 38 digits."""
    repeated_keys: list[str] = field(default_factory=list)
    """Hashes of some keys with several rows."""
    truncated: bool = False
    """Not every difference is stored."""
    alone: dict[tuple[int, int, int], Decimal] = field(default_factory=dict)
    """By measure, source and presence mask: amounts in groups that are missing in a source. Numbers
    of rows follow after the declared measures."""
    unit_groups: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Open groups by unit and presence mask, where a dimension names a unit."""
    unit_differing: Counter[str] = field(default_factory=Counter)
    """Groups that differ, per unit; every unit of an open group is a key."""
    unit_amounts: dict[tuple[int, int, int, str], Decimal] = field(default_factory=dict)
    """By measure, source, presence mask and unit: amounts in open groups."""
    units_are_no_words: bool = False
    """A unit is not a short word, or there are too many: nothing is counted by unit."""
    sealed: tuple[BucketSum, ...] = ()
    """Sums of fingerprints with `proof: rows`, by source and bucket."""
    opened: int = 0
    """Groups that are not fully equal."""
    differences: int = 0
    """Rows to store without a limit."""
    candidates: list[str] = field(default_factory=list)
    """Names of files with differences that may be stored (`candidates`)."""
    stored: int = 0
    digest: int = 0
    """Sum of the stored rows' hashes."""
    parts: list[str] = field(default_factory=list)
    scope_parts: list[str] = field(default_factory=list)
    samples: list[JsonValue] = field(default_factory=list)
    """Documents of differences."""

    def __post_init__(self) -> None:
        self.grouped = self.grouped or [0] * self.sources
        self.rounded = self.rounded or [0] * self.sources

    def tally(self, measure: int) -> MeasureTally:
        return self.measures.setdefault(measure, MeasureTally())

    def add_alone(self, place: tuple[int, int, int], amount: Decimal) -> None:
        self.alone[place] = EXACT.add(self.alone.get(place, Decimal(0)), amount)

    def add_in_unit(self, place: tuple[int, int, int, str], amount: Decimal) -> None:
        self.unit_amounts[place] = EXACT.add(self.unit_amounts.get(place, Decimal(0)), amount)

    def refuse_units(self) -> None:
        """Count nothing by unit."""
        self.units_are_no_words = True
        for counts in (self.unit_groups, self.unit_differing, self.unit_amounts):
            counts.clear()

    def _add_units(self, other: "Counted") -> None:
        if self.units_are_no_words or other.units_are_no_words:
            self.refuse_units()
            return
        self.unit_groups.update(other.unit_groups)
        self.unit_differing.update(other.unit_differing)
        for place, amount in other.unit_amounts.items():
            self.add_in_unit(place, amount)

    def add(self, other: "Counted") -> None:
        """Add another task's numbers to these."""
        self.groups += other.groups
        self.grouped = [a + b for a, b in zip(self.grouped, other.grouped, strict=True)]
        self.rounded = [a + b for a, b in zip(self.rounded, other.rounded, strict=True)]
        for measure, tally in other.measures.items():
            self.tally(measure).add(tally)
        for place, total in other.totals.items():
            self.totals[place] = EXACT.add(self.totals.get(place, Decimal(0)), total)
        for alone, amount in other.alone.items():
            self.add_alone(alone, amount)
        self._add_units(other)
        self.overflows |= other.overflows
        self.repeated_keys = sorted({*self.repeated_keys, *other.repeated_keys})
        self.opened += other.opened
        self.differences += other.differences
        self.candidates += other.candidates
        self.truncated |= other.truncated
        self.stored += other.stored
        self.digest = (self.digest + other.digest) % 2**256
        self.parts += other.parts
        self.scope_parts += other.scope_parts
        self.samples += other.samples
        self.sealed = _added_sums((*self.sealed, *other.sealed))

    def written(self) -> str:
        """As JSON; decimals and the digest are texts."""
        return json.dumps(
            {
                "groups": [[*kind, times] for kind, times in self.groups.items()],
                "grouped": self.grouped,
                "measures": [
                    [
                        at,
                        each.unequal,
                        each.outside,
                        list(each.alone_outside.items()),
                        dict(each.classes),
                        each.largest,
                    ]
                    for at, each in self.measures.items()
                ],
                "totals": [[*place, str(total)] for place, total in self.totals.items()],
                "alone": [[*place, str(amount)] for place, amount in self.alone.items()],
                "unit_groups": [[*kind, many] for kind, many in self.unit_groups.items()],
                "unit_differing": dict(self.unit_differing),
                "unit_amounts": [
                    [*place, str(amount)] for place, amount in self.unit_amounts.items()
                ],
                "units_are_no_words": self.units_are_no_words,
                "rounded": self.rounded,
                "overflows": [list(place) for place in self.overflows],
                "repeated_keys": self.repeated_keys,
                "opened": self.opened,
                "differences": self.differences,
                "candidates": self.candidates,
                "truncated": self.truncated,
                "stored": self.stored,
                "digest": str(self.digest),
                "parts": self.parts,
                "scope_parts": self.scope_parts,
                "samples": self.samples,
                "sealed": [
                    [each.source, each.bucket, each.rows, str(each.total)] for each in self.sealed
                ],
            }
        )


def read_counted(written: str, sources: int) -> Counted:
    """Read the counts that a task wrote."""
    document = json.loads(written)
    return Counted(
        sources=sources,
        groups=Counter(
            {
                (mask, many, differs, odd): times
                for mask, many, differs, odd, times in document["groups"]
            }
        ),
        grouped=document["grouped"],
        measures={
            at: MeasureTally(
                unequal, outside, Counter(dict(alone_outside)), Counter(classes), largest
            )
            for at, unequal, outside, alone_outside, classes, largest in document["measures"]
        },
        totals={(measure, source): Decimal(total) for measure, source, total in document["totals"]},
        alone={
            (measure, source, mask): Decimal(amount)
            for measure, source, mask, amount in document["alone"]
        },
        unit_groups=Counter({(unit, mask): many for unit, mask, many in document["unit_groups"]}),
        unit_differing=Counter(document["unit_differing"]),
        unit_amounts={
            (measure, source, mask, unit): Decimal(amount)
            for measure, source, mask, unit, amount in document["unit_amounts"]
        },
        units_are_no_words=document["units_are_no_words"],
        rounded=document["rounded"],
        overflows={(measure, source) for measure, source in document["overflows"]},
        repeated_keys=document["repeated_keys"],
        opened=document["opened"],
        differences=document["differences"],
        candidates=document["candidates"],
        truncated=document["truncated"],
        stored=document["stored"],
        digest=int(document["digest"]),
        parts=document["parts"],
        scope_parts=document["scope_parts"],
        samples=document["samples"],
        sealed=tuple(
            BucketSum(source=source, bucket=bucket, rows=rows, total=int(total))
            for source, bucket, rows, total in document["sealed"]
        ),
    )


def _added_sums(sums: Sequence[BucketSum]) -> tuple[BucketSum, ...]:
    """Items per source and bucket, in order."""
    added: dict[tuple[int, int], BucketSum] = {}
    for part in sums:
        place = (part.source, part.bucket)
        before = added.get(place, replace(part, rows=0, total=0))
        total = (before.total + part.total) % _MODULUS
        added[place] = replace(part, rows=before.rows + part.rows, total=total)
    return tuple(added[place] for place in sorted(added))
