"""The published documents through the linters that integrators use: redocly and spectral.

They are installed once, at the versions of `lint/package-lock.json`, into the user's cache. To
change them: `npm install --omit-lockfile-registry-resolved=true` in `lint/`, then take the links
of funding out of the lock. Without npm the tests are skipped, and the summary says so.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from datarecs_cli.stack.jars import cache_folder
from datarecs_runtime.environment import process_environment
from datarecs_testing.api import memory_api

pytestmark = pytest.mark.integration
HERE = Path(__file__).parent / "lint"
EVENTS = Path(__file__).parents[2] / "events-schema" / "asyncapi.yaml"
NPM_CI = ("ci", "--ignore-scripts", "--no-audit", "--no-fund")
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
PATIENCE_S = 300


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command's end, whatever it is."""
    environment = {**process_environment(), **QUIET}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def installed(environment: Mapping[str, str]) -> Path:
    """The folder of the linters' commands; skips where npm cannot install them."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is missing: the published documents are not linted")
    lock = (HERE / "package-lock.json").read_bytes()
    folder = cache_folder(environment) / "lint" / hashlib.sha256(lock).hexdigest()[:16]
    if not folder.exists():
        fresh = folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, fresh)
        ended = run(npm, *NPM_CI, folder=fresh)
        if ended.returncode != 0:
            pytest.skip(f"npm cannot install the linters: {ended.stderr.strip()[-500:]}")
        fresh.rename(folder)
    return folder / "node_modules" / ".bin"


@pytest.fixture(scope="module")
def linters() -> Path:
    return installed(process_environment())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OpenAPI document as the service answers it."""
    path = tmp_path_factory.mktemp("served") / "openapi.json"
    path.write_bytes(memory_api().bearing(None).get("/openapi.json").content)
    return path


def test_redocly_finds_nothing_in_the_served_document(linters: Path, served: Path) -> None:
    ended = run(
        str(linters / "redocly"),
        "lint",
        "--format=json",
        f"--config={HERE / 'redocly.yaml'}",
        str(served),
        folder=served.parent,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout)["problems"] == []


def test_spectral_finds_nothing_in_the_served_document(linters: Path, served: Path) -> None:
    assert findings(linters, served) == []


def test_spectral_finds_no_error_in_the_document_of_the_events(linters: Path) -> None:
    """The one warning: an address and a page of the maintainers, which the product has not."""
    errors = findings(linters, EVENTS)
    assert {one["code"] for one in errors} <= {"asyncapi-info-contact-properties"}


def test_spectral_sees_a_fault(linters: Path, served: Path, tmp_path: Path) -> None:
    """So that a clean answer means something."""
    document = json.loads(served.read_bytes()) | {"paths": {}, "components": {}}
    del document["servers"]
    broken = tmp_path / "openapi.json"
    broken.write_text(json.dumps(document), encoding="utf-8")
    assert [one["code"] for one in findings(linters, broken)] == ["oas3-api-servers"]


def findings(linters: Path, document: Path) -> list[dict[str, object]]:
    """Everything that spectral says of a document, down to hints."""
    ended = run(
        str(linters / "spectral"),
        "lint",
        "--quiet",
        "--format=json",
        "--fail-severity=error",
        f"--ruleset={HERE / 'spectral.yaml'}",
        str(document),
        folder=HERE,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    result: list[dict[str, object]] = json.loads(ended.stdout)
    return result
