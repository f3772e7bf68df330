import subprocess
import sys
from pathlib import Path

from datarecs_runtime.environment import process_environment

NEEDS_KAFKA = "def test_something(kafka_broker): pass\n"


def session(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A separate session on a machine where no Kafka can be had."""
    (tmp_path / "test_needs_kafka.py").write_text(NEEDS_KAFKA)
    ours = {"DATARECS_KAFKA__HOME": "/nonexistent", **environment}
    variables = {
        name: value
        for name, value in process_environment().items()
        if not name.startswith("DATARECS_TEST_")
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "datarecs_testing.plugin", str(tmp_path)],
        cwd=tmp_path,
        env=variables | ours,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_part_that_cannot_be_had_skips_its_tests_loudly(tmp_path: Path) -> None:
    done = session(tmp_path)
    assert done.returncode == 0
    assert "1 skipped" in done.stdout
    assert "NOT TESTED WITH KAFKA: " in done.stdout


def test_a_required_part_that_cannot_be_had_fails_its_tests(tmp_path: Path) -> None:
    done = session(tmp_path, DATARECS_TEST_REQUIRE="postgres,kafka")
    assert done.returncode == 1
    assert "DATARECS_TEST_REQUIRE names kafka" in done.stdout


def test_a_misspelt_requirement_stops_the_session(tmp_path: Path) -> None:
    done = session(tmp_path, DATARECS_TEST_REQUIRE="kafak")
    assert done.returncode == 4
    assert "it may name" in done.stderr
