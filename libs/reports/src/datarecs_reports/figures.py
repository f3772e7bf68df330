"""Formats numbers, durations and foreign text for people; never rounds up.

One module for all outputs, so that a page, a mail and a terminal show the same digits: values are
exact text, and separators are only for people.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from datarecs_core.documents import decimal_text
from datarecs_core.values import EXACT

MAX_TEXT = 160
"""Most characters of a foreign text; longer ones are cut with a marker."""
_PLAIN = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?", re.ASCII)
"""Matches numbers; `007` is a text and stays unchanged."""
_PLAIN_MARKDOWN = re.compile(r"[^\W_]*([ ,-][^\W_]+)*|[+-]?[\d,]+(\.\d+)?%?")
_MOST_PLACES = 6
"""Amounts are padded to a common number of places up to this one."""
_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000))


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 group`, `1,005 groups`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def percent(part: int, whole: int) -> str:
    """A percentage rounded down to three places, so `100 %` appears only if part equals whole."""
    thousandths = part * 100_000 // whole if whole else 100_000
    places = f"{thousandths // 1000}.{thousandths % 1000:03d}".rstrip("0").rstrip(".")
    return f"{places} %"


def permille(part: int, whole: int) -> int:
    """The length of a bar: 0 to 1000, at least 1 if part is not 0."""
    return max(part * 1000 // whole, min(part, 1)) if whole else 0


def share(percentage: str) -> str:
    """A signed percentage from exact text, cut to three places: `-66.666 %`."""
    value = Decimal(percentage)
    cut = Decimal(int(value.scaleb(3, EXACT))).scaleb(-3, EXACT)
    if cut == 0 and value != 0:
        return "> -0.001 %" if value < 0 else "< 0.001 %"
    return f"{amount(decimal_text(cut))} %"


def amount(text: str, *, places: int = 0) -> str:
    """A plain decimal with thousands separators, padded to `places`; other text unchanged."""
    match = _PLAIN.fullmatch(text)
    if match is None:
        return text
    sign, whole, fraction = match[1], f"{int(match[2]):,}", (match[3] or "").ljust(places, "0")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def common_places(texts: Iterable[str | None]) -> int:
    """Decimal places that align all amounts; 0 if an amount has too many."""
    matches = [_PLAIN.fullmatch(text) for text in texts if text is not None]
    most = max((len(one[3] or "") for one in matches if one is not None), default=0)
    return most if most <= _MOST_PLACES else 0


def lasting(microseconds: str) -> str:
    """An exact, signed duration: `-1 h 30 min`, `0.5 s`."""
    value = Decimal(microseconds)
    whole, below = divmod(int(value.copy_abs()), 60_000_000)
    rest = EXACT.add(Decimal(below), EXACT.remainder(value.copy_abs(), Decimal(1)))
    parts, left = [], whole * 60_000_000
    for unit, size in _UNITS:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number:,} {unit}")
    if rest or not parts:
        parts.append(f"{decimal_text(rest.scaleb(-6, EXACT))} s")
    return ("-" if value < 0 else "") + " ".join(parts)


def size(size_bytes: int) -> str:
    """Bytes in the largest unit with at least 1 before the point, rounded down."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor:
            tenths = size_bytes * 10 // factor
            return f"{tenths // 10:,}.{tenths % 10} {unit}"
    return counted(size_bytes, "byte")


def visible(text: str, *, most: int = MAX_TEXT) -> str:
    """Foreign text on one line, with escapes for invisible characters.

    Control and direction characters could forge the text around them, and an unusual blank is often
    the difference itself; text that is empty or starts or ends with a blank is quoted.
    """
    cut = text if len(text) <= most else text[:most]
    shown = cut
    if not cut.isprintable():
        shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in cut)
    if len(cut) < len(text):
        return f"{shown}… ({len(text):,} characters)"
    return f'"{shown}"' if shown != shown.strip() or not shown else shown


def markdown_inline(text: str) -> str:
    """Foreign text in Markdown: plain words and numbers unchanged, everything else as a code span.

    A code span has no links, mentions, tags or ends of table cells.
    """
    shown = "".join(
        one if one.isprintable() else " " if one == "\n" else f"\\x{ord(one):02x}" for one in text
    )
    if _PLAIN_MARKDOWN.fullmatch(shown):
        return shown
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    room = " " if "`" in (shown[0], shown[-1]) else ""
    code = shown.replace("|", "\\|")
    return f"{fence}{room}{code}{room}{fence}"


def instant(text: str) -> str:
    """An RFC 3339 time for people, to the second, in UTC."""
    return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S UTC")
