"""Why the processes of a run ended: one cause from exit codes, signals and kernel counters.

Supervisor, child and `datarecs compare` call the same function, so that the same evidence gives the
same code. An error such as "connection refused" is a symptom: its cause is the process that ended.
No message is read here (D19).
"""

from dataclasses import dataclass

from datarecs_core.errors.run import RunDetail

KILL_SIGNAL = 9
"""What the kernel sends when memory runs out, and `kill -9`."""
JAVA_OUT_OF_MEMORY = frozenset({3, 52})
"""Exit codes of `-XX:+ExitOnOutOfMemoryError` and of Spark's handler of that error."""
EXIT_STOPPED = 75
"""The child's exit code after a stop on request."""
_SHELL_SIGNAL = 128
"""A shell reports a signal as this number plus the signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exits:
    """What is known about the processes of one attempt; the child is the Python process."""

    child_exit: int | None = None
    """None while it runs, and when a signal ended it."""
    child_signal: int | None = None
    java_exit: int | None = None
    """Exit code of the Java process, negative for a signal; None while it runs or is unknown."""
    java_lost: bool = False
    """Java does not respond any more, and its exit is unknown."""
    oom_kills: bool = False
    """The kernel's count of processes killed for lack of memory rose."""
    memory_limit: bool = False
    """The supervisor stopped the child above its memory limit."""
    memory_error: bool = False
    """The child reported an error of memory itself."""
    unresponsive: bool = False
    """The supervisor stopped the child because it sent no ping."""
    stopped: bool = False
    """The supervisor requested a stop, so later signals come from it."""
    has_result: bool = False
    """The child left a result file that can be read."""

    @property
    def java_signal(self) -> int | None:
        """The signal that ended Java."""
        code = self.java_exit
        if code is None:
            return None
        if code < 0:
            return -code
        return code - _SHELL_SIGNAL if code > _SHELL_SIGNAL else None


def cause_of_death(exits: Exits) -> RunDetail | None:
    """The detail code of the cause, the surest first; None where every process ended in order."""
    if exits.memory_limit or exits.memory_error or exits.java_exit in JAVA_OUT_OF_MEMORY:
        return RunDetail.OUT_OF_MEMORY
    cause = _by_exits(exits)
    if exits.oom_kills and cause in _KILLED_BY_KERNEL:
        return RunDetail.OUT_OF_MEMORY
    return cause


_KILLED_BY_KERNEL = (RunDetail.KILLED, RunDetail.DRIVER_LOST, RunDetail.TERMINATED)
"""Exits that mean a kill for lack of memory, without the kernel's count."""


def _by_exits(exits: Exits) -> RunDetail | None:
    if exits.unresponsive:
        return RunDetail.UNRESPONSIVE
    if exits.child_signal is not None and not exits.stopped:
        return RunDetail.KILLED
    if exits.java_lost or (exits.java_exit is not None and not exits.stopped):
        return RunDetail.DRIVER_LOST
    if not exits.has_result and exits.child_exit not in {None, 0, EXIT_STOPPED}:
        return RunDetail.TERMINATED
    return None


def java_end_words(exits: Exits) -> str:
    """How Java ended, as a sentence without its full stop."""
    if exits.java_exit in JAVA_OUT_OF_MEMORY:
        return f"Spark's Java process ran out of memory (exit code {exits.java_exit})"
    if exits.java_signal is not None:
        return f"signal {exits.java_signal} ended Spark's Java process"
    if exits.java_exit is not None:
        return f"Spark's Java process ended with exit code {exits.java_exit}"
    return "Spark's Java process does not answer"
