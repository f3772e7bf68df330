"""The kernel alone, held to the suite that every engine passes, over rows that core prepares."""

from pathlib import Path

import pytest

from datarecs_testing.comparisons import EngineBench, RecheckBench
from datarecs_testing.conformance.engine import DerivedConformance, EngineConformance
from datarecs_testing.conformance.engine_policies import PolicyConformance
from datarecs_testing.conformance.engine_rechecks import RecheckConformance
from datarecs_testing.conformance.engine_rules import RuleConformance
from datarecs_testing.conformance.engine_unknowns import UnknownTotalsConformance
from datarecs_testing.kernel_bench import KernelBench


class TestKernel(
    EngineConformance,
    DerivedConformance,
    RuleConformance,
    PolicyConformance,
    UnknownTotalsConformance,
):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> EngineBench:
        return KernelBench(tmp_path)


class TestRechecks(RecheckConformance):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> RecheckBench:
        return KernelBench(tmp_path)
