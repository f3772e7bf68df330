"""The queue of captures of the twin, under the suite of every queue of captures."""

from datarecs_testing.conformance.capture_queue import ClaimConformance, EnqueueConformance
from datarecs_testing.conformance.capture_trees import (
    CancelConformance,
    ReportConformance,
    TreeConformance,
)


class TestEnqueue(EnqueueConformance):
    pass


class TestClaim(ClaimConformance):
    pass


class TestReport(ReportConformance):
    pass


class TestCancel(CancelConformance):
    pass


class TestTree(TreeConformance):
    pass
