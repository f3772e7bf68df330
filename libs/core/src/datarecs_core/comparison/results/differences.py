"""Stored differences: their ids, the choice of rows, their digest and what a report shows.

Ids and digests are the same for every engine and partitioning, so they are decided here once.
Masking precedes everything that leaves the engine; ids and key hashes are computed before it.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID

from datarecs_core.comparison.planning.plan import Caps
from datarecs_core.comparison.results.results import Difference, DifferenceSet, Outcome
from datarecs_core.comparison.values.canonical import (
    NULL,
    Tag,
    Value,
    encode,
    encode_tuple,
    number,
    number_text,
    text,
)
from datarecs_core.jobs.vocabulary import MaskRule
from datarecs_core.values import EXACT, HUNDRED

BREAK_ID_LENGTH = 26
COMPARE_KEY = hashlib.sha256(b"datarecs compare c1").digest()
"""The published key of `datarecs compare`, which has no tenant and no secret."""
COMPARE_KEY_ID = "compare-c1"
"""Names that key in a proof."""
SHOWN_SPELLINGS = 3
"""How many ways in which a source writes one key are shown."""
_PERCENT_PLACES = 6
_RANK_BYTES = 8
_HEAD_BYTES = 5
"""Of an encoded value, before its payload."""


class RankedDifference(NamedTuple):
    """A difference with the rank of its group."""

    rank: int
    row: Difference


def break_id(key: bytes, *, job_uid: UUID, stage: str, measure: str, group: bytes) -> str:
    """26 characters of `a-z2-7`, stable over runs for every class.

    Args:
        key: the tenant's, derived from its secret.
        job_uid: of the ReconciliationJob.
        stage: name.
        measure: name, or `$presence`.
        group: the key tuple in encoding c1, before masking.
    """
    message = b"break" + job_uid.bytes + encode(text(stage)) + encode(text(measure)) + group
    digest = hmac.digest(key, message, "sha256")
    return base64.b32encode(digest).decode().lower()[:BREAK_ID_LENGTH]


def masked(key: bytes, rule: MaskRule | None, written: str | None) -> str | None:
    """A text as it may leave the engine; NULL stays NULL."""
    if written is None or rule is None:
        return written
    if rule is MaskRule.REDACT:
        return "***"
    return f"h:{hmac.digest(key, b'mask' + written.encode(), 'sha256').hex()[:16]}"


def delta_percent(delta: Decimal, base: Decimal | None) -> Decimal | None:
    """Percent of |base|, cut to six places; None for base 0. A ratio to be shown, never judged."""
    if base is None or base == 0:
        return None
    shifted = Fraction(EXACT.multiply(delta, HUNDRED)) * 10**_PERCENT_PLACES / abs(Fraction(base))
    size = abs(shifted.numerator) // shifted.denominator
    return Decimal(-size if shifted < 0 else size).scaleb(-_PERCENT_PLACES, EXACT)


def difference_bytes(row: Difference) -> bytes:
    """The digested fields of a row: all but the locator and derived fields."""
    head = (
        row.break_id,
        row.stage,
        row.measure,
        row.outcome.value,
        row.difference_class.value,
        str(row.presence),
        row.odd_one_out,
    )
    deltas = [part for name, delta in row.deltas for part in (text(name), number(delta))]
    return b"".join(
        (
            encode_tuple([_optional(each) for each in head]),
            row.key_encoded,
            encode_tuple(_pairs(row.values)),
            encode_tuple(_pairs(row.raw_values)),
            encode_tuple(deltas),
        )
    )


def _pairs(named: Sequence[tuple[str, str | None]]) -> list[Value]:
    return [part for name, written in named for part in (text(name), _optional(written))]


def _optional(written: str | None) -> Value:
    return NULL if written is None else text(written)


def digest(rows: Iterable[Difference]) -> str:
    """The sum of the rows' SHA-256 modulo 2^256: independent of order, unlike any file's bytes."""
    total = 0
    for row in rows:
        total += int.from_bytes(hashlib.sha256(difference_bytes(row)).digest())
    return digest_text(total)


def digest_text(total: int) -> str:
    """`sha256:` and 64 hexadecimal characters."""
    return f"sha256:{(total % 2**256).to_bytes(32).hex()}"


def group_rank(key: Sequence[Value]) -> int:
    """A number of 64 bits that chooses groups at random, the same ones in every run and engine.

    Of the key before masking. It needs no secret, because it is never stored or shown.
    """
    written = "".join(map(_rank_text, key)).encode()
    digest_of_key = hashlib.md5(written, usedforsecurity=False).digest()
    return int.from_bytes(digest_of_key[:_RANK_BYTES], "little")


def _rank_text(part: Value) -> str:
    """A part of a key in ASCII and its text, with an unambiguous end.

    SQL writes the same without encoding any value: times as counts, bytes as digits.
    """
    match part.content:
        case None:
            return "~"
        case bool() as flag:
            return "true;" if flag else "false;"
        case Decimal() as amount:
            return f"{number_text(amount)};"
        case str() as written:
            return f"{len(written.encode())}:{written}"
        case bytes() as raw:
            return f"{raw.hex().upper()};"
        case _:
            mark = "x" if part.tag is Tag.INVALID else "y"
            return f"{mark}{encode(part)[_HEAD_BYTES:].hex().upper()};"


def by_size(row: Difference) -> tuple[float, str]:
    """Sort key: the largest |delta| first, as a double, then the smallest break id."""
    return (-_size(row), row.break_id)


def _size(row: Difference) -> float:
    """The stored `sort_delta`; below every |delta| where there is no delta."""
    size = row.max_abs_delta
    return -1.0 if size is None else float(size)


def choose_rows(
    rows: Sequence[RankedDifference], caps: Caps
) -> tuple[tuple[Difference, ...], bool]:
    """What is stored, in the order of break ids, and whether anything was left out.

    Of too many: the largest |delta| of each measure in turn, then those of the groups with the
    smallest ranks, so the choice does not depend on partitions. Sizes are compared as doubles.
    """
    if len(rows) <= caps.max_rows:
        return _by_id(each.row for each in rows), False
    large: list[tuple[int, RankedDifference]] = []
    for measure in {each.row.measure for each in rows}:
        sized = [
            each
            for each in rows
            if each.row.measure == measure and each.row.max_abs_delta is not None
        ]
        sized.sort(key=lambda each: (-_size(each.row), each.rank))
        large.extend(enumerate(sized[: caps.largest_per_measure]))
    large.sort(key=lambda turn: (turn[0], *_by_rank(turn[1])))
    first = [each for _, each in large]
    taken = {each.row.break_id for each in first}
    rest = [each for each in sorted(rows, key=_by_rank) if each.row.break_id not in taken]
    return _by_id(each.row for each in [*first, *rest][: caps.max_rows]), True


def _by_rank(each: RankedDifference) -> tuple[int, str]:
    """Total: a group has one difference of a measure, and equal ranks do not happen."""
    return (each.rank, each.row.measure)


def _by_id(rows: Iterable[Difference]) -> tuple[Difference, ...]:
    return tuple(sorted(rows, key=lambda row: row.break_id))


def samples(rows: Sequence[Difference], per_class: int) -> tuple[Difference, ...]:
    """Per measure and class the largest |delta| and as many of the smallest break ids.

    Ordered by measure, class and size.
    """
    groups: dict[tuple[str, str], list[Difference]] = {}
    for row in rows:
        groups.setdefault((row.measure, row.difference_class.value), []).append(row)
    chosen: list[Difference] = []
    for name in sorted(groups):
        by_id = _by_id(groups[name])[:per_class]
        large = [row for row in sorted(groups[name], key=by_size) if row.max_abs_delta is not None]
        shown = {row.break_id: row for row in (*large[:per_class], *by_id)}
        chosen.extend(sorted(shown.values(), key=by_size))
    return tuple(chosen)


def difference_set(
    rows: Sequence[RankedDifference], caps: Caps, location: str | None = None
) -> tuple[DifferenceSet, tuple[Difference, ...]]:
    """The summary of a stage's differences, and the rows to store."""
    wanted = [each for each in rows if caps.deltas or each.row.outcome is Outcome.BREAK]
    stored, truncated = choose_rows(wanted, caps)
    summary = DifferenceSet(
        rows=len(stored),
        digest=digest(stored),
        truncated=truncated,
        location=location,
        samples=samples(stored, caps.sample_per_class),
    )
    return summary, stored
