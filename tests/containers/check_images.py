"""Both images as they are built: their configuration, and every service in a locked container.

Run by `make containers`; a name without `test_` excludes it from `make test`.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from ruamel.yaml import YAML

from datarecs_runtime.clock import SystemClock
from datarecs_testing.stack import free_test_port
from tests.containers.engine import ROOT, Engine

pytestmark = pytest.mark.e2e
COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")
SERVICES = [name for name, one in COMPOSE["services"].items() if "stop_grace_period" in one]
SERVICES = [name for name in SERVICES if name not in {"postgres", "kafka"}]
LOCKED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp")
CLOCK = SystemClock()
MOST_BYTES = {"datarecs": 900 * 10**6, "datarecs-spark": 2000 * 10**6}
START_LIMIT_S = 30


def image_of(name: str) -> str:
    return "localhost/datarecs-spark:local" if "worker" in name else "localhost/datarecs:local"


@pytest.mark.case("K24")
@pytest.mark.parametrize("name", ["datarecs", "datarecs-spark"])
def test_an_image_has_what_it_runs_and_nothing_to_build_with(
    engine: Engine, images: tuple[str, str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    image = f"localhost/{name}:local"
    assert image in images
    (facts,) = json.loads(engine.run("image", "inspect", image).stdout)
    assert facts["Config"]["User"] == "10001:10001"
    labels = facts["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == name
    assert len(labels["org.opencontainers.image.revision"]) == 40
    words = ("run", "--rm", *LOCKED, "--network=none", image)
    tools = "command -v pip pip3 gcc cc make git curl uv || true; python -m pip 2>&1 || true"
    answers = engine.run(*words, "sh", "-c", tools).stdout
    assert answers.strip().endswith("No module named pip")
    assert len(answers.splitlines()) == 1
    java = engine.run(*words, "sh", "-c", "command -v java || true").stdout
    assert bool(java) == (name == "datarecs-spark")
    assert engine.run(*words, "datarecs", "--version").stdout.startswith("datarecs ")
    assert engine.run(*words, "sh", "-c", "touch /opt/x", check=False).returncode != 0
    with capsys.disabled():
        print(f"\n{name}: {facts['Size'] / 10**6:.0f} MB unpacked")  # noqa: T201  a figure
    assert facts["Size"] < MOST_BYTES[name]


@pytest.fixture
def container(engine: Engine) -> Iterator[str]:
    """The name of a container, which is removed afterwards."""
    name = f"datarecs-test-{free_test_port()}"
    yield name
    engine.run("rm", "--force", "--volumes", "--ignore", name)


@pytest.mark.case("K25")
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_alive_in_a_locked_container_without_any_server(  # noqa: PLR0913, PLR0917  fixtures
    engine: Engine,
    images: tuple[str, str],
    project: Path,
    container: str,
    service: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert image_of(service) in images
    port, api_port = free_test_port(), free_test_port()
    declared = COMPOSE["services"][service]
    settings = {
        **{name: "" if "${" in value else value for name, value in declared["environment"].items()},
        "DATARECS_SIDE__PORT": str(port),
    }
    if service == "core-api":
        settings["DATARECS_API__PORT"] = str(api_port)
    flags = [f"--env={name}={value}" for name, value in settings.items()]
    flags += [
        f"--volume={project}/.secrets/{one['source']}:{one['target']}:ro"
        for one in declared["secrets"]
    ]
    for folder in ("blobs", "scratch"):
        flags.append(f"--mount=type=volume,destination=/var/lib/datarecs/{folder}")
    began = CLOCK.monotonic()
    engine.run(
        *("run", "--detach", "--name", container, "--network=host", *LOCKED, *flags),
        *(image_of(service), *declared["command"]),
    )
    started_s = wait_for_life(port, began)
    reasons = readiness(engine, container, port)
    with capsys.disabled():
        print(f"\n{service}: /livez after {started_s:.2f} s")  # noqa: T201  a figure
    assert "database is not available" in reasons["process"]
    assert engine.run("stop", "--time=20", container).stdout.strip() == container
    (facts,) = json.loads(engine.run("inspect", container).stdout)
    assert facts["State"]["ExitCode"] == 0, engine.run("logs", container).stdout


def wait_for_life(port: int, began: float) -> float:
    """Seconds from the start to the first 200 of /livez."""
    while CLOCK.monotonic() - began < START_LIMIT_S:
        try:
            with urlopen(f"http://127.0.0.1:{port}/livez", timeout=2) as answer:
                assert answer.status == 200
                return CLOCK.monotonic() - began
        except (URLError, OSError):
            CLOCK.wait(timedelta(milliseconds=20))
    pytest.fail(f"no /livez within {START_LIMIT_S} s")


def readiness(engine: Engine, container: str, port: int) -> dict[str, str]:
    """Why the service is not ready, once it has tried."""
    code = (
        "import json, urllib.error as e, urllib.request as r\n"
        f"try: r.urlopen('http://127.0.0.1:{port}/readyz')\n"
        "except e.HTTPError as answer: print(answer.read().decode())"
    )
    reasons: dict[str, str] = {}
    for _ in range(40):
        text = engine.run("exec", container, "python", "-c", code).stdout
        reasons = json.loads(text)["reasons"]
        if "not available" in reasons.get("process", ""):
            return reasons
        CLOCK.wait(timedelta(milliseconds=250))
    return reasons
