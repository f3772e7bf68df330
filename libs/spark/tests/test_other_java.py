"""Proofs are the same bytes on every Java.

Other tests run on the Java that comes first, on two cores. Here a child makes one proof on one
core and a Java of another version: the packaged 21 beside a machine's 17, or the other way round.
"""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from datarecs_cli.stack import java
from datarecs_cli.stack.failures import JavaMissingError, JavaUnusableError
from datarecs_runtime.environment import process_environment
from datarecs_spark.session import SparkRuntime
from datarecs_testing.plugin import lacking

pytestmark = pytest.mark.spark
SUITES = (
    "test_other_java.py::test_spark_runs_on_the_java_that_was_named",
    "test_engine.py::test_a_proof_does_not_depend_on_partitions[7]",
)
NAMED = "DATARECS_JAVA__HOME"
OTHER = {"DATARECS_TEST_REQUIRE": "spark", "DATARECS_TEST_MASTER": "local[1]"}


def of_spark(runtime: SparkRuntime) -> int:
    """The version that Spark's Java process reports."""
    system = runtime.session().sparkContext._jvm.System  # type: ignore[union-attr]  # noqa: SLF001  py4j's
    return java.major_of(system.getProperty("java.version"))


def another(major: int, shims: Path) -> java.Java | None:
    """Of another version than this, the packaged one first."""
    packaged = java.packaged_home()
    homes = [*([packaged] if packaged else []), *sorted(java.SYSTEM_HOMES.glob("*"))]
    for at, home in enumerate(dict.fromkeys(one.resolve() for one in homes)):
        named = {NAMED: str(home)}
        with suppress(JavaMissingError, JavaUnusableError):
            java_home = java.find_java(named, shim_home=shims / str(at), places=java.Places())
            if java_home.major != major:
                return java_home
    return None


def test_spark_runs_on_the_java_that_was_named(spark_runtime: SparkRuntime, tmp_path: Path) -> None:
    places = java.Places(packaged=java.packaged_home())
    wanted = java.find_java(process_environment(), shim_home=tmp_path, places=places)
    assert of_spark(spark_runtime) == wanted.major


@pytest.mark.case("F22")
@pytest.mark.case("P60")
def test_proofs_are_the_same_bytes_on_another_java_and_one_core(
    spark_runtime: SparkRuntime, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    proof = of_spark(spark_runtime)
    other_proof = another(proof, tmp_path)
    if other_proof is None:
        lacking(request.config, "spark", f"a second Java beside {proof}")
    here = Path(__file__).parent
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SUITES],
        cwd=here,
        env={**process_environment(), NAMED: str(other_proof.home), **OTHER},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed" in ended.stdout
