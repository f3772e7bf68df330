"""The queue of captures of the PostgreSQL, under the suite of every queue of captures."""

import pytest

from datarecs_testing.conformance.capture_queue import ClaimConformance, EnqueueConformance
from datarecs_testing.conformance.capture_trees import (
    CancelConformance,
    ReportConformance,
    TreeConformance,
)

pytestmark = pytest.mark.integration


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
