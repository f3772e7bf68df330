"""`datarecs compare` whose Java process dies: one clear line with a code, and exit 3."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event

import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.main import run
from datarecs_cli.stack.java import Java
from datarecs_runtime.environment import process_environment

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPARK = "org.apache.spark.deploy.SparkSubmit"
ROWS, WIDE_ROWS, WIDTH = 100_000, 3_000, 60_000
WIDE = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: wide}
spec:
  sources:
    - {name: one, kind: csv, path: one.csv}
    - {name: two, kind: csv, path: two.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: "*"}
  execution: {strategy: full}
"""


def comparing(place: Path, java: Java, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "datarecs_cli", "compare", *words, "--engine", "spark", "-v"],
        cwd=place,
        env={**process_environment(), "DATARECS_JAVA__HOME": str(java.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_starting(java: psutil.Process) -> bool:
    return SPARK in java.cmdline()


def is_comparing(java: psutil.Process) -> bool:
    """Tasks run in processes that Java starts."""
    return is_starting(java) and bool(java.children())


def ends_clearly(output: str, code: str) -> None:
    """What died and which setting helps, and nothing of how the program is made."""
    assert next(line for line in output.splitlines() if line.startswith("DR"))[:6] == code
    assert "execution.memory" in output
    for word in ("Traceback", "defect", "py4j", "Py4J", "ConnectionRefused", "Exception"):
        assert word not in output, output


@pytest.mark.parametrize("moment", [is_starting, is_comparing])
def test_a_killed_java_is_one_line_with_its_code(
    tmp_path: Path, java_runtime: Java, moment: Callable[[psutil.Process], bool]
) -> None:
    rows = "".join(f"{number},{number}.10\n" for number in range(ROWS))
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("id,amount\n" + rows)
    with comparing(tmp_path, java_runtime, "one.csv", "two.csv", "--key", "id") as process:
        kill_java(process, moment)
        _, output = process.communicate(timeout=120)
    assert process.returncode == ExitCode.ERRORED
    ends_clearly(output, "DR3019")


def kill_java(process: subprocess.Popen[str], moment: Callable[[psutil.Process], bool]) -> None:
    """As soon as that moment of its life has come."""
    tick = Event()
    while process.poll() is None:
        for one in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if one.name() == "java" and moment(one):
                    one.kill()
                    return
        tick.wait(0.02)
    raise AssertionError(process.communicate()[1])


def test_a_heap_that_is_too_small_is_one_line_that_names_the_setting(
    tmp_path: Path, java_runtime: Java
) -> None:
    """A few thousand long texts, of which Java reads hundreds of megabytes at once."""
    text = "".join(map(chr, Random(1).choices(range(97, 123), k=WIDTH)))  # noqa: S311  no secret
    for name in ("one.csv", "two.csv"):
        with (tmp_path / name).open("w") as file:
            file.write("id,note\n")
            for number in range(WIDE_ROWS):
                file.write(f"{number},{text[number:]}{text[:number]}\n")
    (tmp_path / "wide.yaml").write_text(WIDE)
    with comparing(tmp_path, java_runtime, "wide.yaml", "--memory", "1GiB") as process:
        _, output = process.communicate(timeout=300)
    assert process.returncode == ExitCode.ERRORED
    ends_clearly(output.replace("Terminating due to java.lang.OutOfMemoryError", "Java"), "DR3016")


@pytest.mark.parametrize("size", ["1KiB", "1023MiB", "much", "1TiB"])
def test_a_memory_that_is_no_usable_size_is_a_wrong_flag(
    size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", "one.csv", "two.csv", "--key", "id", "--memory", size]) == 2
    assert "1GiB to 256GiB" in capsys.readouterr().err
