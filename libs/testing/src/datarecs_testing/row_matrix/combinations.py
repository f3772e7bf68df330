"""The combinations of data and rules in the matrix: every pair of values is in one of them.

So is every triple of share, order and duplicates, which decide how rows meet. The set is made by a
greedy search in a fixed order, so every run compares the same combinations under the same names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import combinations, product


class Share(StrEnum):
    """How many rows differ."""

    NONE = "equal"
    FEW = "few"
    """0.03 %."""
    SOME = "some"
    """5 %."""
    COLUMN = "one-column"
    """Of every row."""
    COLUMNS = "two-columns"
    DISJOINT = "disjoint"
    """No key is in two sources."""


class Order(StrEnum):
    SAME = "same-order"
    SHUFFLED = "shuffled"
    """Each source in another way."""
    REVERSED = "reversed"
    """All sources but the first."""


class Key(StrEnum):
    BIGINT = "bigint"
    TEXT = "text"
    UUID = "uuid"
    DECIMAL = "decimal"
    """With another scale in every second source."""
    DATE_TEXT = "date+text"
    DOUBLE = "double"
    TIMESTAMP = "timestamp"
    BOOL_INT = "bool+int"
    NULLABLE = "nullable"
    """Of two columns, each with NULLs."""


class Files(StrEnum):
    """Of the first source; every other source is one file."""

    ONE = "1-file"
    EIGHT = "8-files"
    MANY = "64-files"
    EMPTY = "empty-file"
    """Eight, one without rows."""


class Duplicates(StrEnum):
    NONE = "unique"
    TWICE = "twice"
    """Every tenth key, in every source."""
    UNEQUAL = "unequal"
    """Every tenth key once, twice or three times, in each source otherwise."""
    HEAVY = "heavy"
    """One key has a hundredth of all rows."""


class Values(StrEnum):
    PLAIN = "plain"
    SCALES = "scales"
    """Numbers of other types and scales in every second source."""
    DOUBLES = "doubles"
    """With NULL, NaN, infinities and -0."""
    TEXTS = "texts"
    """Long ones, with NUL and letters beyond ASCII."""
    TIMES = "times"


class Rule(StrEnum):
    EXACT = "exact"
    FOLD = "fold"
    """Spaces around texts and their case do not matter."""
    ABSOLUTE = "absolute"
    PERCENTAGE = "percentage"
    DURATION = "duration"


class Storage(StrEnum):
    """Compression and rows of a row group; every second source has the next one."""

    SNAPPY = "snappy"
    ZSTD = "zstd"
    GZIP = "gzip"
    PLAIN = "uncompressed"


STORED_FEW, STORED_MANY = 1_000, 1_000_000
DIMENSIONS: Mapping[str, Sequence[StrEnum | int]] = {
    "share": tuple(Share),
    "order": tuple(Order),
    "key": tuple(Key),
    "files": tuple(Files),
    "duplicates": tuple(Duplicates),
    "values": tuple(Values),
    "sources": (2, 3, 5),
    "rule": tuple(Rule),
    "storage": tuple(Storage),
    "limit": (STORED_FEW, STORED_MANY),
}
RULES: Mapping[Values, frozenset[Rule]] = {
    Values.PLAIN: frozenset(Rule),
    Values.SCALES: frozenset({Rule.EXACT, Rule.ABSOLUTE, Rule.PERCENTAGE}),
    Values.DOUBLES: frozenset({Rule.EXACT, Rule.ABSOLUTE, Rule.PERCENTAGE}),
    Values.TEXTS: frozenset({Rule.EXACT, Rule.FOLD}),
    Values.TIMES: frozenset({Rule.EXACT, Rule.DURATION}),
}
"""Which rules have an effect on which values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One cell of the matrix."""

    share: Share
    order: Order
    key: Key
    files: Files
    duplicates: Duplicates
    values: Values
    sources: int
    rule: Rule
    storage: Storage
    limit: int
    """Most differences that are stored."""

    @property
    def name(self) -> str:
        """Unique, and made of every value."""
        parts = [str(getattr(self, dimension)) for dimension in DIMENSIONS]
        return "_".join(parts)


Point = tuple[str, StrEnum | int]
"""A dimension and one of its values."""
Tuple = tuple[Point, ...]
"""Values of two dimensions, or of the three critical ones."""
Chosen = Mapping[str, StrEnum | int]
CRITICAL = ("share", "order", "duplicates")


@cache
def all_combinations() -> tuple[Combination, ...]:
    """Every pair of values that can occur, and every triple of critical ones, at least once."""
    uncovered = dict.fromkeys(_possible_tuples())
    uses: Counter[Point] = Counter()
    made = []
    while uncovered:
        chosen = dict(next(iter(uncovered)))
        for dimension in DIMENSIONS:
            if dimension not in chosen:
                chosen[dimension] = _best_value(dimension, chosen, uncovered, uses)
        for each in _tuples_of(chosen):
            uncovered.pop(each, None)
        uses.update(chosen.items())
        made.append(Combination(**chosen))  # type: ignore[arg-type]  # each has its dimension's type
    return tuple(made)


def first_combinations(size: int) -> tuple[Combination, ...]:
    """So many of them, which together have as many pairs as a greedy choice reaches."""
    left = list(all_combinations())
    seen: set[Tuple] = set()
    chosen = []
    for _ in range(min(size, len(left))):
        best = max(left, key=lambda each: len(set(_tuples_of(_values_of(each))) - seen))
        left.remove(best)
        seen.update(_tuples_of(_values_of(best)))
        chosen.append(best)
    return tuple(chosen)


def _values_of(combination: Combination) -> Chosen:
    return {dimension: getattr(combination, dimension) for dimension in DIMENSIONS}


def _covered_dimensions() -> Iterator[tuple[str, ...]]:
    yield CRITICAL
    yield from combinations(DIMENSIONS, 2)


def _possible_tuples() -> Iterator[Tuple]:
    for dimensions in _covered_dimensions():
        for values in product(*(DIMENSIONS[dimension] for dimension in dimensions)):
            points = tuple(zip(dimensions, values, strict=True))
            if _can_occur(dict(points)):
                yield points


def _tuples_of(chosen: Chosen) -> list[Tuple]:
    return [
        tuple((dimension, chosen[dimension]) for dimension in dimensions)
        for dimensions in _covered_dimensions()
        if chosen.keys() >= set(dimensions)
    ]


def _can_occur(chosen: Chosen) -> bool:
    """Whether the rule has an effect on the values."""
    values, rule = chosen.get("values"), chosen.get("rule")
    return not isinstance(values, Values) or rule is None or rule in RULES[values]


def _best_value(
    dimension: str, chosen: Chosen, uncovered: Mapping[Tuple, None], uses: Counter[Point]
) -> StrEnum | int:
    """The value with most uncovered tuples; of equal ones the one used least, then the first."""

    def gain(value: StrEnum | int) -> tuple[int, int]:
        covered = _tuples_of({**chosen, dimension: value})
        return sum(each in uncovered for each in covered), -uses[dimension, value]

    possible = [each for each in DIMENSIONS[dimension] if _can_occur({**chosen, dimension: each})]
    return max(possible, key=gain)
