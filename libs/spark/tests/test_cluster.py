"""The settings of a cluster, how they are passed, and the check of its executors."""

from pathlib import Path

import pytest

from datarecs_spark.cluster import (
    Cluster,
    Shown,
    check_executors,
    configuration,
    libraries,
    refusal,
    secret_configuration,
)
from datarecs_spark.session import SparkRuntime

CLUSTER = Cluster(secret="of the operator", executor_memory="3g", max_cores=8)
SCRATCH = Path("/shared")


def test_whoever_takes_part_knows_the_secret_and_every_byte_is_encrypted() -> None:
    settings = configuration(CLUSTER, "-XX:+UseParallelGC")
    assert settings["spark.authenticate"] == "true"
    assert settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.network.crypto.saslFallback"] == "false"
    assert settings["spark.io.encryption.enabled"] == "true"


def test_the_secret_stands_on_no_command_line_and_in_no_text() -> None:
    settings = configuration(CLUSTER, "")
    assert CLUSTER.secret not in f"{settings} {CLUSTER}"
    assert secret_configuration(CLUSTER) == {"spark.authenticate.secret": CLUSTER.secret}


def test_a_session_waits_for_the_cores_it_was_promised() -> None:
    settings = configuration(CLUSTER, "")
    assert settings["spark.cores.max"] == "8"
    assert settings["spark.scheduler.minRegisteredResourcesRatio"] == "1.0"
    free = configuration(Cluster(secret="s", executor_memory="1g"), "")
    assert not {"spark.cores.max", "spark.driver.host"} & set(free)


def test_an_executor_with_our_libraries_that_shares_the_directory_is_taken() -> None:
    assert refusal(Shown(host="n1", wrote="0-7", libraries=libraries()), {"0-7"}, SCRATCH) is None


@pytest.mark.parametrize("wrote", ["0-7", None])
def test_an_executor_that_writes_elsewhere_or_nowhere_is_refused(wrote: str | None) -> None:
    message = refusal(Shown(host="n1", wrote=wrote, libraries=libraries()), {"1-8"}, SCRATCH)
    assert "files that n1 writes to /shared do not arrive" in str(message)


def test_an_executor_with_another_release_is_refused_by_name() -> None:
    other = {**libraries(), "tzdata": "2019.1"}
    message = refusal(Shown(host="n1", wrote="0-7", libraries=other), {"0-7"}, SCRATCH)
    assert "n1 has tzdata 2019.1, the worker has" in str(message)


@pytest.mark.spark
def test_tasks_show_what_they_write_and_nothing_of_it_stays(
    spark_runtime: SparkRuntime, tmp_path: Path
) -> None:
    check_executors(spark_runtime.session(), tmp_path)
    assert list(tmp_path.iterdir()) == []
