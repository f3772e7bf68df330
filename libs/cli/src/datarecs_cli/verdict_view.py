"""The end of a run on a terminal: verdict, counts, measures and the largest difference.

`run`, `watch`, `cancel --wait` and `demo` print the same lines. Words and digits are those of the
report. Source: spec experience 2.1.
"""

from collections.abc import Iterator, Mapping
from itertools import starmap

from datarecs_cli.invocation import Invocation
from datarecs_cli.output import Words, cell
from datarecs_cli.screen import coloured
from datarecs_core.documents import decimal_text
from datarecs_reports.amount_lines import AmountLine, stage_lines
from datarecs_reports.figures import amount, common_places, count, visible
from datarecs_reports.model import Executed, MeasureFacts, RunFacts, StageFacts
from datarecs_reports.tables import delta_text, is_time, places_of
from datarecs_reports.unreadable import example_lines
from datarecs_reports.words import missing_words, presence_words, short_tolerance, skipped_words

Row = Mapping[str, object]
_INDENT = " " * 9
_MOST_WARNINGS = 10


def headline(outcome: str, words: Words, invocation: Invocation) -> str:
    """Symbol and word, padded so that the next text is in the same column for both verdicts."""
    text, widest = f"{words.sign(outcome)} {outcome}", f"{words.unmatched} UNMATCHED  "
    return coloured(text, outcome, invocation) + " " * max(len(widest) - len(text), 2)


def verdict_lines(
    facts: RunFacts, largest: Row | None, words: Words, invocation: Invocation
) -> list[str]:
    """The lines of a run with a verdict; the first line has the verdict.

    Args:
        facts: from its run.json.
        largest: its largest stored difference, if it may be shown.
        words: symbols of the terminal.
        invocation: decides whether colours are used.
    """
    lines = [headline(facts.result, words, invocation) + _first(facts, words)]
    for stage in facts.stages:
        lines += _stage_lines(stage, facts, words)
    if largest is not None:
        lines.append(f"{_INDENT}{_largest(facts, largest, words)}")
    return lines


def warning_lines(facts: RunFacts) -> list[str]:
    """The warnings of the run, one line each; only the first if there are many."""
    lines = []
    for each in facts.warnings[:_MOST_WARNINGS]:
        place = f" ({', '.join(map(cell, each.where))})" if each.where else ""
        lines.append(f"warning      {each.code} {cell(each.message)}{place}")
    if len(facts.warnings) > _MOST_WARNINGS:
        lines.append(f"             and {count(len(facts.warnings) - _MOST_WARNINGS)} more")
    return lines


def _first(facts: RunFacts, words: Words) -> str:
    executed = [stage.executed for stage in facts.stages if stage.executed is not None]
    if len(facts.stages) > 1 or not executed:
        matched = sum(each.matched for each in executed)
        return f"{matched} of {len(facts.stages)} stages matched"
    return _stage_words(executed[0], facts.source_names, words)


def _stage_words(stage: Executed, sources: tuple[str, ...], words: Words) -> str:
    counts = stage.counts
    if stage.matched:
        groups = f"{count(counts.rows_matched)} of {count(counts.rows_compared)} groups"
        return f"{groups} within tolerance"
    everywhere = presence_words((1 << len(sources)) - 1, sources)
    parts = [f"{count(counts.matched_groups)} {everywhere}", *missing_words(stage, sources)]
    return cell(f" {words.dot} ".join(parts))


def _stage_lines(stage: StageFacts, facts: RunFacts, words: Words) -> Iterator[str]:
    if stage.executed is None:
        yield f"{_INDENT}{cell(stage.name)}  {skipped_words(stage)}"
        return
    if len(facts.stages) > 1:
        sign = words.sign(stage.executed.result)
        yield f"{_INDENT}{cell(stage.name)}  {sign} {stage.executed.result}  " + _stage_words(
            stage.executed, facts.source_names, words
        )
    for measure in stage.executed.measures:
        unreadable = example_lines(stage.executed, measure, facts.source_names)
        if not measure.passed or unreadable:
            yield f"{_INDENT}{_measure(stage.executed, measure, facts.source_names, words)}"
        for line in unreadable:
            yield f"{_INDENT}{cell(f'{visible(measure.name)} {line}')}"


def _measure(
    executed: Executed, measure: MeasureFacts, sources: tuple[str, ...], words: Words
) -> str:
    lead = f"{visible(measure.name)} {short_tolerance(measure)}"
    parts = [f"{count(measure.within)} within", f"{count(measure.outside)} outside"]
    for line in stage_lines("", executed, sources):
        if line.measure == measure.name and (line.difference is None or line.difference):
            of = "" if len(sources) == 2 else f" of {line.source}"  # noqa: PLR2004  two sources have one gap
            parts.append(f"gap{of} {_gap(line)}")
    return cell(f"{lead}   {f' {words.dot} '.join(parts)}")


def _gap(line: AmountLine) -> str:
    """`-1,234.56 USD`, with all its digits."""
    if line.difference is None:
        return line.unknown
    return f"{amount(decimal_text(line.difference))} {line.unit}".rstrip()


def _largest(facts: RunFacts, row: Row, words: Words) -> str:
    """`largest  account 4711  ledger 1,500.00  exports 500.00  Δ -1,000.00`."""
    values, deltas = _texts(row.get("values")), _texts(row.get("deltas"))
    measures = [
        (stage.name, stage.executed, measure)
        for stage in facts.stages
        for measure in (stage.executed.measures if stage.executed else ())
    ]
    place = row.get("stage"), row.get("measure")
    matching = [
        (stage, measure) for name, stage, measure in measures if (name, measure.name) == place
    ]
    # As many decimals as the measure's amounts have, so that money is shown as usual.
    places = max(
        common_places([*values.values(), *deltas.values()]), *starmap(places_of, matching), 0
    )
    timed = any(starmap(is_time, matching))
    are_many = sum(not measure.passed for *_, measure in measures) > 1
    parts = [visible(str(row.get("measure")))] if are_many else []
    key = _texts(row.get("key")).items()
    parts += [f"{name} {'NULL' if value is None else visible(value)}" for name, value in key]
    parts += [f"{name} {_shown(value, places)}" for name, value in values.items()]
    for name, delta in deltas.items():
        of = "" if len(deltas) == 1 else f" {name}"
        shown = "NULL" if delta is None else delta_text(delta, places=places, is_time=timed)
        parts.append(f"{words.delta}{of} {shown}")
    return f"largest  {'  '.join(map(cell, parts))}"


def _shown(value: str | None, places: int) -> str:
    return "NULL" if value is None else visible(amount(value, places=places))


def _texts(member: object) -> dict[str, str | None]:
    if not isinstance(member, Mapping):
        return {}
    return {str(name): None if value is None else str(value) for name, value in member.items()}


def ending_lines(run: Row, words: Words, invocation: Invocation) -> list[str]:
    """The lines of a run without a verdict: the reason, and the page to read."""
    status = str(run["status"])
    if status == "CANCELLED":
        by, reason = run.get("cancelled_by"), run.get("cancel_reason")
        text = f"by {cell(by)}" + (f": {cell(reason)}" if reason else "")
        return [headline(status, words, invocation) + text]
    error = run.get("error")
    fields: Row = error if isinstance(error, Mapping) else {}
    finer = fields.get("detail_code")
    code = cell(fields.get("code")) + (f" / {cell(finer)}" if finer else "")
    lines = [f"{headline(status, words, invocation)}{code}  {cell(fields.get('message'))}"]
    if finer:
        lines.append(f"{_INDENT}docs  datarecs errors {cell(finer)}")
    return lines
