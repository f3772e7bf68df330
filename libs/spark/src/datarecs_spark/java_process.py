"""The Java process of a session: its output, workarounds for pyspark, and its end.

Separate from the session because this handles a process, its pipes and signals, and not Spark.
"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from subprocess import Popen, TimeoutExpired
from threading import Thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

STOP_LIMIT_S = 120.0
"""A guard. An orderly end takes a second; one that writes a class archive takes half a minute on a
loaded machine."""
STARTED = "datarecs: started"
"""Line that Java prints after Spark has started: it separates the start from later output."""
_STANDARD_ERROR = 2
_GREETINGS = ("WARNING: Using incubator modules", "Setting default log", "To adjust logging level")
"""First lines of every Java with Spark; they are not shown."""
MEMORY_EXIT = 3
_NO_MEMORY = ("OutOfMemoryError", "Could not reserve enough space", "insufficient memory for")
"""Parts of Java's messages about missing memory."""
_MOST_WORDS, _WORDS_LIMIT_S = 3, 2.0
"""Number of Java's last lines in the error of a failed start, and the time to read them."""


@contextmanager
def preserve_interrupts() -> Iterator[None]:
    """Restore the handler of Ctrl-C: Spark's handler would call Java during another call."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)


class JavaVoice:
    """Java's output: stored during the start, then passed to standard error."""

    def __init__(self) -> None:
        read_end, self._ear = os.pipe()
        self._start_lines: list[str] = []
        self._listener = Thread(
            target=self._listen, args=(read_end,), name="java-says", daemon=True
        )
        self._listener.start()

    def launched(self, conf: SparkConf) -> Any:  # noqa: ANN401 - py4j has no types
        """The process; call once."""
        with ThreadPoolExecutor(1) as pool:
            launching = pool.submit(
                launch_gateway, conf, {"stdout": self._ear, "stderr": self._ear}
            )
            try:
                return launching.result()
            except BaseException:  # for example Ctrl+C: a partly started Java would remain
                if launching.exception() is None:
                    launching.result().proc.kill()
                    launching.result().proc.wait()
                raise
            finally:
                os.close(self._ear)

    def why(self) -> str:
        """Its output before it ended; waits for the end; may be empty."""
        self._listener.join(_WORDS_LIMIT_S)
        return "; ".join(self._start_lines[:_MOST_WORDS])

    def memory_exit(self) -> int | None:
        """The exit code of a Java without memory, if its output reports missing memory."""
        lacks = any(words in line for line in self._start_lines for words in _NO_MEMORY)
        return MEMORY_EXIT if lacks else None

    def _listen(self, read_end: int) -> None:
        with os.fdopen(read_end, errors="replace") as lines:
            for line in lines:
                if line.strip() == STARTED:
                    break
                if line.strip() and not line.startswith(_GREETINGS):
                    self._start_lines.append(line.strip())
            for line in lines:
                os.write(_STANDARD_ERROR, line.encode())


def let_go(java: Popen[bytes]) -> None:
    """Wait for its end, which was already requested."""
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - else a later start finds the dead machine
    if java.stdin is not None:
        java.stdin.close()
    try:
        java.wait(STOP_LIMIT_S)
    except TimeoutExpired:
        java.kill()
        java.wait()


def quiet_accumulators(context: SparkContext) -> None:
    """Java closes connections when it ends; the server's handler would print this as an error."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = _unheard


def leave_accumulators(context: SparkContext) -> None:
    """Let the server of accumulators, which is not used here, end by itself.

    It checks for the request to end up to one second apart.
    """
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        context._accumulatorServer = None  # type: ignore[assignment]  # noqa: SLF001 - as `stop` leaves it
        Thread(target=server.shutdown, daemon=True).start()


def _unheard(*_: object) -> None:
    """Ignore the closed connection; no answer is expected."""
