"""A cluster is one setting of the worker; its other settings are checked before anything starts."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from datarecs_application.child_frames import Reader
from datarecs_core.egress.addresses import Profile
from datarecs_reconciliation_worker.child import spark_settings_of
from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import hello_frame
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.sections import Spark
from datarecs_spark.cluster import Cluster

MASTER = "spark://one:7077,two:7077"


def settings(spark: Spark) -> Settings:
    blob = Blob(url="file:///blobs")
    return Settings.model_construct(profile=Profile.SERVER, blob=blob, spark=spark)


def test_the_child_gets_the_cluster_from_its_settings(tmp_path: Path) -> None:
    spark = Spark(
        master=MASTER,
        secret=SecretStr("theirs"),
        driver_host="10.0.0.7",
        max_cores=16,
        executor_python=Path("/opt/datarecs/bin/python"),
    )
    spark_settings = spark_settings_of(Reader(hello_frame(settings(spark), tmp_path)))
    assert spark_settings.master == MASTER
    assert spark_settings.python == "/opt/datarecs/bin/python"
    assert spark_settings.cluster == Cluster(
        secret="theirs",
        driver_host="10.0.0.7",
        executor_memory="2g",
        max_cores=16,
        executor_python="/opt/datarecs/bin/python",
    )


def test_on_one_machine_no_cluster_settings_are_passed(tmp_path: Path) -> None:
    spark = Spark(master="local[2]", secret=SecretStr("left over"))
    assert spark_settings_of(Reader(hello_frame(settings(spark), tmp_path))).cluster is None


def test_a_cluster_is_not_joined_without_a_secret() -> None:
    with pytest.raises(ValidationError, match="DATARECS_SPARK__SECRET"):
        Spark(master=MASTER)


def test_a_mode_that_the_master_contradicts_is_refused() -> None:
    with pytest.raises(ValidationError, match="do not agree"):
        Spark(mode="local", master=MASTER, secret=SecretStr("theirs"))


@pytest.mark.parametrize("master", ["yarn", "k8s://here", "spark://", "local[]", "spark://a@b:1"])
def test_other_masters_are_refused(master: str) -> None:
    with pytest.raises(ValidationError, match="pattern"):
        Spark(master=master, secret=SecretStr("theirs"))
