"""The report as Markdown, for comments on a pull request and summaries of a pipeline.

A code host sets the limits: 60 kB, no style, and text that must not become a link, a mention or
another cell. `words` and `tables` decide the content.
"""

from collections.abc import Iterator, Mapping, Sequence

from datarecs_core.comparison.planning.plan import ROWS
from datarecs_reports.decoding import run_facts
from datarecs_reports.figures import amount, count, markdown_inline, percent, visible
from datarecs_reports.model import DifferenceFacts, Executed, MeasureFacts, RunFacts, StageFacts
from datarecs_reports.tables import delta_text, gaps, is_time, largest_first, places_of
from datarecs_reports.unreadable import example_lines, readable
from datarecs_reports.words import (
    class_words,
    confirmed_words,
    missing_words,
    presence_words,
    reason,
    relaxations,
    short_tolerance,
    skipped_words,
    stage_words,
)

MAX_BYTES = 60_000
_SIGNS = {"MATCHED": "●", "UNMATCHED": "▲"}
_AMOUNTS = ((20, 200), (10, 100), (5, 50), (0, 20), (0, 5))
"""Numbers of differences and measures per stage, tried in turn until the text is small enough."""
_MOST_WARNINGS = 20


def run_markdown(document: Mapping[str, object], *, samples: bool) -> bytes:
    """The report of a run with a verdict, at most 60 kB in UTF-8.

    Args:
        document: its run.json.
        samples: whether the reader may see values of rows.

    Raises:
        DocumentUnreadableError: the document is not a run.json.
    """
    facts = run_facts(document, values=samples)
    written = b""
    for differences, measures in _AMOUNTS:
        most = differences if samples else 0
        written = ("\n".join(_lines(facts, most, measures)) + "\n").encode()
        if len(written) <= MAX_BYTES:
            break
    return written[:MAX_BYTES].decode(errors="ignore").encode()


def _lines(facts: RunFacts, differences: int, measures: int) -> Iterator[str]:
    yield f"# {_SIGNS.get(facts.result, '')} {facts.result}: {_text(facts.job or 'comparison')}"
    yield ""
    yield _prose(reason(facts))
    yield ""
    if facts.acceptance != "NOT_CONFIGURED":
        yield f"Declared limits of acceptance: {facts.acceptance}."
        yield ""
    for stage in facts.stages:
        yield from _stage(stage, facts, differences, measures)
    yield from _list("Relaxations", relaxations(facts))
    yield from _list(
        "Warnings",
        [
            f"{each.code}: {each.message}" + (f" ({', '.join(each.where)})" if each.where else "")
            for each in facts.warnings
        ],
    )
    yield f"Proof `{facts.proof_hash}`"


def _stage(stage: StageFacts, facts: RunFacts, differences: int, measures: int) -> Iterator[str]:
    executed = stage.executed
    yield f"## {_text(stage.name)}"
    yield ""
    if executed is None:
        yield _prose(skipped_words(stage))
        yield ""
        return
    counts, sources = executed.counts, facts.source_names
    yield _prose(stage_words(stage))
    yield ""
    compared, matched = counts.rows_compared, counts.rows_matched
    share = percent(matched, compared)
    parts = [f"{count(matched)} of {count(compared)} groups agree ({share})"]
    parts += missing_words(executed, sources)
    yield _prose(", ".join(parts) + ".")
    yield ""
    if executed.confirmed is not None:
        yield _prose(confirmed_words(executed.confirmed))
        yield ""
    yield from _measures(executed, sources, measures)
    yield from _differences(executed, sources, differences)


def _measures(executed: Executed, sources: Sequence[str], most: int) -> Iterator[str]:
    if not executed.measures:
        return
    yield from _head(("Measure", "Tolerance", "Equal", "Within", "Outside", "Gap"))
    ordered = sorted(executed.measures, key=lambda measure: measure.passed)
    for measure in ordered[:most]:
        yield _row(
            (
                _text(measure.name),
                _text(short_tolerance(measure)),
                count(measure.equal),
                count(measure.within_not_equal),
                f"**{count(measure.outside)}**" if measure.outside else "0",
                _gap(executed, measure, sources),
            )
        )
    yield ""
    if len(ordered) > most:
        yield f"and {count(len(ordered) - most)} more measures"
        yield ""
    unreadable = [
        f"{measure.name}: {line}"
        for measure in ordered[:most]
        for line in example_lines(executed, measure, sources)
    ]
    for line in unreadable:
        yield f"- {_prose(line)}"
    if unreadable:
        yield ""


def _gap(executed: Executed, measure: MeasureFacts, sources: Sequence[str]) -> str:
    """The gaps of the other sources, with names if there is more than one."""
    places = places_of(executed, measure)
    source_gaps = gaps(executed, measure, sources, places=places)
    if len(source_gaps) == 1:
        return source_gaps[0][1]
    return ", ".join(f"{_text(name)} {gap}" for name, gap in source_gaps)


def _differences(executed: Executed, sources: Sequence[str], most: int) -> Iterator[str]:
    rows = largest_first([row for row in executed.samples if row.is_break])[:most]
    if not rows:
        return
    keys = [_text(each.name) for each in executed.question.dimensions]
    yield f"The largest {count(len(rows))} differences:" if len(rows) > 1 else "The difference:"
    yield ""
    yield from _head((*keys, "Measure", "Class", *map(_text, sources), "Δ"))
    timed = {each.name for each in executed.measures if is_time(executed, each)}
    types = {each.name: dict(zip(sources, each.types, strict=False)) for each in executed.measures}
    for row in rows:
        kinds = types.get(row.measure, {})
        yield _row(tuple(_cells(row, sources, kinds, is_timed=row.measure in timed)))
    yield ""


def _cells(
    row: DifferenceFacts,
    sources: Sequence[str],
    kinds: Mapping[str, str | None],
    *,
    is_timed: bool,
) -> Iterator[str]:
    for at, part in enumerate(row.key, start=1):
        written = row.raw_keys.items() if at == len(row.key) else ()
        raw = "".join(f", {_text(name)} {_text(key or '')}" for name, key in written)
        yield f"{'NULL' if part is None else _text(part)}{raw}"
    yield "rows" if row.is_missing or row.measure == ROWS else _text(row.measure)
    where = presence_words(row.presence, sources)
    yield _text(where) if row.is_missing else class_words(row.difference_class)
    for name in sources:
        yield _value(row, name, kinds.get(name))
    others = [each for each in row.deltas.values() if each is not None]
    yield ", ".join(delta_text(each, places=0, is_time=is_timed) for each in others)


def _value(row: DifferenceFacts, source: str, kind: str | None) -> str:
    if source not in row.values:
        return "—"
    value = row.values[source]
    if value is None:
        return "NULL"
    return _text(amount(value) if row.deltas else readable(value, kind))


def _list(title: str, entries: Sequence[str]) -> Iterator[str]:
    if not entries:
        return
    yield f"## {title}"
    yield ""
    for entry in entries[:_MOST_WARNINGS]:
        yield f"- {_prose(entry)}"
    if len(entries) > _MOST_WARNINGS:
        yield f"- and {count(len(entries) - _MOST_WARNINGS)} more"
    yield ""


def _head(titles: Sequence[str]) -> Iterator[str]:
    yield _row(titles)
    yield _row(("---",) * len(titles))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(foreign: str) -> str:
    return markdown_inline(visible(foreign))


_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>#|@!~$&"})


def _prose(sentence: str) -> str:
    """A sentence with foreign names, with all Markdown characters escaped."""
    return visible(sentence, most=2000).translate(_MARKS)
