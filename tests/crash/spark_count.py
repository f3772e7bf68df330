"""Rows of an Iceberg table as Spark's Iceberg runtime counts them: a reader that is not ours."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from datarecs_cli.stack import jars, java
from datarecs_runtime.environment import process_environment

RUNTIME = jars.Lock(
    version="1.11.0",
    broker_main="",
    storage_main="",
    roots=(),
    jars=(
        jars.Jar(
            organisation="org.apache.iceberg",
            module="iceberg-spark-runtime-4.1_2.13",
            revision="1.11.0",
            sha256="d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
            size_bytes=47_959_591,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class SparkCount:
    rows: int
    distinct: int


def spark_count(location: str, work: Path) -> SparkCount:
    """Rows and distinct ids of a table whose metadata lies as Hadoop's catalog leaves it.

    Args:
        location: of the table.
        work: folder for what finding Java needs.

    Raises:
        JarUnavailableError: the runtime cannot be fetched.
    """
    environment = process_environment()
    runtime = java.find_java(
        environment, shim_home=work, places=java.Places(packaged=java.packaged_home())
    )
    places = jars.JarSources(
        cache=jars.cache_folder(environment) / "jars",
        mirror=environment.get("DATARECS_JARS__MIRROR"),
    )
    (jar,) = jars.classpath(RUNTIME, places, runtime)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", str(jar))
        .getOrCreate()
    )
    try:
        table = session.read.format("iceberg").load(location)
        table.createOrReplaceTempView("landed")
        (row,) = session.sql("SELECT count(*), count(DISTINCT id) FROM landed").collect()
    finally:
        session.stop()
    return SparkCount(rows=row[0], distinct=row[1])
