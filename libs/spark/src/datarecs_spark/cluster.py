"""A standalone cluster instead of this machine's cores: its settings, and the check of executors.

A separate module because none of this applies to one machine. Rows and the tenant's key are sent
between processes, so every process has the cluster's secret and every byte is encrypted, on the
network and on executors' disks. Executors open the files that the driver wrote, with the libraries
that determine results: a session exists only after every executor has passed the check of both.
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
"""Time from the start of the session to answers of its executors; a child has 120 s to start."""
_PROBES_PER_CORE = 2
"""Tasks that probe executors; each core runs several, because they are short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Settings of a standalone cluster in addition to its URL."""

    secret: str = field(repr=False)
    """`spark.authenticate.secret` of the cluster's processes.

    A wrong secret is reported after a minute: Spark's client tries a Master three times, 20 s
    apart, and has no setting for either number.
    """
    executor_memory: str
    """Heap of each executor, as Java writes it: `2g`."""
    driver_host: str | None = None
    """Address of this process for executors; None: the machine's name."""
    max_cores: int | None = None
    """Cores to wait for at the start; None: all free cores."""
    executor_python: str | None = None
    """Python of executors; None: the path of this process's Python."""


def configuration(cluster: Cluster, java_options: str) -> Mapping[str, str]:
    """Spark's settings without the secret, because they are on a command line."""
    settings = {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        # Else Spark connects to a peer without encryption.
        "spark.network.crypto.saslFallback": "false",
        "spark.io.encryption.enabled": "true",
        "spark.executor.memory": cluster.executor_memory,
        "spark.executor.extraJavaOptions": java_options,
    }
    if cluster.driver_host is not None:
        settings["spark.driver.host"] = cluster.driver_host
    if cluster.max_cores is not None:
        settings["spark.cores.max"] = str(cluster.max_cores)
        # Work is divided by the cores that exist when it starts.
        settings["spark.scheduler.minRegisteredResourcesRatio"] = "1.0"
    return settings


def secret_configuration(cluster: Cluster) -> Mapping[str, str]:
    """Settings for the Java process only, set after it has started."""
    return {"spark.authenticate.secret": cluster.secret}


def check_executors(session: SparkSession, scratch: Path) -> None:
    """Check that executors see this directory and have the same libraries.

    Raises:
        ClusterUnfitError: an executor does not; the message names what is missing.
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
    """What one task reports about its executor."""

    host: str
    wrote: str | None
    """Name of its file in the directory; None if it could not write."""
    libraries: Mapping[str, str]


def refusal(shown: Shown, seen: Collection[str], scratch: Path) -> str | None:
    """Why the executor cannot be used; None if it can.

    Args:
        shown: by one of its tasks.
        seen: names of the files that this process finds.
        scratch: the directory of these files.
    """
    if shown.wrote not in seen:
        return (
            f"files that {shown.host} writes to {scratch} do not arrive; set DATARECS_WORKER__"
            "SCRATCH_DIR to a directory that the worker and all executors share under one path, as "
            "one user"
        )
    for package, ours in libraries().items():
        theirs = shown.libraries.get(package)
        if theirs != ours:
            return (
                f"{shown.host} has {package} {theirs}, the worker has {ours}; install the same "
                "release of datarecs there, or set its Python in DATARECS_SPARK__EXECUTOR_PYTHON"
            )
    return None


@contextmanager
def _executors_within(session: SparkSession, limit_s: float) -> Iterator[None]:
    """Cancel the jobs inside after a time limit: Spark itself would wait without limit."""
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
            f"no executor started within {limit_s:.0f} s; check for free cores and for Workers with"
            " the memory of DATARECS_SPARK__EXECUTOR_MEMORY"
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
    """Runs in one task, on its executor."""
    wrote: str | None = attempt_name()
    try:
        (directory / attempt_name()).touch()
    except OSError:
        wrote = None
    return Shown(host=platform.node(), wrote=wrote, libraries=libraries())


def libraries() -> Mapping[str, str]:
    """Versions here of everything that may change a byte of a result."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "Unicode data": unicodedata.unidata_version,
        **{package: version(package) for package in _PACKAGES},
    }
