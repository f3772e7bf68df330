"""`pip install 'datarecs[all]'` in an empty environment: Spark, the demo, the platform."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from datarecs_testing.afterwards import afterwards
from datarecs_testing.distribution import Installation, build_wheel, install

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    folder = tmp_path_factory.mktemp("distribution")
    return install(build_wheel(folder), "all", folder / "all", request.config)


@pytest.fixture
def place(installed: Installation, tmp_path: Path) -> Iterator[Path]:
    """A folder in which nothing was ever started; nothing runs there afterwards."""
    down = [str(installed.folder / "bin/datarecs"), "down", "--reset", "--yes"]
    with afterwards(down, cwd=tmp_path):
        yield tmp_path


def test_it_compares_on_spark(installed: Installation, tmp_path: Path) -> None:
    for name, amount in (("one", "1.10"), ("two", "1.20")):
        (tmp_path / f"{name}.csv").write_text(f"id,amount\n1,{amount}\n")
    words = ("compare", "one.csv", "two.csv", "--key", "id", "--out", "out", "--engine", "spark")
    ended = installed.run(*words, cwd=tmp_path)
    assert ended.returncode == 1, ended.stderr
    run = json.loads((tmp_path / "out/run.json").read_text())
    assert run["run"]["execution"]["engine"] == "spark"


@pytest.mark.slow
def test_the_demo_ends_with_both_verdicts_and_the_platform_starts_again(
    installed: Installation, place: Path
) -> None:
    played = installed.run("demo", "--no-keep", cwd=place)
    assert played.returncode == 0, played.stdout + played.stderr
    assert "UNMATCHED" in played.stdout
    assert "985 of 985 groups within tolerance" in played.stdout
    started = installed.run("up", "--detach", cwd=place)
    assert started.returncode == 0, started.stdout + started.stderr
    state = json.loads(installed.run("status", "-o", "json", cwd=place).stdout)
    assert all(part["ready"] for part in state["parts"]), state
    assert installed.run("run", "demo/ledger.recon.yaml", cwd=place).returncode == 0
    assert installed.run("down", cwd=place).returncode == 0
    assert installed.run("status", cwd=place).returncode == 3
