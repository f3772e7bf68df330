"""A finished run of a server: its run.json, its hints and its largest differences.

`evidence` reads files. A server shows samples only to keys with the permission, and lists at most
1,000 differences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from datarecs_cli.client import connect
from datarecs_cli.invocation import UsageFault, current
from datarecs_cli.run_names import run_named
from datarecs_core.comparison.insight.hints import Hint
from datarecs_core.comparison.proof.reading import DocumentUnreadableError, Part, whole
from datarecs_core.comparison.proof.sealed import SealedRun, SealedStage, sealed_run
from datarecs_core.comparison.results.results import Difference, DifferenceClass, Outcome
from datarecs_core.comparison.values.rereading import masked_key
from datarecs_core.documents import from_document

MOST_ROWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRun:
    """The data that a server shows about one run."""

    sealed: SealedRun
    document: Mapping[str, object]
    items: Sequence[Mapping[str, object]]
    """As listed by `/mismatches`: only breaks, the largest first."""

    @property
    def incomplete(self) -> bool:
        """Whether there may be more differences than these."""
        return len(self.items) == MOST_ROWS

    def hints(self, stage: str) -> list[Hint]:
        """The hints that the run stored at its end; none if the key may not read values."""
        return [
            from_document(Hint, dict(each.content))  # type: ignore[arg-type]  # parsed JSON
            for each in whole(self.document).maybe_part("hints").maybe_parts(stage)
        ]

    def rows(self, stage: SealedStage) -> list[Difference]:
        """The listed differences of a stage."""
        names = [each.name for each in stage.dimensions]
        return [
            _difference(Part(place="mismatches", content=item), names)
            for item in self.items
            if item.get("stage") == stage.name
        ]


def run_of_server(name: str, *, with_rows: bool, stage: str | None) -> ServerRun:
    """Fetch a finished run.

    Args:
        name: an id, its start, or `@latest:JOB`.
        with_rows: whether to fetch its differences.
        stage: only differences of this stage.

    Raises:
        UsageFault: the run has no verdict.
    """
    with connect(current()) as api:
        run_id = run_named(api, name)
        state = api.get("runs", run_id)
        if state.get("result") is None:
            raise UsageFault(f"run {run_id} is {state['status']} and has no result")
        document = api.get("runs", run_id, "report", format="json")
        items: object = []
        if with_rows:
            where = {} if stage is None else {"stage": stage}
            answer = api.get("runs", run_id, "mismatches", limit=str(MOST_ROWS), **where)
            items = answer.get("items")
    try:
        sealed = sealed_run(document)
    except DocumentUnreadableError as broken:
        raise UsageFault(f"run {run_id}: {broken}") from broken
    listed = (
        [each for each in items if isinstance(each, Mapping)] if isinstance(items, list) else []
    )
    return ServerRun(sealed=sealed, document=document, items=listed)


def _difference(part: Part, dimensions: Sequence[str]) -> Difference:
    """A listed difference; its key encoding is that of the texts, not the hashed encoding."""
    texts = part.maybe_part("key")
    key = tuple(texts.maybe(name) for name in dimensions)
    return Difference(
        break_id=part.text("break_id"),
        stage=part.text("stage"),
        measure=part.text("measure"),
        outcome=Outcome.BREAK,
        difference_class=part.word("class", DifferenceClass),
        presence=part.count("presence"),
        odd_one_out=part.maybe("odd_one_out"),
        key=key,
        key_encoded=masked_key(key),
        key_hash=bytes.fromhex(part.maybe("key_hash") or ""),
        values=_texts(part, "values"),
        raw_values=_texts(part, "raw_values"),
        raw_keys=tuple((name, key or "") for name, key in _texts(part, "raw_keys")),
        deltas=tuple(
            (name, Decimal(written))
            for name, written in _texts(part, "deltas")
            if written is not None
        ),
    )


def _texts(part: Part, name: str) -> tuple[tuple[str, str | None], ...]:
    inner = part.maybe_part(name)
    return tuple((each, inner.maybe(each)) for each in inner.content)
