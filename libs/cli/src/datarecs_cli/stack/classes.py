"""Class archives: classes of Spark and Kafka that Java has loaded and verified, for later starts.

Loading classes takes over a third of their start time. An archive belongs to this installation;
Java ignores one that does not fit. Without an archive the start is only slower.
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
"""Logs no warning about an archive that does not fit."""


def archive_of_kafka(java: Java, lock: Lock) -> Path:
    return FOLDER / f"kafka-{lock.version}-java-{java.version}.jsa"


def archive_of_spark(java: Java) -> Path:
    return FOLDER / f"spark-{version('pyspark')}-java-{java.version}.jsa"


def of_kafka(java: Java, lock: Lock) -> tuple[str, ...]:
    """Options with which the broker uses its archive; none without an archive."""
    return _using(archive_of_kafka(java, lock))


def of_spark(java: Java, further: str = "") -> str:
    """The same for Spark, as text of a command line, with further options of the user."""
    return f"{shlex.join(_using(archive_of_spark(java)))} {further}".strip()


def writing(archive: Path) -> tuple[str, ...]:
    """Options with which a program writes the archive at its orderly end."""
    return (*QUIET, f"-XX:ArchiveClassesAtExit={archive}")


def _using(archive: Path) -> tuple[str, ...]:
    return (*QUIET, f"-XX:SharedArchiveFile={archive}") if archive.exists() else ()
