"""The rules of one column, resolved: type defaults, column overrides and policies flattened.

Every engine applies them in the order map, cast, trim, unicode, case, empty, null, round or
precision (spec comparison 4.2); the defaults change nothing.
"""

from dataclasses import dataclass, fields

from datarecs_core.jobs.vocabulary import (
    ArrayRule,
    Case,
    EmptyText,
    Float32Rule,
    NanRule,
    NullAs,
    Rounding,
    Trim,
    UnicodeForm,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Equal for every source of a column. `null` and `nan` are set on measures alone."""

    trim: Trim = Trim.NONE
    case: Case = Case.EXACT
    unicode: UnicodeForm = UnicodeForm.NONE
    empty: EmptyText = EmptyText.KEEP
    null: NullAs = NullAs.KEEP
    round: int | None = None
    """Places, half-even; None keeps every digit."""
    precision: int | None = None
    """Digits of the fraction of a second to keep (s 0, ms 3, us 6, declared_min as the planner
    found it); None keeps all."""
    rounding: Rounding = Rounding.TRUNCATE
    nan: NanRule = NanRule.EQUAL
    float32: Float32Rule = Float32Rule.EXACT
    arrays: ArrayRule = ArrayRule.ORDERED

    def declared(self) -> tuple[tuple[str, str], ...]:
        """Name and value of every rule that relaxes something, for plans and reports."""
        return tuple(
            (each.name, str(getattr(self, each.name)))
            for each in fields(self)
            if getattr(self, each.name) != each.default
        )


STRICT = Rules()
