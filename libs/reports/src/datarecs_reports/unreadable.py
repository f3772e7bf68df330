"""Texts about unreadable values, and about totals that are unknown because of them.

Stored differences have the bytes of an INVALID value as hexadecimal digits, so that different
values stay different; people read the text and the reason.
"""

import re
from collections.abc import Sequence

from datarecs_core.comparison.values.rereading import type_of
from datarecs_core.comparison.values.unreadable import bytes_words, text_words
from datarecs_reports.figures import counted, visible
from datarecs_reports.model import Executed, MeasureFacts

_INVALID = re.compile(r"INVALID\(0x((?:[0-9a-f]{2})*)\)", re.ASCII)


def with_text(stored: str | None) -> str | None:
    """A stored value for machines: `INVALID('1,200')` for its bytes, others unchanged."""
    raw = _raw(stored)
    if raw is None:
        return stored
    try:
        return f"INVALID('{raw.decode()}')"
    except UnicodeDecodeError:
        return stored


def readable(stored: str, kind: str | None) -> str:
    """A stored value for people: an INVALID value with its text and the reason.

    Args:
        stored: canonical text.
        kind: the type it was read as; None if the document does not have it.
    """
    raw = _raw(stored)
    if raw is None:
        return stored
    try:
        written = raw.decode()
    except UnicodeDecodeError:
        return bytes_words(raw)
    return f"could not be read: '{written}'" if kind is None else text_words(written, type_of(kind))


def key_texts(executed: Executed, key: Sequence[str | None]) -> tuple[str, ...]:
    """The parts of a key for people: `NULL`, and an INVALID part with its text and the reason."""
    dimensions = executed.question.dimensions
    kinds = [each.types[0] if each.types else None for each in dimensions]
    return tuple(
        "NULL" if part is None else readable(part, kind)
        for part, kind in zip(key, kinds, strict=True)
    )


def _raw(stored: str | None) -> bytes | None:
    if stored is None or not stored.startswith("INVALID("):
        return None
    digits = _INVALID.fullmatch(stored)
    return None if digits is None else bytes.fromhex(digits[1])


def unknown_gap(
    measure: MeasureFacts, sources: Sequence[str], source: str, reference: str
) -> str | None:
    """`unknown (3 unreadable values in exports)`; None if the gap is known or there is none."""
    if measure.gaps[sources.index(source)] is not None:
        return None
    if not measure.comparable:
        return "unknown (the column cannot be compared)"
    parts = [
        f"{counted(values, what)} in {visible(name)}"
        for name in dict.fromkeys((reference, source))
        for numbers, what in (
            (measure.unreadable, "unreadable value"),
            (measure.not_finite, "value that is NaN or infinite"),
        )
        if (values := numbers[sources.index(name)] if numbers else 0)
    ]
    return f"unknown ({', '.join(parts)})" if parts and measure.has_total else None


def example_lines(executed: Executed, measure: MeasureFacts, sources: Sequence[str]) -> list[str]:
    """Number of unreadable values of each source, with one of them and the reason."""
    numbers = measure.unreadable or (0,) * len(sources)
    examples = {
        each.source: each.words for each in executed.unreadable if each.measure == measure.name
    }
    return [
        f"{counted(values, 'unreadable value')} in {visible(name)}"
        + (f" ({visible(examples[name], most=300)})" if name in examples else "")
        for name, values in zip(sources, numbers, strict=True)
        if values
    ]
