"""The memory stores against the suite of runs over captured folders."""

from datarecs_testing.conformance.catalogued_runs import CataloguedRunsConformance


class TestCataloguedRuns(CataloguedRunsConformance):
    pass
