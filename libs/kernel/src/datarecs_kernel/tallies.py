"""What happened to the rows of each source, counted apart from the groups made of them."""

from dataclasses import dataclass, field
from decimal import Decimal

from datarecs_core.comparison.values.unreadable import MeasureFaults


@dataclass(slots=True)
class SourceTally:
    """One source of one stage."""

    extracted: int = 0
    passed: int = 0
    null_keys: int = 0
    invalid: int = 0
    ambiguous: int = 0
    totals: dict[int, Decimal] = field(default_factory=dict)
    """By measure, of row stages."""
    faults: dict[int, MeasureFaults] = field(default_factory=dict)
    """By measure."""
