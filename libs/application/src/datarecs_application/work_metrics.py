"""Count a run's progress events: rows read, groups compared, time per stage.

Separate from supervision because the events are recorded there and only counted here; a sum over
all runs needs kinds of sources and stages, which the events of one run leave out.
"""

from dataclasses import dataclass, field

from datarecs_application.ports.outside import Clock, Metrics
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.runs.events import (
    ProgressEvent,
    RunComparisonCompleted,
    RunExtractionCompleted,
    RunStageCompleted,
    RunStageErrored,
    RunStageStarted,
)


@dataclass(slots=True)
class WorkMetrics:
    """One attempt's; counts each event once it is stored."""

    job: ReconciliationJob
    metrics: Metrics
    clock: Clock
    _began: dict[str, float] = field(default_factory=dict, init=False)

    def count_event(self, event: ProgressEvent) -> None:
        match event:
            case RunStageStarted(stage_name=stage):
                self._began[stage] = self.clock.monotonic()
            case RunStageCompleted(stage_name=stage) | RunStageErrored(stage_name=stage):
                self._stage_over(stage)
            case RunExtractionCompleted(extraction_index=index, rows_extracted=rows):
                if index < len(self.job.sources):
                    kind = self.job.sources[index].kind.value
                    self.metrics.count("rows_extracted_total", rows, connector=kind)
            case RunComparisonCompleted(rows_compared=groups):
                self.metrics.count("groups_compared_total", groups)
            case _:
                pass

    def _stage_over(self, name: str) -> None:
        began = self._began.pop(name, None)
        kind = next((one.type.value for one in self.job.stages if one.name == name), None)
        if began is not None and kind is not None:
            self.metrics.observe("stage_seconds", self.clock.monotonic() - began, type=kind)
