"""Podman, a base from Debian's packages, both images, and stand-ins for the images of others."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from datarecs_cli.stack.kafka import LOGGING
from datarecs_runtime.environment import process_environment
from datarecs_testing.plugin import lacking
from datarecs_testing.stack import find_broker_programs
from tests.containers.engine import ROOT, Engine

HERE = Path(__file__).parent
BASE = "localhost/datarecs-test/base:local"
SUITE = "trixie"
BASE_PACKAGES = "python3,python3-venv,ca-certificates"
UV_CACHE = "/var/cache/uv"
SETTINGS = """\
[containers]
default_ulimits = ["nofile=10000:10000", "nproc=10000:10000"]
[engine]
runtime = "{runtime}"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
"""For a machine without systemd, perhaps itself a container: it may raise no limit."""
SWITCHES = {"DISABLE_HC_SYSTEMD": "true", "BUILDAH_ISOLATION": "chroot"}
"""No timers for health checks; builds need no runtime."""


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    missing = [name for name in ("podman", "mmdebstrap") if shutil.which(name) is None]
    if missing:
        lacking(request.config, "containers", f"{' and '.join(missing)} not installed")
    settings = tmp_path_factory.mktemp("engine") / "containers.conf"
    # runc also runs where control groups of both versions are mounted.
    settings.write_text(SETTINGS.format(runtime="runc" if shutil.which("runc") else "crun"))
    switches = {"CONTAINERS_CONF": str(settings), **SWITCHES}
    return Engine(environment=process_environment() | switches)


@pytest.fixture(scope="session")
def base(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image of Debian with Python; it stays for the next session."""
    if engine.run("image", "exists", BASE, check=False).returncode != 0:
        archive = tmp_path_factory.mktemp("base") / "base.tar"
        words = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={BASE_PACKAGES}"]
        engine.call([*words, SUITE, str(archive)])
        engine.run("import", "--quiet", str(archive), BASE)
    return BASE


@pytest.fixture(scope="session")
def build_flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The network, certificates and package cache of this machine, for builds."""
    settings = tmp_path_factory.mktemp("uv") / "uv.toml"
    settings.write_text(f'native-tls = true\ncache-dir = "{UV_CACHE}"\n')
    uv = Path(sys.executable).with_name("uv")
    cache = subprocess.run([str(uv), "cache", "dir"], capture_output=True, text=True, check=True)
    folders = {
        "/etc/ssl/certs": "/etc/ssl/certs:O",
        str(settings): "/etc/uv/uv.toml:ro",
        cache.stdout.strip(): UV_CACHE,
    }
    return ["--network=host", *(f"--volume={here}:{there}" for here, there in folders.items())]


@pytest.fixture(scope="session")
def images(engine: Engine, base: str, build_flags: list[str]) -> tuple[str, str]:
    """`datarecs` and `datarecs-spark`, built as by a user, on another base."""
    words = ["make", "images", "ENGINE=podman", f"BASE={base}"]
    engine.call([*words, f"IMAGEFLAGS={' '.join(build_flags)}"])
    return "localhost/datarecs:local", "localhost/datarecs-spark:local"


@pytest.fixture(scope="session")
def stand_ins(
    engine: Engine, base: str, build_flags: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Images of PostgreSQL, Kafka and a mail catcher."""
    context = tmp_path_factory.mktemp("stand-ins")
    shutil.copytree(HERE / "stand-ins", context, dirs_exist_ok=True)
    programs = find_broker_programs(context, process_environment())
    (context / "libs").mkdir()
    for jar in programs.classpath:
        shutil.copy(jar, context / "libs")
    (context / "tools-log4j2.yaml").write_text(LOGGING, encoding="utf-8")
    for name in ("postgres", "kafka", "mail"):
        tag = f"localhost/datarecs-test/{name}:local"
        words = ["build", "--quiet", "--target", name, "--tag", tag, f"--build-arg=BASE={base}"]
        engine.run(*words, *build_flags, str(context))


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compose file with new secrets, in a separate folder."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "docker-compose.yml", folder)
    shutil.copy(HERE / "stand-ins.yml", folder)
    shutil.copytree(ROOT / "deploy/compose", folder / "deploy/compose")
    subprocess.run(
        ["sh", "deploy/compose/secrets.sh"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=60,
    )
    return folder
