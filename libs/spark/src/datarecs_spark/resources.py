"""The share of the session's memory and cores for the kernel."""

from pyspark.sql import SparkSession

_KERNEL_OF_HEAP = 25 / 35
"""Memory of the kernel relative to the heap: of a run's memory one half is the heap, 5/14 are the
kernel's, and the rest is Python's."""
_DEFAULT_HEAP = 2**30
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def on_one_executor(session: SparkSession) -> bool:
    """Whether one task may use all cores of Spark."""
    return str(session.sparkContext.master).startswith("local")


def kernel_memory(session: SparkSession) -> int:
    """Bytes for the kernel on one executor: its share of a run's memory, relative to the heap."""
    # One setting at a time: reading the context's conf copies it key by key.
    conf = session.conf
    written = conf.get("spark.executor.memory", None) or conf.get("spark.driver.memory", None) or ""
    size, unit = written[:-1], written[-1:].lower()
    heap = int(size) * _UNITS[unit] if size.isdigit() and unit in _UNITS else _DEFAULT_HEAP
    return kernel_of(heap)


def kernel_of(heap_bytes: int) -> int:
    """Bytes for the kernel with a heap of this size."""
    return int(heap_bytes * _KERNEL_OF_HEAP)


def cores_of_one(session: SparkSession) -> int:
    """Cores per executor, assumed to be evenly distributed."""
    context = session.sparkContext
    known = int(context._jsc.sc().getExecutorMemoryStatus().size())  # noqa: SLF001 - Python has no other way to it
    # The driver is one of them.
    return -(-context.defaultParallelism // max(1, known - 1))
