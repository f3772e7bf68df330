"""The first screen of a comparison as text for a failed test, and as a table for a notebook."""

from collections.abc import Iterator, Sequence
from html import escape

from datarecs_reports.figures import count
from datarecs_reports.first_page import FirstPage, first_page
from datarecs_reports.first_screen import FirstScreen

_MOST_WARNINGS = 5


def summary_text(screen: FirstScreen, sources: tuple[str, ...], warnings: Sequence[str]) -> str:
    """How many, how much, the largest differences, and warnings; no line end at the end."""
    page = first_page(screen, sources)
    lines = [f"{screen.result}: {_counts(screen)}", *(f"  {line}" for line in _sizes(page))]
    if page.largest:
        lines += ["largest differences", *(f"  {line}" for line in _aligned(_cells(page, sources)))]
    if page.cause:
        lines.append(f"likely cause: {page.cause}")
    lines += _warnings(warnings)
    return "\n".join(lines)


def summary_html(screen: FirstScreen, sources: tuple[str, ...], warnings: Sequence[str]) -> str:
    """The same as HTML; texts of sources are escaped."""
    page = first_page(screen, sources)
    parts = [f"<p><b>{escape(screen.result)}</b>: {escape(_counts(screen))}</p>"]
    parts += [f"<p>{escape(line)}</p>" for line in _sizes(page)]
    if page.largest:
        head, *rows = _cells(page, sources)
        parts.append(f"<table><thead>{_row(head, 'th')}</thead><tbody>")
        parts += [_row(row, "td") for row in rows]
        parts.append("</tbody></table>")
    if page.cause:
        parts.append(f"<p>likely cause: {escape(page.cause)}</p>")
    parts += [f"<p>{escape(line)}</p>" for line in _warnings(warnings)]
    return "".join(parts)


def _counts(screen: FirstScreen) -> str:
    parts = [f"{count(screen.agreed)} of {count(screen.compared)} groups agree"]
    if screen.outside:
        parts.append(f"{count(screen.outside)} outside tolerance")
    if screen.unmatched:
        parts.append(f"{count(screen.unmatched)} missing in a source")
    return ", ".join(parts)


def _warnings(warnings: Sequence[str]) -> Iterator[str]:
    yield from (f"warning: {each}" for each in warnings[:_MOST_WARNINGS])
    if len(warnings) > _MOST_WARNINGS:
        yield f"{len(warnings) - _MOST_WARNINGS} more warnings: comparison.warnings"


def _sizes(page: FirstPage) -> Iterator[str]:
    """`amount: -3.50 (ledger 10.00, exports 6.50)`, missing groups, measures without a total."""
    for row in page.amounts:
        pair = f" {row.note}" if row.note else ""
        totals = f" ({row.difference.note})" if row.difference.note else ""
        yield f"{row.measure}:{pair} {row.difference.text}{totals}"
    yield from page.missing
    yield from page.others


def _cells(page: FirstPage, sources: Sequence[str]) -> list[tuple[str, ...]]:
    """A row of titles, then a row for each of the largest differences."""
    deltas = ("delta",) if page.has_deltas else ()
    titles = (*page.key_columns, "measure", *sources, *deltas, "difference")
    rows = [
        (*row.key, row.measure, *row.values, *((row.delta,) if page.has_deltas else ()), row.why)
        for row in page.largest
    ]
    return [titles, *rows]


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
