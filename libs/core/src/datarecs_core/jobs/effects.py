"""Which fields of a job are taken and change nothing yet, each said as a warning.

Apart from validation because no rule is broken: whoever chose the value is told what happens
instead.
"""

from collections.abc import Iterator

from datarecs_core.errors.faults import Fault, Path
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import DEFAULT_EXECUTION, Breaks, ReconciliationJob


def without_effect(job: ReconciliationJob, *, on_platform: bool) -> Iterator[Fault]:
    """A warning for each value that does not do here what it asks for.

    Args:
        job: as it could be read; a default asks for nothing.
        on_platform: the job is for workers, else for `datarecs compare`.
    """
    asked, usual = job.execution, DEFAULT_EXECUTION
    if asked.extract is not usual.extract:
        yield _warning("execution", "extract", message="sources are copied as under `auto`")
    if on_platform and asked.memory != usual.memory:
        message = "a worker has the memory of its own settings; `datarecs compare` obeys it"
        yield _warning("execution", "memory", message=message)
    if job.results.breaks.retention != Breaks().retention:
        message = "nothing removes stored differences yet"
        yield _warning("results", "breaks", "retention", message=message)


def _warning(*path: str, message: str) -> Fault:
    at: Path = ("spec", *path)
    return Fault(code=SpecCode.WITHOUT_EFFECT, path=at, message=message, warning=True)
