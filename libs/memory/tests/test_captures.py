"""The queue of captures in memory, under the suite of every queue of captures."""

from datarecs_testing.conformance.capture_queue import (
    CaptureFinderConformance,
    WorkItemsConformance,
)
from datarecs_testing.conformance.capture_trees import (
    CancelConformance,
    ReportConformance,
    TreeConformance,
)


class TestEnqueue(WorkItemsConformance):
    pass


class TestClaim(CaptureFinderConformance):
    pass


class TestReport(ReportConformance):
    pass


class TestCancel(CancelConformance):
    pass


class TestTree(TreeConformance):
    pass
