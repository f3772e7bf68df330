"""The Spark session of a process: start, warm-up, cancellation and end.

Everything that must be equal for every run is set here: UTC, ANSI arithmetic, exact decimals, names
with their case. Each run gets a new SQL session; the Java process lives as long as this process.
"""

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from shutil import which
from typing import Any

import pyarrow as pa
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.errors.base import DatarecsError
from datarecs_spark.cancelling import Cancellation
from datarecs_spark.cluster import (
    Cluster,
    check_executors,
    configuration,
    secret_configuration,
)
from datarecs_spark.engine import SparkEngine
from datarecs_spark.errors import ClusterUnfitError, SparkFailure, SparkStartError, cause_name
from datarecs_spark.java_end import END_LIMIT_S, JavaEnd, WatchedEngine
from datarecs_spark.java_process import (
    STARTED,
    JavaVoice,
    leave_accumulators,
    let_go,
    preserve_interrupts,
    quiet_accumulators,
)

_NEWEST_JAVA = 23
"""Hadoop 3.4, which Spark 4.1 uses to open files, does not run on Java 24 and later."""
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOGGING = Path(__file__).with_name("log4j2.properties")
_SETTINGS: Mapping[str, str] = {
    "spark.app.name": "datarecs",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.daemon.module": "datarecs_spark.daemon",
    # One meaning on every machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # `${env:NAME}` in a text stays text.
    "spark.sql.variable.substitute": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.session.localRelationCacheThreshold": "0",
    # Files are those of the pin, read completely and without conversion.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    # Small work: plans are created, run and discarded quickly.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # Tasks get messages of megabytes (`partitions`), and Java has a batch of them in memory.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Settings of the environment: where Spark runs and with which resources."""

    master: str
    """`local[*]`, `local[2]`, or a cluster's URL."""
    driver_memory: str
    """Heap of the Java process, in Java's notation: `1g`."""
    java_home: str | None
    """A Java 17 or later; None: JAVA_HOME or `java` of the path."""
    java_options: str = ""
    """Further options of the Java process, as written on a command line."""
    scratch: Path
    """Folder for spilled and shuffled data; created if missing, never cleaned here. Cluster
    executors share it."""
    cluster: Cluster | None = None
    """Set if and only if `master` is the URL of a cluster."""

    @property
    def python(self) -> str:
        """Of tasks."""
        named = None if self.cluster is None else self.cluster.executor_python
        return named or sys.executable


class SparkRuntime:
    """One long-lived session. Created by `start`; not safe for two runs at the same time."""

    def __init__(self, session: SparkSession, settings: SparkSettings, gateway: Any) -> None:  # noqa: ANN401 - py4j has no types
        self._session, self._gateway = session, gateway
        self.settings, self._abandoned = settings, False
        self._cancellation = Cancellation(session.sparkContext)
        self.java = JavaEnd(gateway.proc)
        """The end of its Java process."""

    @classmethod
    def start(cls, settings: SparkSettings, *, warm: bool = True) -> "SparkRuntime":
        """Start the Java process and run a tiny job, so that the first run is faster.

        Without the job the run starts sooner but takes longer; useful for a single run.

        Raises:
            SparkStartError: no usable Java, or the process ended at once.
            ClusterUnfitError: executors of the cluster have other files or libraries.
        """
        if _major(settings.java_home) > _NEWEST_JAVA:
            raise SparkStartError(settings.java_home, f"Java {_major(settings.java_home)}")
        settings.scratch.mkdir(parents=True, exist_ok=True)
        conf = SparkConf(loadDefaults=False).setAll(list(_configuration(settings).items()))
        if settings.java_home is not None:
            # pyspark's launcher reads no other setting.
            os.environ["JAVA_HOME"] = settings.java_home  # noqa: TID251 - written, not read
        # Options of the short-lived Java that only creates the command line.
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", _SHORT_LIVED)  # noqa: TID251 - as above
        said = JavaVoice()
        with ExitStack() as unfinished:
            try:
                gateway = said.launched(conf)
                unfinished.callback(let_go, gateway.proc)
                unfinished.callback(gateway.proc.kill)
                if settings.cluster is not None:
                    # Not before: arguments of the launcher are visible in the list of processes.
                    conf.setAll(list(secret_configuration(settings.cluster).items()))
                with preserve_interrupts():
                    context = SparkContext(conf=conf, gateway=gateway)
                quiet_accumulators(context)
                # Otherwise Python workers are the first `python3` of the path.
                context.pythonExec = settings.python
                runtime = cls(SparkSession(context), settings, gateway)
                gateway.jvm.System.err.println(STARTED)
                unfinished.pop_all()
            except Exception as cause:
                raise _start_error(settings, cause, said.why(), said.memory_exit()) from cause
        if warm:
            runtime._warm()
        return runtime

    def session(self) -> SparkSession:
        """A new SQL session of the Java process, with the settings of every run."""
        return self._session.newSession()

    def engine(self, plan: ComparisonPlan, *, key: bytes, directory: Path) -> WatchedEngine:  # noqa: ARG002 - the signature of engine factories
        """The engine of one run; it raises JavaEndedError if Java has ended.

        Args:
            plan: the run's; its stages are compared in order.
            key: the tenant's key for break ids, hashes and masks.
            directory: differences go to `<directory>/<stage>/part-*.parquet`.
        """
        self._cancellation = cancellation = Cancellation(self._session.sparkContext)

        def make() -> SparkEngine:
            return SparkEngine(
                self.session(),
                key=key,
                directory=directory,
                cancellation=cancellation,
            )

        return WatchedEngine(make, self.java)

    def cancel(self) -> None:
        """Stop the latest engine; its `compare` raises CancelledError. Safe from any thread."""
        with suppress(*SparkFailure):  # Java has ended, so nothing is left to stop
            self._cancellation.cancel()

    def abandon(self) -> None:
        """End the Java process during its work; `close` must still be called.

        May be called between any two steps of a call to Java, which then never returns.
        """
        self._abandoned = True
        self.java.expect()
        self._gateway.proc.kill()

    def close(self) -> None:
        """End the Java process; safe to repeat."""
        has_ended = self.java.within(0) is not None
        self.java.expect()
        leave_accumulators(self._session.sparkContext)
        if not self._abandoned and not has_ended:
            self._session.stop()
        self._gateway.shutdown()
        let_go(self._gateway.proc)

    def versions(self) -> Mapping[str, str]:
        """Versions of the tables that determine results, as written in a proof."""
        return {"tzdata": version("tzdata"), "unicode": unicodedata.unidata_version}

    def _warm(self) -> None:
        """Run one shuffle and one Arrow step, so both kinds of processes exist afterwards.

        Only one Python worker: with several, each would first load the kernel.
        """
        try:
            if self.settings.cluster is not None:
                check_executors(self._session, self.settings.scratch)
            rows = self._session.range(8, numPartitions=2).groupBy("id").count()
            rows.coalesce(1).mapInArrow(_unchanged, rows.schema).collect()
        except ClusterUnfitError:
            self.close()
            raise
        except SparkFailure as cause:
            raise _start_error(
                self.settings, cause, java_exit=self.java.within(END_LIMIT_S)
            ) from cause


def _start_error(
    settings: SparkSettings, cause: Exception, said: str = "", java_exit: int | None = None
) -> DatarecsError:
    if settings.cluster is None:
        reason = said or " ".join(str(cause).splitlines()[:2])
        return SparkStartError(settings.java_home, reason, java_exit)
    return ClusterUnfitError(
        f"{settings.master} gives no working session ({said or cause_name(cause)}); its processes "
        "need the secret of DATARECS_SPARK__SECRET, `spark.network.crypto.enabled`, a way back to "
        f"this machine, and datarecs in {settings.python}"
    )


def _unchanged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _major(java_home: str | None) -> int:
    """Version of the Java to run, from its `release` file; 0 if unknown."""
    executable = which("java") if java_home is None else f"{java_home}/bin/java"
    release = Path(executable or "java").resolve().parent.parent / "release"
    release_text = release.read_text() if release.is_file() else ""
    version = re.search(r'^JAVA_VERSION="(\d+)', release_text, re.MULTILINE)
    return int(version[1]) if version else 0


def _configuration(settings: SparkSettings) -> Mapping[str, str]:
    java = (
        # Spark's classes exceed Java's initial size, which would cause a collection each time.
        "-XX:+UseParallelGC -XX:MetaspaceSize=256m"
        " -XX:+ExitOnOutOfMemoryError -XX:-UsePerfData"
        f" -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    )
    # Ivy writes to the user's home, and a user without a name has none.
    here = (
        f'"-Djava.io.tmpdir={settings.scratch}" "-Duser.home={settings.scratch}"'
        f" {settings.java_options}"
    )
    options = {
        **_SETTINGS,
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": f"{java} {here}",
        "spark.local.dir": str(settings.scratch),
        "spark.sql.warehouse.dir": str(settings.scratch / "warehouse"),
        "spark.pyspark.python": settings.python,
    }
    if settings.cluster is not None:
        return {**options, **configuration(settings.cluster, java)}
    return {**options, "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
