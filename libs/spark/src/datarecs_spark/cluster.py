"""A standalone cluster in place of this machine's cores: what it is told, and what it must show.

Its own module because nothing of it holds on one machine. Rows and the tenant's key travel
between processes, so whoever takes part knows the cluster's secret and every byte is encrypted, on
wires and on executors' disks. Executors open the files that the driver wrote, with the libraries on
which results depend: each shows both before a session exists, or none does.
"""

import json
import platform
import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import SparkSession

from datarecs_spark.errors import ClusterUnfitError, SparkFailure
from datarecs_spark.sinking import attempt_name

_PACKAGES = ("datarecs", "pyspark", "duckdb", "pyarrow", "numpy", "tzdata")
EXECUTOR_LIMIT_S = 60.0
"""From the session's start to answers of its executors; a child has 120 s to be ready."""
_PROBES_PER_CORE = 2
"""Tasks that probe executors; each core takes some, as none of them takes long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a standalone cluster needs besides its URL."""

    secret: str = field(repr=False)
    """`spark.authenticate.secret` of the cluster's own processes.

    A wrong one is told after a minute: Spark's client takes no refusal for an answer, asks a Master
    three times, 20 s apart, and has no setting for either number.
    """
    executor_memory: str
    """Heap of each executor, as Java writes it: `2g`."""
    driver_host: str | None = None
    """Address under which executors reach this process; None takes the machine's name."""
    max_cores: int | None = None
    """Waited for at the start; None takes what is free."""
    executor_python: str | None = None
    """None: the path of this process's own."""


def configuration(cluster: Cluster, java_options: str) -> Mapping[str, str]:
    """Spark's settings, the secret apart: these stand on a command line."""
    settings = {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        # Else a peer without encryption is spoken to without it.
        "spark.network.crypto.saslFallback": "false",
        "spark.io.encryption.enabled": "true",
        "spark.executor.memory": cluster.executor_memory,
        "spark.executor.extraJavaOptions": java_options,
    }
    if cluster.driver_host is not None:
        settings["spark.driver.host"] = cluster.driver_host
    if cluster.max_cores is not None:
        settings["spark.cores.max"] = str(cluster.max_cores)
        # Work is cut by the cores that are there when it begins.
        settings["spark.scheduler.minRegisteredResourcesRatio"] = "1.0"
    return settings


def secret_configuration(cluster: Cluster) -> Mapping[str, str]:
    """What is told to the Java machine alone, once it runs."""
    return {"spark.authenticate.secret": cluster.secret}


def check_executors(session: SparkSession, scratch: Path) -> None:
    """Let executors show that they see this directory and have our libraries.

    Raises:
        ClusterUnfitError: one of them does not; it says what.
    """
    with TemporaryDirectory(dir=scratch, prefix="seen-") as name:
        directory = Path(name)
        cores = session.sparkContext.defaultParallelism
        probes = session.range(0, _PROBES_PER_CORE * cores, 1, _PROBES_PER_CORE * cores)
        with _executors_within(session, EXECUTOR_LIMIT_S):
            answers = probes.mapInArrow(_probe(name), "body STRING").collect()
        seen = {path.name for path in directory.iterdir()}
    for row in answers:
        refused = refusal(Shown(**json.loads(row["body"])), seen, scratch)
        if refused is not None:
            raise ClusterUnfitError(refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What one task tells of its executor."""

    host: str
    wrote: str | None
    """Name of its file in the directory; None where it could not write."""
    libraries: Mapping[str, str]


def refusal(shown: Shown, seen: Collection[str], scratch: Path) -> str | None:
    """Why the executor cannot be used; None when it can.

    Args:
        shown: by one of its tasks.
        seen: names of the files that this process finds.
        scratch: where they should be.
    """
    if shown.wrote not in seen:
        return (
            f"what {shown.host} writes to {scratch} does not arrive; give DATARECS_WORKER__"
            "SCRATCH_DIR a directory that the worker and all executors share under one path, as "
            "one user"
        )
    for package, ours in libraries().items():
        theirs = shown.libraries.get(package)
        if theirs != ours:
            return (
                f"{shown.host} has {package} {theirs}, the worker has {ours}; install the same "
                "release of datarecs there, or name its Python by DATARECS_SPARK__EXECUTOR_PYTHON"
            )
    return None


@contextmanager
def _executors_within(session: SparkSession, limit_s: float) -> Iterator[None]:
    """Cancel the jobs inside once it has taken so long: Spark itself would wait for ever."""
    expiry = threading.Event()

    def cancel_jobs() -> None:
        expiry.set()
        session.sparkContext.cancelAllJobs()

    timer = threading.Timer(limit_s, cancel_jobs)
    timer.daemon = True
    timer.start()
    try:
        yield
    except SparkFailure as cause:
        if not expiry.is_set():
            raise
        raise ClusterUnfitError(
            f"it gave no executor within {limit_s:.0f} s; look for free cores, and for Workers with"
            " the memory that DATARECS_SPARK__EXECUTOR_MEMORY asks for"
        ) from cause
    finally:
        timer.cancel()


def _probe(directory: str) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def probe(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"body": [json.dumps(asdict(_shown(Path(directory))))]})

    return probe


def _shown(directory: Path) -> Shown:
    """By one task, on its executor."""
    wrote: str | None = attempt_name()
    try:
        (directory / attempt_name()).touch()
    except OSError:
        wrote = None
    return Shown(host=platform.node(), wrote=wrote, libraries=libraries())


def libraries() -> Mapping[str, str]:
    """Whatever may change a byte of a result, by its version here."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "Unicode data": unicodedata.unidata_version,
        **{package: version(package) for package in _PACKAGES},
    }
