"""Sentences about tolerances, policies and verdicts; this module decides the words of an outcome.

Console, report and terminal use the same texts. Names come from jobs and sources, so the caller
escapes them for its output.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from datarecs_core.comparison.planning.plan import ROWS
from datarecs_core.comparison.proof.sealed import SealedChange
from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.jobs.definition import SchemaPolicy
from datarecs_core.jobs.vocabulary import SchemaMode
from datarecs_reports.figures import amount, count, counted, lasting, visible
from datarecs_reports.model import (
    ConfirmedFacts,
    Executed,
    MeasureFacts,
    RunFacts,
    SourceFacts,
    StageFacts,
    StrategyFacts,
    ToleranceFacts,
)

_CLASS_WORDS = {
    DifferenceClass.MISSING: "missing",
    DifferenceClass.MULTIPLICITY: "other number of copies",
    DifferenceClass.INVALID: "invalid value",
    DifferenceClass.NULL_MISMATCH: "NULL",
    DifferenceClass.NOT_COMPARABLE: "not comparable",
    DifferenceClass.PRECISION: "precision",
    DifferenceClass.OUTSIDE: "outside",
    DifferenceClass.WITHIN: "within",
}
_SHORT_CLASSES = {
    DifferenceClass.MULTIPLICITY: "in copies",
    DifferenceClass.INVALID: "invalid",
}
_STAGE_WORDS = {
    "counts": "number of rows",
    "aggregate": "totals by group",
    "row": "row by row",
    "schema": "columns",
    "digest": "fingerprints",
    "custom_sql": "declared queries",
}
_DUPLICATES = {
    "multiset": "Rows with equal keys are compared as a multiset: their order never matters, the "
    "number of copies does.",
    "error": "A key that occurs twice in one source ends the run without a verdict.",
    "aggregate": "Rows with equal keys are combined by the function of each measure.",
}
_NULL_KEYS = {
    "group": "NULL in a key equals NULL in the same place.",
    "reject": "NULL in a key ends the run without a verdict.",
    "exclude": "Rows with NULL in a key are left out and counted.",
}
_EMPTY = {
    "warn": "Sources that are all empty agree, with a warning.",
    "error": "A source without a row ends the run without a verdict.",
    "ok": "Sources that are all empty agree.",
}
_RULES = {
    "trim=both": "white space at both ends is ignored",
    "trim=left": "white space at the start is ignored",
    "trim=right": "white space at the end is ignored",
    "case=fold": "upper and lower case are the same",
    "unicode=NFC": "texts are converted to the Unicode form NFC",
    "unicode=NFKC": "texts are converted to the Unicode form NFKC",
    "empty=null": "an empty text counts as NULL",
    "null=zero": "NULL counts as 0",
    "null=empty": "NULL counts as an empty text",
    "rounding=half_even": "dropped digits of a second are rounded half-even",
    "nan=unequal": "NaN differs from NaN",
    "float32=shortest": "32-bit floats are compared with 32 bits",
    "arrays=set": "the order inside arrays is ignored",
}
_SCHEMA_MODES = {
    SchemaMode.COMPATIBLE: "types need only be comparable, not equal",
    SchemaMode.NAMES: "only names are compared, not types",
}
_STRATEGIES = {
    "full": "in full, every row in one pass",
    "narrow": "after a first reading of every row, exactly where rows may differ",
    "pushdown": "from groups computed by the databases",
    "fingerprint": "where stored fingerprints differ",
}
_COMPARE_TO = {
    "all_pairs": "every source is compared with every other",
    "spread": "the largest value is compared with the smallest",
}
NO_LINE = "no field of the job declares this; correct it in the source"
"""Text instead of the line that would declare a likely cause."""
_BASES = {"max_abs": "the larger value", "min_abs": "the smaller value"}


def class_words(kind: DifferenceClass) -> str:
    return _CLASS_WORDS[kind]


def stage_words(stage: StageFacts) -> str:
    """The comparison of the stage: `totals by group: account`."""
    dimensions = stage.executed.question.dimensions if stage.executed else ()
    return kind_words(stage.type, [each.name for each in dimensions])


def kind_words(kind: str, dimensions: Iterable[str]) -> str:
    """A type of stage with its dimensions."""
    head, names = _STAGE_WORDS.get(kind, kind), ", ".join(map(visible, dimensions))
    return f"{head}: {names}" if names else head


def skipped_words(stage: StageFacts) -> str:
    """Why a stage was not executed."""
    if stage.skipped == "STOPPED_BY":
        return f"Not executed, because {stage.stopped_by} is unmatched and stops the run."
    if stage.skipped == "NOTHING_IN_SCOPE":
        return "Not executed, because no group of the stage it is scoped to differs."
    return f"Not executed ({stage.skipped})."


class Judged(Protocol):
    """The tolerances of a measure, for a plan before the run and for a report after it."""

    @property
    def name(self) -> str: ...
    @property
    def tolerances(self) -> tuple[ToleranceFacts, ...]: ...
    @property
    def combine(self) -> str: ...
    @property
    def bound(self) -> str: ...
    @property
    def compare_to(self) -> str: ...
    @property
    def comparable(self) -> bool: ...


def tolerance_words(measure: Judged, reference: str) -> str:
    """All tolerances of a measure as one sentence part."""
    if not measure.comparable:
        return "cannot be compared: missing in a source, or of another type"
    if measure.name == ROWS:
        return "the same number of rows per key in every source"
    parts = [_tolerance(each, measure.bound, reference) for each in measure.tolerances]
    joined = (" or " if measure.combine == "any" else " and ").join(parts)
    return f"{joined}; {more}" if (more := _COMPARE_TO.get(measure.compare_to)) else joined


def _tolerance(tolerance: ToleranceFacts, bound: str, reference: str) -> str:
    most = "at most" if bound == "inclusive" else "less than"
    match tolerance.type:
        case "EXACT":
            return "exactly equal"
        case "ABSOLUTE":
            return f"{most} {amount(tolerance.value)} apart"
        case "PERCENTAGE":
            base = _BASES.get(tolerance.base or "", f"the value in {visible(reference)}")
            return f"{most} {amount(tolerance.value)} % of {base} apart"
        case "DURATION":
            return f"{most} {duration(tolerance)} apart"
        case other:
            return f"{other} {tolerance.value}"


def duration(tolerance: ToleranceFacts) -> str:
    """The seconds of a DURATION for people."""
    whole, _, fraction = tolerance.value.partition(".")
    return lasting(f"{whole}{fraction.ljust(6, '0')}")


def short_tolerance(measure: MeasureFacts) -> str:
    """`ABSOLUTE 0.01 or PERCENTAGE 1 %`: the words of the job, for narrow places."""
    values = {"EXACT": "", "PERCENTAGE": " %"}
    parts = [
        f"DURATION {duration(each)}"
        if each.type == "DURATION"
        else each.type
        if each.type == "EXACT"
        else f"{each.type} {amount(each.value)}{values.get(each.type, '')}"
        for each in measure.tolerances
    ]
    return (" or " if measure.combine == "any" else " and ").join(parts) or "EXACT"


def policies(executed: Executed, kind: str) -> list[str]:
    """How a stage treats duplicates, NULL keys and empty sources, and its limits."""
    question, counts = executed.question, executed.counts
    lines = policy_words(
        duplicates=question.duplicates if kind == "row" else None,
        null_keys=question.null_keys if question.dimensions else None,
        empty=question.empty,
    )
    if question.where is not None:
        lines.append(f"Only rows with {visible(question.where, most=1000)}.")
    if question.scope is not None:
        lines.append(f"Only groups that differ in the stage {question.scope}.")
    if any(counts.excluded_rows_by_source):
        rows = sum(counts.excluded_rows_by_source)
        lines.append(f"{counted(rows, 'row')} left out for a NULL in the key.")
    if executed.confirmed is not None:
        lines.append(confirmed_words(executed.confirmed))
    if question.accept:
        lines.append(f"Accepted within {_listed(question.accept)}: {executed.acceptance}.")
    if question.warn_at:
        lines.append(f"Warns above {_listed(question.warn_at)}.")
    return lines


def confirmed_words(confirmed: ConfirmedFacts) -> str:
    """The result of rechecks, with both counts."""
    times = "once" if confirmed.rechecks == 1 else f"{count(confirmed.rechecks)} times"
    left = confirmed.initial_differences - confirmed.resolved
    return (
        f"{counted(confirmed.initial_differences, 'group')} differed at first and, "
        f"rechecked {times}, "
        f"{count(confirmed.resolved)} agreed (in flight); {count(left)} still differ."
    )


def policy_words(*, duplicates: str | None, null_keys: str | None, empty: str) -> list[str]:
    """The policies for repeated keys, NULL keys and empty sources; None if they cannot occur."""
    lines = [] if duplicates is None else [_DUPLICATES[duplicates]]
    if null_keys is not None:
        lines.append(_NULL_KEYS[null_keys])
    return [*lines, _EMPTY[empty]]


def _listed(limits: Mapping[str, str]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in limits.items())


def relaxations(facts: RunFacts) -> list[str]:
    """Every declared exception from strict equality, once each; empty means strict."""
    lines: dict[str, None] = {}
    for stage in facts.stages:
        if stage.executed is not None:
            named: list[tuple[str, Mapping[str, str]]] = [
                (each.name, each.rules) for each in stage.executed.question.dimensions
            ]
            named += [(each.name, each.rules) for each in stage.executed.measures]
            named += stage.executed.question.hashed
            for name, rules in named:
                lines |= dict.fromkeys(rule_words(name, rules))
            lines |= dict.fromkeys(schema_words(stage.name, stage.executed.question.schema))
    for source in facts.sources:
        for change in source.changes:
            lines |= dict.fromkeys(_changes(source, change))
    return list(lines)


def rule_words(column: str, rules: Mapping[str, str]) -> list[str]:
    """Every declared rule of a column as a sentence."""
    return [f"{visible(column)}: {_rule(*each)}" for each in rules.items()]


def schema_words(stage: str, policy: SchemaPolicy | None) -> Iterator[str]:
    """The differences that a schema stage allows; nothing for other stages."""
    if policy is None:
        return
    if policy.mode is not SchemaMode.STRICT:
        yield f"Stage {stage}: {_SCHEMA_MODES[policy.mode]}"
    if policy.ignore:
        yield f"Stage {stage}: ignored are {', '.join(map(visible, policy.ignore))}"
    for group in policy.equivalences:
        yield f"Stage {stage}: the types {', '.join(map(str, group))} are the same"


def _rule(name: str, value: str) -> str:
    if name == "round":
        return f"numbers are rounded half-even to {counted(int(value), 'place')}"
    if name == "precision":
        return f"times are compared to {counted(int(value), 'digit')} of a second"
    return _RULES.get(f"{name}={value}", f"{name} {value}")


def _changes(source: SourceFacts, change: SealedChange) -> Iterator[str]:
    column = f"{source.name}.{visible(change.column)}"
    if change.zone is not None:
        yield f"{column}: times without a zone are in {change.zone}"
    elif change.cast is not None:
        yield f"{column}: read as {change.cast}"
    if change.map:
        shown = [f"{visible(old)} → {visible(new)}" for old, new in list(change.map.items())[:5]]
        more = len(change.map) - len(shown)
        yield f"{column}: mapped {', '.join(shown)}" + (f" and {count(more)} more" if more else "")


def presence_words(mask: int, sources: Sequence[str]) -> str:
    """The sources of a group: `in both`, `only in ledger`, `missing in lake, landing`."""
    have = [name for at, name in enumerate(sources) if mask >> at & 1]
    lack = [name for name in sources if name not in have]
    if not lack:
        return "in both" if len(sources) == 2 else f"in all {len(sources)}"  # noqa: PLR2004  a pair
    if len(have) == 1:
        return f"only in {have[0]}"
    return f"missing in {', '.join(lack)}"


def strategy_words(strategy: StrategyFacts) -> str:
    """The strategy of a stage: `Compared in full; not narrow (…), not pushdown (…).`."""
    how = _STRATEGIES.get(strategy.chosen, f"by strategy {strategy.chosen}")
    others = [f"not {name} ({reason})" for name, reason in strategy.rejected]
    return f"Compared {how}" + (f"; {', '.join(others)}." if others else ".")


def missing_words(executed: Executed, sources: Sequence[str]) -> list[str]:
    """The groups that are missing in a source, source by source; nothing if none is missing."""
    counts = executed.counts
    if len(sources) == 2:  # noqa: PLR2004  for two sources, name the one that has the group
        pairs = zip(counts.unmatched_by_source, sources, strict=True)
        return [f"{count(groups)} only in {name}" for groups, name in pairs if groups]
    pairs = zip(counts.missing_by_source, sources, strict=True)
    return [f"{count(groups)} missing in {name}" for groups, name in pairs if groups]


def reason(facts: RunFacts) -> str:
    """The reason of the verdict, in one sentence."""
    executed = [(stage, stage.executed) for stage in facts.stages if stage.executed is not None]
    differing = [(stage, each) for stage, each in executed if not each.matched]
    if differing:
        stage, largest = max(differing, key=lambda pair: pair[1].counts.rows_compared)
        lead = f"Stage {stage.name}: " if len(facts.stages) > 1 else ""
        others = [other.name for other, _ in differing if other is not stage]
        more = f" Other stages that differ: {', '.join(others)}." if others else ""
        return f"{lead}{_difference(largest, facts.source_names)}{more}"
    if not any(rows for _, each in executed for rows in each.counts.source_row_counts):
        return "All sources are empty, so nothing differs."
    widest = max((each for _, each in executed), key=lambda each: each.counts.rows_compared)
    if not widest.question.dimensions:
        return "Every measure is within its tolerance."
    groups = counted(widest.counts.rows_compared, "group")
    places = "both sources" if len(facts.sources) == 2 else f"all {len(facts.sources)} sources"  # noqa: PLR2004  a pair
    return f"{groups} compared: every one is in {places}, every measure within its tolerance."


def _difference(executed: Executed, sources: Sequence[str]) -> str:
    counts = executed.counts
    if not executed.question.dimensions:
        names = ", ".join(visible(each.name) for each in executed.measures if not each.passed)
        return f"{names} outside tolerance."
    parts = missing_words(executed, sources)
    if executed.outside_groups:
        parts.append(f"{count(executed.outside_groups)} outside tolerance")
    groups = counted(counts.rows_compared, "group")
    verb = "does" if counts.rows_unmatched == 1 else "do"
    return f"{count(counts.rows_unmatched)} of {groups} {verb} not agree: {', '.join(parts)}."


def outside_words(measure: MeasureFacts) -> str:
    """Classes of the outside groups other than amounts: `3 NULL, 2 precision`."""
    parts: Iterable[str] = (
        f"{count(groups)} {_SHORT_CLASSES.get(kind, class_words(kind))}"
        for kind, groups in measure.classes.items()
        if kind is not DifferenceClass.OUTSIDE
    )
    return ", ".join(parts)
