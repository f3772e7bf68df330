"""Pairs the columns of two sources by names, by common values and by rows.

Equal names decide. For similar or different names values must agree: first as sets, then row by
row when a key is known, which distinguishes two columns of amounts.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import combinations, product

from datarecs_cli.inference.samples import Sample, SampleColumn, hashable
from datarecs_core.jobs.types import CanonicalType, TypeKind, comparable

_ALIKE, _OVERLAP, _AGREEMENT = 0.72, 0.5, 0.5
_FEW_ROWS = 200
_LEAST_DISTINCT = 4
_MOST_KEY_COLUMNS = 12
_NEARLY_UNIQUE = Decimal("0.98")
_KEY_NAME = re.compile(r"(^|[^a-z])(id|ids|no|nr|num|number|key|ref|reference|isin|code)($|[^a-z])")
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_KEYS = frozenset({TypeKind.FLOAT64, TypeKind.FLOAT32, TypeKind.BOOL, TypeKind.NULL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A column of the first source and its column of the second."""

    left: SampleColumn
    right: SampleColumn
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Columns that identify one row in both sources."""

    pairs: tuple[Pair, ...]
    common: int
    """Number of keys in both samples."""
    smaller: int
    """Number of keys of the source with fewer keys."""
    repeated: int
    """Rows of both sources after the first row of their key."""
    others: tuple[str, ...] = ()
    """Further candidates, as text."""


def pairs_by_names(left: Sample, right: Sample) -> list[Pair]:
    """Pairs of columns, each column at most once, equal names first; types must be comparable."""
    by_letters: dict[str, list[int]] = {}
    for at, other in enumerate(right.columns):
        by_letters.setdefault(_letters(other.name), []).append(at)
    partners: dict[int, tuple[int, str]] = {}
    equal = (
        (at, other_at)
        for at, one in enumerate(left.columns)
        for other_at in by_letters.get(_letters(one.name), ())
    )
    _choose(left, right, equal, partners)
    # Names with the same letters score higher than all others, so these need not be compared.
    taken = {other_at for other_at, _ in partners.values()}
    others = product(
        [at for at in range(len(left.columns)) if at not in partners],
        [at for at in range(len(right.columns)) if at not in taken],
    )
    _choose(left, right, others, partners)
    return [
        Pair(left=left.columns[at], right=right.columns[other_at], reason=reason)
        for at, (other_at, reason) in sorted(partners.items())
    ]


def _choose(
    left: Sample,
    right: Sample,
    candidates: Iterable[tuple[int, int]],
    partners: dict[int, tuple[int, str]],
) -> None:
    """Add the best of these pairs of columns, each column at most once."""
    scored: list[tuple[float, int, int, str]] = []
    for at, other_at in candidates:
        one, other = left.columns[at], right.columns[other_at]
        if types_meet(one, other):
            score, reason = _score(one, other)
            if reason:
                scored.append((-score, at, other_at, reason))
    taken = {other_at for other_at, _ in partners.values()}
    for _, at, other_at, reason in sorted(scored):
        if at not in partners and other_at not in taken:
            taken.add(other_at)
            partners[at] = other_at, reason


def _score(one: SampleColumn, other: SampleColumn) -> tuple[float, str]:
    shared = overlap(one.distinct_values, other.distinct_values)
    alike = likeness(one.name, other.name)
    if one.name == other.name:
        return 4 + shared, "same name"
    if alike == 1:
        return 3 + shared, "same name without case and marks"
    if alike >= _ALIKE and (shared > 0 or one.type.is_number):
        return 2 * alike + shared, f"similar name, {_share(shared)} of values in common"
    if shared >= _OVERLAP and min(one.distinct, other.distinct) >= _LEAST_DISTINCT:
        return 2 * shared + alike, f"{_share(shared)} of values in common"
    return 0.0, ""


def _share(share: float) -> str:
    return f"{int(share * 100)} %"


def types_meet(one: SampleColumn, other: SampleColumn) -> bool:
    return comparable(one.type, other.type) or _needs_day(one.type, other.type) is not None


def _needs_day(one: CanonicalType, other: CanonicalType) -> int | None:
    """The index (0 or 1) of the time if the other type is a date; its day is compared."""
    for at, (time, day) in enumerate(((one, other), (other, one))):
        if time.kind is TypeKind.LOCAL_TIMESTAMP and day.kind is TypeKind.DATE:
            return at
    return None


def day_side(pair: Pair) -> int | None:
    """The source with times that are compared by their day."""
    return _needs_day(pair.left.type, pair.right.type)


def likeness(one: str, other: str) -> float:
    """1 for names with the same letters and digits, else their similarity."""
    plain = _letters(one), _letters(other)
    if plain[0] == plain[1]:
        return 1.0
    sets = _words(one), _words(other)
    if sets[0] and sets[1] and (sets[0] <= sets[1] or sets[1] <= sets[0]):
        return 0.9 if sets[0] != sets[1] else 0.95
    return SequenceMatcher(None, plain[0], plain[1]).ratio()


@lru_cache(maxsize=8192)
def _words(name: str) -> frozenset[str]:
    return frozenset(_split(name))


@lru_cache(maxsize=8192)
def _letters(name: str) -> str:
    """Its letters and digits in lower case."""
    return "".join(_split(name))


def _split(name: str) -> list[str]:
    return _WORD.findall(_CAMEL.sub(" ", name).lower())


def overlap(one: frozenset[object], other: frozenset[object]) -> float:
    """Share of the smaller set that is in the other set."""
    smaller = min(len(one), len(other))
    return len(one & other) / smaller if smaller else 0.0


def key_of(pairs: Sequence[Pair]) -> Key | None:
    """The best key of one column, else of two; None if no columns identify rows in both sources."""
    usable = [each for each in pairs if _may_be_key(each)]
    single = _ranked([(each,) for each in usable])
    if single and single[0].repeated == 0:
        return _with_others(single)
    double = _ranked(list(combinations(usable[:_MOST_KEY_COLUMNS], 2)))
    exact = [each for each in double if each.repeated == 0]
    ranked = exact or single or double
    return _with_others(ranked) if ranked else None


def _may_be_key(pair: Pair) -> bool:
    kinds = {pair.left.type.kind, pair.right.type.kind}
    scales = {each.type.scale or 0 for each in (pair.left, pair.right)}
    is_plain = not kinds & _NO_KEYS and scales == {0} and day_side(pair) is None
    is_filled = None not in pair.left.values and None not in pair.right.values
    return is_plain and is_filled and not pair.left.type.members


def _ranked(candidates: Sequence[tuple[Pair, ...]]) -> list[Key]:
    keys = [key for each in candidates if (key := _judged(each)) is not None]
    return sorted(keys, key=_rank)


def _judged(pairs: tuple[Pair, ...]) -> Key | None:
    """The key, unless too many rows repeat a key or no key is in both sources."""
    sides = [key_values([each.left for each in pairs]), key_values([each.right for each in pairs])]
    sets = [set(each) for each in sides]
    for rows, keys in zip(sides, sets, strict=True):
        if not rows or len(keys) < _NEARLY_UNIQUE * len(rows):
            return None
    common = len(sets[0] & sets[1])
    repeated = sum(len(rows) - len(keys) for rows, keys in zip(sides, sets, strict=True))
    smaller = min(map(len, sets))
    return Key(pairs=pairs, common=common, smaller=smaller, repeated=repeated) if common else None


def key_values(columns: Sequence[SampleColumn]) -> list[tuple[object, ...]]:
    """The key of each row."""
    return list(
        zip(*([hashable(each) for each in column.values] for column in columns), strict=True)
    )


def _rank(key: Key) -> tuple[object, ...]:
    names = [_CAMEL.sub(" ", each.left.name).lower() for each in key.pairs]
    named = all(_KEY_NAME.search(name) is not None for name in names)
    times = any(each.left.type.is_time for each in key.pairs)
    return key.repeated > 0, -round(key.common / key.smaller, 1), not named, times, -key.common


def _with_others(ranked: Sequence[Key]) -> Key:
    first, *rest = ranked
    others = tuple(" and ".join(each.left.name for each in key.pairs) for key in rest[:3])
    return Key(
        pairs=first.pairs,
        common=first.common,
        smaller=first.smaller,
        repeated=first.repeated,
        others=others,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Positions of the rows of both samples that have the same key."""

    places: tuple[tuple[int, int], ...]

    def values(self, left: SampleColumn, right: SampleColumn) -> list[tuple[object, object]]:
        return [(left.values[one], right.values[other]) for one, other in self.places]

    def thinned(self) -> "Meeting":
        """A few rows, evenly spaced, because wide samples have too many pairs of columns."""
        return Meeting(places=self.places[:: max(1, len(self.places) // _FEW_ROWS)])


def meeting_of(key: Key) -> Meeting:
    """The first row of each key, for both sources."""
    sides: list[dict[tuple[object, ...], int]] = []
    for columns in ([each.left for each in key.pairs], [each.right for each in key.pairs]):
        first: dict[tuple[object, ...], int] = {}
        for place, value in enumerate(key_values(columns)):
            first.setdefault(value, place)
        sides.append(first)
    return Meeting(
        places=tuple((at, sides[1][value]) for value, at in sides[0].items() if value in sides[1])
    )


def agreement(pairs: Iterable[tuple[object, object]]) -> float:
    """Share of rows with equal values, or with numbers that are equal when rounded to units."""
    rows = [each for each in pairs if each != (None, None)]
    if not rows:
        return 0.0
    return sum(_is_close(one, other) for one, other in rows) / len(rows)


def _may_agree(pairs: Iterable[tuple[object, object]]) -> bool:
    """Whether a few rows do not exclude that most rows agree; rows with only NULL never do."""
    rows = [each for each in pairs if each != (None, None)]
    return not rows or agreement(rows) >= _AGREEMENT / 2


def _is_close(one: object, other: object) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float | Decimal) and isinstance(other, int | float | Decimal):
        gap = abs(float(one) - float(other))
        return gap <= max(abs(float(one)), abs(float(other))) / 1000
    if isinstance(one, str) and isinstance(other, str):
        return one.strip().casefold() == other.strip().casefold()
    return one == other


def pairs_by_rows(
    left: Sample, right: Sample, meeting: Meeting, paired: Sequence[Pair]
) -> list[Pair]:
    """Pairs of unpaired columns in which most rows with the same key agree."""
    taken: tuple[Collection[str], Collection[str]] = (
        {each.left.name for each in paired},
        {each.right.name for each in paired},
    )
    scored, few = [], meeting.thinned()
    for one in (each for each in left.columns if each.name not in taken[0] and each.distinct > 1):
        for other in (each for each in right.columns if each.name not in taken[1]):
            if comparable(one.type, other.type) and _may_agree(few.values(one, other)):
                share = agreement(meeting.values(one, other))
                if share >= _AGREEMENT:
                    scored.append((share + likeness(one.name, other.name), one, other, share))
    pairs: dict[str, Pair] = {}
    used: set[str] = set()
    for _, one, other, share in sorted(scored, key=lambda each: -each[0]):
        if one.name not in pairs and other.name not in used:
            used.add(other.name)
            reason = f"{_share(share)} of rows with the same key agree"
            pairs[one.name] = Pair(left=one, right=other, reason=reason)
    return list(pairs.values())


def renamed(pairs: Sequence[Pair]) -> Mapping[str, str]:
    """Logical name (that of the first source) to the name in the second, if they differ."""
    return {each.left.name: each.right.name for each in pairs if each.left.name != each.right.name}
