"""The end of a session's Java process: detected at once, and reported as the cause of failures.

When Java ends, Python sees refused connections, incomplete answers and partial errors, in different
places. These are symptoms; the exit code of the process is the evidence, and only its parent can
read it. Separate from the session because workers watch it while no run uses Spark.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from subprocess import Popen, TimeoutExpired
from threading import Event, Thread

from py4j.protocol import Py4JError, Py4JJavaError

from datarecs_application.ports.comparing import Engine, Explanation, Progress
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.deaths import Exits, cause_of_death, java_end_words

END_LIMIT_S = 5.0
"""Time for a process to end after its connections have closed."""


class JavaEndedError(DatarecsError):
    """Spark's Java process ended during a run."""

    def __init__(self, java_exit: int | None) -> None:
        exits = Exits(java_exit=java_exit, java_lost=java_exit is None)
        super().__init__(java_end_words(exits))
        self.code: RunDetail = cause_of_death(exits) or RunDetail.DRIVER_LOST
        self.java_exit = java_exit


class JavaEnd:
    """How one Java process ended; safe to call from any thread."""

    def __init__(self, process: Popen[bytes]) -> None:
        self._process, self._expected = process, Event()

    def expect(self) -> None:
        """From now on its end is intended, and no callback is called."""
        self._expected.set()

    def watch(self, ended: Callable[[int], None]) -> None:
        """Call `callback` with the exit code after Java ends by itself, from a separate thread."""

        def wait() -> None:
            code = self._process.wait()
            if not self._expected.is_set():
                ended(code)

        Thread(target=wait, name="java-end", daemon=True).start()

    def within(self, seconds: float) -> int | None:
        """Its exit code, negative for a signal; None if it still runs after that time."""
        try:
            return self._process.wait(seconds)
        except TimeoutExpired:
            return None

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Raise failures inside as JavaEndedError if the cause is the end of the Java process."""
        try:
            yield
        except Exception as failure:
            lost = _is_lost_connection(failure)
            code = self.within(END_LIMIT_S if lost else 0)
            if self._expected.is_set() or (code is None and not lost):
                raise
            raise JavaEndedError(code) from failure


class WatchedEngine:
    """Port Engine: the engine of one run; its failures name a Java process that ended."""

    def __init__(self, make: Callable[[], Engine], java: JavaEnd) -> None:
        """`make` calls Java as well."""
        self._java = java
        with java.blamed():
            self._engine = make()

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        with self._java.blamed():
            return self._engine.compare(plan, progress)

    def differing(self, stage: str, most: int) -> Sequence[Sequence[str | None]] | None:
        with self._java.blamed():
            return self._engine.differing(stage, most)

    def explain(self, plan: StagePlan) -> Explanation:
        with self._java.blamed():
            return self._engine.explain(plan)


def _is_lost_connection(failure: BaseException) -> bool:
    """Whether Java did not answer, anywhere in the chain of causes."""
    met: BaseException | None = failure
    while met is not None:
        if isinstance(met, ConnectionError | EOFError):
            return True
        if isinstance(met, Py4JError) and not isinstance(met, Py4JJavaError):
            return True
        met = met.__cause__ or met.__context__
    return False
