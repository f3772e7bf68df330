"""run.json read back into the types it was written from: what a finished run says it found.

Apart from `run_json`, which writes it, because a reader trusts nothing: whatever is absent or of
another type ends in one error that names its place. Places and samples are read elsewhere.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, TypeVar, assert_never, cast

from datarecs_core.comparison.results import (
    Closure,
    DifferenceSet,
    MeasureResult,
    StageCounts,
    StageResults,
    ToleranceResult,
    Verdict,
)
from datarecs_core.comparison.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    PercentageTolerance,
    Tolerance,
)
from datarecs_core.comparison.verdict import Acceptance, SkipReason
from datarecs_core.documents import from_document
from datarecs_core.jobs.definition import Accept
from datarecs_core.jobs.vocabulary import (
    Bound,
    Combine,
    CompareTo,
    DuplicatePolicy,
    NanRule,
    OnUnmatched,
    StageType,
    ToleranceBase,
    ToleranceType,
)
from datarecs_core.values import EXACT

if TYPE_CHECKING:
    from datarecs_core.hashing import JsonValue

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
_DECIMAL = re.compile(r"-?\d{1,800}(\.\d{1,800})?", re.ASCII)


class NotSealedError(ValueError):
    """A document that is no run.json of this release, with the place that tells so."""

    def __init__(self, place: str, wanted: str) -> None:
        super().__init__(f"{place or 'the document'} is not {wanted}")
        self.place, self.wanted = place, wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedMeasure:
    """How a measure was judged; its numbers stand in the results, in the same order."""

    name: str
    combine: Combine
    bound: Bound
    compare_to: CompareTo
    comparable: bool
    nan: NanRule


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedStage:
    """A stage of the proof: executed with its results, or skipped."""

    name: str
    type: StageType
    results: StageResults | None = None
    verdict: Verdict | None = None
    acceptance: Acceptance = Acceptance.NOT_CONFIGURED
    skipped: SkipReason | None = None
    measures: tuple[SealedMeasure, ...] = ()
    """The declared ones, without `$rows`."""
    dimensions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Name and types, one per source."""
    reference: int = 0
    scope: str | None = None
    duplicates: DuplicatePolicy = DuplicatePolicy.MULTISET
    on_unmatched: OnUnmatched = OnUnmatched.CONTINUE
    accept: Accept | None = None

    @property
    def compares_multisets(self) -> bool:
        return self.results is not None and self.results.rows is not None

    @property
    def is_grand_total(self) -> bool:
        return self.type is not StageType.ROW and not self.dimensions


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRun:
    """What `proof` says, and the hash that stands beside it."""

    proof_hash: str
    verdict: Verdict
    acceptance: Acceptance
    sources: tuple[str, ...]
    pins: tuple[Mapping[str, object], ...]
    stages: tuple[SealedStage, ...]

    def stage(self, name: str) -> SealedStage | None:
        return next((stage for stage in self.stages if stage.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    place: str
    content: Mapping[str, object]

    def text(self, name: str) -> str:
        return self._of(name, str, "text")

    def maybe(self, name: str) -> str | None:
        return None if self.content.get(name) is None else self.text(name)

    def count(self, name: str) -> int:
        """A number of 0 or more; of 2^53 or more it stands as text, and 0 may be left out."""
        value = self.content.get(name, 0)
        if isinstance(value, str) and value.isdecimal():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise self.wrong(name, "a count")

    def flag(self, name: str) -> bool:
        return self._of(name, bool, "true or false")

    def word(self, name: str, words: type[E]) -> E:
        try:
            return words(self.text(name))
        except ValueError:
            known = ", ".join(str(each.value) for each in words)
            raise self.wrong(name, f"one of {known}") from None

    def decimal(self, name: str) -> Decimal | None:
        written = self.maybe(name)
        if written is None:
            return None
        if not _DECIMAL.fullmatch(written):
            raise self.wrong(name, "a decimal number")
        return Decimal(written)

    def part(self, name: str) -> "_Part":
        return _Part(place=self.at(name), content=self._of(name, dict, "an object"))

    def parts(self, name: str) -> tuple["_Part", ...]:
        found = []
        for at, value in enumerate(self.items(name)):
            place = f"{self.at(name)}[{at}]"
            if not isinstance(value, Mapping):
                raise NotSealedError(place, "an object")
            found.append(_Part(place=place, content=value))
        return tuple(found)

    def items(self, name: str) -> Sequence[object]:
        return self._of(name, list, "a list")

    def by_source(self, name: str, sources: int) -> tuple[int, ...]:
        found = self.part(name)
        if len(found.content) != sources:
            raise self.wrong(name, f"a number for each of {sources} sources")
        return tuple(found.count(f"source_{index}") for index in range(sources))

    def decimals(self, name: str, sources: int) -> tuple[Decimal | None, ...]:
        found = self.part(name)
        return tuple(found.decimal(f"source_{index}") for index in range(sources))

    def at(self, name: str) -> str:
        return f"{self.place}.{name}".lstrip(".")

    def wrong(self, name: str, wanted: str) -> NotSealedError:
        return NotSealedError(self.at(name), wanted)

    def _of(self, name: str, kind: type[T], wanted: str) -> T:
        value = self.content.get(name)
        if not isinstance(value, kind):
            raise self.wrong(name, wanted)
        return value


def sealed_run(document: object) -> SealedRun:
    """Read a run.json; its hash is not looked at.

    Args:
        document: parsed JSON.

    Raises:
        NotSealedError: a field is absent or not of its type.
    """
    if not isinstance(document, Mapping):
        raise NotSealedError("", "an object")
    root = _Part(place="", content=document)
    proof = root.part("proof")
    sources = proof.parts("sources")
    names = tuple(each.text("name") for each in sources)
    return SealedRun(
        proof_hash=root.text("proof_hash"),
        verdict=proof.word("result", Verdict),
        acceptance=proof.word("acceptance", Acceptance),
        sources=names,
        pins=tuple(each.part("pin").content for each in sources),
        stages=tuple(_stage(each, names) for each in proof.parts("stages")),
    )


def _stage(part: _Part, sources: tuple[str, ...]) -> SealedStage:
    name, kind = part.text("name"), part.word("type", StageType)
    if part.text("status") != "EXECUTED":
        return SealedStage(name=name, type=kind, skipped=part.word("reason", SkipReason))
    question, measures = part.part("question"), part.parts("measures")
    reference = question.text("reference")
    if reference not in sources:
        raise question.wrong("reference", "a source")
    return SealedStage(
        name=name,
        type=kind,
        results=_results(part, len(sources)),
        verdict=part.word("result", Verdict),
        acceptance=part.word("acceptance", Acceptance),
        measures=tuple(_measure(each) for each in measures if "function" in each.content),
        dimensions=tuple(
            (each.text("name"), tuple(str(one) for one in each.items("types")))
            for each in question.parts("dimensions")
        ),
        reference=sources.index(reference),
        scope=question.maybe("scope"),
        duplicates=question.word("duplicates", DuplicatePolicy),
        on_unmatched=question.word("on_unmatched", OnUnmatched),
        accept=_accept(question),
    )


def _accept(question: _Part) -> Accept | None:
    written = question.content.get("accept")
    if written is None:
        return None
    try:
        return from_document(Accept, cast("JsonValue", written))
    except ValueError:
        raise question.wrong("accept", "limits") from None


def _results(part: _Part, sources: int) -> StageResults:
    measured = [(each, _numbers(each, sources)) for each in part.parts("measures")]
    rows = [result for each, result in measured if "function" not in each.content]
    differences = part.part("differences")
    return StageResults(
        stage=part.text("name"),
        counts=_counts(part.part("counts"), sources),
        measures=tuple(result for each, result in measured if "function" in each.content),
        rows=rows[0] if rows else None,
        differences=DifferenceSet(
            rows=differences.count("rows"),
            digest=differences.text("digest"),
            truncated=differences.flag("truncated"),
        ),
        closure=tuple(
            Closure(
                extracted=each.count("extracted"),
                grouped=each.count("grouped"),
                excluded=each.count("excluded"),
                out_of_scope=each.count("out_of_scope"),
            )
            for each in part.parts("closure")
        ),
    )


def _counts(part: _Part, sources: int) -> StageCounts:
    counts = StageCounts(
        source_row_counts=part.by_source("source_row_counts", sources),
        groups_by_source=part.by_source("groups_by_source", sources),
        matched_groups=part.count("matched_groups"),
        unmatched_by_source=part.by_source("unmatched_by_source", sources),
        missing_by_source=part.by_source("missing_by_source", sources),
        presence=tuple(
            (each.count("mask"), each.count("groups")) for each in part.parts("presence")
        ),
        presence_other=part.count("presence_other"),
        rows_compared=part.count("rows_compared"),
        rows_matched=part.count("rows_matched"),
        rows_unmatched=part.count("rows_unmatched"),
        duplicate_keys_by_source=part.by_source("duplicate_keys_by_source", sources),
        null_keys_by_source=part.by_source("null_keys_by_source", sources),
        invalid_values_by_source=part.by_source("invalid_values_by_source", sources),
        excluded_rows_by_source=part.by_source("excluded_rows_by_source", sources),
        odd_one_out=part.by_source("odd_one_out", sources),
    )
    if part.count("unmatched_groups") != counts.unmatched_groups:
        raise part.wrong("unmatched_groups", "rows_compared without matched_groups")
    return counts


def _numbers(part: _Part, sources: int) -> MeasureResult:
    result = MeasureResult(
        name=part.text("name"),
        tolerances=tuple(
            ToleranceResult(tolerance=_tolerance(each), own_within=each.count("own_within"))
            for each in part.parts("tolerances")
        ),
        within=part.count("within"),
        outside=part.count("outside"),
        equal=part.count("equal"),
        within_not_equal=part.count("within_not_equal"),
        null_mismatch=part.count("null_mismatch"),
        invalid=part.count("invalid"),
        precision=part.count("precision"),
        multiplicity=part.count("multiplicity"),
        not_comparable=part.count("not_comparable"),
        total_by_source=part.decimals("total_by_source", sources),
        gap_by_source=part.decimals("gap_by_source", sources),
        max_abs_delta=part.decimal("max_abs_delta"),
    )
    if part.flag("passed") is not result.passed:
        raise part.wrong("passed", "what `outside` says (F06)")
    return result


def _tolerance(part: _Part) -> Tolerance:
    limit = part.decimal("value")
    if limit is None:
        raise part.wrong("value", "a decimal number")
    kind = part.word("type", ToleranceType)
    match kind:
        case ToleranceType.EXACT:
            return ExactTolerance()
        case ToleranceType.ABSOLUTE:
            return AbsoluteTolerance(limit=limit)
        case ToleranceType.DURATION:
            return DurationTolerance(microseconds=limit.scaleb(6, EXACT))
        case ToleranceType.PERCENTAGE:
            return PercentageTolerance(limit=limit, base=part.word("base", ToleranceBase))
    assert_never(kind)


def _measure(part: _Part) -> SealedMeasure:
    rules = part.part("rules")
    return SealedMeasure(
        name=part.text("name"),
        combine=part.word("combine", Combine),
        bound=part.word("bound", Bound),
        compare_to=part.word("compare_to", CompareTo),
        comparable=part.flag("comparable"),
        nan=rules.word("nan", NanRule) if "nan" in rules.content else NanRule.EQUAL,
    )
