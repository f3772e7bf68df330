"""Class archives: what Java read and checked of Spark and Kafka once, kept for every later start.

Reading classes is over a third of what it takes to start them. An archive belongs to this
installation; Java itself passes over one that does not fit. Without any the start is only slower.
"""

import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from datarecs_cli.stack.jars import Lock
from datarecs_cli.stack.java import Java

JAVA_OPTIONS = "DATARECS_JAVA__OPTIONS"
FOLDER = Path(sys.prefix) / "share" / "datarecs" / "classes"
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""An archive that does not fit is no news."""


def archive_of_kafka(java: Java, lock: Lock) -> Path:
    return FOLDER / f"kafka-{lock.version}-java-{java.version}.jsa"


def archive_of_spark(java: Java) -> Path:
    return FOLDER / f"spark-{version('pyspark')}-java-{java.version}.jsa"


def of_kafka(java: Java, lock: Lock) -> tuple[str, ...]:
    """Options by which the broker uses its archive; none when there is none."""
    return _using(archive_of_kafka(java, lock))


def of_spark(java: Java, further: str = "") -> str:
    """The same for Spark, as written on a command line, and the user's further options."""
    return f"{shlex.join(_using(archive_of_spark(java)))} {further}".strip()


def writing(archive: Path) -> tuple[str, ...]:
    """Options of a program whose orderly end writes the archive."""
    return (*QUIET, f"-XX:ArchiveClassesAtExit={archive}")


def _using(archive: Path) -> tuple[str, ...]:
    return (*QUIET, f"-XX:SharedArchiveFile={archive}") if archive.exists() else ()
