"""Sources and engines: what reads a customer's data, and what compares it.

A connector pins, describes and delivers rows; the planner decides what is read. An engine executes
a StagePlan and returns numbers; `datarecs_core.comparison.results.verdict` decides what they mean.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Pin, Scan, SourceSchema
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.jobs.definition import Source


class HeldPin(Protocol):
    """A pin and the resource that keeps it readable, for instance an open transaction."""

    @property
    def pin(self) -> Pin:
        """What to read. Hashes of files may be incomplete; `check` returns them."""

    def check(self) -> Pin:
        """The pin as in the proof; waits for missing parts.

        Raises SnapshotLostError when the source can no longer be read at the pin: for files, when
        one of them is gone or has another size or etag.
        """

    def close(self) -> None:
        """Release the pin; safe to repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStep:
    """One step of a connection test: name, TCP, TLS, authentication, privileges and so on."""

    name: str
    ok: bool
    duration: timedelta
    detail: str
    """For people; no secret. What to do when the step failed."""
    code: str | None = None
    """Wire name of the error code of a failed step."""
    login_refused: bool = False
    """Whether the step failed because the server refused the credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """How far the reading of a source has come; numbers are cumulative."""

    rows: int
    decoded_bytes: int


class Connector(Protocol):
    """One kind of source over one opened connection; built by the registry, closed by its user.

    Every method may raise a ConnectionError of the DR2 family or a run error of the DR3 family
    (QUERY_ERROR, PERMISSION_DENIED, NO_FILES, CORRUPT_SOURCE, SOURCE_LIMIT, …), never a driver's.
    """

    def pin(self, source: Source) -> HeldPin:
        """Freeze what will be read. All sources of a run are pinned before any is read."""

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        """Columns at the pin, in the source's order, and the type of each declared expression.

        For `infer: strict` formats this reads every value once.
        """

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        """Rows as plain values, one per column of `scan.columns`, in any order.

        The values are those that `values.translating.canonical` takes; a value without canonical
        form is `Invalid`. Meant for the oracle: at most 100,000 rows are used.
        """

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        """Write the rows into a local directory as Parquet; returns the scan with `extract` set.

        Files get unique names and only those named in the result count; the pin is checked again
        afterwards. A file source that engines read by themselves returns the scan as it is.
        """

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        """Test the connection step by step, ending at the first failure; never raises for one."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a stage has come; cumulative over all sources."""

    stage: str
    row_count: int
    mismatch_count: int = 0
    """0 until the stage's last report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How an engine would execute a stage."""

    stage: str
    text: str
    """For people; no secret, no measured value."""


class Engine(Protocol):
    """Executes plans, for one run: it stores the differing groups of stages that scopes use.

    The stages of a plan come in order, each once, and again with every recheck;
    nothing is decided here that a verdict depends on. Raises run errors of the DR3 family
    (OVERFLOW, DUPLICATE_KEYS, NULL_KEYS, EMPTY_SOURCE, CLOSURE_FAILED, SPILL_EXHAUSTED, …).
    """

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        """Run one stage: one pass yields counts, measures and differences."""

    def differing(self, stage: str, most: int) -> Sequence[Sequence[str | None]] | None:
        """Keys of the groups that differed in a stage that has run, as canonical text.

        None for more than `most` keys, and where one of them has no canonical form: the caller
        then reads all rows.
        """

    def explain(self, plan: StagePlan) -> Explanation: ...
