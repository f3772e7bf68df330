"""What Java says: part of the error while it does not start, on standard error once it has."""

import gc
import os
from pathlib import Path

import pytest

from datarecs_spark import java_process
from datarecs_spark.errors import SparkStartError
from datarecs_spark.session import SparkRuntime, SparkSettings

BROKEN = """#!/bin/sh
echo "WARNING: Using incubator modules: jdk.incubator.vector" >&2
echo "Could not reserve enough space for object heap" >&2
exit 1
"""


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_java_said_before_it_ended_is_in_the_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(BROKEN)
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    settings = SparkSettings(
        master="local[1]", driver_memory="1g", java_home=str(tmp_path), scratch=tmp_path / "scratch"
    )
    with pytest.raises(SparkStartError, match=f"{tmp_path}: Could not reserve enough space"):
        SparkRuntime.start(settings)
    assert capfd.readouterr().err == ""
    gc.collect()  # pyspark's pipe to the dead Java


@pytest.mark.spark
def test_what_java_says_once_it_runs_reaches_standard_error(
    spark_runtime: SparkRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_end, ear = os.pipe()
    monkeypatch.setattr(java_process, "_STANDARD_ERROR", ear)
    java = spark_runtime.session().sparkContext._jvm  # noqa: SLF001  py4j's
    assert java is not None
    java.System.err.println("Terminating due to java.lang.OutOfMemoryError")
    assert os.read(read_end, 1024) == b"Terminating due to java.lang.OutOfMemoryError\n"
    os.close(read_end)
    os.close(ear)
