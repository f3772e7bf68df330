"""The hint of a late window: missing groups have the newest time, so they may still arrive.

Separate from `hints` because keys are read as times here. Only differences are available, so the
newest time is the newest of a break; texts that are not an ISO date or moment, such as masked ones,
are not times.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from datarecs_core.comparison.insight.patterns import HintRule, Pair, Pattern
from datarecs_core.comparison.results.results import Difference, DifferenceClass

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d\d):\d\d.*)?", re.ASCII)
_TENTHS = 9
"""Of ten missing groups so many have the newest time."""
_UNITS = (("hour", len("2026-01-31T23")), ("day", len("2026-01-31")))
"""From the narrow one: how many characters of a moment name it."""


def late_windows(
    breaks: Sequence[Difference], *, lacking: str, bits: tuple[int, int], dimensions: Sequence[str]
) -> Iterator[Pattern]:
    """At most one pattern for each dimension that holds times.

    Args:
        breaks: of keys, of one stage.
        lacking: the source that may be late.
        bits: its presence bit, and that of the source it is compared with.
        dimensions: names, in the order of the keys.
    """
    lacking_bit, other = bits
    alone = [row for row in breaks if row.difference_class is DifferenceClass.MISSING]
    lacked = [row for row in alone if row.presence & (lacking_bit | other) == other]
    for at, dimension in enumerate(dimensions):
        if all(_is_time(row.key[at]) for row in alone):
            newest = _newest(alone, lacked, at)
            if newest is not None:
                unit, moment, rows = newest
                what = (
                    f"{len(rows)} of {len(lacked)} groups missing in {lacking} are of the newest "
                    f"{unit} of {dimension}, {moment}, and may still arrive"
                )
                pairs = [Pair(row.break_id, row.key_hash, None, None, None) for row in rows]
                line = f"stages[{rows[0].stage}].confirm: {{after: PT5M}}"
                yield Pattern(HintRule.LATE_WINDOW, what, pairs, line)


def _is_time(part: str | None) -> bool:
    return part is not None and _TIME.fullmatch(part) is not None


def _newest(
    alone: Sequence[Difference], lacked: Sequence[Difference], at: int
) -> tuple[str, str, list[Difference]] | None:
    """The narrowest unit of time with almost all missing groups in its newest value."""
    for unit, letters in _UNITS:
        by_moment = Counter((row.key[at] or "")[:letters] for row in alone)
        if not by_moment or min(map(len, by_moment)) < letters:
            continue
        newest = max(by_moment)
        rows = [row for row in lacked if (row.key[at] or "").startswith(newest)]
        if rows and 10 * len(rows) >= _TENTHS * len(lacked):
            return unit, newest, rows
    return None
