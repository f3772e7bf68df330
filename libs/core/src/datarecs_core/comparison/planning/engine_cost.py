"""Which engine executes a comparison on one machine with Spark: the oracle, or Spark.

One rule decides: the oracle's estimated seconds against the seconds that Spark needs to start. It
is a separate module because `plan` prints the estimate before anything is read, and `compare`
decides by the same rule afterwards. ADR 0117 has the measurements for the constants.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.jobs.vocabulary import Strategy

ROW_S, CELL_S = 9e-6, 4e-6
"""Seconds of the oracle for one row of one source, and for each column of it."""
SPARK_START_S = 4.0
"""Seconds until Spark compares its first row; both engines need the same time before that."""
ROW_BYTES, CELL_BYTES = 800, 350
"""Memory of the oracle for one row of one source, and for each column of it."""
TEXT_FACTOR = 5
"""Memory of the oracle for one byte of a text: as read, prepared, and as a key."""
_GIB = 1024**3

RowsOf = Callable[[Scan], int | None]
"""Rows of a scan; None where they are not known."""


class EngineName(StrEnum):
    REFERENCE = "reference"
    KERNEL = "kernel"
    """In the process of the command, if Spark is not installed."""
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleLimits:
    """What the oracle may take."""

    rows: int
    """Of one source."""
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDecision:
    engine: EngineName
    reason: str
    """For people: the estimate and what it was compared with."""
    oracle_s: float | None = None
    """Estimated; None where the rows of some source are not known."""


def choose_engine(plan: ComparisonPlan, rows: RowsOf, limits: OracleLimits) -> EngineDecision:
    """The engine that is expected to end sooner within the limits.

    Args:
        plan: with the columns that are read.
        rows: counted where the sources have been read, else estimated.
        limits: of the oracle.
    """
    reads = list(_reads(plan))
    counts = [rows(scan) for scan, _ in reads]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return _spark("the rows of a source are not known before it is read")
    seconds = sum(
        count * (ROW_S + CELL_S * columns) for count, (_, columns) in zip(known, reads, strict=True)
    )
    obstacle = _obstacle(plan, max(known, default=0), memory_of(plan, rows), limits)
    if obstacle is not None:
        return _spark(obstacle, seconds)
    estimate = f"about {seconds:.1f} s in memory"
    if seconds > SPARK_START_S:
        return _spark(f"{estimate}, Spark starts in {SPARK_START_S:g} s", seconds)
    return EngineDecision(
        engine=EngineName.REFERENCE,
        reason=f"{estimate}, Spark alone starts in {SPARK_START_S:g} s",
        oracle_s=seconds,
    )


def memory_of(plan: ComparisonPlan, rows: RowsOf) -> int:
    """Bytes that the oracle needs without long texts; their length is unknown before reading."""
    scans = {(scan.index, scan.query): scan for scan, _ in _reads(plan)}
    return sum((rows(scan) or 0) * row_bytes(len(scan.columns)) for scan in scans.values())


def row_bytes(columns: int) -> int:
    """Memory of the oracle for one row of short values."""
    return ROW_BYTES + CELL_BYTES * columns


def too_much_memory(limit_bytes: int) -> str:
    """The reason for Spark where the oracle would need more."""
    return f"in memory it needs more than {limit_bytes / _GIB:.1f} GiB"


def _obstacle(
    plan: ComparisonPlan, most_rows: int, memory_bytes: int, limits: OracleLimits
) -> str | None:
    if any(stage.strategy.requested is not Strategy.AUTO for stage in plan.stages):
        return "`execution.strategy` names a strategy of Spark"
    if most_rows > limits.rows:
        return f"a source has more than {limits.rows:,} rows"
    return too_much_memory(limits.memory_bytes) if memory_bytes > limits.memory_bytes else None


def _reads(plan: ComparisonPlan) -> Iterator[tuple[Scan, int]]:
    """Every scan of every stage that reads rows, with the number of columns that it compares."""
    for stage in plan.stages:
        if stage.catalogue is None:
            yield from ((scan, _columns(stage, scan)) for scan in stage.queries or stage.scans)


def _columns(stage: StagePlan, scan: Scan) -> int:
    """A digest stage compares whole rows."""
    compared = 0 if stage.hashed else len(stage.dimensions) + len(stage.measures)
    return compared or len(scan.columns)


def _spark(reason: str, seconds: float | None = None) -> EngineDecision:
    return EngineDecision(engine=EngineName.SPARK, reason=reason, oracle_s=seconds)
