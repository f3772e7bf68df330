"""The name of a task's attempt, which is in the names of all files that it writes."""

from pyspark import TaskContext


def attempt_name() -> str:
    """A unique name of this attempt of this task."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("only a task has an attempt")
    return f"{context.partitionId():05d}-{context.taskAttemptId()}"
