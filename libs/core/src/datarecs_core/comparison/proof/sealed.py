"""run.json read back into its types: the result of a finished run.

The one typed reading of a proof, for verification, rejudging and reports. Separate from
`run_json`, which writes it, because a reader trusts nothing. Places, samples and hints are
outside the proof; reports read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from datarecs_core.comparison.planning.plan import Warn
from datarecs_core.comparison.proof.reading import Part, whole
from datarecs_core.comparison.proof.sealed_numbers import read_closure, read_counts, read_results
from datarecs_core.comparison.results.results import (
    Closure,
    StageCounts,
    StageResults,
    Verdict,
)
from datarecs_core.comparison.results.verdict import Acceptance, SkipReason
from datarecs_core.documents import from_document
from datarecs_core.jobs.definition import Accept, Confirm, SchemaPolicy, WarnAt
from datarecs_core.jobs.types import CanonicalType, parse_type
from datarecs_core.jobs.vocabulary import (
    Bound,
    Combine,
    CompareTo,
    DuplicatePolicy,
    EmptyPolicy,
    Function,
    NanRule,
    NullKeys,
    OnUnmatched,
    SchemaMode,
    SourceKind,
    StageType,
)

if TYPE_CHECKING:
    from datarecs_core.hashing import JsonValue

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedChange:
    """A cast, zone or map that a source's column went through before it was compared."""

    column: str
    cast: str | None
    zone: str | None
    map: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSource:
    """What was read of a source, and at which pin."""

    name: str
    kind: SourceKind
    pin: Mapping[str, object]
    """As written; each kind of pin has different fields."""
    columns: tuple[tuple[str, CanonicalType], ...]
    """Logical name and type as delivered."""
    physical: Mapping[str, str]
    """What the source calls them; none for expressions."""
    closure: Closure
    """Of the first stage that saw rows."""
    changes: tuple[SealedChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedDimension:
    """A dimension with its types, one per source, and its declared rules."""

    name: str
    column: str
    """Logical name of its column."""
    types: tuple[str, ...]
    rules: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedMeasure:
    """How a measure was judged; its numbers are in the results, in the same order."""

    name: str
    function: Function
    combine: Combine
    bound: Bound
    compare_to: CompareTo
    comparable: bool
    rules: Mapping[str, str]
    column: str | None = None
    """Logical name of its column; None for a number of rows, and in older documents."""
    types: tuple[str | None, ...] = ()
    """What is compared, by source, after a cast; empty in older documents."""
    adds_up: bool | None = None
    """As the job declares it."""

    @property
    def nan(self) -> NanRule:
        return NanRule(self.rules.get("nan", NanRule.EQUAL))


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRecheck:
    """One second read of the groups that differed."""

    pins: tuple[Mapping[str, object], ...]
    """Of every source, as they are written."""
    counts: StageCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedConfirmed:
    """What a stage counted before it was read again, and after each recheck."""

    in_flight_resolved: int
    first: StageCounts
    rechecks: tuple[SealedRecheck, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedStage:
    """A stage of the proof: executed with its results, or skipped."""

    name: str
    type: StageType
    results: StageResults | None = None
    verdict: Verdict | None = None
    acceptance: Acceptance = Acceptance.NOT_CONFIGURED
    skipped: SkipReason | None = None
    stopped_by: str | None = None
    measures: tuple[SealedMeasure, ...] = ()
    """The declared ones, without `$rows`."""
    dimensions: tuple[SealedDimension, ...] = ()
    reference: int = 0
    where: str | None = None
    scope: str | None = None
    duplicates: DuplicatePolicy = DuplicatePolicy.MULTISET
    null_keys: NullKeys = NullKeys.GROUP
    empty: EmptyPolicy = EmptyPolicy.WARN
    on_unmatched: OnUnmatched = OnUnmatched.CONTINUE
    accept: Accept | None = None
    warn_at: WarnAt | None = None
    confirm: Confirm | None = None
    confirmed: SealedConfirmed | None = None
    schema: SchemaPolicy | None = None
    """Of a schema stage alone."""
    queries: Mapping[str, str] = field(default_factory=dict)
    """Of a custom_sql stage: its query of every source."""
    hashed: tuple[tuple[str, Mapping[str, str]], ...] = ()
    """Of a digest stage: the columns of its fingerprints with their rules."""

    @property
    def compares_multisets(self) -> bool:
        return self.results is not None and self.results.rows is not None

    @property
    def is_grand_total(self) -> bool:
        return self.type in (StageType.COUNTS, StageType.AGGREGATE) and not self.dimensions


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedDigests:
    """What `proof: rows` seals: the root over the row digests, which are in a file beside it."""

    leaves: int
    file: str
    merkle_root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRun:
    """The content of `proof`, and its hash."""

    proof_hash: str
    canonical: str
    spec_hash: str
    key_id: str
    versions: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    verdict: Verdict
    acceptance: Acceptance
    warnings: tuple[Warn, ...] = ()
    inputs: tuple[SealedSource, ...]
    stages: tuple[SealedStage, ...]
    digests: SealedDigests | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """Names, by index."""
        return tuple(each.name for each in self.inputs)

    @property
    def pins(self) -> tuple[Mapping[str, object], ...]:
        return tuple(each.pin for each in self.inputs)

    def stage(self, name: str) -> SealedStage | None:
        return next((stage for stage in self.stages if stage.name == name), None)


def sealed_run(document: object) -> SealedRun:
    """Read a run.json; its hash is not checked.

    Args:
        document: parsed JSON.

    Raises:
        DocumentUnreadableError: a field is absent or not of its type.
    """
    root = whole(document)
    proof = root.part("proof")
    inputs = tuple(_source(each) for each in proof.parts("sources"))
    names = tuple(each.name for each in inputs)
    return SealedRun(
        proof_hash=root.text("proof_hash"),
        canonical=proof.text("canonical"),
        spec_hash=proof.text("spec_hash"),
        key_id=proof.text("key_id"),
        versions=proof.mapping("versions"),
        parameters=proof.mapping("parameters"),
        verdict=proof.word("result", Verdict),
        acceptance=proof.word("acceptance", Acceptance),
        warnings=tuple(_read(each, Warn, "a warning") for each in proof.parts("warnings")),
        inputs=inputs,
        stages=tuple(_stage(each, names) for each in proof.parts("stages")),
        digests=_digests(proof.part("digests")) if "digests" in proof.content else None,
    )


def _read(part: Part, kind: type[T], wanted: str) -> T:
    try:
        return from_document(kind, cast("JsonValue", part.content))
    except ValueError:
        raise part.wrong("", wanted) from None


def _maybe(part: Part, name: str, kind: type[T]) -> T | None:
    if part.content.get(name) is None:
        return None
    return _read(part.part(name), kind, "limits")


def _digests(part: Part) -> SealedDigests:
    return SealedDigests(
        leaves=part.count("leaves"), file=part.text("file"), merkle_root=part.text("merkle_root")
    )


def _source(part: Part) -> SealedSource:
    rules = part.part("rules")
    return SealedSource(
        name=part.text("name"),
        kind=part.word("kind", SourceKind),
        pin=part.part("pin").content,
        columns=tuple(
            (each.text("name"), _read(each.part("type"), CanonicalType, "a type"))
            for each in part.parts("schema")
        ),
        physical={
            each.text("name"): physical
            for each in part.parts("schema")
            if (physical := each.maybe("physical")) is not None
        },
        closure=read_closure(part.part("closure")),
        changes=tuple(_change(name, rules.part(name)) for name in rules.content),
    )


def _change(column: str, part: Part) -> SealedChange:
    return SealedChange(
        column=column, cast=part.maybe("cast"), zone=part.maybe("zone"), map=part.mapping("map")
    )


def _stage(part: Part, sources: tuple[str, ...]) -> SealedStage:
    name, kind = part.text("name"), part.word("type", StageType)
    if part.text("status") != "EXECUTED":
        return SealedStage(
            name=name,
            type=kind,
            skipped=part.word("reason", SkipReason),
            stopped_by=part.maybe("stopped_by"),
        )
    question, measures = part.part("question"), part.parts("measures")
    reference = question.text("reference")
    if reference not in sources:
        raise question.wrong("reference", "a source")
    hashed = question.maybe_part("hashed")
    return SealedStage(
        name=name,
        type=kind,
        results=read_results(part, len(sources)),
        verdict=part.word("result", Verdict),
        acceptance=part.word("acceptance", Acceptance),
        measures=tuple(_measure(each) for each in measures if "function" in each.content),
        dimensions=tuple(_dimension(each) for each in question.parts("dimensions")),
        reference=sources.index(reference),
        where=question.maybe("where"),
        scope=question.maybe("scope"),
        duplicates=question.word("duplicates", DuplicatePolicy),
        null_keys=question.word("null_keys", NullKeys),
        empty=question.word("empty", EmptyPolicy),
        on_unmatched=question.word("on_unmatched", OnUnmatched),
        accept=_maybe(question, "accept", Accept),
        warn_at=_maybe(question, "warn_at", WarnAt),
        confirm=_maybe(question, "confirm", Confirm),
        confirmed=_confirmed(part.part("confirmed"), len(sources))
        if "confirmed" in part.content
        else None,
        schema=_schema(question.part("schema")) if "schema" in question.content else None,
        queries=question.mapping("queries"),
        hashed=tuple(
            (each.text("name"), each.mapping("rules"))
            for group in ("dimensions", "measures")
            for each in hashed.maybe_parts(group)
        ),
    )


def _confirmed(part: Part, sources: int) -> SealedConfirmed:
    return SealedConfirmed(
        in_flight_resolved=part.count("in_flight_resolved"),
        first=read_counts(part.part("first_counts"), sources),
        rechecks=tuple(
            SealedRecheck(
                pins=tuple(pin.content for pin in recheck.parts("pins")),
                counts=read_counts(recheck.part("counts"), sources),
            )
            for recheck in part.parts("looks")
        ),
    )


def _dimension(part: Part) -> SealedDimension:
    return SealedDimension(
        name=part.text("name"),
        column=part.maybe("column") or part.text("name"),
        types=tuple(str(each) for each in part.items("types")),
        rules=part.mapping("rules"),
    )


def _schema(part: Part) -> SchemaPolicy:
    return SchemaPolicy(
        mode=part.word("mode", SchemaMode),
        order=part.flag("order"),
        nullability=part.flag("nullability"),
        ignore=tuple(str(each) for each in part.items("ignore")),
        equivalences=tuple(_types(part, group) for group in part.items("equivalences")),
    )


def _types(part: Part, group: object) -> tuple[CanonicalType, ...]:
    try:
        return tuple(parse_type(str(each)) for each in cast("list[object]", group))
    except (ValueError, TypeError):
        raise part.wrong("equivalences", "groups of types") from None


def _measure(part: Part) -> SealedMeasure:
    rules = part.part("rules")
    if "nan" in rules.content:
        rules.word("nan", NanRule)
    return SealedMeasure(
        name=part.text("name"),
        function=part.word("function", Function),
        combine=part.word("combine", Combine),
        bound=part.word("bound", Bound),
        compare_to=part.word("compare_to", CompareTo),
        comparable=part.flag("comparable"),
        rules=part.mapping("rules"),
        column=part.maybe("column"),
        types=part.texts("types"),
        adds_up=part.flag("adds_up") if "adds_up" in part.content else None,
    )
