"""One source's value prepared for a dimension or measure: map, cast, then the rules of input.

The oracle's reading of an InputPlan; its own module because scopes, keys and measures share it.
"""

from dataclasses import dataclass

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.comparison.planning.rules import STRICT, Rules
from datarecs_core.comparison.values.canonical import Value, canonical_text, invalid, text
from datarecs_core.comparison.values.casting import Cast, Zones, castable
from datarecs_core.comparison.values.normalizing import on_input


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Prepares the values of one column of one source."""

    source: str
    plan: InputPlan
    rules: Rules
    zones: Zones

    @property
    def changes_nothing(self) -> bool:
        """No map, no cast, and no rule, neither of input nor of results."""
        return not self.plan.mapped and self.plan.cast is None and self.rules == STRICT

    def apply(self, delivered: Value) -> Value:
        """The value as it is grouped, or as functions take it."""
        return on_input(self._cast(delivered), self.rules)

    def _cast(self, value: Value) -> Value:
        plan = self.plan
        if plan.mapped and not (value.is_null or value.is_invalid):
            return self._mapped(value, canonical_text(value) or "")
        return value if plan.cast is None else self._as_result(value)

    def _as_result(self, value: Value) -> Value:
        plan = self.plan
        cast = Cast(target=plan.result, zone=plan.zone, source=self.source, zones=self.zones)
        return cast.apply(value)

    def _mapped(self, value: Value, written: str) -> Value:
        """What the map lists is read as the result's type; the rest passes or is INVALID."""
        listed = dict(self.plan.map)
        if written in listed:
            return self._as_result(text(listed[written]))
        if self.plan.map_strict:
            return invalid(self.source, written.encode())
        if self.plan.cast is None:
            return value
        possible = castable(self.plan.type, self.plan.cast)
        return self._as_result(value if possible else text(written))
