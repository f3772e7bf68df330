"""The suites of the Engine port: the strict core for every engine, and the complete suite.

A member's test subclasses one of them and provides the fixture `bench`.
"""

from datarecs_testing.conformance.engine_derived import (
    DigestStageConformance,
    SchemaStageConformance,
)
from datarecs_testing.conformance.engine_evidence import EvidenceConformance
from datarecs_testing.conformance.engine_groups import GroupConformance
from datarecs_testing.conformance.engine_keys import KeyLookupConformance
from datarecs_testing.conformance.engine_limits import LimitConformance
from datarecs_testing.conformance.engine_policies import PolicyConformance
from datarecs_testing.conformance.engine_rules import RuleConformance
from datarecs_testing.conformance.engine_spellings import SpellingConformance
from datarecs_testing.conformance.engine_units import UnitConformance
from datarecs_testing.conformance.engine_unknowns import UnknownTotalsConformance
from datarecs_testing.conformance.engine_values import ValueConformance


class EngineConformance(ValueConformance, GroupConformance, UnitConformance, LimitConformance):
    """Counts, aggregate and row stages for N sources with every default rule, policy and limit."""


class DerivedConformance(SchemaStageConformance, DigestStageConformance, EvidenceConformance):
    """Columns, buckets and custom queries as groups, and the evidence in addition to counts."""


class RelaxationConformance(
    RuleConformance,
    PolicyConformance,
    UnknownTotalsConformance,
    KeyLookupConformance,
    SpellingConformance,
):
    """Everything else a job may declare."""
